"""JSON: the whole table with its units, notes and provenance in one strict object."""

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnprobe.table.cells import clean, to_plain
from attnprobe.table.formats import Format, Sheet

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def render(sheet: Sheet) -> str:
    """Write ``{title, columns, notes, provenance, rows}``, one line per row so that it can be diffed."""
    names = [column.name for column in sheet.columns]
    rows = [{name: to_json(value) for name, value in zip(names, row, strict=True)} for row in sheet.rows()]
    about = dump(make_description(sheet), indent=2).removesuffix("\n}")
    lines = ",\n".join(f"    {dump(row)}" for row in rows)
    return f'{about},\n  "rows": [\n{lines}\n  ]\n}}\n'


def make_description(sheet: Sheet) -> dict[str, Json]:
    """Describe a table by all but its rows, for a file beside it or for its own format."""
    columns = to_json([asdict(column) for column in sheet.columns])
    provenance = to_json(sheet.provenance)
    return {"title": sheet.title, "columns": columns, "notes": [*sheet.notes], "provenance": provenance}


def write_description(sheet: Sheet, name: str) -> str:
    """Write the description of a table that lies in the file ``name``."""
    return dump({"table": clean(name), "rows": len(sheet), **make_description(sheet)}, indent=2) + "\n"


def dump(value: Json, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)


def read(path: Path, words: Collection[str]) -> Any:
    """Read our json as a data frame, with all but its rows in ``attrs``; ``words`` is not needed."""
    import pandas

    about: Any = json.loads(path.read_text(encoding="utf-8"))
    rows = about.pop("rows", None) if isinstance(about, dict) else None
    if not isinstance(rows, list):
        raise ValueError("it has no rows, as tables of attnprobe do")
    names = None if rows else [str(column["name"]) for column in about["columns"]]
    frame = pandas.DataFrame(rows, columns=names)
    frame.attrs.update(about)
    return frame


def to_json(value: object) -> Json:
    """Turn anything into what strict JSON can hold; NaN and infinities become null, objects text."""
    if isinstance(value, Mapping):
        return {clean(str(key)): to_json(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # an array, or a number of numpy
        return to_json(value.tolist())  # type: ignore[attr-defined]
    if isinstance(value, set | frozenset):  # without an order of its own: two runs must give one file
        return [to_json(item) for item in sorted(value, key=str)]
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    cell = to_plain(value)
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


FORMAT = Format(render, read, stands_alone=True, holds_notes=True)
