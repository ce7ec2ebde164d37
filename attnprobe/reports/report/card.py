"""The heads that a report is about, and what the card of a head says: its role, and its numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attnprobe.attention.kinds import Kind
from attnprobe.reports.columns import name_measure
from attnprobe.table.cells import clean
from attnprobe.table.naming import MIXED, list_offsets
from attnprobe.table.numbers import format_number, format_with_error, is_number, name_head
from attnprobe.table.table import HeadTable

#: Kind of attention (empty where a model has one), layer, head.
Head = tuple[str, int, int]
#: Columns of attention by offset, which the atlas shows.
_OFFSETS = {f"profile_{name}" for patches in (False, True) for name, _ in list_offsets(patches=patches)}


@dataclass(frozen=True)
class Heads:
    """All heads of a report, in the order of a forward pass; a head's number is its place among them."""

    every: Sequence[Head]

    @cached_property
    def places(self) -> dict[Head, int]:
        return {head: place for place, head in enumerate(self.every)}

    @cached_property
    def names(self) -> list[str]:
        return [name_head(*filter(None, [kind]), layer, head) for kind, layer, head in self.every]

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of attention."""
        return list(dict.fromkeys(kind for kind, _, _ in self.every))

    def sort_cells(self, table: HeadTable, name: str) -> list[Any]:
        """Put a column of a table of heads in the order of the report's heads; None where it has no cell."""
        known = dict(zip(read_heads(table), table.data[name], strict=True)) if name in table.data else {}
        return [known.get(head) for head in self.every]


def read_heads(table: HeadTable, side: str = "") -> list[Head | None]:
    """Name the head of each row of a table, or one of two (``"_a"``, ``"_b"``); None where a row has none."""
    kinds = table.data.get("attention", [""] * len(table))
    known = {"", *(kind.value for kind in Kind)}
    return [
        (kind, layer, head)
        if isinstance(layer, int) and isinstance(head, int) and isinstance(kind, str) and kind in known
        else None
        for kind, layer, head in zip(
            kinds, table.data[f"layer{side}"], table.data[f"head{side}"], strict=True
        )
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
    order = ["", *(kind.value for kind in Kind)]
    return Heads(sorted(every, key=lambda head: (order.index(head[0]), head[1:])))


def collect_measures(heads: Heads, tables: Mapping[str, HeadTable]) -> list[dict[str, Any]]:
    """Collect the numbers of each head with their errors, and its rank: 1 for the highest number."""
    measures = []
    for table in tables.values():
        for column in table.columns:
            if column.role != "measure" or column.name in _OFFSETS:
                continue
            if not any(map(is_number, table.data[column.name])):
                continue
            cells, errors = (
                [float(cell) if is_number(cell) else None for cell in heads.sort_cells(table, name)]
                for name in (column.name, f"{column.name}_se")
            )
            falling = sorted((cell for cell in cells if cell is not None), reverse=True)
            measures.append(
                {
                    "title": name_measure(column),
                    "name": ", ".join(filter(None, map(clean, (column.name, column.unit)))),
                    "headline": column.headline,
                    "numbers": [format_with_error(*pair) for pair in zip(cells, errors, strict=True)],
                    "ranks": [None if cell is None else falling.index(cell) + 1 for cell in cells],
                }
            )
    return measures


def describe_roles(heads: Heads, table: HeadTable) -> list[str]:
    """Say which role each head has, and of what it was read off."""
    names = ("role", "measure", "value", "value_se", "threshold", "also")
    columns = [heads.sort_cells(table, name) for name in names]
    sentences = []
    for role, measure, value, error, threshold, also in zip(*columns, strict=True):
        parts = [f"Role: {role or MIXED}"]
        if measure and is_number(value):
            parts.append(f"{measure.replace('_', ' ')} {format_with_error(value, error)}")
            parts += [f"threshold {format_number(threshold)}"] if is_number(threshold) else []
        parts += [f"also {also}"] if also else []
        sentences.append(clean(f"{'; '.join(parts)}."))
    return sentences
