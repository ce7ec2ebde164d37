"""CSV: one header, one row a head, numbers that read back exactly."""

import csv
import io

from attnprobe.table.cells import plain_column, written
from attnprobe.table.cleaning import clean, guard
from attnprobe.table.table import Cell, Table


def render(table: Table, precision: int | None = None) -> str:
    """Write the table as RFC 4180 comma-separated values."""
    out = io.StringIO()
    # RFC 4180 ends its lines with CRLF, but every reader takes a bare newline, and Unix pipes
    # (cut, awk, diff) would carry the carriage return along inside the last column.
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([guard(clean(column.name)) for column in table.columns])
    cells = [plain_column(table.data[column.name], column) for column in table.columns]
    writer.writerows([_field(value, precision) for value in row] for row in zip(*cells, strict=True))
    return out.getvalue()


def _field(value: Cell, precision: int | None) -> str:
    if isinstance(value, str):
        return guard(value)
    return written(value, precision)
