"""Rows of a table as data of a chart: the same numbers, under names that the picture chooses.

Names of columns come from files and may hold anything; in a chart they would become names of fields, of which
Vega builds expressions. So fields have names of ours, and names of columns are only ever text.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from attnprobe.table.cells import plain_column, written
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Cell, Column

Record = dict[str, Any]
#: Titles in a tooltip that Vega would show as a heading, or fetch as a picture.
_SPECIAL = {"title", "image"}
#: What holds names of files and models, which stay as they are.
_NAMES = {"model", "dataset", "model_b", "table"}


def cells(table: HeadTable, name: str) -> list[Cell]:
    """Give a column as plain cells; of one that is not there, all are None."""
    if name not in table.data:
        return [None] * len(table)
    return plain_column(table.data[name], table.column(name))


def numbers(table: HeadTable, name: str) -> list[float | int | None]:
    """Give a column of numbers; what is undefined, infinite or text is None, which is drawn as a gap."""
    return [
        cell if isinstance(cell, int | float) and math.isfinite(cell) else None for cell in cells(table, name)
    ]


def keys(table: HeadTable) -> list[str]:
    """Name the columns that name a row."""
    return [column.name for column in table.columns if column.role == "key"]


def labelled(table: HeadTable, names: Iterable[str]) -> list[str]:
    """Join some columns to a label for each row, leaving out those that are the same in all rows."""
    said = []
    for name in names:
        column = cells(table, name)
        words = {cell: written(cell) for cell in dict.fromkeys(column)}
        if name not in _NAMES:
            words = {cell: word.replace("_", " ") for cell, word in words.items()}
        if len(set(words.values())) > 1:
            said.append([words[cell] for cell in column])
    if not said:
        return [""] * len(table)
    return [", ".join(filter(None, parts)) for parts in zip(*said, strict=True)]


def ordered(labels: Iterable[Cell]) -> list[Cell]:
    """Give each label once: numbers in their order, words as they come."""
    unique = list(dict.fromkeys(labels))
    return sorted(unique) if all(isinstance(one, int) for one in unique) else unique  # type: ignore[type-var]


def name_of(column: Column) -> str:
    """Name a measure for a reader: its title, or else its name."""
    return clean(column.title) or clean(column.name).replace("_", " ")


def axis_of(column: Column) -> str:
    """Name a measure with its unit."""
    unit = clean(column.unit)
    return f"{name_of(column)} ({unit})" if unit else name_of(column)


def ends_of(values: Sequence[float | int | None], unit: str) -> dict[str, str]:
    """Give expressions of the ends of a 95 % interval; a share ends at 0 and 1, as it can't lie beyond."""
    low, high = "datum.value - 1.96 * datum.error", "datum.value + 1.96 * datum.error"
    known = [value for value in values if value is not None]
    if unit.startswith("share") and known and min(known) >= 0 and max(known) <= 1:
        low, high = f"max(0, {low})", f"min(1, {high})"
    return {"low": low, "high": high}


def below_heading(column: Column) -> str | None:
    """Name an axis whose heading names the measure: by the unit, or not again."""
    return clean(column.unit) or None


def tip(title: str) -> str:
    """Give a title for a line of a tooltip that Vega takes for no order."""
    said = clean(title) or "column"
    return f"column {said}" if said.lower() in _SPECIAL else said


def constants(table: HeadTable, names: Sequence[str] = ("model", "dataset")) -> str:
    """Say what is the same in all rows: the model, the data."""
    said = []
    for name in names:
        found = {written(cell) for cell in cells(table, name)}
        if len(found) == 1 and (only := found.pop()):
            said.append(only)
    return ", ".join(said)


def heading(text: str, *lines: str) -> Any:
    """Give a title with remarks below it; empty ones are left out."""
    import altair as alt

    below: dict[str, Any] = {"subtitle": said} if (said := [line for line in lines if line]) else {}
    return alt.TitleParams(text, **below)
