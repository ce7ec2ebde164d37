"""The heads that a report is about, and what its tables measure of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from attnprobe.attention.kinds import Kind
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

#: Kind of attention (empty where a model has one), layer, head.
Head = tuple[str, int, int]


@dataclass(frozen=True)
class Measure:
    """A column of numbers, one a head.

    Attributes:
        table: The name of its table.
        column: What it is.
        values: For each head of the report its number; None where there is none.
        errors: Their standard errors.
    """

    table: str
    column: Column
    values: Sequence[float | None]
    errors: Sequence[float | None]

    @property
    def title(self) -> str:
        """What it is, in words."""
        return clean(self.column.title or self.column.name.replace("_", " "))


@dataclass(frozen=True)
class Heads:
    """All heads of a report.

    Attributes:
        every: The heads, in the order of a forward pass.
    """

    every: Sequence[Head]
    _place: dict[Head, int] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Number the heads."""
        self._place.update({head: place for place, head in enumerate(self.every)})

    def place(self, head: Head) -> int | None:
        """Give the number of a head; None where it is none of the report's."""
        return self._place.get(head)

    def name(self, place: int) -> str:
        """Name a head in a sentence."""
        kind, layer, head = self.every[place]
        return f"{kind} layer {layer}, head {head}".strip()

    def grids(self) -> dict[str, tuple[list[int], list[int]]]:
        """Give layers and heads of each kind of attention."""
        found: dict[str, tuple[list[int], list[int]]] = {}
        for kind in dict.fromkeys(kind for kind, _, _ in self.every):
            layers = sorted({layer for one, layer, _ in self.every if one == kind})
            heads = sorted({head for one, _, head in self.every if one == kind})
            found[kind] = layers, heads
        return found

    def in_order(self, table: HeadTable, name: str) -> list[object]:
        """Give a column of a table of heads in the order of the report's heads."""
        found: list[object] = [None] * len(self.every)
        for head, cell in zip(heads_in(table), table.data[name], strict=True):
            place = None if head is None else self.place(head)
            if place is not None:
                found[place] = cell
        return found


def heads_in(table: HeadTable, side: str = "") -> list[Head | None]:
    """Name the head of each row of a table, or one of two (``"_a"``, ``"_b"``); None where a row has none."""
    size = len(table)
    kinds = table.data.get("attention", [""] * size)
    rows = zip(kinds, table.data[f"layer{side}"], table.data[f"head{side}"], strict=True)
    known = {"", *(kind.value for kind in Kind)}
    return [
        (kind, layer, head)
        if isinstance(layer, int) and isinstance(head, int) and isinstance(kind, str) and kind in known
        else None
        for kind, layer, head in rows
    ]


def all_heads(tables: Mapping[str, HeadTable]) -> Heads:
    """Collect the heads of all tables of heads, and of pairs of heads."""
    found = {
        head
        for table in tables.values()
        for side in ("", "_a", "_b")
        if {f"layer{side}", f"head{side}"} <= set(table.data)
        for head in heads_in(table, side)
        if head is not None
    }
    if any(kind for kind, _, _ in found):  # a table without kinds can't say which head it means
        found = {head for head in found if head[0]}
    order = {kind.value: place for place, kind in enumerate(Kind)}
    return Heads(sorted(found, key=lambda head: (order.get(head[0], -1), head[1:])))


def measures_of(heads: Heads, tables: Mapping[str, HeadTable]) -> list[Measure]:
    """List what tables of heads measure, in their order."""
    return [
        Measure(name, column, _numbers(heads, table, column.name), _errors(heads, table, column.name))
        for name, table in tables.items()
        for column in table.columns
        if column.role == "measure" and any(_is_finite(cell) for cell in table.data[column.name])
    ]


def _numbers(heads: Heads, table: HeadTable, name: str) -> list[float | None]:
    return [
        float(cell) if _is_finite(cell) else None  # type: ignore[arg-type]
        for cell in heads.in_order(table, name)
    ]


def _errors(heads: Heads, table: HeadTable, name: str) -> list[float | None]:
    if f"{name}_se" not in table.data:
        return [None] * len(heads.every)
    return _numbers(heads, table, f"{name}_se")


def _is_finite(cell: object) -> bool:
    return isinstance(cell, int | float) and isfinite(cell)
