"""Parquet: typed columns for pandas, polars, DuckDB and Spark, provenance in the schema."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from attnprobe.table.cells import Cell, format_cell
from attnprobe.table.formats import Format, Sheet
from attnprobe.table.formats.json import dump, make_description


def render(sheet: Sheet) -> bytes:
    """Write a table as a Parquet file; title, units, notes and provenance where pandas keeps ``attrs``."""
    import pyarrow
    from pyarrow import parquet

    arrays = [_make_array(cells) for cells in sheet.cells]
    # Arrow is used directly: through pandas, a column of integers with a gap would become floats.
    arrow = pyarrow.table(arrays, names=[column.name for column in sheet.columns])
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(arrow.replace_schema_metadata({"PANDAS_ATTRS": dump(make_description(sheet))}), sink)
    return sink.getvalue().to_pybytes()


def _make_array(values: Sequence[Cell]) -> Any:
    """Make an Arrow array: of text as soon as one cell is text, of floats where there is no cell."""
    import pyarrow

    types = {type(value) for value in values if value is not None}
    if str in types:
        return pyarrow.array([None if value is None else format_cell(value) for value in values])
    return pyarrow.array(values, pyarrow.float64() if float in types or not types else None)


def read(path: Path, words: Collection[str]) -> Any:
    import pandas

    return pandas.read_parquet(path)


FORMAT = Format(render, read, binary=True, package="pyarrow")
