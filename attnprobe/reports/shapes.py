"""Tables as shapes, which a terminal and pictures draw: grids of heads, curves, runs, best heads.

A shape is what a table holds, laid out: no colours, no widths. Of a table that it does not suit, it is
empty or None.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from attnprobe.reports.columns import label_rows, list_keys, read_cells, read_floats, sort_labels
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import KINDS, POSITION, STEP
from attnprobe.table.naming import LETTERS, find_role_kind
from attnprobe.table.numbers import name_head
from attnprobe.table.table import Cell

AXES = ("layer", "head")
#: Of more positions, a picture is easier to read.
_MOST_POSITIONS = 40
_MOST_PANELS = 4  # encoder, decoder, cross attention; beyond that a list is easier to read


@dataclass(frozen=True)
class Panel:
    """One grid of heads."""

    labels: tuple[str, ...]  # what sets this panel apart, such as ``("decoder",)``; empty for the only panel
    layers: list[Cell]
    heads: list[Cell]  # the heads of any layer, in order
    #: The table's row for each layer and head; a pruned head has none.
    places: dict[tuple[Cell, Cell], int] = field(repr=False)

    def rows(self) -> list[int]:
        return list(self.places.values())

    def grid(self, values: np.ndarray) -> np.ndarray:
        """Lay out a column as layers by heads; NaN where there is no head."""
        rows = [[self.places.get((layer, head)) for head in self.heads] for layer in self.layers]
        return np.array([[np.nan if row is None else values[row] for row in line] for line in rows], float)


def lay_out_panels(table: HeadTable) -> list[Panel]:
    """Split a table into panels; none if its rows are not heads, or there would be too many."""
    names = {name: read_cells(table, name) for name in list_keys(table)}
    if not len(table) or not set(KINDS[table.kind].keys) >= set(AXES):
        return []
    labels = [name for name in names if name not in AXES and len(set(names[name])) > 1]
    grouped: dict[tuple[str, ...], dict[tuple[Cell, Cell], int]] = {}
    for row, place in enumerate(zip(names["layer"], names["head"], strict=True)):
        places = grouped.setdefault(tuple(format_cell(names[name][row]) for name in labels), {})
        if places.setdefault(place, row) != row:  # a head in two rows: something else tells them apart
            return []
    if len(grouped) > _MOST_PANELS:
        return []
    return [
        Panel(label, sort_labels([p[0] for p in places]), sort_labels([p[1] for p in places]), places)
        for label, places in grouped.items()
    ]


#: Most characters of a token beside its position.
_TOKEN = 6


def lay_out_positions(table: HeadTable, name: str) -> list[Panel]:
    """Lay out layers by positions of tokens; a cell is the head whose number is largest in size."""
    values = read_floats(table, name)
    if table.kind != "heads at positions" or values is None:
        return []
    layers, positions, tokens = (read_cells(table, one) for one in ("layer", POSITION, "token"))
    labels = label_rows(table, [one for one in list_keys(table) if one not in (*AXES, POSITION)])
    panels = []
    for label in dict.fromkeys(labels):
        own = [row for row in range(len(table)) if labels[row] == label]
        words: dict[Cell, set[Cell]] = {}
        for row in own:
            words.setdefault(positions[row], set()).add(tokens[row])
        numbers = sort_labels(words)
        named = {one: _name_position(one, words[one]) for one in numbers}
        places: dict[tuple[Cell, Cell], int] = {}
        for row in sorted(own, key=lambda row: np.nan_to_num(abs(values[row]), nan=-1)):
            places[layers[row], named[positions[row]]] = row  # the largest comes last
        if len(numbers) > _MOST_POSITIONS or len(panels) == _MOST_PANELS:
            return []
        own_layers = sort_labels([layers[row] for row in own])
        panels.append(Panel((label,) if label else (), own_layers, [*named.values()], places))
    return panels


def _name_position(position: Cell, tokens: set[Cell]) -> str:
    (token,) = tokens if len(tokens) == 1 else (None,)
    return f"{position} {clean(str(token or ''))[:_TOKEN]}".strip()


SCORE = "score"
RANDOM = "random"


@dataclass(frozen=True)
class Runs:
    """Heads at several steps of training, of one kind of attention."""

    label: str  # the kind of attention; empty if there is only one
    steps: list[int]  # in order
    #: The row of each head (layer, head) at each step.
    places: dict[tuple[tuple[Cell, Cell], int], int] = field(repr=False)


def lay_out_runs(table: HeadTable) -> list[Runs]:
    """Lay out the heads of several steps of training by kind of attention; none for any other table."""
    if table.kind != "heads of checkpoints":
        return []
    found: dict[str, dict[tuple[tuple[Cell, Cell], int], int]] = {}
    cells = (read_cells(table, name) for name in ("attention", *AXES, STEP))
    for row, (kind, layer, head, step) in enumerate(zip(*cells, strict=True)):
        if not isinstance(step, int):
            return []
        places = found.setdefault(format_cell(kind), {})
        if places.setdefault(((layer, head), step), row) != row:  # something else tells them apart
            return []
    if len(found) > _MOST_PANELS:
        return []
    return [
        Runs(kind if len(found) > 1 else "", sorted({step for _, step in places}), places)
        for kind, places in found.items()
    ]


@dataclass(frozen=True)
class Roles:
    """The roles of heads."""

    kinds: list[str | None]  # of each head; None for one whose role is not known
    counts: dict[str, int]  # how many heads have each kind that there is, in the order of ``LETTERS``


def lay_out_roles(roles: Iterable[str | None]) -> Roles:
    """Lay out roles by their kinds.

    >>> lay_out_roles(["offset +2", "mixed", None, "offset -1"])
    Roles(kinds=['offset', 'mixed', None, 'offset'], counts={'offset': 2, 'mixed': 1})
    """
    kinds = [None if role is None else find_role_kind(role) for role in roles]
    return Roles(kinds, {kind: kinds.count(kind) for kind in LETTERS if kind in kinds})


def name_pairs(table: HeadTable) -> list[str]:
    """Name the pair of each row, such as ``L3 H1 + L5 H2``; beside a decoder with what each attends to."""
    sides = []
    for side in "ab":
        columns = [column for column in (f"attention_{side}",) if column in table.data]
        kinds = [f"{format_cell(cell)} " for column in columns for cell in read_cells(table, column)]
        heads = zip(*(read_cells(table, f"{axis}_{side}") for axis in ("layer", "head")), strict=True)
        named = [name_head(*head) for head in heads]
        sides.append([f"{kind}{head}" for kind, head in zip(kinds or [""] * len(named), named, strict=True)])
    return [" + ".join(pair) for pair in zip(*sides, strict=True)]
