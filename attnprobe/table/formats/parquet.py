"""Parquet: typed columns for pandas, polars, DuckDB and Spark, provenance in the schema."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.table.cells import Cell, format_cell
from attnprobe.table.formats import Format
from attnprobe.table.formats.json import dump, make_description
from attnprobe.table.sheet import Sheet

if TYPE_CHECKING:
    import pandas
    import pyarrow


def render(sheet: Sheet) -> bytes:
    """Write a table as a Parquet file; title, units, notes and provenance under ``attnprobe``."""
    import pyarrow
    from pyarrow import parquet

    arrays = [_make_array(cells) for cells in sheet.cells]
    # Arrow is used directly: through pandas, a column of integers with a gap would become floats.
    arrow = pyarrow.table(arrays, names=[column.name for column in sheet.columns])
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(arrow.replace_schema_metadata({"attnprobe": dump(make_description(sheet))}), sink)
    return sink.getvalue().to_pybytes()


def _make_array(values: Sequence[Cell]) -> "pyarrow.Array":
    """Make an Arrow array: of text as soon as one cell is text, of floats where there is no cell."""
    import pyarrow

    types = {type(value) for value in values if value is not None}
    if str in types:
        return pyarrow.array([None if value is None else format_cell(value) for value in values])
    return pyarrow.array(values, pyarrow.float64() if float in types or not types else None)


def read(path: Path, words: Collection[str]) -> "pandas.DataFrame":
    """Read the rows of a table."""
    import pandas

    return pandas.read_parquet(path)


def read_description(path: Path) -> dict[str, Any]:
    """Read what the file says of its table."""
    from pyarrow import parquet

    return json.loads((parquet.read_schema(path).metadata or {}).get(b"attnprobe", b"{}"))


FORMAT = Format(render, read, read_description, binary=True, package="pyarrow")
