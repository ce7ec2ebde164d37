"""From moments to tables: columns in the order that other programs rely on."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics import Statistic, statistics_of
from attnprobe.statistics.positional.offset import FURTHEST, FURTHEST_STEP
from attnprobe.statistics.registry import FAMILIES
from attnprobe.sums.moments import Moments
from attnprobe.survey.measurement import ALL_PAIRS, Measurement
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import Column, HeadTable


def head_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate statistics of heads, one row a head.

    ``n`` is the number of sequences. A statistic that is undefined for many sequences has its own
    number beside it, as ``NAME_n``.
    """
    shown = [s for s in statistics if s.over in {"head", "offset"} and s.name in measurement.moments]
    layers, heads = measurement.moments[shown[0].name].count.shape[:2]
    build = TableBuilder(labels, layers * heads)
    build.heads(heads)
    build.count("n", np.full(layers * heads, measurement.sequences))
    for statistic in shown:
        moments = measurement.moments[statistic.name]
        if statistic.over == "offset":
            moments = _add_best_offset(build, moments)
        build.measure(
            statistic.name,
            "patches" if statistic.unit == "tokens" and labels.patches else statistic.unit,
            moments.average.ravel(),
            moments.standard_error.ravel(),
            headline=statistic.headline,
        )
        if statistic.own_count:
            build.count(f"{statistic.name}_n", moments.count.ravel())
    return build.table(title)


def _add_best_offset(build: TableBuilder, moments: Moments) -> Moments:
    """Add the offset with the largest share of argmaxes, and give the moments of that share.

    Of an image, an offset is a number of rows and a number of columns.

    Only offsets that exist in at least half of the sequences compete, so that one long sequence
    can't win with an offset of its own. Of equals, the nearest wins, then the earlier one.
    """
    layers, heads, offsets = moments.count.shape
    competing = 2 * moments.count >= moments.count.max(-1, keepdims=True)
    shares = np.where(competing, moments.average, -1.0)
    steps = _steps(offsets)
    nearest_first = np.argsort(np.square(list(steps.values())).sum(0), kind="stable")
    best = nearest_first[shares[..., nearest_first].argmax(-1)]
    defined = (moments.count.max(-1) > 0).ravel()
    for name, places in steps.items():
        cells = [int(places[b]) if ok else None for b, ok in zip(best.ravel(), defined, strict=True)]
        build.add(Column(name, "tokens" if name == "offset" else "patches", role="count"), cells)
    pick = (*np.ogrid[:layers, :heads], best)
    return Moments(moments.count[pick], moments.mean[pick], moments.squares[pick])


def _steps(offsets: int) -> dict[str, NDArray[Any]]:
    """Name the axes of offsets, and say how far each of them is along each."""
    if offsets == 2 * FURTHEST + 1:
        return {"offset": np.arange(-FURTHEST, FURTHEST + 1)}
    side = np.arange(-FURTHEST_STEP, FURTHEST_STEP + 1)
    return {"offset_rows": np.repeat(side, len(side)), "offset_columns": np.tile(side, len(side))}


def pair_table(title: str, measurement: Measurement, heads: int, labels: Labels) -> HeadTable:
    """Tabulate the divergence of pairs: within each layer, or of all heads of the model.

    The Jensen-Shannon distance is the square root of the mean divergence.
    """
    whole = measurement.moments.get(ALL_PAIRS)
    moments = whole if whole is not None else measurement.moments["jsd"]
    if whole is not None:
        # Heads of different kinds look at different keys, or are asked by different queries.
        kinds = [place.kind for place in labels.places]
        groups = [
            [layer for layer, other in enumerate(kinds) if other is kind] for kind in dict.fromkeys(kinds)
        ]
    else:
        groups = [[layer] for layer in range(moments.count.shape[0])]
    pairs = [pair for layers in groups for pair in combinations(product(layers, range(heads)), 2)]
    build = TableBuilder(labels, len(pairs))
    for side, name in enumerate("ab"):
        build.layers([pair[side][0] for pair in pairs], f"layer_{name}")
        build.key(f"head_{name}", [pair[side][1] for pair in pairs])
    build.count("n", moments.count.ravel())
    average, error = moments.average.ravel(), moments.standard_error.ravel()
    build.measure("jsd", "nats", average, error, headline=True)
    distance = np.sqrt(average)
    # First-order propagation: d sqrt(x) = dx / (2 sqrt(x)).
    spread = np.divide(error, 2 * distance, out=np.full_like(error, np.nan), where=distance > 0)
    build.measure("js_distance", "sqrt(nats)", distance, spread)
    return build.table(title)


