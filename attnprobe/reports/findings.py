"""What a table shows, in one sentence a measure; and the tests of whether groups of documents differ."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from attnprobe.reports.columns import (
    DrawingRequest,
    label_by_others,
    list_keys,
    name_measure,
    read_cells,
    read_floats,
    read_numbers,
    title_axis,
)
from attnprobe.reports.pairs import name_pairs
from attnprobe.reports.scales import find_p_column, find_significant, is_effect
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.cells import Cell, clean, format_cell
from attnprobe.table.kinds import ALL_GROUPS, GROUP, PAIR
from attnprobe.table.numbers import format_with_error, name_head
from attnprobe.table.table import Column, HeadTable


def state_effects(table: HeadTable) -> list[str]:
    """State the significant effects of the first measure with p values, in a list of one sentence or none.

    A curve of pruning has no such sentence: its last step is always the strongest.
    """
    for column in [] if table.kind.startswith("pruning") else table.columns:
        if column.role == "measure" and find_p_column(table, column.name) is not None:
            return [f"{name_measure(column)}: {state_finding(table, column)} (adjusted p < {SIGNIFICANT})"]
    return []


def state_finding(table: HeadTable, column: Column) -> str:
    """State a measure's highest number, or how many effects are significant and the strongest; or nothing."""
    values = read_numbers(table, column.name)
    sizes = {row: abs(value) for row, value in enumerate(values) if value is not None}
    if not sizes or column.is_probability:
        return ""
    if not is_effect(column.name, values) and find_p_column(table, column.name) is None:
        return f"highest {_describe_row(table, column, max(sizes, key=lambda row: values[row] or 0.0))}"
    marks = find_significant(table, column)
    if not marks.rule:
        return ""
    significant = [row for row in sizes if marks.signs[row]]
    counted = f"{len(significant)} of {len(sizes)} significant"
    if not significant:
        return counted
    return f"{counted}; strongest {_describe_row(table, column, max(significant, key=sizes.__getitem__))}"


def _describe_row(table: HeadTable, column: Column, row: int) -> str:
    value, error = (read_numbers(table, name)[row] for name in (column.name, f"{column.name}_se"))
    return f"{name_rows(table, {'model'})[row]}, {format_with_error(value, error)}"


def name_rows(table: HeadTable, known: Collection[str] = ()) -> list[str]:
    """Name each row by its head, pair of heads or layer, and by the keys that differ but for ``known``."""
    labels = label_by_others(table, {"layer", "head", *PAIR, "attention_a", "attention_b", *known})
    if set(PAIR) <= table.data.keys():
        places = name_pairs(table)
    else:
        places = list(map(_name_head_or_layer, read_cells(table, "layer"), read_cells(table, "head")))
    return [clean(f"{label} {place}".strip()) for label, place in zip(labels, places, strict=True)]


def _name_head_or_layer(layer: Cell, head: Cell) -> str:
    if layer is None:
        return ""
    return f"layer {format_cell(layer)}" if head is None else name_head(layer, head)


@dataclass(frozen=True)
class GroupTest:
    """The test of whether a head, or whatever else has a row for each group, is alike in all groups."""

    label: str
    rows: Sequence[int | None]  # the rows of the table: of all groups together, then of each
    p: float  # adjusted; NaN without a test
    q: float  # the statistic of the test


def list_groups(table: HeadTable) -> list[str]:
    """List the groups of a table, in their order."""
    names = dict.fromkeys(str(cell) for cell in read_cells(table, GROUP))
    return [name for name in names if name != ALL_GROUPS]


def list_tested_measures(table: HeadTable) -> list[Column]:
    """List the measures with a test of groups: the headlines among them, or all where there are none."""
    tested = [column for column in table.columns if f"{column.name}_q_p" in table.data]
    return [column for column in tested if column.headline] or tested


def list_group_tests(table: HeadTable, measure: str) -> list[GroupTest]:
    """List the tests of a measure by rising p, then by falling statistic; last what has no test."""
    keys = [read_cells(table, name) for name in list_keys(table) if name != GROUP]
    places: dict[tuple[Cell, ...], dict[Cell, int]] = {}
    for row, (group, *key) in enumerate(zip(read_cells(table, GROUP), *keys, strict=True)):
        places.setdefault(tuple(key), {})[group] = row
    names, groups = name_rows(table, {GROUP}), list_groups(table)
    p, q = (read_floats(table, f"{measure}{end}") for end in ("_q_p_adjusted", "_q"))
    tests = [
        GroupTest(names[whole], [whole, *map(rows.get, groups)], float(p[whole]), float(q[whole]))
        for rows in places.values()
        if (whole := rows.get(ALL_GROUPS)) is not None
    ]
    return sorted(tests, key=lambda test: (np.isnan(test.p), test.p, -np.nan_to_num(test.q)))


def tabulate_group_differences(table: HeadTable, request: DrawingRequest) -> list[HeadTable]:
    """Tabulate the heads in which groups differ most, a row per head and group, for two measures at most."""
    tested = list_tested_measures(table)
    named = [column for column in request.columns(table) if column in tested] if request.measures else []
    return [_take_measure(table, column) for column in (named or tested)[:2]]


def _take_measure(table: HeadTable, column: Column) -> HeadTable:
    """Tabulate a measure by head and group, for the 12 heads in which groups differ most."""
    groups, roles = list_groups(table), {"n": "count", "value": "measure", "value_se": "error"}
    counts = set(zip(read_cells(table, GROUP), read_cells(table, "n"), strict=True))
    names = []
    for group in groups:
        numbers = [number for name, number in counts if str(name) == group and isinstance(number, int)]
        names.append(clean(group)[:24] + (f" ({numbers[0]:,})" if len(numbers) == 1 else ""))
    tests = list_group_tests(table, column.name)[:12]
    labels = [f"{test.label}{' *' if test.p < SIGNIFICANT else ''}" for test in tests]
    rows = [row for test in tests for row in test.rows[1:]]
    data: dict[str, list[Cell]] = {
        "row": [label for label in labels for _ in groups],
        "group": names * len(tests),
        "title": [title_axis(column)] * len(rows),
    }
    for name, of in zip(roles, ("n", column.name, f"{column.name}_se"), strict=True):
        cells = read_cells(table, of)
        data[name] = [None if row is None else cells[row] for row in rows]
    columns = [Column(name, role=roles.get(name, "text")) for name in data]  # type: ignore[arg-type]
    return HeadTable(table.title, columns, data, provenance=table.provenance)
