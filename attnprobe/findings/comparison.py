"""Two checkpoints: which head is compared with which, and their table, a row a head or a layer."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from attnprobe.findings.differences import Difference, Rows, compare_statistic
from attnprobe.findings.partners import (
    Partners,
    compare_numbered_outputs,
    find_namesakes,
    find_nearest,
    find_nearest_layers,
    match_heads,
    match_outputs,
)
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.survey.comparison import Comparison
from attnprobe.survey.divergences import NUMBERED, OF_LAYERS
from attnprobe.survey.head_outputs import CHANCE
from attnprobe.survey.pairing import Within
from attnprobe.table.builder import TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import join_names
from attnprobe.table.table import Column

Places = NDArray[np.intp]
#: So many heads are named as those that changed most.
MOST = 3
#: So many columns are spoken of.
COLUMNS = 4
#: With fewer blocks of documents than this, errors and p values are rough.
FEW = 10


def describe_heads(
    found: Comparison, near: Partners | None, pairs: Partners | None, match: str | None, mine: Places
) -> list[str]:
    """Say which heads changed most, and whether heads are nearest to those of their number."""
    said: list[str] = []
    heads, other_heads = found.shared.first.heads, found.shared.second.heads
    removed = set(found.labels.removed)
    there = np.array([row for row, one in enumerate(mine) if divmod(int(one), heads) not in removed])
    if NUMBERED in found.measurement.sums:
        apart = found.measurement.sums[NUMBERED]
        said += _describe_changes(found, apart.average.ravel(), apart.standard_error.ravel(), mine[there])
    namesake = find_namesakes(found)
    standing = found.shared.second.standing.ravel()
    both = [int(one) for one in mine[there] if namesake[one] >= 0 and standing[namesake[one]]]
    which = "heads" if len(both) == len(there) else "heads that both have"
    if near is not None and found.shared.alike:
        own = sum(near.head[one] == namesake[one] for one in both)
        said.append(
            f"The nearest head of {found.other} is the one of the same number for {own} of {len(both)} "
            f"{which}."
        )
    if pairs is not None:
        known = [one for one in mine[there] if pairs.head[one] >= 0]
        within = match if found.alignment is None else found.alignment.within
        text = "Matched by outputs, " if found.alignment is not None else "Matched "
        text += "layer by layer" if within == "layer" else "over the model"
        if found.shared.alike:
            moved = [one for one in both if pairs.head[one] >= 0 and pairs.head[one] != namesake[one]]
            own = sum(pairs.head[one] == namesake[one] for one in both)
            text += f", {own} of {len(both)} {which} have the partner of their own number"
            if moved:
                ours = _name_head(found, moved[0])
                place = divmod(int(pairs.head[moved[0]]), other_heads)
                theirs = found.shared.second.places[place[0]].head(place[1])
                text += f"; {ours} is {theirs} there, to name the first of the others"
        else:
            text += f", {len(known)} of {len(there)} heads have a partner"
        if pairs.cka is not None:
            said.append(f"{text}; the mean CKA of partners is {_average(pairs.cka[known]):.2f}.")
            return [*said, *_describe_outputs(found, pairs, mine)]
        mean = float(np.nansum(pairs.jsd[known])) / max(1, len(known))
        far = f"{mean:.2g} nats" if mean > found.rounding else f"0 {_note_rounding(found)}"
        said.append(f"{text}; the mean divergence of partners is {far}.")
    return said


def _describe_outputs(found: Comparison, pairs: Partners, mine: Places) -> list[str]:
    """Say which heads give least alike, what maps would match otherwise, and what chance alone gives."""
    cka, error = pairs.cka, pairs.cka_error
    assert found.alignment is not None
    assert cka is not None
    assert error is not None
    known = [int(one) for one in mine if np.isfinite(cka[one])]
    order = [known[place] for place in np.argsort(cka[known], kind="stable")[:MOST]]
    named = [
        f"{_name_head(found, one)} ({_format_error(cka[one].item(), error[one].item())})" for one in order
    ]
    said = []
    if order and cka[order[0]] > 1 - SAME:
        said = ["All partners give the same, but for rounding."]
    elif order:
        said = [f"The partners that give least alike, by CKA, are those of {join_names(named)}."]
    if found.divergences.pairs:
        by_maps = match_heads(found, found.alignment.within).head
        other = sum(by_maps[one] != pairs.head[one] for one in known)
        said.append(f"By maps, {other} of {len(known)} heads would have another partner.")
    if found.alignment.chance >= CHANCE:
        said.append(
            f"Heads that have nothing to do with each other have a CKA of about {found.alignment.chance:.2f} "
            "over so few tokens; read more text."
        )
    return said


def _average(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def describe_layers(found: Comparison, layers: Sequence[int]) -> list[str]:
    """Say where the models differ most, of some layers."""
    if OF_LAYERS not in found.measurement.sums:
        return []
    apart = found.measurement.sums[OF_LAYERS]
    values = apart.average[layers]
    if not np.nanmax(values, initial=0.0) > found.rounding:
        return [f"All heads attend as those of {found.other} do, {_note_rounding(found)}."]
    layer = layers[int(np.nanargmax(values))]
    far = _format_error(apart.average[layer].item(), apart.standard_error[layer].item())
    return [f"What heads attend to differs most in {found.labels.places[layer]}: {far} nats."]


def describe_columns(
    found: Comparison, differences: Mapping[str, Difference], partner: str, noun: str
) -> list[str]:
    """Say which columns differ, in how many rows, and how that was decided."""
    if not differences:
        return []
    said, counted = [], []
    for name, one in differences.items():
        up, down = one.moved
        if up or down:
            counted.append((name, up, down, int(np.isfinite(one.p).sum())))
    counted.sort(key=lambda one: -(one[1] + one[2]))
    for name, up, down, number in counted[:COLUMNS]:
        said.append(f"{name} is higher in {up} and lower in {down} of {number} {noun}s")
    rest = len(counted) - len(said)
    blocks = _count_blocks(found)
    how = f"p < {SIGNIFICANT} after Holm's correction over {noun}s"
    if said:
        more = f"; {rest} more column{'s' * (rest != 1)} differ{'s' * (rest == 1)} in some" if rest else ""
        summary = f"In {found.other}, {'; '.join(said)}{more} ({how})."
    elif all(np.isnan(one.p).all() for one in differences.values()):
        summary = "Errors and p values need at least two documents."
    else:
        summary = f"No column differs significantly in any {noun} ({how})."
    few = f"Differences are over {blocks} documents only: errors and p values are rough."
    return [summary, partner, *([few] if 1 < blocks < FEW else [])]


def _name_head(found: Comparison, number: int) -> str:
    """Name a head of the first model, of this number in the model."""
    layer, head = divmod(number, found.shared.first.heads)
    return found.labels.places[layer].head(head)


def _describe_changes(found: Comparison, jsd: np.ndarray, error: np.ndarray, mine: Places) -> list[str]:
    """Name the heads whose attention changed most, and the layers in which none did."""
    known = mine[np.isfinite(jsd[mine])]
    if not len(known):
        return []
    if not jsd[known].max() > found.rounding:
        return [
            f"All {len(known)} heads attend as those of the same number in {found.other} do, "
            f"{_note_rounding(found)}."
        ]
    order = [one for one in known[np.argsort(-jsd[known], kind="stable")] if jsd[one] > found.rounding]
    named = [
        f"{_name_head(found, one)} ({_format_error(jsd[one].item(), error[one].item())})"
        for one in order[:MOST]
    ]
    said = [f"What changed most, in nats of divergence from {found.other}: {join_names(named)}."]
    same = len(known) - len(order)
    if same:
        said.append(
            f"{same} of {len(known)} heads {'attends' if same == 1 else 'attend'} as before, "
            f"{_note_rounding(found)}; the first that does not is {_name_head(found, min(order))}."
        )
    return said


def _note_rounding(found: Comparison) -> str:
    """Say below which divergence heads count as the same."""
    return f"but for rounding, which may give a jsd of {found.rounding:.1g} nats"


def _format_error(value: float, error: float) -> str:
    return f"{value:.2g} ± {error:.1g}" if np.isfinite(error) else f"{value:.2g}"


def _count_blocks(found: Comparison) -> int:
    """Count the blocks of documents that differences are over."""
    for statistic in found.statistics:
        counts = getattr(found.sums(0, statistic), "counts", None)
        if counts is not None:
            return int((counts.reshape(BLOCKS, -1).max(1, initial=0) > 0).sum())
    return BLOCKS


#: A terminal shows so many columns, those in which most rows differ.
SHOWN = 2
UNIT = "nats"
#: A CKA that is closer to 1 than this is 1.
SAME = 1e-5
#: The unit of CKA.
SIMILARITY = "similarity, 0 to 1"


def tabulate_heads(found: Comparison, match: Within | None = None) -> HeadTable:
    """Tabulate the heads of the first model beside those of the second.

    A head's partner, which columns ``_b`` are about, is the one that is matched to it if that is asked for,
    else the one of its number, else the nearest.
    """
    shared, sums = found.shared, found.measurement.sums
    heads, layers = shared.first.heads, _list_layers(found)
    mine = np.array([layer * heads + head for layer in layers for head in range(heads)], np.intp)
    near = find_nearest(found) if found.divergences.pairs else None
    pairs = match_heads(found, match) if match is not None else None
    if found.alignment is not None:
        pairs = match_outputs(found)
    if pairs is not None:
        partner = pairs.head
    elif shared.alike:
        partner = find_namesakes(found)
    else:
        assert near is not None  # models of different shapes are compared head by nearest head
        partner = near.head
    build = _start_table(found, [layer for layer in layers for _ in range(heads)])
    build.key("head", np.tile(np.arange(heads), len(layers)))
    build.count("n", np.full(len(mine), found.measurement.sequences))
    if NUMBERED in sums:
        apart = sums[NUMBERED]
        build.measure(
            "jsd", UNIT, apart.average.ravel()[mine], apart.standard_error.ravel()[mine],
            headline=True, title="Jensen-Shannon divergence from the same head of the other model",
        )  # fmt: skip
    if found.alignment is not None and shared.alike:
        cka, error = compare_numbered_outputs(found)
        title = "CKA with the outputs of the head of the same number"
        build.measure("cka", SIMILARITY, cka[mine], error[mine], headline=True, title=title)
    if near is not None:
        _add_partners(build, found, "nearest", near, mine, headline=NUMBERED not in sums)
    if pairs is not None:
        _add_partners(build, found, "matched", pairs, mine, headline=False)
    sizes = heads * shared.first.layers, shared.second.heads * shared.second.layers
    differences = _add_columns(build, found, Rows.of_heads(mine, partner[mine], sizes), mine, partner[mine])
    notes = describe_heads(found, near, pairs, match, mine)
    about = describe_partner(found, matched=pairs is not None)
    notes += describe_columns(found, differences, about, "head")
    return build.table(f"heads of {found.labels.model} and of {found.other}", notes, "change")


def tabulate_layers(found: Comparison) -> HeadTable:
    """Tabulate the layers of the first model beside those of the second; numbers are means over heads.

    A layer's partner is the one of its number, or the nearest where the models have different numbers.
    """
    shared, sums = found.shared, found.measurement.sums
    layers = _list_layers(found)
    partner = np.full(len(layers), -1, np.intp)
    near = np.full(len(layers), -1, np.intp)
    far = np.full(len(layers), np.nan)
    for kind in shared.kinds:
        ours, theirs = shared.layers(kind)
        rows = [layers.index(layer) for layer in ours]
        if found.divergences.pairs:
            best, distance = find_nearest_layers(found, kind)
            near[rows], far[rows] = np.array(theirs)[best], distance
        partner[rows] = theirs if len(ours) == len(theirs) else near[rows]
    build = _start_table(found, layers)
    build.count("n", np.full(len(layers), found.measurement.sequences))
    if OF_LAYERS in sums:
        apart = sums[OF_LAYERS]
        build.measure(
            "jsd", UNIT, apart.average[layers], apart.standard_error[layers],
            headline=True, title="mean divergence from heads of the same number",
        )  # fmt: skip
    if found.divergences.pairs:
        build.add(Column("nearest_layer", role="count"), [_find_layer(found, int(one)) for one in near])
        build.add(Column("jsd_nearest", UNIT, title="mean divergence from the nearest heads of a layer"), far)
    shapes = [(side.layers, side.heads) for side in (shared.first, shared.second)]
    differences = _add_columns(build, found, Rows.of_layers(np.array(layers, np.intp), partner, shapes))
    which = all(len(ours) == len(theirs) for ours, theirs in map(shared.layers, shared.kinds))
    said = f"Columns _b are about {'the layer of the same number' if which else 'nearest_layer'}"
    notes = describe_layers(found, layers)
    notes += describe_columns(found, differences, f"{said}; all are means over heads.", "layer")
    return build.table(f"layers of {found.labels.model} and of {found.other}", notes, "layers")


def describe_partner(found: Comparison, *, matched: bool) -> str:
    """Say which head columns ``_b`` are about."""
    if matched:
        return "Columns _b are about the matched head."
    if found.shared.alike:
        return "Columns _b are about the head of the same number."
    return "The models have other numbers of layers or heads, so columns _b are about the nearest head."


def _start_table(found: Comparison, layers: Sequence[int]) -> TableBuilder:
    build = TableBuilder(found.labels, len(layers))
    build.add(Column("model_b", role="key"), [found.other] * len(layers))
    build.layers(layers)
    return build


def _list_layers(found: Comparison) -> list[int]:
    """List the layers of kinds that both models have."""
    kinds = found.shared.first.kinds
    return [layer for layer, kind in enumerate(kinds) if kind in found.shared.kinds]


def _find_layer(found: Comparison, layer: int) -> int | None:
    """Find the number that a table has for a layer of the second model."""
    return found.shared.second.places[layer].layer if layer >= 0 else None


def _add_partners(
    build: TableBuilder, found: Comparison, name: str, partners: Partners, mine: Places, *, headline: bool
) -> None:
    heads = found.shared.second.heads
    which = partners.head[mine]
    layers = [_find_layer(found, int(one) // heads) if one >= 0 else None for one in which]
    build.add(Column(f"{name}_layer", role="count"), layers)
    build.add(Column(f"{name}_head", role="count"), [one % heads if one >= 0 else None for one in which])
    if partners.cka is not None and partners.cka_error is not None:
        title = f"CKA with the outputs of the {name} head"
        cka, error = partners.cka[mine], partners.cka_error[mine]
        build.measure(f"cka_{name}", SIMILARITY, cka, error, headline=True, title=title)
        if not found.divergences.pairs:
            return
    title = f"divergence from the {name} head"
    jsd, error = partners.jsd[mine], partners.error[mine]
    build.measure(f"jsd_{name}", UNIT, jsd, error, headline=headline, title=title)


def _add_columns(
    build: TableBuilder,
    found: Comparison,
    rows: Rows,
    mine: Places | None = None,
    partner: Places | None = None,
) -> dict[str, Difference]:
    """Append the columns of every statistic; those in which most rows differ are shown."""
    differences = {
        one.name: compare_statistic(one, found.sums(0, one), found.sums(1, one), rows)
        for one in found.statistics
    }
    certain = {name: int(one.certain.sum()) for name, one in differences.items()}
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
        adjusted = Column(f"{name}_p_adjusted", "probability", title=f"adjusted p of the {title}")
        build.add(adjusted, one.adjusted)
    return differences
