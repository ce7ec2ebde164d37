"""Tables of two checkpoints: a row a head of the first, or a row a layer."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attnprobe.findings.comparison.differences import Difference, Rows, difference
from attnprobe.findings.comparison.partners import (
    Partners,
    Places,
    Within,
    matched,
    nearest,
    nearest_layers,
    numbered,
)
from attnprobe.findings.comparison.saying import said_of_columns, said_of_heads, said_of_layers
from attnprobe.sums.significance import SIGNIFICANT
from attnprobe.survey.comparison.divergence import NUMBERED, OF_LAYERS
from attnprobe.survey.comparison.running import Compared
from attnprobe.table.builder import TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

#: A terminal shows so many columns, those in which most rows differ.
SHOWN = 2
UNIT = "nats"


def by_head(found: Compared, match: Within | None = None) -> HeadTable:
    """Tabulate the heads of the first model beside those of the second.

    A head's partner, which columns ``_b`` are about, is the one that is matched to it if that is asked for,
    else the one of its number, else the nearest.

    Args:
        found: What was compared.
        match: Within which heads they are matched; None not to match them.
    """
    shared, sums = found.shared, found.measurement.sums
    heads, layers = shared.first.heads, _layers(found)
    mine = np.array([layer * heads + head for layer in layers for head in range(heads)], np.intp)
    near = nearest(found) if found.divergences.pairs else None
    pairs = matched(found, match) if match is not None else None
    partner = pairs.head if pairs is not None else numbered(found) if shared.alike else _of(near).head
    build = _begun(found, [layer for layer in layers for _ in range(heads)])
    build.key("head", np.tile(np.arange(heads), len(layers)))
    build.count("n", np.full(len(mine), found.measurement.sequences))
    if NUMBERED in sums:
        apart = sums[NUMBERED]
        build.measure(
            "jsd", UNIT, apart.average.ravel()[mine], apart.standard_error.ravel()[mine],
            headline=True, title="divergence from the head of the same number",
        )  # fmt: skip
    if near is not None:
        _partners(build, found, "nearest", near, mine, headline=NUMBERED not in sums)
    if pairs is not None:
        _partners(build, found, "matched", pairs, mine, headline=False)
    sizes = heads * shared.first.layers, shared.second.heads * shared.second.layers
    differences = _columns(build, found, Rows.of_heads(mine, partner[mine], sizes), mine, partner[mine])
    notes = said_of_heads(found, near, pairs, match, mine)
    notes += said_of_columns(found, differences, partner_said(found, match), "head")
    return build.table(f"heads of {found.labels.model} and of {found.other}", notes)


def by_layer(found: Compared) -> HeadTable:
    """Tabulate the layers of the first model beside those of the second; numbers are means over heads.

    A layer's partner is the one of its number, or the nearest where the models have different numbers.
    """
    shared, sums = found.shared, found.measurement.sums
    layers = _layers(found)
    partner = np.full(len(layers), -1, np.intp)
    near = np.full(len(layers), -1, np.intp)
    far = np.full(len(layers), np.nan)
    for kind in shared.kinds:
        ours, theirs = shared.layers(kind)
        rows = [layers.index(layer) for layer in ours]
        if found.divergences.pairs:
            best, distance = nearest_layers(found, kind)
            near[rows], far[rows] = np.array(theirs)[best], distance
        partner[rows] = theirs if len(ours) == len(theirs) else near[rows]
    build = _begun(found, layers)
    build.count("n", np.full(len(layers), found.measurement.sequences))
    if OF_LAYERS in sums:
        apart = sums[OF_LAYERS]
        build.measure(
            "jsd", UNIT, apart.average[layers], apart.standard_error[layers],
            headline=True, title="mean divergence from heads of the same number",
        )  # fmt: skip
    if found.divergences.pairs:
        build.add(Column("nearest_layer", role="count"), [_layer(found, int(one)) for one in near])
        build.add(Column("jsd_nearest", UNIT, title="mean divergence from the nearest heads of a layer"), far)
    rows = Rows(
        _averaging(layers, shared.first.layers, shared.first.heads),
        _averaging(partner, shared.second.layers, shared.second.heads),
    )
    differences = _columns(build, found, rows)
    which = all(len(ours) == len(theirs) for ours, theirs in map(shared.layers, shared.kinds))
    said = f"Columns _b are about {'the layer of the same number' if which else 'nearest_layer'}"
    notes = said_of_layers(found, layers)
    notes += said_of_columns(found, differences, f"{said}; all are means over heads.", "layer")
    return build.table(f"layers of {found.labels.model} and of {found.other}", notes)


def partner_said(found: Compared, match: Within | None) -> str:
    """Say which head columns ``_b`` are about."""
    if match is not None:
        return "Columns _b are about the matched head."
    if found.shared.alike:
        return "Columns _b are about the head of the same number."
    return "The models have other numbers of layers or heads, so columns _b are about the nearest head."


def _begun(found: Compared, layers: Sequence[int]) -> TableBuilder:
    build = TableBuilder(found.labels, len(layers))
    build.add(Column("model_b", role="key"), [found.other] * len(layers))
    build.layers(layers)
    return build


def _layers(found: Compared) -> list[int]:
    """Give the layers of kinds that both models have."""
    kinds = found.shared.first.kinds
    return [layer for layer, kind in enumerate(kinds) if kind in found.shared.kinds]


def _layer(found: Compared, layer: int) -> int | None:
    """Give the number that a table has for a layer of the second model."""
    return found.shared.second.places[layer].layer if layer >= 0 else None


def _of(near: Partners | None) -> Partners:
    assert near is not None  # models of different shapes are compared head by head
    return near


def _partners(
    build: TableBuilder, found: Compared, name: str, partners: Partners, mine: Places, *, headline: bool
) -> None:
    heads = found.shared.second.heads
    which = partners.head[mine]
    build.add(
        Column(f"{name}_layer", role="count"),
        [_layer(found, int(one) // heads) if one >= 0 else None for one in which],
    )
    build.add(Column(f"{name}_head", role="count"), [one % heads if one >= 0 else None for one in which])
    title = f"divergence from the {name} head"
    jsd, error = partners.jsd[mine], partners.error[mine]
    build.measure(f"jsd_{name}", UNIT, jsd, error, headline=headline, title=title)


def _columns(
    build: TableBuilder,
    found: Compared,
    rows: Rows,
    mine: Places | None = None,
    partner: Places | None = None,
) -> dict[str, Difference]:
    """Append the columns of every statistic; those in which most rows differ are shown."""
    differences = {
        one.name: difference(one, found.sums(0, one), found.sums(1, one), rows) for one in found.statistics
    }
    certain = {name: int((one.adjusted < SIGNIFICANT).sum()) for name, one in differences.items()}
    shown = sorted(certain, key=lambda name: -certain[name])[:SHOWN]
    for statistic in found.statistics:
        name, one = statistic.name, differences[statistic.name]
        unit = statistic.unit_of(patches=build.patches)
        for said, (first, second) in one.said.items() if mine is not None else ():
            build.add(Column(f"{said}_a", role="count"), first[mine])
            cells = [second[at] if at >= 0 else None for at in ([] if partner is None else partner)]
            build.add(Column(f"{said}_b", role="count"), cells)
        for side, which, values in (("a", "first", one.first), ("b", "second", one.second)):
            build.add(Column(f"{name}_{side}", unit, title=f"{statistic.title}, {which} model"), values)
        title = f"change of {statistic.title}"
        headline = name in shown and certain[name] > 0
        build.measure(f"{name}_delta", unit, one.delta, one.error, headline=headline, title=title)
        build.add(
            Column(f"{name}_p_adjusted", "probability", title=f"adjusted p of the {title}"), one.adjusted
        )
    return differences


def _averaging(layers: Sequence[int] | Places, number: int, heads: int) -> NDArray[np.float64]:
    found = np.zeros((len(layers), number, heads))
    for row, layer in enumerate(layers):
        if layer >= 0:
            found[row, layer] = 1 / heads
    return found.reshape(len(layers), -1)
