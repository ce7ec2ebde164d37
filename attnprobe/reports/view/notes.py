"""Notes on heads beside one sentence: their roles and numbers from tables over a corpus."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attnprobe.errors import DataError, UsageError
from attnprobe.reports.columns import is_one_quantity, name_source, read_cells, title_axis
from attnprobe.table.cells import clean
from attnprobe.table.naming import MIXED, find_role_kind, join_names
from attnprobe.table.numbers import format_number, format_with_error, is_number
from attnprobe.table.sequence import Maps, SequenceAttention
from attnprobe.table.table import HeadTable

#: A table of heads, or its file.
TableOrFile = HeadTable | Path | str


def read_notes(tables: TableOrFile | Sequence[TableOrFile]) -> list[tuple[str, HeadTable]]:
    """Read tables, each with a name for errors; raises AttnprobeError when one can't be read."""
    listed = [tables] if isinstance(tables, HeadTable | Path | str) else list(tables)
    return [
        ("The table", table) if isinstance(table, HeadTable) else (clean(str(table)), HeadTable.read(table))
        for table in listed
    ]


def check_notes(tables: Sequence[tuple[str, HeadTable]], sequence: SequenceAttention) -> list[HeadTable]:
    """Check that tables are about the heads of a sequence's model, and return them.

    Raises AttnprobeError when one does not have one row per head, or has other heads than the model.
    """
    for name, table in tables:
        if not {"layer", "head"} <= table.data.keys():
            raise DataError(f"{name} has no columns layer and head; give a table of `attnprobe census`.")
        if "attention" not in table.data and len(sequence.maps) > 1:
            raise DataError(
                f"{name} does not say which attention a head is of, and {clean(sequence.model)} has several "
                "kinds; give a census of this model."
            )
        places = list(zip(*(read_cells(table, key) for key in ("attention", "layer", "head")), strict=True))
        if len(set(places)) < len(places):
            raise DataError(
                f"{name} has several rows for one head; give the census of one model over one set of data."
            )
        known = [(maps, set(rows)) for maps in sequence.maps if (rows := _find_rows(table, maps))]
        if not known:
            raise DataError(f"{name} is about no attention that {clean(sequence.model)} has here.")
        for maps, heads in known:
            every = {(maps.layers[place], head) for place, head in np.ndindex(maps.kept.shape)}
            kept = {(maps.layers[place], head) for place, head in np.argwhere(maps.kept).tolist()}
            if not kept <= heads <= every:
                raise DataError(
                    f"{name} has {len(heads)} heads of the {maps.kind.value}, and they are not the "
                    f"{len(maps.layers)} x {maps.rows.shape[1]} heads of {clean(sequence.model)}; give a "
                    "census of this model."
                )
    return [table for _, table in tables]


def _find_rows(table: HeadTable, maps: Maps) -> dict[tuple[Any, Any], int]:
    """Find the row of each head (layer, head) of a kind of attention."""
    kinds, layers, heads = (read_cells(table, key) for key in ("attention", "layer", "head"))
    return {
        (layer, head): row
        for row, (kind, layer, head) in enumerate(zip(kinds, layers, heads, strict=True))
        if kind in (None, "", maps.kind.value)
    }


def find_role(tables: Sequence[HeadTable], role: str, maps: Maps) -> tuple[int, int]:
    """Find the head that has a role with the highest ``value``: the place of its layer, and its number.

    ``role`` is a role as the table has it, such as "syntactic: det", or its kind, such as "syntactic".
    Raises AttnprobeError when no table names roles, or no head has it.
    """
    named = [table for table in tables if "role" in table.data]
    if not named:
        raise DataError("No table of --census names roles; give one that `attnprobe roles` wrote.")
    heads, known = [], dict[str, None]()
    for table in named:
        roles, values = read_cells(table, "role"), read_cells(table, "value")
        for (layer, head), row in _find_rows(table, maps).items():
            place, name = maps.layers.index(layer), str(roles[row] or MIXED)
            if name == MIXED or not maps.kept[place, head]:
                continue
            known[clean(name)] = None
            if role in (name, find_role_kind(name)):
                value = values[row]
                heads.append((value if is_number(value) else float("-inf"), -place, -head))
    if not heads:
        there = f"it has {join_names(list(known))}" if known else "no head has any"
        raise UsageError(f"No head of the {maps.kind.value} has the role {clean(role)!r}; {there}.")
    _, place, head = max(heads)
    return -place, -head


def list_notes(tables: Sequence[HeadTable], maps: Maps) -> list[dict[str, Any]]:
    """List the notes on heads of a kind of attention, for ``view.js``; tables of roles come first.

    ``heads`` has the lines of each head, by layer and head. A line is a place in ``names``, and a text.
    """
    notes = []
    for table in sorted(tables, key=lambda table: "role" not in table.data):
        if rows := _find_rows(table, maps):
            lines = read_roles(table) if "role" in table.data else _read_measures(table)
            names = list(dict.fromkeys(name for line in lines for name, _ in line))
            numbered = [[(names.index(name), text) for name, text in line] for line in lines]
            heads = [[[] for _ in range(maps.rows.shape[1])] for _ in maps.layers]
            for (layer, head), row in rows.items():
                heads[maps.layers.index(layer)][head] = numbered[row]
            about = name_source(table)
            title = clean(f"{table.title} ({about})" if about else table.title)
            notes.append({"title": title, "roles": "role" in table.data, "names": names, "heads": heads})
    return notes


def read_roles(table: HeadTable) -> list[list[tuple[str, str]]]:
    """Read the lines (name, text) of each row of a table of roles: role, evidence, further roles."""
    names = ("role", "measure", "value", "value_se", "threshold", "also")
    lines = []
    for role, measure, value, error, threshold, also in zip(
        *(read_cells(table, name) for name in names), strict=True
    ):
        line = [("role", clean(str(role or MIXED)))]
        if measure and is_number(value):
            above = f", threshold {format_number(threshold)}" if is_number(threshold) else ""
            line.append((clean(str(measure)).replace("_", " "), f"{format_with_error(value, error)}{above}"))
        lines.append([*line, ("also", clean(str(also)))] if also else line)
    return lines


def _read_measures(table: HeadTable) -> list[list[tuple[str, str]]]:
    """Read the lines (name, text) of each row of a table without roles: its measures that are defined."""
    lines = [list[tuple[str, str]]() for _ in range(len(table))]
    for column in table.columns:
        if is_one_quantity(table, column):
            values, errors = read_cells(table, column.name), read_cells(table, f"{column.name}_se")
            for line, value, error in zip(lines, values, errors, strict=True):
                if is_number(value):
                    line.append((title_axis(column), format_with_error(value, error)))
    return lines
