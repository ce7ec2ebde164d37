"""How differently heads look at the same text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from attnprobe.statistics.statistic import Family, Statistic, add_mean_and_error, mean_over_queries
from attnprobe.statistics.tabulation import NO_PAIRS, Tabulation, arrange_pairs, count_heads
from attnprobe.sums.base import Measurement
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.table import Column, HeadTable

if TYPE_CHECKING:
    from attnprobe.statistics.statistic import AttentionBlock, Layout, Tensor


FAMILY = Family("distance", "distance between heads", 4)


def divergence(block: AttentionBlock) -> Tensor:
    """Jensen-Shannon divergence of every two heads, H((a + b)/2) - (H(a) + H(b))/2, in nats.

    Limits: 0 for copies, ln 2 = 0.693 for heads that never look at the same key.

    Source: Clark et al. (2019), section 6. Their script sums over queries and documents; here both are
    averaged.
    """
    return block.divergence


def mean_to_others(values: Tensor, layout: Layout) -> Tensor:
    """Average, for each head, over its pairs with the layer's other heads; removed heads do not count."""
    import torch

    pairs = mean_over_queries(values, layout)
    heads = count_heads(pairs.shape[1])
    a, b = torch.triu_indices(heads, heads, 1, device=pairs.device)
    between = pairs.new_full((len(pairs), heads, heads), nan)
    between[:, a, b] = between[:, b, a] = pairs
    return between.nanmean(-1)


def mean_within_layer(values: Tensor, layout: Layout) -> Tensor:
    """Average over all pairs of heads of the layer but removed ones; (batch, 1)."""
    return mean_over_queries(values, layout).nanmean(1, keepdim=True)


def divergence_of_all(block: AttentionBlock) -> Tensor:
    """Jensen-Shannon divergence of every two heads of the model, averaged over the queries of a sequence.

    Limits: 0 for copies, ln 2 for heads that never look at the same key.

    Source: Clark et al. (2019), section 6.
    """
    return mean_over_queries(divergence(block), block.layout)


_define = partial(Statistic, unit="nats", family=FAMILY)
PAIRS = _define("jsd", function=divergence, rows="pair", title="divergence of two heads", headline=True)
MEAN = _define(
    "jsd_mean", function=divergence, reduce=mean_to_others, headline=True, order=1,
    title="divergence from the other heads of the layer",
)  # fmt: skip
LAYER = _define(
    "jsd_layer", function=divergence, reduce=mean_within_layer, rows="layer", order=2,
    title="divergence within the layer",
)  # fmt: skip
#: Heads of different layers too; of one kind of attention, whose maps have the same queries and keys.
ALL_PAIRS = _define(
    "jsd_all_pairs", function=divergence_of_all, scope="model", rows="pair", order=3,
    title="divergence of two heads of the model",
)  # fmt: skip


def pair_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate the divergence of pairs, within each layer or of all heads, and its root, the distance."""
    sums = measurement.sums
    moments, heads = sums.get(ALL_PAIRS.name, sums.get(PAIRS.name)), sums[MEAN.name].count.shape[1]
    groups: list[list[int]] = [[layer] for layer in range(len(labels.places))]
    if ALL_PAIRS.name in sums:
        # Heads of different kinds look at different keys, or are asked by different queries.
        kinds = [place.kind for place in labels.places]
        groups = [[at for at, other in enumerate(kinds) if other is kind] for kind in dict.fromkeys(kinds)]
    pairs = [pair for layers in groups for pair in combinations(product(layers, range(heads)), 2)]
    build = TableBuilder(labels, len(pairs))
    for side, name in enumerate("ab"):
        build.layers([pair[side][0] for pair in pairs], f"layer_{name}")
        build.key(f"head_{name}", [pair[side][1] for pair in pairs])
    build.count("n", moments.count)
    add_mean_and_error(PAIRS, moments, build)
    distance = np.sqrt(moments.average)
    # First-order propagation: d sqrt(x) = dx / (2 sqrt(x)).
    spread = moments.standard_error / np.where(distance > 0, 2 * distance, np.nan)
    build.measure("js_distance", "sqrt(nats)", distance, spread, title="distance of two heads")
    return build.table(title, [] if pairs else [NO_PAIRS])


def by_head_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate, for each head, its mean divergence from its layer's others, and its nearest other."""
    mean, pairs = measurement.sums[MEAN.name], measurement.sums[PAIRS.name]
    layers, heads = mean.count.shape
    between, error = arrange_pairs(pairs.average), arrange_pairs(pairs.standard_error)
    nearest = np.asarray(np.where(np.isnan(between), np.inf, between).argmin(-1))
    place = (*np.ogrid[:layers, :heads], nearest)
    build = TableBuilder(labels, layers * heads)
    build.heads(heads)
    build.count("n", mean.count)
    add_mean_and_error(MEAN, mean, build)
    title_of = "divergence from the nearest head"
    build.measure("jsd_nearest", "nats", between[place], error[place], title=title_of)
    known = ~np.isnan(between[place])
    build.add(Column("nearest_head", role="count"), np.where(known, nearest, np.array(None)).ravel())
    return build.table(title)


def by_layer_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate, for each layer, mean and spread of the divergence, and the head that diverges most."""
    layer, pairs, mean = (measurement.sums[each.name] for each in (LAYER, PAIRS, MEAN))
    build = TableBuilder(labels, len(mean.count))
    build.layers(range(len(mean.count)))
    build.count("n", layer.count)
    add_mean_and_error(replace(MEAN, title=LAYER.title), layer, build)
    there = [row[~np.isnan(row)] for row in pairs.average]
    spread = [row.std(ddof=1) if len(row) > 1 else np.nan for row in there]
    build.add(Column("jsd_std", "nats", title="standard deviation over pairs of heads"), spread)
    # Of two heads, be the others removed or without rows, each is as far from the other.
    enough = np.isfinite(mean.average).sum(-1) > 2
    odd = np.nan_to_num(mean.average, nan=-np.inf).argmax(-1)
    build.add(Column("odd_head", role="count"), np.where(enough, odd, None))
    pick = np.arange(len(odd)), odd
    average, error = (np.where(enough, side[pick], np.nan) for side in (mean.average, mean.standard_error))
    build.measure("odd_jsd", "nats", average, error, title="mean divergence of the odd head")
    return build.table(title)


BY_PAIR = Tabulation("pair", pair_table, FAMILY.title)
BY_HEAD = Tabulation("head of a layer", by_head_table, "distance of heads to their layer")
BY_LAYER = Tabulation("layer", by_layer_table, "distance within layers")
