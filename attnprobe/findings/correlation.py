"""Whether the same heads matter on other data, or in another checkpoint: correlation over heads."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.findings.noise import Disattenuated, disattenuate
from attnprobe.findings.pair import KINDS, Pair, Side
from attnprobe.sums.inference import CONFIDENCE
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
    outside: Side,
    facts: Mapping[str, Any],
    *,
    across: bool = False,
) -> HeadTable:
    """Correlate two sides over heads, in one row.

    Pearson with an interval from Fisher's z, which takes the heads for a random sample; what it would be
    without the noise of the examples (``findings/noise.py``); Spearman and Kendall's tau-b, each with its
    two-sided p; and the split-half reliability of both sides.

    With ``across``, sides may be about different checkpoints, and ``model_out`` names the other one.

    References:
        Michel, Levy and Neubig (2019), section 3.4.
    """
    pair = Pair.of(inside, outside, across=across)
    build = TableBuilder(_make_labels(pair, facts), 1)
    if across:
        build.key("model_out", [pair.outside.model])
    build.key("in_domain", [pair.inside.dataset])
    build.key("out_domain", [pair.outside.dataset])
    build.count("heads", np.array([len(pair.inside.values)]))
    row = _correlate(pair)
    for name, value in row.items():
        unit = "probability" if name.endswith("_p") else "correlation"
        build.add(Column(name, unit, title=_make_title(name)), [float(value)])
    notes = [*_note_differences(pair), *_note_noise(pair, row)]
    return build.table(f"correlation of {inside.column} over heads", notes, "correlations")


def tabulate_disagreement(
    inside: Side,
    outside: Side,
    facts: Mapping[str, Any],
    most: int | None = None,
    *,
    across: bool = False,
) -> HeadTable:
    """Tabulate both sides head by head, the heads that disagree most first.

    ``place`` counts from 1. ``disagreement`` is the difference of the standardised values, out of domain
    minus in domain: positive where the value, relative to those of other heads, is higher out of domain, or
    in the other checkpoint.

    ``most`` limits the number of heads, without their ranks, to fit a terminal.
    """
    from scipy.stats import rankdata  # takes a second to import

    pair = Pair.of(inside, outside, across=across)
    differences, order = _find_disagreement(pair)
    order = order[:most]
    build = TableBuilder(_make_labels(pair, facts), len(order))
    if across:
        build.key("model_out", [pair.outside.model] * len(order))
    build.key("place", list(range(1, len(order) + 1)))
    heads = list(pair.inside.values)
    for name, cells in zip(pair.inside.keys, zip(*(heads[row] for row in order), strict=True), strict=True):
        build.key(name, cells)
    where = ("first checkpoint", "other checkpoint") if across else ("in domain", "out of domain")
    for side, suffix, place, values in zip(
        (inside, pair.outside), ("in", "out"), where, pair.values, strict=True
    ):
        title = f"{side.column.replace('_', ' ')}, {place}"
        build.add(Column(f"{side.column}_{suffix}", side.unit, title=title), values[order])
    if most is None:
        for suffix, values in zip(("in", "out"), pair.values, strict=True):
            build.count(f"rank_{suffix}", rankdata(-values, method="min")[order])
    build.add(Column("disagreement", "sd", headline=True, title="disagreement"), differences[order])
    both = "in both checkpoints" if across else "in domain and out"
    title = f"heads that disagree most: {inside.column}" if most else f"{inside.column} of heads"
    return build.table(f"{title} {both}", _note_differences(pair), "two sides")


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


def _make_labels(pair: Pair, facts: Mapping[str, Any]) -> Labels:
    """Name the data of both sides, which are the same where two checkpoints read one dataset."""
    inside, outside = pair.inside, pair.outside
    same = pair.across and inside.dataset == outside.dataset
    datasets = inside.dataset if same else f"{inside.dataset} and {outside.dataset}"
    sides = (inside, outside)
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
