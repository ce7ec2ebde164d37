"""How much of its width a head uses for the logits of a sequence."""

import numpy as np
import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.statistics.rank import FAMILY
from attnprobe.statistics.rank.participation import participation_rank
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.clustered import Clustered
from attnprobe.table.builder import TableBuilder


def products(block: AttentionBlock) -> Tensor:
    """Sum up what the rank of the logits is made of: Q^T Q of these queries, and once K^T K of the keys.

    Only queries and keys that count; keys less their mean, since a softmax does not see what is added to a
    whole row. All keys are taken together, also those that a causal model hides from a query. Nothing as
    large as a map is made.

    Returns:
        (batch, head, 2, width, width); what the blocks of a sequence give adds up.
    """
    rows, asking = _precise(block.queries), block.layout.queries
    if not asking.all_kept:
        place = slice(block.offset, block.offset + rows.shape[2])
        rows = rows * asking.kept[:, None, place, None].to(rows.dtype)
    found = rows.new_zeros(*rows.shape[:2], 2, rows.shape[3], rows.shape[3])
    found[:, :, 0] = rows.transpose(2, 3) @ rows
    if block.offset == 0:
        centred = _centred(_precise(block.keys), block.layout)
        found[:, :, 1] = centred.transpose(2, 3) @ centred
    return found


def _precise(values: Tensor) -> Tensor:
    # Of heads side by side, a copy costs less than products of what lies apart.
    return values.to(torch.promote_types(values.dtype, torch.float32)).contiguous()


def _centred(keys: Tensor, layout: Layout) -> Tensor:
    """Take the mean of the keys that count from each of them; 0 for the others."""
    side = layout.keys
    if side.all_kept:
        # Keys that are all alike become 0 exactly, whatever their mean is rounded to.
        apart = keys - keys[:, :, :1]
        return apart - apart.mean(2, keepdim=True)
    first = side.kept.byte().argmax(1)[:, None, None, None].expand(-1, keys.shape[1], 1, keys.shape[3])
    kept = side.kept[:, None, :, None].to(keys.dtype)
    apart = (keys - keys.gather(2, first)) * kept
    return (apart - apart.sum(2, keepdim=True) / kept.sum(2, keepdim=True).clamp_min(1)) * kept


def logit_rank(found: Tensor, layout: Layout) -> Tensor:
    """Participation rank (sum s^2)^2 / sum s^4 of the row-centred logits Q (K - mean K)^T of a sequence.

    With A = Q^T Q and B = K^T K, K less its mean over keys, it is (tr AB)^2 / tr ABAB. It says how many
    directions of the head's width the logits are made of, each weighted by its size. Position biases, soft
    caps and masks come later and are not in it; nor is the scale, which changes no rank. The second number
    is its share of the largest possible, min(d_k, queries, keys - 1), with d_k the width of the head.

    Limits: 1 to min(d_k, queries, keys - 1), the share up to 1. Undefined for a single key, or where no query
    prefers any key.

    Source: Bhojanapalli et al. (2020), Low-rank bottleneck in multi-head attention models, on rank and width;
    the participation ratio is that of Gao and Ganguli (2015), On simplicity and complexity in the brave new
    world of large-scale neuroscience.

    Returns:
        (batch, head, 2): the rank, and its share.
    """
    # Each over its own size, which changes no rank: squares of large numbers would leave single precision.
    size = found.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    rank = participation_rank(*(found / size.where(size > 0, 1.0)).unbind(2))
    sides = layout.queries.kept.sum(1), layout.keys.kept.sum(1) - 1
    largest = torch.minimum(*sides).clamp_max(found.shape[-1])[:, None].to(rank)
    rank = rank.where(largest > 0, torch.nan)
    return torch.stack([rank, rank / largest], -1).to(found.dtype)


def longer(found: Tensor, layout: Layout) -> Tensor:
    """Whether a sequence has more keys that count than the head is wide: n > d_k, averaged over sequences.

    Only then can the width of a head limit which maps it draws: the logits of n keys have rank d_k at most.
    The width d_k stands beside it, as ``head_width``.

    Limits: 0 to 1. Undefined where no key counts.

    Source: Bhojanapalli et al. (2020), Low-rank bottleneck in multi-head attention models, theorem 1.

    Returns:
        (batch, head, 2): the width d_k, and 1 or 0.
    """
    width = found.new_full((), found.shape[-1])
    count = layout.keys.kept.sum(1)
    more = (count > found.shape[-1]).to(found.dtype).where(count > 0, torch.nan)
    return torch.stack([width.expand_as(more), more], -1)[:, None].expand(-1, found.shape[1], -1)


def _width_and_longer(statistic: Statistic, found: Clustered, build: TableBuilder) -> None:
    """Append the width as a count, and the share of longer sequences."""
    width, share = np.moveaxis(found.average, -1, 0)
    build.count("head_width", np.nan_to_num(width).ravel())  # NaN stands for removed heads, without rows
    _measure(statistic, statistic.name, share, found, build)


def _rank_and_share(statistic: Statistic, found: Clustered, build: TableBuilder) -> None:
    """Append the rank, and its share of the largest possible."""
    rank, share = np.moveaxis(found.average, -1, 0)
    build.measure(
        statistic.name,
        statistic.unit,
        rank.ravel(),
        found.standard_error[..., 0].ravel(),
        title=statistic.title,
    )
    _measure(statistic, f"{statistic.name}_share", share, found, build)


def _measure(
    statistic: Statistic, name: str, average: "np.ndarray", found: Clustered, build: TableBuilder
) -> None:
    error = found.standard_error[..., 1]
    shown = name != statistic.name
    title = "share of the width that the logits use" if shown else statistic.title
    build.measure(name, "share", average.ravel(), error.ravel(), headline=shown, title=title)


NEEDS = ("queries", "keys")
LONGER = Statistic(
    "longer", "share", products, longer, scope="layer", needs=NEEDS, columns=_width_and_longer,
    family=FAMILY, title="sequences longer than the head is wide",
)  # fmt: skip
LOGIT_RANK = Statistic(
    "logit_rank", "ratio", products, logit_rank, scope="layer", needs=NEEDS, columns=_rank_and_share,
    family=FAMILY, title="rank of the logits", order=1,
)  # fmt: skip
