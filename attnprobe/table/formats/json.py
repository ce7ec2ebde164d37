"""JSON: the whole table with its units, notes and provenance in one strict object."""

import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.table.cells import plain, plain_column, round_cell
from attnprobe.table.cleaning import clean
from attnprobe.table.formats import Format
from attnprobe.table.table import Table

if TYPE_CHECKING:
    import pandas


Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def render(table: Table, precision: int | None = None) -> str:
    """Write ``{title, columns, rows, notes, provenance}``, one line a row so that it can be diffed."""
    names = [clean(column.name) for column in table.columns]
    cells = [plain_column(table.data[column.name], column) for column in table.columns]
    rows: list[Json] = [
        {name: jsonable(round_cell(value, precision)) for name, value in zip(names, row, strict=True)}
        for row in zip(*cells, strict=True)
    ]
    parts = [
        f'  "title": {_dumps(clean(table.title))}',
        f'  "columns": {_lines(_columns(table))}',
        f'  "rows": {_lines(rows)}',
        f'  "notes": {_lines(_notes(table))}',
        f'  "provenance": {_indented(jsonable(table.provenance))}',
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def describe(table: Table) -> dict[str, Json]:
    """Give everything but the rows: what lies beside a table whose own format has no room for it."""
    return {
        "title": clean(table.title),
        "columns": _columns(table),
        "notes": _notes(table),
        "provenance": jsonable(table.provenance),
    }


def description(table: Table, name: str) -> str:
    """Write the description of a table that lies in the file ``name``."""
    about: dict[str, Json] = {"table": clean(name), "rows": len(table), **describe(table)}
    return json.dumps(about, ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def read(path: Path, words: Collection[str]) -> "pandas.DataFrame":
    """Read the rows of a table."""
    import pandas

    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or not isinstance(found.get("rows"), list):
        raise ValueError("it has no rows, as tables of attnprobe do")
    columns = found.get("columns")
    if not found["rows"] and isinstance(columns, list):
        return pandas.DataFrame(columns=[str(one["name"]) for one in columns])
    return pandas.DataFrame(found["rows"])


def read_description(path: Path) -> dict[str, Any]:
    """Read what a json says of a table."""
    return json.loads(path.read_text(encoding="utf-8"))


def jsonable(value: object) -> Json:
    """Turn anything into what strict JSON can hold; NaN and infinities become null, objects text."""
    if isinstance(value, Mapping):
        return {clean(str(key)): jsonable(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # an array, or a number of numpy
        return jsonable(value.tolist())  # type: ignore[attr-defined]
    if isinstance(value, set | frozenset):  # without an order of its own: two runs must give one file
        return [jsonable(item) for item in sorted(value, key=str)]
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    cell = plain(value)
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _columns(table: Table) -> list[Json]:
    return [
        {
            **{"name": clean(column.name), "unit": clean(column.unit), "role": column.role},
            **({"title": clean(column.title)} if column.title else {}),
            **({"headline": True} if column.headline else {}),
        }
        for column in table.columns
    ]


def _notes(table: Table) -> list[Json]:
    return [clean(note) for note in table.notes]


def _dumps(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _lines(items: list[Json]) -> str:
    lines = [f"    {_dumps(item)}" for item in items]
    return "[\n" + ",\n".join(lines) + "\n  ]" if lines else "[]"


def _indented(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2).replace("\n", "\n  ")


FORMAT = Format(render, read, read_description, stands_alone=True, holds_notes=True)
