"""Whether the same heads matter on other data, or in another checkpoint: correlation over heads."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.findings.noise import Disattenuated, disattenuate
from attnprobe.findings.pair import KINDS, Pair, Side
from attnprobe.sums.resampling import CONFIDENCE
from attnprobe.table.builder import Labels, TableBuilder, describe_documents
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

#: What columns are called on the axis of a picture.
_NAMES = {
    "pearson": "Pearson's r",
    "pearson_true": "Pearson's r without noise",
    "spearman": "Spearman's rho",
    "kendall": "Kendall's tau",
    "reliability_in": "split-half reliability, first side",
    "reliability_out": "split-half reliability, second side",
}
_ENDS = {"_low": "{}, lower end", "_high": "{}, upper end", "_p": "p of {}"}


def correlate_sides(
    inside: Side,
    outside: Side | Sequence[Side],
    facts: Mapping[str, Any],
    *,
    across: bool = False,
    notes: Sequence[str] = (),
) -> HeadTable:
    """Correlate two sides over heads, in one row; or one side with each of several others, a row for each.

    Pearson with an interval from Fisher's z, which takes the heads for a random sample; what it would be
    without the noise of the examples (``findings/noise.py``); Spearman and Kendall's tau-b, each with its
    two-sided p; and the split-half reliability of both sides.

    With ``across``, sides may be about different checkpoints, and ``model_out`` names the other one.

    References:
        Michel, Levy and Neubig (2019), section 3.4.
    """
    pairs = _make_pairs(inside, outside, across=across)
    build = TableBuilder(_make_labels(pairs, facts), len(pairs))
    if across:
        build.key("model_out", [pair.outside.model for pair in pairs])
    build.key("in_domain", [pair.inside.dataset for pair in pairs])
    build.key("out_domain", [pair.outside.dataset for pair in pairs])
    build.count("heads", np.array([len(pair.inside.values) for pair in pairs]))
    rows = [_correlate(pair) for pair in pairs]
    for name in rows[0]:
        unit = "probability" if name.endswith("_p") else "correlation"
        build.add(Column(name, unit, title=_make_title(name)), [float(row[name]) for row in rows])
    found = [
        [*_note_differences(pair), *_note_noise(pair, row)] for pair, row in zip(pairs, rows, strict=True)
    ]
    title = f"correlation of {inside.column} over heads"
    return build.table(title, [*notes, *_merge_notes(pairs, found)], "correlations")


def tabulate_disagreement(
    inside: Side,
    outside: Side | Sequence[Side],
    facts: Mapping[str, Any],
    most: int | None = None,
    *,
    across: bool = False,
    notes: Sequence[str] = (),
) -> HeadTable:
    """Tabulate both sides head by head, the heads that disagree most first.

    ``place`` counts from 1. ``disagreement`` is the difference of the standardised values, out of domain
    minus in domain: positive where the value, relative to those of other heads, is higher out of domain, or
    in the other checkpoint.

    ``most`` limits the number of heads, without their ranks, to fit a terminal.
    """
    from scipy.stats import rankdata  # takes a second to import

    pairs = _make_pairs(inside, outside, across=across)
    found = [_find_disagreement(pair) for pair in pairs]
    orders = [order[:most] for _, order in found]
    build = TableBuilder(_make_labels(pairs, facts), sum(map(len, orders)))
    chosen = [(pair, row) for pair, order in zip(pairs, orders, strict=True) for row in order]
    if across:
        build.key("model_out", [pair.outside.model for pair, _ in chosen])
    build.key("place", [place for order in orders for place in range(1, len(order) + 1)])
    places = [list(pair.inside.values)[row] for pair, row in chosen]
    for name, cells in zip(pairs[0].inside.keys, zip(*places, strict=True), strict=True):
        build.key(name, cells)
    values = [pair.values for pair in pairs]
    sides = {"in": inside.column, "out": pairs[0].outside.column}
    where = ("first checkpoint", "other checkpoint") if across else ("in domain", "out of domain")
    units = (inside.unit, pairs[0].outside.unit)
    for end, (suffix, column) in enumerate(sides.items()):
        title = f"{column.replace('_', ' ')}, {where[end]}"
        described = Column(f"{column}_{suffix}", units[end], title=title)
        build.add(described, _reorder([both[end] for both in values], orders))
    if most is None:
        for end, suffix in enumerate(sides):
            ranks = [rankdata(-both[end], method="min") for both in values]
            build.count(f"rank_{suffix}", _reorder(ranks, orders))
    apart = _reorder([differences for differences, _ in found], orders)
    build.add(Column("disagreement", "sd", headline=True, title="disagreement"), apart)
    both = "in both checkpoints" if across else "in domain and out"
    title = f"heads that disagree most: {inside.column}" if most else f"{inside.column} of heads"
    own = _merge_notes(pairs, [_note_differences(pair) for pair in pairs])
    return build.table(f"{title} {both}", [*notes, *own], "two sides")


def _make_pairs(inside: Side, outside: Side | Sequence[Side], *, across: bool) -> list[Pair]:
    others = [outside] if isinstance(outside, Side) else outside
    named = any("attention" in side.keys for side in (inside, *others))
    return [Pair.of(inside, other, across=across, named=named) for other in others]


def _reorder(values: Sequence[NDArray[Any]], orders: Sequence[NDArray[np.int64]]) -> NDArray[Any]:
    return np.concatenate([one[order] for one, order in zip(values, orders, strict=True)])


def _make_title(name: str) -> str:
    """Name a column of ``_correlate`` for a reader.

    >>> _make_title("pearson_true_low"), _make_title("kendall_p"), _make_title("reliability_in")
    ("Pearson's r without noise, lower end", "p of Kendall's tau", 'split-half reliability, first side')
    """
    for end, shown in _ENDS.items():
        if name.endswith(end):
            return shown.format(_make_title(name.removesuffix(end)))
    return _NAMES[name]


def _correlate(pair: Pair) -> dict[str, float]:
    from scipy.stats import kendalltau, pearsonr, spearmanr  # takes a second to import

    x, y = pair.values
    pearson: Any = pearsonr(x, y)
    interval = pearson.confidence_interval(CONFIDENCE) if len(x) > 3 else (float("nan"), float("nan"))
    spearman: Any = spearmanr(x, y)
    kendall: Any = kendalltau(x, y)
    true = _remove_noise(pair)
    return {
        "pearson": pearson.statistic,
        "pearson_low": interval[0],
        "pearson_high": interval[1],
        "pearson_p": pearson.pvalue,
        "pearson_true": true.pearson,
        "pearson_true_low": true.low,
        "pearson_true_high": true.high,
        "spearman": spearman.statistic,
        "spearman_p": spearman.pvalue,
        "kendall": kendall.statistic,
        "kendall_p": kendall.pvalue,
        "reliability_in": pair.inside.reliability,
        "reliability_out": pair.outside.reliability,
    }


def _find_disagreement(pair: Pair) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Subtract the standardised values, and order the heads by how far they are apart."""
    x, y = pair.values
    apart = (y - y.mean()) / y.std() - (x - x.mean()) / x.std()
    return apart, np.argsort(-np.abs(apart), kind="stable")


