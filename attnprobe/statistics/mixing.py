"""Whether heads of a layer repeat each other, and whether what they give adds up or cancels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from itertools import combinations
from math import nan
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics.statistic import Family, Statistic, add_mean_and_error, sinks
from attnprobe.statistics.tabulation import NO_PAIRS, Tabulation, arrange_pairs, count_heads, head_table
from attnprobe.sums.base import Measurement
from attnprobe.sums.blocked import Blocked
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.table import HeadTable

if TYPE_CHECKING:
    from torch.utils.weak import WeakTensorKeyDictionary

    from attnprobe.statistics.statistic import AttentionBlock, Layout, Tensor


FAMILY = Family("mixing", "how heads of a layer mix", 10, commands=("mixing",))


@cache
def _keep_overlaps() -> WeakTensorKeyDictionary:
    """Keep the products W_O,g W_O,h^T of the output projections of a layer, the same for all blocks."""
    from torch.utils.weak import WeakTensorKeyDictionary

    return WeakTensorKeyDictionary()


def at_least_float32(values: Tensor) -> Tensor:
    """Convert half precision, whose range and digits are too few for sums of squares over a sequence."""
    import torch

    return values.to(torch.promote_types(values.dtype, torch.float32))


def multiply_contributions(block: AttentionBlock) -> Tensor:
    """Multiply what every two heads add to the residual stream: sum_q c_gq . c_hq.

    c_hq = o_hq W_O,h is the contribution of head h to query q, with o_hq = sum_j p_hqj v_hj.
    """
    given, overlaps = at_least_float32(block.outputs), _keep_overlaps()
    batch, heads, _, width = given.shape
    given = given * block.layout.queries.asking[:, None, block.span, None]
    shared = overlaps.get(block.projection)
    if shared is None:
        flat = at_least_float32(block.projection.flatten(0, 1))
        shared = overlaps[block.projection] = flat @ flat.T
    side_by_side = given.transpose(1, 2).flatten(2)
    products = given.new_empty(batch, heads, heads)
    for head in range(heads):
        columns = slice(head * width, (head + 1) * width)
        later = slice(head * width, None)
        met = (given[:, head] @ shared[columns, later] * side_by_side[..., later]).sum(1)
        products[:, head, head:] = products[:, head:, head] = met.unflatten(-1, (heads - head, width)).sum(-1)
    return products


def norm(products: Tensor, layout: Layout) -> Tensor:
    """Root mean square of the length of what a head adds to the residual stream, sqrt(mean_q |c_hq|^2).

    Limits: 0 for a head whose output projection is 0. The unit is that of the residual stream.

    Source: after Kobayashi et al. (2020), Attention is not only a weight, who take the norm key by key.
    """
    asking = layout.queries.asking.sum(1)[:, None].to(products.dtype)
    return (_squares(products) / asking).sqrt()


def cosine(products: Tensor, _: Layout) -> Tensor:
    """Cosine of what two heads add to the residual stream, over all queries of a sequence.

        sum_q c_gq . c_hq / sqrt( sum_q |c_gq|^2  sum_q |c_hq|^2 )

    Limits: 1 for contributions that are equal up to a factor, 0 for orthogonal ones, -1 for opposite ones.
    Undefined for a head that adds nothing.

    Source: as for the length of contributions.
    """
    return _over_lengths(products, _squares(products))


def cancellation(products: Tensor, _: Layout) -> Tensor:
    """Squared length of the sum of a layer's contributions over the sum of their squared lengths.

        sum_q |sum_h c_hq|^2 / sum_q sum_h |c_hq|^2

    Limits: 0 if contributions cancel, 1 if they are orthogonal, H for H copies.

    Source: after Kobayashi et al. (2020); a contribution is the sum of their weighted vectors over keys.
    """
    of_each = _squares(products).sum(1, keepdim=True)
    return products.sum((1, 2))[:, None].clamp_min(0) / of_each.where(of_each > 0, nan)


def _squares(products: Tensor) -> Tensor:
    return products.diagonal(dim1=1, dim2=2).clamp_min(0)


def _over_lengths(products: Tensor, squares: Tensor) -> Tensor:
    """Divide the products of every two heads by their lengths, (batch, pair)."""
    import torch

    size = squares.sqrt()
    size = size.where(size > 0, nan)
    heads = products.shape[-1]
    a, b = torch.triu_indices(heads, heads, 1, device=products.device)
    return (products[:, a, b] / (size[:, a] * size[:, b])).clamp(-1, 1)  # copies are rounded beyond 1


# The errors of one row are over the same units: blocks of documents, as those of what is correlated.
_define = partial(Statistic, scope="layer", sums=Blocked, family=FAMILY, version=2)
_define_added = partial(_define, function=multiply_contributions, needs={"contributions"}, headline=True)
NORM = _define_added("contribution_norm", "length", reduce=norm, title="length of what a head adds", order=2)
COSINE = _define_added(
    "contribution_cosine", "cosine", reduce=cosine, rows="pair", title="cosine of contributions", order=3
)
CANCELLATION = _define_added(
    "cancellation", "ratio", reduce=cancellation, rows="layer", order=4,
    title="squared norm of the heads' sum over the sum of squared norms",
)  # fmt: skip


Floats = NDArray[np.float64]

#: Smaller eigenvalues of a matrix of correlations are rounding, and taken for this.
LEAST_EIGENVALUE = 1e-7


def multiply_logits(block: AttentionBlock) -> Tensor:
    """Multiply the logits of every two heads, key by key; each row is centred over the keys that it sees.

    Logits are the scores before the softmax, with biases and soft caps. Neither a softmax nor a centred row
    changes if a constant is added to the row. See ``kernels.pairs.logit_products``.
    """
    from attnprobe.kernels.pairs import logit_products

    asks = block.layout.queries.asking[:, block.span]
    return logit_products(block.scores, asks, block.layout.once(sinks))


def correlation(products: Tensor, _: Layout, *, shuffled: bool = False) -> Tensor:
    """Correlate the logits of every two heads over all queries and keys of a sequence.

        r_gh = C_gh / sqrt(C_gg C_hh)

    with C the products. For the null, C_gh is its mean with the keys of each head and query in random order,
    except for special tokens and the first token: the correlation due to these alone.

    Limits: 1 for logits that are equal up to a factor and a constant for each row, 0 for unrelated ones, -1
    for opposite ones. Undefined for a head that prefers no key, and for a single token.

    Source: after Shazeer et al. (2020), Talking-heads attention, which mixes the logits of heads.
    """
    return _over_lengths(products[:, int(shuffled)], products[:, 0].diagonal(dim1=1, dim2=2))


def explained_by_others(pairs: Floats) -> Floats:
    """Share of the variance of a head's logits that a linear mix of the layer's other heads explains.

    R^2_h = 1 - 1 / (R^-1)_hh, with R the correlations of the logits, averaged over sequences: the R^2 of
    least squares of head h on the others, the logits of each sequence and head scaled to length 1.

    Limits: 0 if no other head helps, 1 for copies. It can't fall as a layer gets more heads, and is undefined
    for a single head.
    """
    matrices = arrange_pairs(pairs)
    values, vectors = np.linalg.eigh(np.nan_to_num(matrices) + np.eye(matrices.shape[-1]))
    inverse = (np.square(vectors) / np.maximum(values, LEAST_EIGENVALUE)[..., None, :]).sum(-1)
    return np.where(np.isnan(matrices).all(-1), np.nan, np.clip(1 - 1 / inverse, 0, 1))


def effective_heads(pairs: Floats) -> Floats:
    """Number of heads of a layer that differ in their logits: H^2 / sum_gh r_gh^2.

    It is the participation ratio of the eigenvalues of R, (tr R)^2 / |R|_F^2.

    Limits: 1 if all H heads are copies, H if none correlate. Undefined for a single head.
    """
    heads = (~np.isnan(arrange_pairs(pairs)).all(-1)).sum(-1)  # that are there, and correlate with any
    return np.square(heads) / np.where(heads > 0, heads + 2 * np.square(np.nan_to_num(pairs)).sum(-1), np.nan)


def add_explained(_: Statistic, sums: Blocked, build: TableBuilder, *, null: bool = False) -> None:
    estimate, name = sums.apply(explained_by_others), f"explained_by_others{'_null' * null}"
    title = f"logits explained by the other heads{' through sinks alone' * null}"
    build.measure(name, "share", estimate.value, estimate.error, headline=not null, title=title)


_define_alike = partial(_define, unit="correlation", function=multiply_logits, needs={"scores"}, rows="pair")
CORRELATION = _define_alike(
    "logit_correlation",
    reduce=correlation,
    columns=add_explained,
    title="correlation of logits",
    headline=True,
)
SHUFFLED = _define_alike(
    "logit_correlation_null", reduce=partial(correlation, shuffled=True), order=1,
    columns=partial(add_explained, null=True), title="correlation of logits through sinks alone",
)  # fmt: skip


def by_layer_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate how many heads of each layer differ, and whether what they add cancels."""
    layers = len(labels.places)
    build = TableBuilder(labels, layers)
    build.layers(range(layers))
    build.count("n", np.full(layers, measurement.sequences))
    for statistic in statistics:
        sums, null = measurement.sums[statistic.name], statistic is SHUFFLED
        if statistic.rows == "layer":
            add_mean_and_error(statistic, sums, build)
        elif statistic.function is multiply_logits:
            estimate, name = sums.apply(effective_heads), f"effective_heads{'_null' * null}"
            words = f"effective number of heads{', through sinks alone' * null}"
            build.measure(name, "heads", estimate.value, estimate.error, headline=not null, title=words)
    return build.table(title)


def by_pair_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate how alike two heads of a layer are in their logits, and in what they add."""
    layers, number = measurement.sums[CORRELATION.name].count.shape
    pairs = [
        (layer, *pair) for layer in range(layers) for pair in combinations(range(count_heads(number)), 2)
    ]
    build = TableBuilder(labels, len(pairs))
    build.layers([layer for layer, _, _ in pairs])
    for side, name in enumerate("ab", start=1):
        build.key(f"head_{name}", [pair[side] for pair in pairs])
    # Heads that prefer nothing have no correlation, and contribute all the same.
    build.count("n", np.full(len(pairs), measurement.sequences))
    for statistic in (each for each in statistics if each.rows == "pair"):
        add_mean_and_error(statistic, measurement.sums[statistic.name], build)
    return build.table(title, [] if pairs else [NO_PAIRS])


BY_HEAD = Tabulation("head, mixing", head_table, FAMILY.title)
BY_LAYER = Tabulation("layer, mixing", by_layer_table, "how heads mix within layers")
BY_PAIR = Tabulation("pair, mixing", by_pair_table, "how similar heads of a layer are")
