"""Two checkpoints: one row per head of the first, with its partner, and paired differences of statistics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
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
from attnprobe.statistics.statistic import SUFFIX, Statistic
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.cross_moments import CrossMoments
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.inference import SIGNIFICANT, Estimate, adjust
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.numbers import format_number
from attnprobe.table.table import Column, HeadTable

#: With fewer blocks of documents, errors and p values are rough.
_FEW = 10
#: If chance alone gives a CKA of this or more, there are too few tokens.
_CHANCE = 0.05
#: How many columns a note names.
_NAMED = 4
#: How many columns a terminal shows, those in which most rows differ.
_SHOWN = 2
#: A relative difference below this may be the rounding of float32.
_ROUNDING = 1e-6
_DIVERGENCE = "nats"
_SIMILARITY = "similarity, 0 to 1"


@dataclass(frozen=True)
class ModelComparison:
    """The sums of two models over the same texts."""

    shared: SharedHeads  # the heads that can be compared
    statistics: Sequence[Statistic]  # what was measured in both models
    sums: tuple[Mapping[str, Any], Mapping[str, Any]]  # of each statistic by name, for either model
    sequences: int  # how many sequences each model has read
    #: The divergence between heads of the same number, (layer, head); None if the models have no such heads.
    numbered: Clustered | None
    #: If they were measured: the divergence between each head and each head of the other model, and the cross
    #: moments of their outputs, by kind of attention.
    pairs: Mapping[Kind, Clustered]
    outputs: Mapping[Kind, CrossMoments]
    labels: Labels  # names and provenance for the table, those of the first model
    other: str  # the name of the second model
    rounding: float  # the divergence, in nats, that rounding may put between heads that attend alike


@dataclass(frozen=True)
class HeadDifferences:
    """A statistic of heads in two models, and its differences, (row,)."""

    first: Floats  # the means in the first model
    second: Floats  # the means of the partners in the second
    estimate: Estimate  # the second minus the first, with standard errors; mere rounding is 0
    #: Further numbers of each head in either model, such as the offset that it looks at.
    picked: Mapping[str, tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)

    @cached_property
    def p(self) -> Floats:
        return self.estimate.p()

    @cached_property
    def adjusted(self) -> Floats:
        """The p values, adjusted for the number of rows by Holm's method."""
        return adjust(self.p)

    @property
    def moved(self) -> tuple[int, int]:
        """How many rows are significantly higher in the second model, and how many lower."""
        higher, certain = self.estimate.value > 0, self.adjusted < SIGNIFICANT
        return int((certain & higher).sum()), int((certain & ~higher).sum())


def tabulate_heads(comparison: ModelComparison, match: Within | None = None) -> HeadTable:
    """Tabulate the heads of the first model beside those of the second.

    Columns ``_b`` are about a head's partner: with ``match`` the head that is matched to it, else the one of
    the same number, else the nearest. Heads are matched by their outputs, or else by their maps.
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
    partner_of = "the head of the same number" if shared.alike else "the nearest head"
    about = f"Columns _b are about {partner_of if matched is None else 'the matched head'}."
    notes = [*_note_differences(comparison, rows, differences), about]
    return build.table(f"heads of {comparison.labels.model} and of {comparison.other}", notes)


def _join_pairs(comparison: ModelComparison) -> dict[str, Floats]:
    """Join the measures of pairs of heads over all kinds of attention, (head, other head), by name."""
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
    """Append the layer and number of each head's partner, and the measures of the two."""
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
    """Append each statistic of a head and of its partner, and return their differences by its name."""
    first, second = comparison.sums
    differences = {
        statistic.name: compare_statistic(
            statistic, first[statistic.name], second[statistic.name], rows, partner
        )
        for statistic in comparison.statistics
    }
    most = sorted(differences, key=lambda name: -sum(differences[name].moved))[:_SHOWN]
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
        headline = name in most and any(difference.moved)
        delta = difference.estimate
        build.measure(f"{name}_delta", unit, delta.value, delta.error, headline=headline, title=title)
        adjusted = Column(f"{name}_p_adjusted", "probability", title=f"adjusted p of the {title}")
        build.add(adjusted, difference.adjusted)
    return differences


