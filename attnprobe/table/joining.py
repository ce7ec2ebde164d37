"""Two tables about the same heads, side by side."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from attnprobe.errors import AttnprobeError
from attnprobe.table.cells import plain
from attnprobe.table.table import HALVES, Cell, Column, Table

Joined = TypeVar("Joined", bound=Table)

#: Keys that say what was asked, not which head a row is about.
_ASKED = ("model", "dataset", "objective", "method", "metric")
#: How what belongs to a measure ends.
_ENDINGS = ("_se", *(f"_{half}" for half in HALVES))


def joined(left: Joined, right: Table, suffix: str = "_other") -> Joined:
    """Put the columns of a table behind those of another, row by row.

    Rows are matched by the columns that name them in both, such as layer and head.

    Args:
        left: Its rows and their order stay.
        right: Has a row for each of them.
        suffix: Goes behind the name of a column that both have.

    Raises:
        AttnprobeError: When the tables are about different models, or not about the same rows.
    """
    if left.models != right.models:
        raise AttnprobeError(
            f"One table is about {', '.join(left.models)}, the other about {', '.join(right.models)}; only "
            "tables of the same model can be joined."
        )
    keys = [
        column.name
        for column in left.columns
        if column.role == "key" and column.name not in _ASKED and column.name in right.data
    ]
    if not keys:
        raise AttnprobeError("The tables have no columns in common that name a row, such as layer and head.")
    order = _matched(left, right, keys)
    ordered = {name: [cells[row] for row in order] for name, cells in right.data.items()}
    alike = {name for name, cells in ordered.items() if name in left.data and _same(left.data[name], cells)}
    added: list[tuple[Column, list[Cell]]] = []
    for column in right.columns:
        if column.name in keys or _family(column.name, right) <= alike:
            continue
        name = _renamed(column.name, left, suffix)
        added.append((replace(column, name=name), ordered[column.name]))
    data: dict[str, Any] = {**left.data, **{column.name: cells for column, cells in added}}
    if len(data) < len(left.data) + len(added):
        raise AttnprobeError(f"Both tables have columns that end in {suffix!r}; give another suffix.")
    record = {"joined": [dict(left.provenance), dict(right.provenance)]}
    columns = [*left.columns, *(column for column, _ in added)]
    title = left.title if left.title == right.title else f"{left.title}, and {right.title}"
    return type(left)(title, columns, data, [*left.notes, *right.notes], record)


def beside(left: Joined, right: Table) -> Joined:
    """Put the columns of a table behind those of another of the same rows in the same order.

    What names the rows, and their number ``n``, stays as it is on the left; notes that both have are said
    once, and the provenance is that of both.

    Raises:
        ValueError: When the rows are others, or a column is in both.
    """
    keys = [column.name for column in right.columns if column.role == "key"]
    if any(list(left.data.get(key, ())) != list(right.data[key]) for key in keys):
        raise ValueError("only tables of the same rows belong side by side")
    added = [column for column in right.columns if column.name not in {*keys, "n"}]
    if doubled := {column.name for column in added} & left.data.keys():
        raise ValueError(f"both tables have {', '.join(sorted(doubled))}")
    data = {**left.data, **{column.name: right.data[column.name] for column in added}}
    notes = list(dict.fromkeys([*left.notes, *right.notes]))
    return type(left)(left.title, [*left.columns, *added], data, notes, left.provenance)


def _matched(left: Table, right: Table, keys: list[str]) -> list[int]:
    """Find the row of the right table for each row of the left one."""
    ours, theirs = (list(zip(*(side.data[key] for key in keys), strict=True)) for side in (left, right))
    places = {place: row for row, place in enumerate(theirs)}
    if len(places) < len(theirs) or len(set(ours)) < len(ours):
        raise AttnprobeError(
            f"A table has more than one row for some {', '.join(keys)}; join tables of a row each."
        )
    if set(ours) != set(theirs):
        apart = len(set(ours) ^ set(theirs))
        raise AttnprobeError(
            f"The tables are not about the same rows: {apart} of them are in only one ({', '.join(keys)})."
        )
    return [places[place] for place in ours]


def _same(one: Sequence[Cell], other: Sequence[Cell]) -> bool:
    """Compare cells; what is undefined in both is the same, NaN or None."""
    return [plain(cell) for cell in one] == [plain(cell) for cell in other]


def _family(name: str, table: Table) -> set[str]:
    """Name a measure with its error and its halves, which stay together."""
    base = next(
        (base for end in _ENDINGS if (base := name.removesuffix(end)) != name and base in table.data), name
    )
    return {base, *(f"{base}{end}" for end in _ENDINGS)} & set(table.data)


def _renamed(name: str, left: Table, suffix: str) -> str:
    """Give a column a name of its own; an error or a half stays behind the measure it belongs to."""
    for ending in _ENDINGS:
        base = name.removesuffix(ending)
        if base != name and base in left.data:
            return f"{base}{suffix}{ending}"
    return f"{name}{suffix}" if name in left.data else name
