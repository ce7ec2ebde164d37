"""Whether the same heads matter on other data, or in another checkpoint: correlation over heads."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from attnprobe.findings.noise import UNKNOWN, Disattenuated, disattenuate
from attnprobe.findings.sides import SETTINGS, PairedSides, TableSide
from attnprobe.sums.inference import CONFIDENCE
from attnprobe.table.builder import Labels, TableBuilder, describe_documents
from attnprobe.table.table import Column, HeadTable


def correlate_sides(pair: PairedSides, facts: Mapping[str, Any]) -> HeadTable:
    """Correlate two sides over heads, in one row.

    Pearson with an interval from Fisher's z, which treats the heads as a random sample; its estimate without
    the noise of the examples (``findings/noise.py``); Spearman and Kendall's tau-b, each with a two-sided p;
    and the split-half reliability of both sides.

    If the sides may be from different checkpoints, ``model_out`` names the other one.

    References:
        Michel, Levy and Neubig (2019), section 3.4.
    """
    build = _start_table(pair, facts, 1)
    build.key("in_domain", [pair.inside.dataset])
    build.key("out_domain", [pair.outside.dataset])
    build.count("heads", np.array([len(pair.heads)]))
    true, inside, outside = UNKNOWN, pair.inside.sample, pair.outside.sample
    if pair.shared is not None and inside is not None and outside is not None:
        true = disattenuate(inside, outside, shared=pair.shared)
    for name, title, number in _correlate(pair, true):
        unit = "probability" if name.endswith("_p") else "correlation"
        build.add(Column(name, unit, title=title), [float(number)])
    notes = [*_note_sides(pair), *_note_noise(pair, true)]
    return build.table(f"correlation of {pair.inside.column} over heads", notes)


def tabulate_disagreement(pair: PairedSides, facts: Mapping[str, Any], most: int | None = None) -> HeadTable:
    """Tabulate both sides head by head, the heads that disagree most first.

    ``place`` is the rank, from 1. ``disagreement`` is the difference of the standardised values, out of
    domain minus in domain: positive if the value, relative to other heads, is higher out of domain, or in the
    other checkpoint.

    ``most`` limits the number of heads, without their ranks, for a terminal.
    """
    from scipy.stats import rankdata  # takes a second to import

    x, y = pair.values
    disagreement = (y - y.mean()) / y.std() - (x - x.mean()) / x.std()
    order = np.argsort(-np.abs(disagreement), kind="stable")[:most]
    build = _start_table(pair, facts, len(order))
    build.key("place", range(1, len(order) + 1))
    for name, cells in zip(pair.keys, zip(*(pair.heads[row] for row in order), strict=True), strict=True):
        build.key(name, cells)
    where = ("first checkpoint", "other checkpoint") if pair.across else ("in domain", "out of domain")
    for side, suffix, place in zip((pair.inside, pair.outside), ("in", "out"), where, strict=True):
        title = f"{side.column.replace('_', ' ')}, {place}"
        build.add(Column(f"{side.column}_{suffix}", side.unit, title=title), side.values[order])
    if most is None:
        for suffix, values in (("in", x), ("out", y)):
            build.count(f"rank_{suffix}", rankdata(-values, method="min")[order])
    build.add(Column("disagreement", "sd", headline=True, title="disagreement"), disagreement[order])
    column, both = pair.inside.column, "in both checkpoints" if pair.across else "in domain and out"
    title = f"heads that disagree most: {column} {both}" if most else f"{column} of heads {both}"
    return build.table(title, [*_note_sides(pair)])


def _start_table(pair: PairedSides, facts: Mapping[str, Any], rows: int) -> TableBuilder:
    """Start a table about two sides: the names of their data, and notes on their documents."""
    inside, outside = sides = pair.inside, pair.outside
    same = pair.across and inside.dataset == outside.dataset
    dataset = inside.dataset if same else f"{inside.dataset} and {outside.dataset}"
    documents = dict.fromkeys(
        (side.dataset, note) for side in sides for note in describe_documents(side.record)
    )
    notes = [note if same else f"{name}: {note}" for name, note in documents]
    build = TableBuilder(Labels(inside.model, dataset, facts, notes=notes), rows)
    if pair.across:
        build.key("model_out", [outside.model] * rows)
    return build


def _correlate(pair: PairedSides, true: Disattenuated) -> list[tuple[str, str, float]]:
    """List the columns of a correlation, their titles and their numbers."""
    from scipy.stats import kendalltau, pearsonr, spearmanr  # takes a second to import

    x, y = pair.values
    pearson: Any = pearsonr(x, y)
    low, high = pearson.confidence_interval(CONFIDENCE) if len(x) > 3 else (np.nan, np.nan)
    spearman: Any = spearmanr(x, y)
    kendall: Any = kendalltau(x, y)
    return [
        ("pearson", "Pearson's r", pearson.statistic),
        ("pearson_low", "Pearson's r, lower end", low),
        ("pearson_high", "Pearson's r, upper end", high),
        ("pearson_p", "p of Pearson's r", pearson.pvalue),
        ("pearson_true", "Pearson's r without noise", true.pearson),
        ("pearson_true_low", "Pearson's r without noise, lower end", true.low),
        ("pearson_true_high", "Pearson's r without noise, upper end", true.high),
        ("spearman", "Spearman's rho", spearman.statistic),
        ("spearman_p", "p of Spearman's rho", spearman.pvalue),
        ("kendall", "Kendall's tau", kendall.statistic),
        ("kendall_p", "p of Kendall's tau", kendall.pvalue),
        ("reliability_in", "split-half reliability, first side", pair.inside.reliability),
        ("reliability_out", "split-half reliability, second side", pair.outside.reliability),
    ]


def _direction(side: TableSide) -> int:
    """Give 1 if a high value means that a head matters, -1 if it means the opposite, and 0 if neither."""
    if side.column in {"importance", "fisher", "ig_abs", "relevance_abs"}:
        return 1
    if side.column != "score" or "metric" not in side.labels:
        return 0
    return 1 if side.labels["metric"] == "loss" else -1  # the score without the head


def _note_sides(pair: PairedSides) -> Iterator[str]:
    """Note how differently the sides were measured, and what was left out."""
    inside, outside = pair.inside, pair.outside
    yield from pair.notes
    if _direction(inside) * _direction(outside) < 0:
        yield (
            "A head that matters has a high value on one side and a low one on the other: a negative r is "
            "agreement."
        )
    for setting in SETTINGS:
        ours, theirs = inside.labels.get(setting), outside.labels.get(setting)
        if setting == "replaced_by" and None in (ours, theirs):  # of importance
            continue
        if ours != theirs:
            yield f"The {setting} differs: {ours or 'none'} and {theirs or 'none'}."


def _note_noise(pair: PairedSides, true: Disattenuated) -> Iterator[str]:
    if pair.shared is None:
        yield "Both sides read some of the same examples, and share their noise, which moves r."
    elif pair.shared:
        without = "pearson_true is without it" if np.isfinite(true.pearson) else "pearson_true is empty"
        yield f"Both sides read the same examples, and share their noise, which moves r; {without}."