def _make_labels(pairs: Sequence[Pair], facts: Mapping[str, Any]) -> Labels:
    """Name the data of both sides, which are the same where several checkpoints read one dataset."""
    inside, outside = pairs[0].inside, pairs[0].outside
    same = pairs[0].across and inside.dataset == outside.dataset
    datasets = inside.dataset if same else f"{inside.dataset} and {outside.dataset}"
    sides = (side for pair in pairs for side in (pair.inside, pair.outside))
    remarks = dict.fromkeys((side.dataset, one) for side in sides for one in describe_documents(side.record))
    notes = [one if same else f"{dataset}: {one}" for dataset, one in remarks]
    return Labels(inside.model, datasets, facts, notes=notes)


def _direction(side: Side) -> int:
    """Tell whether a high value means that a head matters (1), that it does not (-1), or neither (0)."""
    if side.column in {"importance", "fisher", "ig_abs", "relevance_abs"}:
        return 1
    if side.column != "score" or "metric" not in side.kind:
        return 0
    return 1 if side.kind["metric"] == "loss" else -1  # the score without the head


def _merge_notes(pairs: Sequence[Pair], found: Sequence[Sequence[str]]) -> list[str]:
    """Merge the notes of all pairs: those that all share once, the others by name."""
    if len(pairs) == 1:
        return list(found[0])
    shared = [note for note in found[0] if all(note in notes for notes in found)]
    own = [
        f"{pair.outside.model or pair.outside.name}: {note}"
        for pair, notes in zip(pairs, found, strict=True)
        for note in notes
        if note not in shared
    ]
    return [*shared, *own]


def _note_differences(pair: Pair) -> list[str]:
    """Note how differently the sides were measured, and what was left out."""
    inside, outside, notes = pair.inside, pair.outside, list(pair.notes)
    if _direction(inside) * _direction(outside) < 0:
        notes.append(
            "A head that matters has a high value on one side and a low one on the other: a negative "
            "r is agreement."
        )
    for kind in KINDS:
        ours, theirs = inside.kind.get(kind), outside.kind.get(kind)
        if kind == "replaced_by" and None in (ours, theirs):  # of importance, or of an earlier version
            continue
        if ours != theirs:
            notes.append(f"The {kind} differs: {ours or 'none'} and {theirs or 'none'}.")
    return notes


def _remove_noise(pair: Pair) -> Disattenuated:
    """Remove the noise of the examples from the correlation, where both sides have sums over blocks."""
    inside, outside = pair.inside.sample, pair.outside.sample
    if pair.shared is None or inside is None or outside is None:
        return Disattenuated(float("nan"), float("nan"), float("nan"))
    return disattenuate(inside, outside, shared=pair.shared)


def _note_noise(pair: Pair, numbers: Mapping[str, float]) -> Iterator[str]:
    if pair.shared is None:
        yield ("Both sides read some of the same examples, and share their noise, which moves r.")
    elif pair.shared:
        without = (
            "pearson_true is without it" if np.isfinite(numbers["pearson_true"]) else "pearson_true is empty"
        )
        yield f"Both sides read the same examples, and share their noise, which moves r; {without}."
