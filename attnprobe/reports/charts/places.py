"""Where each row of a table stands in a map of cells."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnprobe.reports.columns import (
    add_layers,
    label_by_others,
    label_rows,
    list_keys,
    read_cells,
    sort_labels,
)
from attnprobe.reports.pairs import find_pairs
from attnprobe.table.cells import Cell, format_cell
from attnprobe.table.kinds import HEAD, POSITION
from attnprobe.table.table import HeadTable


@dataclass(frozen=True)
class Places:
    """For each row of a table, the map that it is in, and its place across and down."""

    panel: Sequence[str]
    x: Sequence[Cell]
    y: Sequence[Cell]
    across: Sequence[Cell]  # all x in their order
    down: Sequence[Cell]  # all y

    @property
    def maps(self) -> list[str]:
        return list(dict.fromkeys(self.panel))


def place_heads(table: HeadTable) -> Places | None:
    """Place heads across and layers down; None where rows are not heads, or two rows share a place."""
    names = list_keys(table)
    if not set(HEAD) <= set(names) or not len(table):
        return None
    others = [name for name in names if name not in HEAD]
    panel = label_rows(table, [name for name in others if not _is_rank(table, name, others)])
    layers, heads = (read_cells(table, name) for name in HEAD)
    if len(set(zip(panel, layers, heads, strict=True))) < len(table):
        return None
    return Places(panel, heads, layers, sort_labels(heads), sort_labels(layers))


def _is_rank(table: HeadTable, name: str, keys: Sequence[str]) -> bool:
    """Tell whether a key numbers the rows of each map, and so does not distinguish maps."""
    numbered, *others = (read_cells(table, key) for key in [name, *(key for key in keys if key != name)])
    whole = all(isinstance(cell, int) for cell in numbered)
    maps = len(set(zip(*others, strict=True))) if others else 1
    return whole and len(set(zip(numbered, *others, strict=True))) == len(table) > maps


def place_positions(table: HeadTable) -> Places | None:
    """Place tokens across and heads down, with a map per layer; None where two rows share a place."""
    positions, heads, layers = (read_cells(table, name) for name in (POSITION, "head", "layer"))
    others = label_by_others(table, {*HEAD, POSITION})
    panel = add_layers(others, layers)
    if len(set(zip(panel, positions, heads, strict=True))) < len(table):
        return None
    tokens: dict[Cell, set[str]] = {position: set() for position in sort_labels(positions)}
    for position, token in zip(positions, read_cells(table, "token"), strict=True):
        tokens[position].add(format_cell(token)[:9])
    # A position has its token where this is the same in all rows.
    names = {
        position: f"{position} {min(words)}".strip() if len(words) == 1 else str(position)
        for position, words in tokens.items()
    }
    return Places(panel, [names[one] for one in positions], heads, [*names.values()], sort_labels(heads))


def place_pairs(table: HeadTable) -> Places | None:
    """Place pairs of heads below the diagonal, with a map per layer; None unless rows are pairs in layers."""
    pairs = find_pairs(table)
    if pairs is None or not pairs.within:
        return None
    panel = add_layers(pairs.labels, [layer for layer, _ in pairs.first])
    x, y = ([head for _, head in side] for side in (pairs.first, pairs.second))
    labels = sort_labels([*x, *y])
    return Places(panel, x, y, labels, labels)
