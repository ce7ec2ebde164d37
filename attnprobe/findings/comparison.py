"""Two checkpoints: their table, a row a head of the first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.findings.differences import HeadDifferences, compare_statistic
from attnprobe.findings.partners import (
    Floats,
    Places,
    SharedHeads,
    Within,
    find_namesakes,
    find_nearest,
    match_heads,
    pick_pairs,
)
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.cross_moments import CrossMoments
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.numbers import format_number
from attnprobe.table.table import Column, HeadTable

#: Notes name so many columns.
_NAMED = 4
#: With fewer blocks of documents than this, errors and p values are rough.
_FEW = 10
#: Chance alone gives a CKA of this or more: too few tokens.
_CHANCE = 0.05
#: A terminal shows so many columns, those in which most rows differ.
_SHOWN = 2
_DIVERGENCE = "nats"
_SIMILARITY = "similarity, 0 to 1"


@dataclass(frozen=True)
class ModelComparison:
    """The sums of two models over the same texts.

    Attributes:
        shared: Which of their heads can be compared.
        statistics: What was measured of both.
        sums: The sums of each statistic by its name, of the first model and of the second.
        sequences: How many sequences both have read.
        numbered: The divergence of heads of one number, (layer, head); None where there are none.
        pairs: The divergence of every head from every other, kind by kind, where it was measured.
        outputs: What the outputs of every two heads have in common, kind by kind, where it was measured.
        labels: Names and provenance for the table, those of the first model.
        other: The name of the second model.
        rounding: The divergence, in nats, that rounding may put between heads that attend alike.
    """

    shared: SharedHeads
    statistics: Sequence[Statistic]
    sums: tuple[Mapping[str, Any], Mapping[str, Any]]
    sequences: int
    numbered: Clustered | None
    pairs: Mapping[Kind, Clustered]
    outputs: Mapping[Kind, CrossMoments]
    labels: Labels
    other: str
    rounding: float

    @property
    def names(self) -> tuple[str, str]:
        return self.labels.model, self.other

    @property
    def chance(self) -> float:
        """The CKA that independent outputs would have over as many tokens."""
        return max((moments.chance_cka for moments in self.outputs.values()), default=0.0)


def tabulate_heads(comparison: ModelComparison, match: Within | None = None) -> HeadTable:
    """Tabulate the heads of the first model beside those of the second.

    A head's partner, which columns ``_b`` are about, is the one that is matched to it if that is asked for,
    else the one of its number, else the nearest. Heads are matched by their outputs where these were
    measured, else by their maps.
    """
    shared, heads = comparison.shared, comparison.shared.first.heads
    rows = (np.array(shared.layers, np.intp)[:, None] * heads + np.arange(heads)).ravel()
    known = _join_pairs(comparison)
    namesake = find_namesakes(shared)
    nearest = find_nearest(shared, known["jsd"]) if comparison.pairs else None
    matched = None
    if match is not None:
        distances = 1 - known["cka"] if comparison.outputs else known["jsd"]
        matched = match_heads(shared, distances, match)
    unmatched = namesake if shared.alike or nearest is None else nearest
    partner = unmatched if matched is None else matched
    build = TableBuilder(comparison.labels, len(rows))
    build.add(Column("model_b", role="key"), [comparison.other] * len(rows))
    build.layers(np.repeat(shared.layers, heads).tolist())
    build.key("head", np.tile(np.arange(heads), len(shared.layers)))
    build.count("n", np.full(len(rows), comparison.sequences))
    if comparison.numbered is not None:
        title = "Jensen-Shannon divergence from the same head of the other model"
        jsd = comparison.numbered.estimate
        value, error = jsd.value.ravel()[rows], jsd.error.ravel()[rows]
        build.measure("jsd", _DIVERGENCE, value, error, headline=True, title=title)
    if comparison.outputs and shared.alike:
        title = "CKA with the outputs of the head of the same number"
        cka = pick_pairs(known["cka"], namesake)[rows]
        build.add(Column("cka", _SIMILARITY, headline=True, title=title), cka)
    if nearest is not None:
        by_maps = {name: known[name] for name in ("jsd", "jsd_se")}
        _add_partner(
            build, comparison, "nearest", nearest, rows, by_maps, headline=comparison.numbered is None
        )
    if matched is not None:
        _add_partner(build, comparison, "matched", matched, rows, known)
    differences = _add_statistics(build, comparison, rows, partner[rows])
    notes = [
        *_note_chance(comparison),
        *_note_rounding(comparison, rows),
        *_note_differences(comparison, differences),
        _note_partner(comparison, matched=matched is not None),
    ]
    return build.table(f"heads of {comparison.labels.model} and of {comparison.other}", notes)


def _join_pairs(comparison: ModelComparison) -> dict[str, Floats]:
    """Give what is known of every head with every other head, (head, other head), by name."""
    join, known = comparison.shared.join, dict[str, Floats]()
    if comparison.outputs:
        known["cka"] = join({kind: moments.cka for kind, moments in comparison.outputs.items()})
    if comparison.pairs:
        known["jsd"] = join({kind: pairs.average for kind, pairs in comparison.pairs.items()})
        known["jsd_se"] = join({kind: pairs.standard_error for kind, pairs in comparison.pairs.items()})
    return known


def _add_partner(
    build: TableBuilder,
    comparison: ModelComparison,
    name: str,
    partner: Places,
    rows: Places,
    known: Mapping[str, Floats],
    *,
    headline: bool = False,
) -> None:
    """Append which head is the partner of each, and what is known of the two."""
    places, heads = comparison.shared.second.places, comparison.shared.second.heads
    partners = [divmod(number, heads) if number >= 0 else None for number in partner[rows].tolist()]
    layers = [None if at is None else places[at[0]].layer for at in partners]
    build.add(Column(f"{name}_layer", role="count"), layers)
    build.add(Column(f"{name}_head", role="count"), [None if at is None else at[1] for at in partners])
    picked = {measure: pick_pairs(pairs, partner)[rows] for measure, pairs in known.items()}
    if "cka" in picked:
        title = f"CKA with the outputs of the {name} head"
        build.add(Column(f"cka_{name}", _SIMILARITY, headline=True, title=title), picked["cka"])
    if "jsd" in picked:
        title = f"divergence from the {name} head"
        jsd, error = picked["jsd"], picked["jsd_se"]
        build.measure(f"jsd_{name}", _DIVERGENCE, jsd, error, headline=headline, title=title)


def _add_statistics(
    build: TableBuilder, comparison: ModelComparison, rows: Places, partner: Places
) -> dict[str, HeadDifferences]:
    """Append each statistic of a head and of its partner, and their difference."""
    first, second = comparison.sums
    differences = {
        statistic.name: compare_statistic(
            statistic, first[statistic.name], second[statistic.name], rows, partner
        )
        for statistic in comparison.statistics
    }
    most = sorted(differences, key=lambda name: -differences[name].certain.sum())[:_SHOWN]
    for statistic in comparison.statistics:
        name, difference = statistic.name, differences[statistic.name]
        unit = statistic.unit
        for chosen, (ours, theirs) in difference.picked.items():
            build.add(Column(f"{chosen}_a", role="count"), ours[rows])
            cells = [theirs[head] if head >= 0 else None for head in partner]
            build.add(Column(f"{chosen}_b", role="count"), cells)
        for side, which, values in (("a", "first", difference.first), ("b", "second", difference.second)):
            build.add(Column(f"{name}_{side}", unit, title=f"{statistic.title}, {which} model"), values)
        title = f"change of {statistic.title}"
        headline = name in most and bool(difference.certain.any())
        delta = difference.estimate
        build.measure(f"{name}_delta", unit, delta.value, delta.error, headline=headline, title=title)
        adjusted = Column(f"{name}_p_adjusted", "probability", title=f"adjusted p of the {title}")
        build.add(adjusted, difference.adjusted)
    return differences


def _note_chance(comparison: ModelComparison) -> Iterator[str]:
    """Note what CKA chance alone gives, where there are too few tokens."""
    if comparison.chance >= _CHANCE:
        chance = format_number(comparison.chance, digits=2)
        yield (
            f"Heads that have nothing to do with each other have a CKA of about {chance} over so few tokens; "
            "read more text."
        )


def _note_rounding(comparison: ModelComparison, rows: Places) -> Iterator[str]:
    """Note how many divergences are no larger than rounding may make them."""
    if comparison.numbered is None:
        return
    divergences = comparison.numbered.average.ravel()[rows]
    defined = divergences[np.isfinite(divergences)]
    if same := int((defined <= comparison.rounding).sum()):
        most = format_number(comparison.rounding, digits=1)
        yield f"{same} of {len(defined)} heads have a jsd of at most {most} nats, which may be rounding."


def _note_differences(
    comparison: ModelComparison, differences: Mapping[str, HeadDifferences]
) -> Iterator[str]:
    """Note in which columns most heads differ significantly."""
    if not differences:
        return
    method = f"p < {SIGNIFICANT} after Holm's correction over heads"
    moved = {name: difference.moved for name, difference in differences.items() if any(difference.moved)}
    if moved:
        parts = []
        for name in sorted(moved, key=lambda name: -sum(moved[name]))[:_NAMED]:
            (up, down), heads = moved[name], int(np.isfinite(differences[name].p).sum())
            parts.append(f"{name} is higher in {up} and lower in {down} of {heads} heads")
        yield f"In {comparison.other}, {'; '.join(parts)} ({method})."
    elif all(np.isnan(difference.p).all() for difference in differences.values()):
        yield "Errors and p values need at least two documents."
    else:
        yield f"No column differs significantly in any head ({method})."
    blocks = _count_blocks(comparison)
    if 1 < blocks < _FEW:
        yield f"Differences are over {blocks} documents only: errors and p values are rough."


def _count_blocks(comparison: ModelComparison) -> int:
    blocked = [sums for sums in comparison.sums[0].values() if isinstance(sums, Blocked)]
    return blocked[0].documents if blocked else BLOCKS


def _note_partner(comparison: ModelComparison, *, matched: bool) -> str:
    """Say which head columns ``_b`` are about."""
    if matched:
        return "Columns _b are about the matched head."
    if comparison.shared.alike:
        return "Columns _b are about the head of the same number."
    return "The models have other numbers of layers or heads, so columns _b are about the nearest head."
