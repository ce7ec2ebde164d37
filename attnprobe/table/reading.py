"""Reading a table that attnprobe wrote."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pandas

from attnprobe.errors import AttnprobeError, first_line


def _from_csv(path: Path) -> pandas.DataFrame:
    # An empty cell is an undefined number; a model may well be called "null".
    frame = pandas.read_csv(path, keep_default_na=False, na_values=[""], encoding="utf-8-sig")
    # Words that a spreadsheet would take for formulas were written with a quote before them.
    return frame.replace(to_replace=r"^'(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20\t\r])", value="", regex=True)


def _from_json(path: Path) -> pandas.DataFrame:
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or not isinstance(found.get("rows"), list):
        raise ValueError("it has no rows, as tables of attnprobe do")
    return pandas.DataFrame(found["rows"])


_READERS: dict[str, Callable[[Path], pandas.DataFrame]] = {
    ".csv": _from_csv,
    ".json": _from_json,
    ".parquet": pandas.read_parquet,
}


def describe_table(path: Path) -> dict[str, str]:
    """Name a table and its content, for the record."""
    with path.open("rb") as stream:
        return {"name": path.name, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}


def read_table(path: Path) -> pandas.DataFrame:
    """Read a csv, json or parquet table.

    Raises:
        AttnprobeError: When there is no such file, or it is no table.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise AttnprobeError(f"{path} is no table; give a file that ends in {', '.join(_READERS)}.")
    if not path.is_file():
        raise AttnprobeError(f"There is no file {path}.")
    try:
        return reader(path)
    except Exception as error:
        raise AttnprobeError(f"{path} can't be read as a table: {first_line(error)}.") from error