def by_head_table(title: str, measurement: Measurement, heads: int, labels: Labels) -> HeadTable:
    """Tabulate, for each head, its mean distance to its layer and its nearest other head."""
    mean, pairs = measurement.moments["jsd_mean"], measurement.moments["jsd"]
    layers = mean.count.shape[0]
    nearest = [_nearest(pairs, layer, head, heads) for layer in range(layers) for head in range(heads)]
    build = TableBuilder(labels, layers * heads)
    build.heads(heads)
    build.count("n", mean.count.ravel())
    build.measure("jsd_mean", "nats", mean.average.ravel(), mean.standard_error.ravel(), headline=True)
    average, error = (np.array([found[place] for found in nearest]) for place in (1, 2))
    build.measure("jsd_nearest", "nats", average, error)
    build.add(Column("nearest_head", role="count"), [found[0] for found in nearest])
    return build.table(title)


def _nearest(pairs: Moments, layer: int, head: int, heads: int) -> tuple[int | None, float, float]:
    mine = [p for p, pair in enumerate(combinations(range(heads), 2)) if head in pair]
    average = pairs.average[layer, mine]
    if not len(average) or np.isnan(average).all():
        return None, np.nan, np.nan
    best = mine[int(np.nanargmin(average))]
    other = next(h for h in list(combinations(range(heads), 2))[best] if h != head)
    return other, pairs.average[layer, best], pairs.standard_error[layer, best]


def by_layer_table(title: str, measurement: Measurement, heads: int, labels: Labels) -> HeadTable:
    """Tabulate, for each layer, mean and spread of the divergence and the head furthest away.

    The notes say whether mean and spread rise or fall with depth.
    """
    layer, pairs = measurement.moments["jsd_layer"], measurement.moments["jsd"]
    mean = measurement.moments["jsd_mean"]
    layers = mean.count.shape[0]
    build = TableBuilder(labels, layers)
    build.layers(range(layers))
    build.count("n", layer.count.ravel())
    build.measure("jsd_mean", "nats", layer.average.ravel(), layer.standard_error.ravel(), headline=True)
    enough = heads > 2
    spread = pairs.average.std(-1, ddof=1) if enough else np.full(layers, np.nan)
    build.add(Column("jsd_std", "nats"), spread)
    odd = mean.average.argmax(-1)
    build.add(Column("odd_head", role="count"), odd if enough else [None] * layers)
    pick = np.arange(layers), odd
    nothing = np.full(layers, np.nan)
    average = mean.average[pick] if enough else nothing
    build.measure("odd_jsd", "nats", average, mean.standard_error[pick] if enough else nothing)
    notes = []
    kinds = [place.kind for place in labels.places]
    for kind in dict.fromkeys(kinds):
        some = np.array([other is kind for other in kinds])
        said = f" ({kind})" if kind else ""
        notes += _trend(f"jsd_mean{said}", layer.average.ravel()[some])
        notes += _trend(f"jsd_std{said}", spread[some])
    return build.table(title, notes)


def _trend(name: str, values: NDArray[Any]) -> Iterator[str]:
    """Say whether a layer's number rises or falls with depth (Spearman)."""
    if len(values) < 3 or not np.isfinite(values).all() or np.ptp(values) == 0:
        yield f"Trend of {name} over depth: undefined for {len(values)} layers."
        return
    from scipy.stats import spearmanr  # takes a second to import

    found = spearmanr(np.arange(len(values)), values)
    rho, p = float(found.statistic), float(found.pvalue)  # type: ignore[attr-defined]
    direction = "rises" if rho > 0 else "falls"
    yield (
        f"Trend over depth: {name} {direction} with the layer, Spearman rho = {rho:.2f}, p = {p:.2g} "
        f"({len(values)} layers)."
    )


def census_statistics(*families: str) -> list[Statistic]:
    """List everything that has a column in the census, or in the tables of some families."""
    every = statistics_of(*(families or FAMILIES), images=True)
    return [s for s in every if s.over in {"head", "offset"}]