def _note_differences(
    comparison: ModelComparison, rows: Places, differences: Mapping[str, HeadDifferences]
) -> Iterator[str]:
    """Note which statistics differ, what may be chance or rounding, and when errors are rough."""
    chance = max((moments.chance_cka for moments in comparison.outputs.values()), default=0.0)
    if chance >= _CHANCE:
        yield (
            "Heads that have nothing to do with each other have a CKA of about "
            f"{format_number(chance, digits=2)} over so few tokens; read more text."
        )
    if comparison.numbered is not None:
        divergences = comparison.numbered.average.ravel()[rows]
        defined = divergences[np.isfinite(divergences)]
        if same := int((defined <= comparison.rounding).sum()):
            most = format_number(comparison.rounding, digits=1)
            yield f"{same} of {len(defined)} heads have a jsd of at most {most} nats, which may be rounding."
    changed = []
    for name, difference in differences.items():
        if any(difference.moved):
            (up, down), heads = difference.moved, int(np.isfinite(difference.p).sum())
            changed.append((-up - down, f"{name} is higher in {up} and lower in {down} of {heads} heads"))
    if changed:
        named = "; ".join(text for _, text in sorted(changed, key=lambda pair: pair[0])[:_NAMED])
        method = f"p < {SIGNIFICANT} after Holm's correction over heads"
        yield f"In {comparison.other}, {named} ({method})."
    elif differences and all(np.isnan(difference.p).all() for difference in differences.values()):
        yield "Errors and p values need at least two documents."
    blocked = [sums for sums in comparison.sums[0].values() if isinstance(sums, Blocked)]
    blocks = blocked[0].documents if blocked else BLOCKS
    if 1 < blocks < _FEW:
        yield f"Differences are over {blocks} documents only: errors and p values are rough."


def compare_statistic(
    statistic: Statistic, first: Any, second: Any, heads: Places, partners: Places
) -> HeadDifferences:
    """Compare a statistic of two models over the same texts, row by row; see ``compare_paired``.

    Its sums are ``Blocked`` of (layer, head, ...), or a ``Constant``; ``heads`` and ``partners`` number the
    head of each row and its partner in the second model through all layers, -1 for none.
    """
    if not isinstance(first, Blocked):
        a = first.average.ravel()[heads]
        b = np.where(partners >= 0, second.average.ravel()[partners], np.nan)
        return HeadDifferences(a, b, Estimate(b - a, np.full_like(a, np.nan), np.zeros(a.shape)))
    (first, ours), (second, theirs) = _pick_number(statistic, first), _pick_number(statistic, second)
    suffix = SUFFIX if statistic.of is not None else ""
    picked = {f"{name}{suffix}": (ours[name].ravel(), theirs[name].ravel()) for name in ours}
    there = Blocked(second.counts[:, partners] * (partners >= 0), second.totals[:, partners])
    return replace(compare_paired(first[heads,], there), picked=picked)


def compare_paired(first: Blocked, second: Blocked) -> HeadDifferences:
    """Compare values of heads of two models over the same texts, (block, row).

    With d = b - a the difference of the two means, and its standard error s by the jackknife over blocks of
    documents (``sums.blocked``), in which both models have the same documents,

        p = P(|T| >= |d| / s)

    with T from Student's t distribution. Its degrees of freedom are the effective number of blocks (Kish
    1965) less one, for blocks with m_j texts each, in the model in which it is smaller:

        (sum_j m_j)^2 / sum_j m_j^2 - 1

    If each text is a block, this is the paired t test. If a few documents have most of the windows, p is
    rather too large than too small: under no difference, at most 7 % of p are below .05, whether the windows
    of a document are similar or not. A difference below 1e-6 of the means counts as rounding, with p = 1.

    References:
        Student (1908), The probable error of a mean.
        Kish (1965), Survey sampling, on the effective size of a sample of unequal weights.
    """
    counts = np.stack([first.counts, second.counts], -1)
    both = Blocked(counts, np.stack([first.totals, second.totals], -1))
    estimate = both.apply(lambda means: means[..., 1] - means[..., 0])
    a, b = first.average, second.average
    rounding = np.abs(estimate.value) <= _ROUNDING * np.maximum(np.abs(a), np.abs(b))
    clusters = np.minimum(first.estimate.clusters, second.estimate.clusters)
    return HeadDifferences(a, b, Estimate(np.where(rounding, 0.0, estimate.value), estimate.error, clusters))


def _pick_number(statistic: Statistic, sums: Blocked) -> tuple[Blocked, dict[str, NDArray[Any]]]:
    """Pick the number of each head that a table shows: its sums (block, head), and which number it is."""
    counts, totals, picked = sums.counts, sums.totals, {}
    if statistic.pick is not None:
        places, picked = statistic.pick(sums.count, sums.average)
        counts, totals = (np.take_along_axis(side, places[None, ..., None], -1) for side in (counts, totals))
    blocks = len(counts)
    return Blocked(counts.reshape(blocks, -1), totals.reshape(blocks, -1)), picked
