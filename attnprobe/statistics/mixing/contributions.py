"""What heads add to the residual stream: how much, and whether it adds up or cancels."""

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.statistics.mixing import FAMILY
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.jackknife import NamedJackknife

_overlaps = WeakTensorKeyDictionary()


def overlap(projection: Tensor) -> Tensor:
    """Multiply what the output projection makes of every two heads: W_O,g W_O,h^T.

    It is kept as long as the projection is: inner products of contributions are then as wide as the heads,
    not as the model.

    Args:
        projection: (head, width, model width)

    Returns:
        (head x width, head x width), in single precision or double
    """
    found = _overlaps.get(projection)
    if found is None:
        flat = _precise(projection.flatten(0, 1))
        found = _overlaps[projection] = flat @ flat.T
    return found


def _precise(values: Tensor) -> Tensor:
    # Sums of squares over a sequence leave the range of half precision, or its digits.
    return values.to(torch.promote_types(values.dtype, torch.float32))


def inner_products(block: AttentionBlock) -> Tensor:
    """Multiply what every two heads add to the residual stream: sum_q c_gq . c_hq.

    c_hq = o_hq W_O,h is the contribution of head h to query q, o_hq = sum_j p_hqj v_hj what it gives to the
    output projection. All contributions of a layer and the bias of the projection add up to what the layer
    gives.

    Returns:
        (batch, head, head), in single precision or double
    """
    given = _precise(block.outputs)
    batch, heads, queries, width = given.shape
    asks = block.layout.queries.kept[:, block.offset : block.offset + queries]
    if not bool(asks.all()):
        given = given * asks[:, None, :, None]
    shared = overlap(block.projection)
    side_by_side = given.transpose(1, 2).flatten(2)
    found = given.new_empty(batch, heads, heads)
    for head in range(heads):
        own = slice(head * width, (head + 1) * width)
        later = slice(head * width, None)
        met = (given[:, head] @ shared[own, later] * side_by_side[..., later]).sum(1)
        found[:, head, head:] = found[:, head:, head] = met.unflatten(-1, (heads - head, width)).sum(-1)
    return found


def norm(found: Tensor, layout: Layout) -> Tensor:
    """Root mean square of the length of what a head adds to the residual stream, sqrt(mean_q |c_hq|^2).

    Limits: 0 for a head whose output projection is 0. The unit is that of the residual stream.

    Source: after Kobayashi et al. (2020), Attention is not only a weight, who take the norm key by key.

    Returns:
        (batch, head)
    """
    asking = layout.queries.kept.sum(1)[:, None].to(found.dtype)
    return (_squares(found) / asking).sqrt()


def cosine(found: Tensor, _: Layout) -> Tensor:
    """Cosine of what two heads add to the residual stream, over all queries of a sequence.

        sum_q c_gq . c_hq / sqrt( sum_q |c_gq|^2  sum_q |c_hq|^2 )

    Limits: 1 for contributions that are alike up to a factor, 0 for orthogonal ones, -1 for opposite ones. It
    is undefined for a head that adds nothing.

    Source: as for the length of contributions.

    Returns:
        (batch, pair), the pairs of heads in the order of ``itertools.combinations``.
    """
    heads = found.shape[-1]
    size = _squares(found).sqrt()
    size = size.where(size > 0, torch.nan)
    a, b = torch.triu_indices(heads, heads, 1, device=found.device)
    return (found[:, a, b] / (size[:, a] * size[:, b])).clamp(-1, 1)  # copies are rounded beyond 1


def cancellation(found: Tensor, _: Layout) -> Tensor:
    """Squared length of what a layer's heads add together over the sum of those of each head.

        sum_q |sum_h c_hq|^2 / sum_q sum_h |c_hq|^2

    Limits: 0 where contributions cancel, 1 where they are orthogonal, H for H copies.

    Source: after Kobayashi et al. (2020), of whose weighted vectors the contributions are the sums over keys.

    Returns:
        (batch, 1)
    """
    apart = _squares(found).sum(1, keepdim=True)
    return found.sum((1, 2))[:, None].clamp_min(0) / apart.where(apart > 0, torch.nan)


def _squares(found: Tensor) -> Tensor:
    return found.diagonal(dim1=1, dim2=2).clamp_min(0)


# The errors of one row are over the same units: blocks of documents, as those of what is correlated.
NORM = Statistic(
    "contribution_norm", "length", inner_products, norm, scope="layer", needs={"contributions"},
    sums=NamedJackknife, version=2, family=FAMILY, title="length of what a head adds", headline=True, order=2,
)  # fmt: skip
COSINE = Statistic(
    "contribution_cosine", "cosine", inner_products, cosine, scope="layer", needs={"contributions"},
    rows="pair", sums=NamedJackknife, version=2, family=FAMILY, title="cosine of contributions",
    headline=True, order=3,
)  # fmt: skip
CANCELLATION = Statistic(
    "cancellation", "ratio", inner_products, cancellation, scope="layer", needs={"contributions"},
    rows="layer", sums=NamedJackknife, version=2, family=FAMILY, title="contributions together over apart",
    headline=True, order=4,
)  # fmt: skip
