"""The name that imports of the table have until all are moved."""

from attnprobe.table.reading import describe_table, read_table
from attnprobe.table.table import HeadTable, join_side_by_side

__all__ = ["HeadTable", "describe_table", "join_side_by_side", "read_table"]
