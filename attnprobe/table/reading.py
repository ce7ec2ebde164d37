"""Reading tables, with the description that is in the file or beside it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from attnprobe.errors import DataError, first_line
from attnprobe.files import hash_file
from attnprobe.table.cells import Column, Role, to_plain_column
from attnprobe.table.destination import find_description
from attnprobe.table.formats import FORMATS, READABLE, either, extension

#: Columns that hold words, and all columns that name a row, in tables without a description.
_WORDS = {
    *("model", "dataset", "attention", "objective", "method", "metric", "criterion", "check", "status"),
    *("detail", "model_out", "in_domain", "out_domain", "replaced_by", "attention_a", "attention_b"),
    *("alignment", "weights"),
}
_KEYS = _WORDS | {
    *("layer", "head", "layer_a", "head_a", "layer_b", "head_b", "seed", "step", "pruning_step"),
    *("share_removed", "place", "group"),
}
#: Columns of counts and of indices.
_COUNTS = {
    *("n", "offset", "nearest_head", "odd_head", "heads", "heads_removed", "rank_in", "rank_out"),
    "rank_among_random",
}


def identify_table(path: Path) -> dict[str, str]:
    """Give the name and the SHA-256 of a table's file, for a record."""
    return {"name": path.name, "sha256": hash_file(path)}


def read_table(path: Path) -> Any:
    """Read the rows of a table as a data frame; raises DataError if that is not possible."""
    read = FORMATS[extension(path)].read if extension(path) in READABLE else None
    if read is None:
        raise DataError(f"{path} is no table; give a file that ends in {either(READABLE, '.')}.")
    if not path.is_file():
        raise DataError(f"There is no file {path}.")
    try:
        return read(path, _WORDS)
    except Exception as error:
        raise DataError(f"{path} can't be read as a table: {first_line(error)}.") from error


def read_parts(path: Path) -> tuple[Any, ...]:
    """Read the parts of a table: title, columns, cells, notes and provenance.

    For a csv without a description, the roles of columns are guessed from their names.
    """
    frame = read_table(path)
    about: Any = frame.attrs or _read_description(path)
    described, notes = (
        value if isinstance(value := about.get(name), list) else [] for name in ("columns", "notes")
    )
    known = {str(column.get("name")): column for column in described if isinstance(column, dict)}
    names = list(map(str, frame.columns))
    columns = [_describe_column(name, known.get(name, {}), names) for name in names]
    series = zip(columns, (frame[key] for key in frame.columns), strict=True)
    data = {column.name: to_plain_column(cells.tolist(), column) for column, cells in series}
    title, record = str(about.get("title") or path.stem), about.get("provenance")
    return title, columns, data, list(map(str, notes)), record if isinstance(record, dict) else {}


def _read_description(path: Path) -> Mapping[str, Any]:
    """Read the json beside a table, or refuse a damaged one; empty if none describes this table."""
    beside = find_description(path)
    try:
        about = json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(
            f"{beside}, which describes {path.name}, can't be read: {first_line(error)}. Delete it, or write "
            "the table again with -o."
        ) from error
    return about if isinstance(about, dict) and about.get("table") in {None, path.name} else {}


def _describe_column(name: str, about: Mapping[str, Any], names: Sequence[str]) -> Column:
    """Make a column from its description, or else guess its role from its name."""
    if about.get("role") in get_args(Role):
        headline, title = about.get("headline") is True, str(about.get("title", ""))
        return Column(name, str(about.get("unit", "")), about["role"], headline, title)
    if name.endswith("_se") and name.removesuffix("_se") in names:
        return Column(name, role="error")
    if name in _KEYS:
        return Column(name, role="key")
    counted = name in _COUNTS or (name.endswith("_n") and name.removesuffix("_n") in names)
    return Column(name, role="count" if counted else "measure")
