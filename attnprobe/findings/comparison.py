"""Two checkpoints: which head is compared with which, and their table, a row a head."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from attnprobe.findings.differences import Difference, Rows, compare_statistic
from attnprobe.findings.partners import (
    Partners,
    compare_numbered_outputs,
    find_namesakes,
    find_nearest,
    match_heads,
    match_outputs,
)
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.survey.comparison import Comparison
from attnprobe.survey.divergences import NUMBERED
from attnprobe.survey.head_outputs import CHANCE
from attnprobe.survey.heads import Within
from attnprobe.table.builder import TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

Places = NDArray[np.intp]
#: So many columns are spoken of.
COLUMNS = 4
#: With fewer blocks of documents than this, errors and p values are rough.
FEW = 10


def note_rounding(found: Comparison, divergences: np.ndarray) -> list[str]:
    """Say how many divergences are no larger than rounding may make them, if some are."""
    known = divergences[np.isfinite(divergences)]
    same = int((known <= found.rounding).sum())
    if not same:
        return []
    return [
        f"{same} of {len(known)} heads have a jsd of at most {found.rounding:.1g} nats, which may be "
        "rounding."
    ]


def note_chance(found: Comparison) -> list[str]:
    """Say what CKA chance alone gives, where there are too few tokens."""
    if found.alignment is None or found.alignment.chance < CHANCE:
        return []
    return [
        f"Heads that have nothing to do with each other have a CKA of about {found.alignment.chance:.2f} "
        "over so few tokens; read more text."
    ]


def describe_columns(found: Comparison, differences: Mapping[str, Difference], partner: str) -> list[str]:
    """Say which columns differ, in how many rows, and which head they are about."""
    if not differences:
        return []
    counted = [(name, *one.moved, int(np.isfinite(one.p).sum())) for name, one in differences.items()]
    counted = sorted((one for one in counted if one[1] + one[2]), key=lambda one: -(one[1] + one[2]))
    how = f"p < {SIGNIFICANT} after Holm's correction over heads"
    if counted:
        parts = [
            f"{name} is higher in {up} and lower in {down} of {number} heads"
            for name, up, down, number in counted[:COLUMNS]
        ]
        summary = f"In {found.other}, {'; '.join(parts)} ({how})."
    elif all(np.isnan(one.p).all() for one in differences.values()):
        summary = "Errors and p values need at least two documents."
    else:
        summary = f"No column differs significantly in any head ({how})."
    blocks = _count_blocks(found)
    few = f"Differences are over {blocks} documents only: errors and p values are rough."
    return [summary, partner, *([few] if 1 < blocks < FEW else [])]


def _count_blocks(found: Comparison) -> int:
    for statistic in found.statistics:
        counts = getattr(found.sums(0, statistic), "counts", None)
        if counts is not None:
            return int((counts.reshape(BLOCKS, -1).max(1, initial=0) > 0).sum())
    return BLOCKS


#: A terminal shows so many columns, those in which most rows differ.
SHOWN = 2
UNIT = "nats"
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
        title = "CKA with the outputs of the head of the same number"
        cka = compare_numbered_outputs(found)[mine]
        build.add(Column("cka", SIMILARITY, headline=True, title=title), cka)
    if near is not None:
        _add_partners(build, found, "nearest", near, mine, headline=NUMBERED not in sums)
    if pairs is not None:
        _add_partners(build, found, "matched", pairs, mine, headline=False)
    sizes = heads * shared.first.layers, shared.second.heads * shared.second.layers
    differences = _add_columns(build, found, Rows.of_heads(mine, partner[mine], sizes), mine, partner[mine])
    notes = note_chance(found)
    if NUMBERED in sums:
        notes += note_rounding(found, sums[NUMBERED].average.ravel()[mine])
    about = describe_partner(found, matched=pairs is not None)
    notes += describe_columns(found, differences, about)
    return build.table(f"heads of {found.labels.model} and of {found.other}", notes, "change")


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
    kinds = found.shared.first.kinds
    return [layer for layer, kind in enumerate(kinds) if kind in found.shared.kinds]


def _find_layer(found: Comparison, layer: int) -> int | None:
    return found.shared.second.places[layer].layer if layer >= 0 else None


def _add_partners(
    build: TableBuilder, found: Comparison, name: str, partners: Partners, mine: Places, *, headline: bool
) -> None:
    heads = found.shared.second.heads
    which = partners.head[mine]
    layers = [_find_layer(found, int(one) // heads) if one >= 0 else None for one in which]
    build.add(Column(f"{name}_layer", role="count"), layers)
    build.add(Column(f"{name}_head", role="count"), [one % heads if one >= 0 else None for one in which])
    if partners.cka is not None:
        title = f"CKA with the outputs of the {name} head"
        build.add(Column(f"cka_{name}", SIMILARITY, headline=True, title=title), partners.cka[mine])
        if not found.divergences.pairs:
            return
    title = f"divergence from the {name} head"
    jsd, error = partners.jsd[mine], partners.error[mine]
    build.measure(f"jsd_{name}", UNIT, jsd, error, headline=headline, title=title)


def _add_columns(
    build: TableBuilder, found: Comparison, rows: Rows, mine: Places, partner: Places
) -> dict[str, Difference]:
    differences = {
        one.name: compare_statistic(one, found.sums(0, one), found.sums(1, one), rows)
        for one in found.statistics
    }
    certain = {name: int(one.certain.sum()) for name, one in differences.items()}
    shown = sorted(certain, key=lambda name: -certain[name])[:SHOWN]
    for statistic in found.statistics:
        name, one = statistic.name, differences[statistic.name]
        unit = statistic.unit_of(patches=build.patches)
        for said, (first, second) in one.said.items():
            build.add(Column(f"{said}_a", role="count"), first[mine])
            cells = [second[at] if at >= 0 else None for at in partner]
            build.add(Column(f"{said}_b", role="count"), cells)
        for side, which, values in (("a", "first", one.first), ("b", "second", one.second)):
            build.add(Column(f"{name}_{side}", unit, title=f"{statistic.title}, {which} model"), values)
        title = f"change of {statistic.title}"
        headline = name in shown and certain[name] > 0
        build.measure(f"{name}_delta", unit, one.delta, one.error, headline=headline, title=title)
        adjusted = Column(f"{name}_p_adjusted", "probability", title=f"adjusted p of the {title}")
        build.add(adjusted, one.adjusted)
    return differences
