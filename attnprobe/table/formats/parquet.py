"""Parquet: typed columns for pandas, polars, DuckDB and Spark, provenance in the schema."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from attnprobe.table.cells import format_cell
from attnprobe.table.formats import Format, Sheet
from attnprobe.table.formats.json import dump, make_description


def render(sheet: Sheet) -> bytes:
    """Write a table as a Parquet file; title, units, notes and provenance where pandas keeps ``attrs``."""
    import pyarrow
    from pyarrow import parquet

    # Arrow is used directly: through pandas, a column of integers with a gap would become floats.
    arrays = []
    for cells in sheet.cells:
        types = {type(cell) for cell in cells if cell is not None}
        if str in types:
            arrays.append(pyarrow.array([None if cell is None else format_cell(cell) for cell in cells]))
        else:
            arrays.append(pyarrow.array(cells, pyarrow.float64() if float in types or not types else None))
    arrow = pyarrow.table(arrays, names=[column.name for column in sheet.columns])
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(arrow.replace_schema_metadata({"PANDAS_ATTRS": dump(make_description(sheet))}), sink)
    return sink.getvalue().to_pybytes()


def read(path: Path, words: Collection[str]) -> Any:
    import pandas

    return pandas.read_parquet(path)


FORMAT = Format(render, read, binary=True, package="pyarrow")
