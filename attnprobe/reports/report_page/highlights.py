"""The highlights that a report opens with: a few findings, each significant, with its number and a drawing.

A highlight says no more than its table bears out: where a table has no error, or errors leave something else
possible, there is none, and the page has fewer.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from attnprobe.reports.columns import read_cells
from attnprobe.reports.pairs import SQUARED
from attnprobe.reports.report_page.charts import Chart, Thumbnail, shrink_chart, shrink_grid
from attnprobe.reports.report_page.measures import (
    Heads,
    Measure,
    format_measured,
    format_number,
    is_number,
    read_heads,
)
from attnprobe.reports.report_page.text import MEANINGS, describe_evidence
from attnprobe.reports.scales import find_p_name, is_effect
from attnprobe.reports.shapes import RANDOM
from attnprobe.sums.resampling import SIGNIFICANT, half_width
from attnprobe.table.cells import clean
from attnprobe.table.documents import count_documents
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import LETTERS, MIXED, find_role_kind

#: So many highlights fill a screen.
MOST = 5


class Highlight(NamedTuple):
    """A finding."""

    link: str  # the id of the section, or of the figure, that shows it
    sentence: str
    value: str  # its number with the error
    what: str  # what the number is
    drawing: Thumbnail
    head: int | None = None  # the number of the head that it is about, if it is about one


class Charts(NamedTuple):
    """What a page draws, which highlights lead to and show small.

    ``styles`` has the class of each head in the map of a measure, by the number of the measure; ``roles``
    those of roles.
    """

    styles: Mapping[int, Sequence[str]]
    roles: Sequence[str]
    distance: Sequence[Chart]
    curve: Chart | None
    scatter: Chart | None


def choose_highlights(
    heads: Heads,
    measures: Sequence[Measure],
    sections: Mapping[str, Mapping[str, HeadTable]],
    task: str,
    charts: Charts,
) -> list[Highlight]:
    """Choose at most five: first one of each kind, about heads that no other is about.

    Args:
        heads: The heads of the report.
        measures: What was measured of each.
        sections: The tables of each section by name; the first one of a section counts.
        task: What ``importance`` is for, in words.
        charts: What the page draws.
    """
    first = {name: next(iter(tables.values())) for name, tables in sections.items() if tables}
    numbered = list(enumerate(measures))
    of_task = [(n, one) for n, one in numbered if one.table in sections.get("importance", {})]
    kinds: list[Iterator[Highlight]] = [
        _find_importance(heads, of_task, task, charts),
        _find_roles(heads, measures, first.get("roles"), charts),
        _find_removal(first.get("prune"), charts),
        _find_correlation(first.get("correlate"), charts),
        _find_twins(heads, first.get("distance"), charts),
    ]
    found: list[Highlight] = []
    while kinds and len(found) < MOST:
        for kind in list(kinds):
            known = {one.head for one in found if one.head is not None}
            one = next((one for one in kind if one.head not in known), None)
            if one is None:
                kinds.remove(kind)
            elif len(found) < MOST:
                found.append(one)
    return found


def _begin(name: str) -> str:
    return name[:1].upper() + name[1:]


def _find_roles(
    heads: Heads, measures: Sequence[Measure], table: HeadTable | None, charts: Charts
) -> Iterator[Highlight]:
    """Find the clearest head of each role, roles that few heads have first.

    Its value has to lie beyond the threshold by its whole interval, of intervals that hold for all heads
    together.
    """
    if table is None:
        return
    names = ("role", "measure", "value", "value_se", "threshold")
    cells = {name: heads.sort_cells(table, name) for name in names}
    errors = np.array([cell if is_number(cell) else np.nan for cell in cells["value_se"]], float)
    half = half_width(errors, heads.sort_documents(table, "value"))
    best = dict[str, tuple[float, int]]()
    counts = dict.fromkeys(LETTERS, 0)
    rows = zip(*(cells[name] for name in ("role", "value", "threshold")), strict=True)
    for place, (role, value, threshold) in enumerate(rows):
        kind = find_role_kind(str(role))
        counts[kind] += 1
        if kind == MIXED or not (is_number(value) and is_number(threshold)):
            continue
        if value - half[place] > threshold:  # false without an error
            best[kind] = max(best.get(kind, (-np.inf, 0)), (value - threshold, -place))
    order = list(LETTERS)
    for kind in sorted(best, key=lambda kind: (counts[kind], order.index(kind))):
        place = -best[kind][1]
        role, measure, value, error, threshold = (cells[name][place] for name in names)
        more = clean(str(role)).removeprefix(kind).strip(": ")
        evidence = clean(describe_evidence(str(measure), measures))
        yield Highlight(
            "roles",
            f"{_begin(heads.name(place))} {MEANINGS[kind]}{f' ({more})' if more else ''}.",
            format_measured(value, error),
            f"{evidence}, threshold {format_number(threshold)}; {_count_others(counts[kind] - 1)}",
            shrink_grid(heads, charts.roles, place),
            place,
        )


def _count_others(number: int) -> str:
    if not number:
        return "no other head has this role"
    return f"{number} other {'head has' if number == 1 else 'heads have'} this role"


def _find_importance(
    heads: Heads, measures: Sequence[tuple[int, Measure]], task: str, charts: Charts
) -> Iterator[Highlight]:
    """Find the head that matters most for the task.

    Of a measure that only has a size, its interval has to lie above those of half of the other heads, or of
    all of them; an effect has to differ from 0.
    """
    found = next(((n, one) for n, one in measures if one.column.headline), None)
    if found is None:
        return
    number, measure = found
    values, errors = (np.array(side, float) for side in (measure.values, measure.errors))
    there = np.flatnonzero(np.isfinite(values) & np.isfinite(errors))
    if not len(there):
        return
    half, size = half_width(errors, measure.documents), np.abs(values)
    head = int(there[size[there].argmax()])
    if is_effect(measure.column.name, measure.values):
        beside = {one.column.name: one.values for _, one in measures if one.table == measure.table}
        name = find_p_name(
            measure.column.name, beside, lambda name: any(one is not None for one in beside[name])
        )
        p = None if name is None else beside[name][head]
        if size[head] <= half[head] if name is None else p is None or p >= SIGNIFICANT:
            return
        sentence, what = f"{_begin(heads.name(head))} matters for {task}.", measure.title
    else:
        others = np.delete(there, there == head)
        below = int((values[others] + half[others] < values[head] - half[head]).sum())
        if not below or 2 * below < len(others):
            return
        more = "any other head" if below == len(others) else "most heads"
        sentence = f"{_begin(heads.name(head))} matters more for {task} than {more}."
        median = format_number(float(np.median(values[there])))
        what = f"{measure.title}; the median of all heads is {median}"
    yield Highlight(
        f"map-{number}",
        sentence,
        format_measured(measure.values[head], measure.errors[head]),
        what,
        shrink_grid(heads, charts.styles[number], head),
        head,
    )


def _find_removal(table: HeadTable | None, charts: Charts) -> Iterator[Highlight]:
    """Find the first step of the first order at which the score differs significantly from the whole model's.

    Where that is not tested, it is the step at which it differs most from random orders, if it does.
    """
    wanted = ("criterion", "heads_removed", "share_removed", "metric")
    if table is None or charts.curve is None or not set(wanted) <= table.data.keys():
        return
    criteria, gone, shares, metrics = (read_cells(table, name) for name in wanted)
    order = next((one for one in criteria if one != RANDOM), None)
    steps = [
        (number, row, round(number / share))
        for row, (criterion, number, share) in enumerate(zip(criteria, gone, shares, strict=True))
        if criterion == order and is_number(number) and number and is_number(share) and share
    ]
    steps.sort(key=lambda step: step[0])
    for end, beside in (("", "that of the whole model"), ("_random", "that of random orders")):
        names = (f"delta{end}", f"delta{end}_se", f"p{end}_adjusted")
        if not set(names) <= table.data.keys():
            continue
        columns, found = [read_cells(table, name) for name in names], list[tuple[float, float, str]]()
        for number, row, heads in steps:
            delta, error, p = (cells[row] for cells in columns)
            if is_number(delta) and is_number(error) and is_number(p) and p < SIGNIFICANT:
                found.append((delta, error, f"{number} of {heads}"))
        if not found:
            continue
        delta, error, removed = max(found, key=lambda one: abs(one[0])) if end else found[0]
        metric = clean(str(metrics[0])).replace("_", " ")
        side = "lower" if delta < 0 else "higher"
        what = f"{metric} less {beside}" if end else f"change of {metric}"
        earlier = "" if end or "tried" in table.data else "no earlier step differs significantly; "
        yield Highlight(
            "prune",
            f"With {removed} heads removed, {metric} is {side} than {beside}.",
            format_measured(delta, error),
            f"{what}; {earlier}the least important first, by {clean(str(order))}",
            shrink_chart(charts.curve),
        )
        return


def _find_correlation(table: HeadTable | None, charts: Charts) -> Iterator[Highlight]:
    """Find whether heads matter alike on other data: an interval of Pearson's r without 0."""
    names = ("pearson", "pearson_low", "pearson_high", "out_domain", "heads")
    if table is None or charts.scatter is None or not set(names) <= table.data.keys():
        return
    r, low, high, other, number = (read_cells(table, name)[0] for name in names)
    if not (is_number(r) and is_number(low) and is_number(high)) or low <= 0 <= high:
        return
    way = "more" if low > 0 else "less"
    yield Highlight(
        "correlate",
        f"Heads that matter more here tend to matter {way} on {clean(str(other))}.",
        f"{format_number(r, 2)} ({format_number(low, 2)} to {format_number(high, 2)})".replace("-", "\u2212"),
        f"Pearson\u2019s r over {number} heads, with its 95 % interval",
        shrink_chart(charts.scatter),
    )


