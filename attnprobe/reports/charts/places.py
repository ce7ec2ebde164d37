"""Where each row of a table stands in a picture of cells."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from attnprobe.reports.columns import (
    Record,
    label_by_others,
    label_rows,
    list_keys,
    read_cells,
    sort_labels,
)
from attnprobe.reports.pairs import find_pairs
from attnprobe.table.cells import Cell, format_cell
from attnprobe.table.kinds import POSITION
from attnprobe.table.table import HeadTable

AXES = ("layer", "head")


@dataclass(frozen=True)
class Places:
    """Where each row of a table stands: in which map, how far across and how far down."""

    panel: Sequence[str]
    x: Sequence[Cell]
    y: Sequence[Cell]

    @cached_property
    def across(self) -> list[Cell]:
        return sort_labels(self.x)

    @cached_property
    def down(self) -> list[Cell]:
        return sort_labels(self.y)

    @cached_property
    def maps(self) -> list[str]:
        return list(dict.fromkeys(self.panel))

    def records(self) -> list[Record]:
        rows = zip(self.panel, self.x, self.y, strict=True)
        return [{"panel": panel, "x": x, "y": y} for panel, x, y in rows]


def place_heads(table: HeadTable) -> Places | None:
    """Place heads across and layers down; None where rows are not heads, or a head has two rows of a map."""
    names = list_keys(table)
    if not set(AXES) <= set(names) or not len(table):
        return None
    others = [name for name in names if name not in AXES]
    panel = label_rows(table, [name for name in others if not _is_rank(table, name, others)])
    layers, heads = read_cells(table, "layer"), read_cells(table, "head")
    if len(set(zip(panel, layers, heads, strict=True))) < len(table):
        return None
    return Places(panel, heads, layers)


def _is_rank(table: HeadTable, name: str, keys: Sequence[str]) -> bool:
    """Tell whether a key numbers the heads of each map, instead of telling maps apart."""
    numbered, *others = (read_cells(table, key) for key in [name, *(key for key in keys if key != name)])
    whole = all(isinstance(cell, int) for cell in numbered)
    maps = len(set(zip(*others, strict=True))) if others else 1
    return whole and len(set(zip(numbered, *others, strict=True))) == len(table) > maps


def place_positions(table: HeadTable) -> Places | None:
    """Place tokens across and heads down, with a map for each layer; None where a place has two rows."""
    positions, heads, layers = (read_cells(table, name) for name in (POSITION, "head", "layer"))
    tokens = [format_cell(cell)[:9] for cell in read_cells(table, "token")]
    others = label_by_others(table, {*AXES, POSITION})
    panel = _join_labels(others, [f"layer {format_cell(layer)}" for layer in layers])
    if len(set(zip(panel, positions, heads, strict=True))) < len(table):
        return None
    words: dict[Cell, set[str]] = {}
    for position, token in zip(positions, tokens, strict=True):
        words.setdefault(position, set()).add(token)
    if all(words[position] == {""} or len(words[position]) > 1 for position in words):
        return Places(panel, positions, heads)
    named = {
        one: f"{one} {tokens.pop()}".strip() if len(tokens) == 1 else str(one)
        for one, tokens in words.items()
    }
    order = sort_labels(positions)
    x = [named[position] for position in positions]
    return OrderedPlaces(panel, x, heads, [named[position] for position in order])


@dataclass(frozen=True)
class OrderedPlaces(Places):
    """Places whose labels across are words in an order of their own."""

    order: Sequence[Cell] = ()

    @cached_property
    def across(self) -> list[Cell]:
        return list(self.order)


def place_pairs(table: HeadTable) -> Places | None:
    """Place pairs of heads of a layer below the diagonal, with a map for each layer."""
    pairs = find_pairs(table)
    if pairs is None or not pairs.within:
        return None
    panel = _join_labels(pairs.of, [f"layer {format_cell(layer)}" for layer, _ in pairs.one])
    return PairedPlaces(panel, [head for _, head in pairs.one], [head for _, head in pairs.other])


class PairedPlaces(Places):
    """Places with the same labels across and down."""

    @cached_property
    def across(self) -> list[Cell]:
        return sort_labels([*self.x, *self.y])

    @cached_property
    def down(self) -> list[Cell]:
        return self.across


def _join_labels(one: Sequence[str], other: Sequence[str]) -> list[str]:
    return [", ".join(filter(None, pair)) for pair in zip(one, other, strict=True)]
