"""What tables say of the heads that a page of one sentence shows: their roles, and numbers over a corpus."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnprobe.errors import AttnprobeError
from attnprobe.reports.columns import is_one_quantity, name_measure, name_source, read_cells
from attnprobe.table.cells import clean
from attnprobe.table.naming import MIXED, find_role_kind, join_names
from attnprobe.table.numbers import format_number, format_with_error, is_number
from attnprobe.table.table import HeadTable

if TYPE_CHECKING:
    from attnprobe.table.sequence import Maps, SequenceAttention

#: What names a head in a table.
_PLACE = ("attention", "layer", "head")
#: A table of heads, or the file of one.
Given = HeadTable | Path | str


def read_notes(tables: Given | Sequence[Given]) -> list[tuple[str, HeadTable]]:
    """Read tables, each with what an error calls it; raises AttnprobeError when one can't be read."""
    listed = [tables] if isinstance(tables, HeadTable | Path | str) else list(tables)
    return [
        ("The table", one) if isinstance(one, HeadTable) else (clean(str(one)), HeadTable.read(one))
        for one in listed
    ]


def check_notes(tables: Sequence[tuple[str, HeadTable]], seen: "SequenceAttention") -> list[HeadTable]:
    """Give the tables, all about the heads of a sequence's model.

    Raises AttnprobeError when one does not have one row a head, or has other heads than the model.
    """
    for name, table in tables:
        _check_heads(table, name, seen)
    return [table for _, table in tables]


def _check_heads(table: HeadTable, name: str, seen: "SequenceAttention") -> None:
    if not {"layer", "head"} <= table.data.keys():
        raise AttnprobeError(f"{name} has no columns layer and head; give a table of `attnprobe census`.")
    if not len(table):
        raise AttnprobeError(f"{name} has no rows; give a table of `attnprobe census`.")
    if "attention" not in table.data and len(seen.maps) > 1:
        kinds = ", ".join(maps.kind.value for maps in seen.maps)
        raise AttnprobeError(
            f"{name} does not say which attention a head is of, and {clean(seen.model)} has {kinds}; give a "
            "census of this model."
        )
    places = list(zip(*(read_cells(table, key) for key in _PLACE), strict=True))
    if len(set(places)) < len(places):
        raise AttnprobeError(
            f"{name} has several rows for one head; give the census of one model over one set of data."
        )
    known = [maps for maps in seen.maps if _find_rows(table, maps)]
    if not known:
        raise AttnprobeError(f"{name} is about no attention that {clean(seen.model)} has here.")
    for maps in known:
        rows = set(_find_rows(table, maps))
        every = {(layer, head) for layer in maps.layers for head in range(maps.rows.shape[1])}
        removed = {(maps.layers[place], head) for place, head in np.argwhere(~maps.standing).tolist()}
        if not every - removed <= rows <= every:
            raise AttnprobeError(
                f"{name} has {len(rows)} heads of the {maps.kind.value}, and they are not the "
                f"{len(maps.layers)} x {maps.rows.shape[1]} heads of {clean(seen.model)}; give a census of "
                "this model."
            )


def _find_rows(table: HeadTable, maps: "Maps") -> dict[tuple[Any, Any], int]:
    """Find the row of each head (layer, head) of a kind of attention."""
    kinds, layers, heads = (read_cells(table, key) for key in _PLACE)
    return {
        (layer, head): row
        for row, (kind, layer, head) in enumerate(zip(kinds, layers, heads, strict=True))
        if kind in (None, "", maps.kind.value)
    }


def find_role(tables: Sequence[HeadTable], role: str, maps: "Maps") -> tuple[int, int]:
    """Find the head that has a role most clearly: the place of its layer, and its number.

    ``role`` is a role as the table has it, such as "syntactic: det", or its kind, such as "syntactic". Where
    several heads have it, it is the one of the highest ``value``. Raises AttnprobeError when no table names
    roles, or no head has it.
    """
    named = [table for table in tables if "role" in table.data]
    if not named:
        raise AttnprobeError("No table of --census names roles; give one that `attnprobe roles` wrote.")
    heads, known = [], dict[str, None]()
    for table in named:
        roles, values = read_cells(table, "role"), read_cells(table, "value")
        for (layer, head), row in _find_rows(table, maps).items():
            name = str(roles[row] or MIXED)
            if layer not in maps.layers or name == MIXED:
                continue
            place = maps.layers.index(layer)
            if not maps.standing[place, head]:
                continue
            known[clean(name)] = None
            if role in (name, find_role_kind(name)):
                value = values[row]
                heads.append((value if is_number(value) else float("-inf"), -place, -head))
    if not heads:
        there = f"it has {join_names(list(known))}" if known else "no head has any"
        raise AttnprobeError(f"No head of the {maps.kind.value} has the role {clean(role)!r}; {there}.")
    _, place, head = max(heads)
    return -place, -head


def list_notes(tables: Sequence[HeadTable], maps: "Maps") -> list[dict[str, Any]]:
    """List what tables say of the heads of a kind, for ``view.js``: each table that knows the kind.

    Those of roles come first. ``roles`` are lines of a name and a text, and ``texts`` numbers of a column,
    all by layer and head.
    """
    notes = []
    for table in sorted(tables, key=lambda table: "role" not in table.data):
        rows = _find_rows(table, maps)
        if not rows:
            continue
        roles = "role" in table.data
        notes.append(
            {
                "source": clean(table.title),
                "about": clean(name_source(table)),
                "roles": _by_head(maps, rows, _read_roles(table)) if roles else None,
                "columns": [] if roles else _read_columns(table, maps, rows),
            }
        )
    return notes


def _read_roles(table: HeadTable) -> list[list[tuple[str, str]]]:
    lines = list[list[tuple[str, str]]]()
    names = ("role", "also", "measure", "value", "value_se", "threshold")
    for role, also, measure, value, error, threshold in zip(
        *(read_cells(table, name) for name in names), strict=True
    ):
        line = [("role", clean(str(role or MIXED)))]
        if also:
            line.append(("also", clean(str(also))))
        if measure and is_number(value):
            above = f", threshold {format_number(threshold)}" if is_number(threshold) else ""
            name = clean(str(measure)).replace("_", " ")
            line.append((name, f"{format_with_error(value, error)}{above}"))
        lines.append(line)
    return lines


def _read_columns(table: HeadTable, maps: "Maps", rows: dict[tuple[Any, Any], int]) -> list[dict[str, Any]]:
    columns = []
    for column in table.columns:
        if not is_one_quantity(table, column):
            continue
        cells, errors = (read_cells(table, name) for name in (column.name, f"{column.name}_se"))
        texts = [
            format_with_error(one, error) if is_number(one) else ""
            for one, error in zip(cells, errors, strict=True)
        ]
        if any(texts):
            unit = clean(column.unit)
            texts = _by_head(maps, rows, texts)
            columns.append({"title": name_measure(column), "unit": unit, "texts": texts})
    return columns


def _by_head(maps: "Maps", rows: dict[tuple[Any, Any], int], cells: Sequence[Any]) -> list[list[Any]]:
    return [
        [cells[rows[layer, head]] if (layer, head) in rows else None for head in range(maps.rows.shape[1])]
        for layer in maps.layers
    ]