def _find_twins(heads: Heads, table: HeadTable | None, charts: Charts) -> Iterator[Highlight]:
    """Find the two heads that attend more alike than any others, whatever the errors."""
    if table is None or not charts.distance or not {SQUARED, f"{SQUARED}_se"} <= table.data.keys():
        return
    values, errors = (
        np.array([cell if is_number(cell) else np.nan for cell in read_cells(table, name)], float)
        for name in (SQUARED, f"{SQUARED}_se")
    )
    known = np.flatnonzero(np.isfinite(values) & np.isfinite(errors))
    if len(known) < 2:
        return
    half = half_width(errors[known], count_documents(table, SQUARED)[known])
    order = np.argsort(values[known], kind="stable")
    nearest, others = order[0], order[1:]
    row = int(known[nearest])
    sides = [heads.find(read_heads(table, side)[row]) for side in ("_a", "_b")]
    one, other = sides
    if one is None or other is None:
        return
    if (values[known][nearest] + half[nearest] >= values[known][others] - half[others]).any():
        return
    chart = next((c for c in charts.distance if one in {p.head for p in c.points}), charts.distance[0])
    unit = clean(table.column(SQUARED).unit)
    yield Highlight(
        "distance",
        f"{_begin(heads.name(one))} and {heads.name(other)} attend more alike than any other two heads.",
        format_measured(values[row], errors[row]),
        f"divergence of the two{f', {unit}' if unit else ''}; the median of all pairs is "
        f"{format_number(float(np.median(values[known])))}",
        shrink_chart(chart, {one, other}),
        one,
    )
