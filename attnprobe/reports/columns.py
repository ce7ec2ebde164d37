"""Reading the columns of a table for a picture, and naming its rows and measures.

Vega builds expressions of the names of fields, and names of columns come from files. So each picture gives
its fields fixed names, and the names of columns are only ever text.
"""

import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnprobe.errors import DataError, UsageError
from attnprobe.reports.theme import Theme
from attnprobe.table.cells import clean, format_cell, to_plain_column
from attnprobe.table.kinds import OUT
from attnprobe.table.naming import join_names, name_nearest
from attnprobe.table.table import Cell, Column, HeadTable

Record = dict[str, Any]
#: Columns of names of files and models, which are written as they are.
_NAMES = {"model", "dataset", "model_b", "table"}


def read_cells(table: HeadTable, name: str) -> list[Cell]:
    """Read a column as plain cells; of one that is not there, all are None."""
    if name not in table.data:
        return [None] * len(table)
    return to_plain_column(table.data[name], table.column(name))


def read_numbers(table: HeadTable, name: str) -> list[float | int | None]:
    """Read a column of numbers; what is undefined, infinite or text is None, which is drawn as a gap."""
    return [
        cell if isinstance(cell, int | float) and math.isfinite(cell) else None
        for cell in read_cells(table, name)
    ]


def read_floats(table: HeadTable, name: str) -> np.ndarray:
    """Read a column as floats; NaN for what is undefined, text or not there."""
    cells = (cell if isinstance(cell, int | float) else math.nan for cell in read_cells(table, name))
    return np.fromiter(cells, float, len(table))


def read_fields(table: HeadTable, fields: Iterable[str]) -> dict[str, Sequence[Any]]:
    """Read the columns behind fields of a chart, which are their names with a type, such as ``value:Q``."""
    names = [(field[:-2], field.endswith("Q")) for field in fields]
    return {name: (read_numbers if is_number else read_cells)(table, name) for name, is_number in names}


def list_keys(table: HeadTable) -> list[str]:
    return [column.name for column in table.columns if column.role == "key"]


def are_rows_unique(table: HeadTable, keys: Iterable[str]) -> bool:
    """Tell whether no two rows have the same cells in some columns."""
    return len(set(zip(*(read_cells(table, key) for key in keys), strict=True))) == len(table)


def label_rows(table: HeadTable, names: Iterable[str]) -> list[str]:
    """Label each row by the cells of some columns, leaving out columns that are the same in all rows."""
    columns = []
    for name in names:
        cells = read_cells(table, name)
        words = list(map(format_cell, cells))
        if name not in _NAMES:
            words = [word.replace("_", " ") for word in words]
        if all(isinstance(cell, int) for cell in cells):
            words = [f"{name} {word}" for word in words]
        if len(set(words)) > 1:
            columns.append(words)
    return [join_labels(*words) for words in zip(*columns, strict=True)] or [""] * len(table)


def join_labels(*labels: str) -> str:
    return ", ".join(filter(None, labels))


def add_layers(labels: Iterable[str], layers: Iterable[Cell]) -> list[str]:
    """Add its layer to the label of each row."""
    return [
        join_labels(label, f"layer {format_cell(layer)}") for label, layer in zip(labels, layers, strict=True)
    ]


def label_by_others(table: HeadTable, known: Container[str]) -> list[str]:
    """Label each row by its keys, except ``known`` ones, such as those that its place in a picture shows."""
    return label_rows(table, [name for name in list_keys(table) if name not in known])


def sort_labels(labels: Iterable[Cell]) -> list[Cell]:
    """List each label once: sorted if all are integers, or else in the order in which they come."""
    unique = list(dict.fromkeys(labels))
    return sorted(unique) if all(isinstance(one, int) for one in unique) else unique  # type: ignore[type-var]


def make_reader(name: str) -> Callable[[HeadTable], list[str]]:
    """Make a function that reads a column of words or whole numbers as text."""
    return lambda table: [format_cell(cell) for cell in read_cells(table, name)]


def name_measure(column: Column) -> str:
    """Name a measure for a reader: its title, or else its name."""
    return clean(column.title) or clean(column.name).replace("_", " ")


def title_axis(column: Column) -> str:
    """Name a measure with its unit."""
    unit = clean(column.unit)
    return f"{name_measure(column)} ({unit})" if unit else name_measure(column)


def title_tooltip(title: str) -> str:
    """Title a line of a tooltip; "title" and "image", which Vega would obey, get a word before them."""
    title = clean(title) or "column"
    return f"column {title}" if title.lower() in {"title", "image"} else title


def name_source(table: HeadTable) -> str:
    """Name the models and data of a table: "model demo, data embedded"; of many, the first two."""
    parts = []
    models, data = ("model", "model_b", f"model{OUT}"), ("dataset", f"dataset{OUT}")
    for word, columns in (("model", models), ("data", data)):
        cells = (format_cell(cell) for name in columns for cell in read_cells(table, name))
        if names := list(dict.fromkeys(clean(cell) for cell in cells if cell)):
            plural = "s" if word == "model" and len(names) > 1 else ""
            parts.append(f"{word}{plural} {join_names(names, 2)}")
    return ", ".join(parts)


@dataclass(frozen=True)
class DrawingRequest:
    """How a table is to be drawn."""

    theme: Theme  # colours and sizes
    width: int  # of the whole picture, in pixels
    measures: Sequence[str] = ()  # the names of the columns wanted; empty for the table's headlines
    clusters: int | None = None  # how many parts a tree of heads is cut into; None for the usual cut
    #: Pixels left for the marks, without the labels and legends around them.
    room: float = 500.0
    high: float = 700.0

    def columns(self, table: HeadTable, most: int = 6) -> list[Column]:
        """Choose the measures to draw: all those named, or else up to ``most`` headlines, or else the first.

        Raises AttnprobeError when a name is not that of a column of numbers, or when no name is given and no
        column holds the same quantity in every row.
        """
        known = {column.name: column for column in table.columns if _is_numeric(table, column)}
        listed = ", ".join(map(clean, known)) or "none"
        if unknown := [name for name in self.measures if name not in known]:
            near = name_nearest(unknown[0], known)
            raise UsageError(
                f"--only {clean(unknown[0])}: the table has no such measure{near}; it has {listed}"
            )
        if self.measures:
            return [known[name] for name in dict.fromkeys(self.measures)]
        measures = [column for column in known.values() if is_one_quantity(table, column)]
        if not measures:
            raise DataError(
                "no column of the table holds the same quantity in every row; name one with --only "
                f"({listed})"
            )
        # A p value is a mark in the picture of what it is about.
        measures = [column for column in measures if not column.is_probability] or measures
        defined = [column for column in measures if np.isfinite(read_floats(table, column.name)).any()]
        defined = defined or measures
        # Without a description nobody says which come first.
        return [column for column in defined if column.headline][:most] or defined[:most]


def _is_numeric(table: HeadTable, column: Column) -> bool:
    """Tell whether a column holds numbers that say something of a row."""
    words = (isinstance(cell, str) for cell in table.data[column.name])
    return column.role in {"measure", "count"} and not any(words)


def is_one_quantity(table: HeadTable, column: Column) -> bool:
    """Tell whether a column holds measurements of one quantity."""
    if column.role != "measure" or not _is_numeric(table, column) or column.name == "threshold":
        return False
    return column.name != "value" or "measure" not in table.data


def has_measures(table: HeadTable) -> bool:
    """Tell whether a table has rows, and a measure of them."""
    return len(table) > 0 and any(
        column.role == "measure" and _is_numeric(table, column) for column in table.columns
    )
