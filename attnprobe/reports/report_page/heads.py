"""The heads that a report is about, what its tables measure of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from attnprobe.attention.kinds import Kind
from attnprobe.table.cells import clean
from attnprobe.table.naming import list_offsets
from attnprobe.table.numbers import format_with_error, is_number, name_head
from attnprobe.table.table import Column, HeadTable

#: Kind of attention (empty where a model has one), layer, head.
Head = tuple[str, int, int]
#: Columns of attention by offset, which the atlas shows.
_OFFSETS = {f"profile_{name}" for patches in (False, True) for name, _ in list_offsets(patches=patches)}


class Measure(NamedTuple):
    """A column of numbers: one for each head of the report with its standard error, or None for both."""

    table: str
    column: Column
    values: Sequence[float | None]
    errors: Sequence[float | None]

    @property
    def title(self) -> str:
        """What it is, in words."""
        return clean(self.column.title or self.column.name.replace("_", " "))

    @property
    def name(self) -> str:
        """Its column, with its unit if it has one."""
        return ", ".join(filter(None, map(clean, (self.column.name, self.column.unit))))

    def write_numbers(self) -> list[str]:
        """Write the number of each head with its error."""
        return [format_with_error(*pair) for pair in zip(self.values, self.errors, strict=True)]

    def rank(self) -> list[int | None]:
        """Rank the heads: the highest number has rank 1."""
        order = sorted((value for value in self.values if value is not None), reverse=True)
        places = {value: place for place, value in reversed(list(enumerate(order, start=1)))}
        return [None if value is None else places[value] for value in self.values]


@dataclass(frozen=True)
class Heads:
    """All heads of a report, in the order of a forward pass; a head's number is its place among them."""

    every: Sequence[Head]

    @cached_property
    def _places(self) -> dict[Head, int]:
        return {head: place for place, head in enumerate(self.every)}

    def find(self, head: Head | None) -> int | None:
        """Find the number of a head; None where it is none of the report's."""
        return None if head is None else self._places.get(head)

    def name(self, place: int) -> str:
        kind, layer, head = self.every[place]
        return name_head(*filter(None, [kind]), layer, head)

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of attention."""
        return list(dict.fromkeys(kind for kind, _, _ in self.every))

    def sort_cells(self, table: HeadTable, name: str) -> list[object]:
        """Put a column of a table of heads in the order of the report's heads; None where it has no cell."""
        known = dict(zip(read_heads(table), table.data[name], strict=True)) if name in table.data else {}
        return [known.get(head) for head in self.every]


def read_heads(table: HeadTable, side: str = "") -> list[Head | None]:
    """Name the head of each row of a table, or one of two (``"_a"``, ``"_b"``); None where a row has none."""
    kinds = table.data.get("attention", [""] * len(table))
    rows = zip(kinds, table.data[f"layer{side}"], table.data[f"head{side}"], strict=True)
    known = {"", *(kind.value for kind in Kind)}
    return [
        (kind, layer, head)
        if isinstance(layer, int) and isinstance(head, int) and isinstance(kind, str) and kind in known
        else None
        for kind, layer, head in rows
    ]


def collect_heads(tables: Mapping[str, HeadTable]) -> Heads:
    """Collect the heads of all tables of heads, and of pairs of heads."""
    every = {
        head
        for table in tables.values()
        for side in ("", "_a", "_b")
        if {f"layer{side}", f"head{side}"} <= set(table.data)
        for head in read_heads(table, side)
        if head is not None
    }
    if any(kind for kind, _, _ in every):  # a table without kinds can't say which head it means
        every = {head for head in every if head[0]}
    order = {kind.value: place for place, kind in enumerate(Kind)}
    return Heads(sorted(every, key=lambda head: (order.get(head[0], -1), head[1:])))


def collect_measures(heads: Heads, tables: Mapping[str, HeadTable]) -> list[Measure]:
    def sort_numbers(table: HeadTable, name: str) -> list[float | None]:
        return [float(cell) if is_number(cell) else None for cell in heads.sort_cells(table, name)]

    return [
        Measure(name, column, sort_numbers(table, column.name), sort_numbers(table, f"{column.name}_se"))
        for name, table in tables.items()
        for column in table.columns
        if column.role == "measure" and any(map(is_number, table.data[column.name]))
        if column.name not in _OFFSETS
    ]
