"""Reading a table that attnprobe wrote."""

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import pandas

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.table.cells import plain_column
from attnprobe.table.cleaning import GUARDED
from attnprobe.table.formats.xlsx import ESCAPED
from attnprobe.table.table import HALVES, Column, Role, Table

Read = TypeVar("Read", bound=Table)

#: Columns that name a row, in tables without a description.
_WORDS = {
    *("model", "dataset", "attention", "objective", "method", "metric", "criterion", "check", "status"),
    *("detail", "model_out", "in_domain", "out_domain"),
}
_KEYS = _WORDS | {
    *(
        "layer",
        "head",
        "layer_a",
        "head_a",
        "layer_b",
        "head_b",
        "seed",
        "step",
        "pruning_step",
        "share_removed",
        "place",
    ),
}
#: Columns that count or point.
_COUNTS = {
    *("n", "offset", "nearest_head", "odd_head", "heads", "heads_removed", "rank_in", "rank_out"),
    "rank_among_random",
}


def _from_csv(path: Path) -> pandas.DataFrame:
    with path.open(encoding="utf-8-sig") as stream:
        header = stream.readline()
    # Spreadsheets of many countries write semicolons, and commas in numbers.
    own = header.count(";") <= header.count(",")
    # An empty cell is an undefined number; a model may well be called "null".
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)  # a row with more cells than columns
        frame = pandas.read_csv(
            path,
            sep="," if own else ";",
            decimal="." if own or not _has_decimal_commas(path) else ",",
            index_col=False,
            keep_default_na=False,
            na_values=[""],
            encoding="utf-8-sig",
            skip_blank_lines=False,
            dtype=dict.fromkeys(_WORDS, "str"),  # or a model called 007 would be a number
        )
    # Words that a spreadsheet would take for formulas were written with a quote before them.
    return frame.replace(to_replace=GUARDED, value="", regex=True)


def _has_decimal_commas(path: Path) -> bool:
    """Tell whether a table with semicolons has numbers such as 0,5; a word may have a comma too."""
    return (
        re.search(r"(?:^|;)-?\d+,\d+(?:;|$)", path.read_text(encoding="utf-8-sig"), re.MULTILINE) is not None
    )


def _from_json(path: Path) -> pandas.DataFrame:
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or not isinstance(found.get("rows"), list):
        raise ValueError("it has no rows, as tables of attnprobe do")
    columns = found.get("columns")
    if not found["rows"] and isinstance(columns, list):
        return pandas.DataFrame(columns=[str(one["name"]) for one in columns])
    return pandas.DataFrame(found["rows"])


def _from_xlsx(path: Path) -> pandas.DataFrame:
    try:
        import openpyxl  # noqa: F401 - pandas needs it, and would say so in other words
    except ImportError as error:
        raise ValueError("xlsx needs openpyxl: pip install openpyxl") from error
    words: Any = dict.fromkeys(_WORDS, "str")
    frame = pandas.read_excel(path, keep_default_na=False, na_values=[""], dtype=words)
    return frame.replace(to_replace=ESCAPED, value="_", regex=True)


_READERS: dict[str, Callable[[Path], pandas.DataFrame]] = {
    ".csv": _from_csv,
    ".json": _from_json,
    ".parquet": pandas.read_parquet,
    ".xlsx": _from_xlsx,
}


def describe_table(path: Path) -> dict[str, str]:
    """Name a table and its content, for the record."""
    with path.open("rb") as stream:
        return {"name": path.name, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}


def read_table(path: Path) -> pandas.DataFrame:
    """Read a csv, json, parquet or xlsx table.

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
    except pandas.errors.ParserWarning as error:
        raise AttnprobeError(
            f"{path} can't be read as a table: a row has more cells than columns."
        ) from error
    except Exception as error:
        raise AttnprobeError(f"{path} can't be read as a table: {first_line(error)}.") from error


def read_as(kind: type[Read], path: Path) -> Read:
    """Read a table with all that lies in the file, or beside it: units, roles, notes, provenance.

    A csv that lies alone is read as well; what its columns are is then told from their names.

    Raises:
        AttnprobeError: When there is no such file, it is no table, or what lies beside it is not its own.
    """
    frame, about = read_table(path), _description(path)
    said = {
        name: value if isinstance(value := about.get(name), list) else [] for name in ("columns", "notes")
    }
    known = {str(column.get("name")): column for column in said["columns"] if isinstance(column, dict)}
    names = [str(name) for name in frame.columns]
    columns = [_column(name, known.get(name), names) for name in names]
    data = {
        name: plain_column(frame[key].tolist(), column)
        for name, key, column in zip(names, frame.columns, columns, strict=True)
    }
    notes = [str(note) for note in said["notes"]]
    provenance = about.get("provenance")
    title = str(about.get("title") or path.stem)
    return kind(title, columns, data, notes, provenance if isinstance(provenance, dict) else {})


def _description(path: Path) -> dict[str, Any]:
    """Find what is said about a table: in the file itself, or in the json beside it."""
    within = path.suffix.lower() in {".parquet", ".json"}
    source = path if within else path.with_suffix(".json")
    try:
        if path.suffix.lower() == ".parquet":
            import pyarrow.parquet

            kept = pyarrow.parquet.read_schema(path).metadata or {}
            found = json.loads(kept.get(b"attnprobe", b"{}"))
        elif path.suffix.lower() == ".json":
            found = json.loads(path.read_text(encoding="utf-8"))
        else:
            found = json.loads(source.read_text(encoding="utf-8")) if source.is_file() else {}
            if isinstance(found, dict) and found.get("table") not in {None, path.name}:
                found = {}
    except (OSError, ValueError, RecursionError) as error:
        if within:
            raise AttnprobeError(f"{path} can't be read as a table: {first_line(error)}.") from error
        raise AttnprobeError(
            f"{source}, which describes {path.name}, can't be read: {first_line(error)}. Delete it, or write "
            "the table again with -o."
        ) from error
    return found if isinstance(found, dict) else {}


def _column(name: str, said: Mapping[str, Any] | None, names: Sequence[str]) -> Column:
    if said is not None and said.get("role") in get_args(Role):
        headline, title = said.get("headline") is True, str(said.get("title", ""))
        return Column(name, str(said.get("unit", "")), said["role"], headline, title)
    return Column(name, role=_role(name, names))


def _role(name: str, names: Sequence[str]) -> Role:
    """Tell what a column is from its name, where nobody says."""
    for ending, role in {"_se": "error", **dict.fromkeys((f"_{half}" for half in HALVES), "half")}.items():
        if name.endswith(ending) and name.removesuffix(ending) in names:
            return role  # type: ignore[return-value]
    if name in _KEYS:
        return "key"
    counted = name in _COUNTS or (name.endswith("_n") and name.removesuffix("_n") in names)
    return "count" if counted else "measure"
