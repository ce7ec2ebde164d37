"""Pairs of heads: who they are, and what lies between them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.reports.pictures.asked import Asked
from attnprobe.reports.pictures.rows import cells, keys, labelled, name_of, numbers
from attnprobe.table.cells import written
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Cell

Floats = NDArray[np.float64]
Place = tuple[Cell, Cell]
#: What is a square of a distance; its root obeys the triangle inequality (Endres and Schindelin 2003).
SQUARED = "jsd"
PAIR = ("layer_a", "head_a", "layer_b", "head_b")
_WITHIN = ("layer", "head_a", "head_b")


@dataclass(frozen=True)
class Pairs:
    """The pairs of a table.

    Attributes:
        of: For each row what sets it apart beside its heads, such as the kind of attention.
        one: Layer and head of the first of each pair.
        other: Layer and head of the second.
    """

    of: list[str]
    one: list[Place]
    other: list[Place]

    @property
    def maps(self) -> list[str]:
        """What sets pairs apart, in order."""
        return list(dict.fromkeys(self.of))

    @property
    def within(self) -> bool:
        """Whether all pairs lie within a layer."""
        return all(one[0] == other[0] for one, other in zip(self.one, self.other, strict=True))


def pairs_of(table: HeadTable) -> Pairs | None:
    """Find the pairs of a table; None where its rows are none, or a pair is there twice."""
    names = keys(table)
    if set(PAIR) <= set(names):
        layer_a, head_a, layer_b, head_b = (cells(table, name) for name in PAIR)
        used = list(PAIR)
    elif set(_WITHIN) <= set(names):
        layer_a, head_a, head_b = (cells(table, name) for name in _WITHIN)
        layer_b, used = layer_a, list(_WITHIN)
    else:
        return None
    if not len(table):
        return None
    of = labelled(table, [name for name in names if name not in used])
    one, other = (list(zip(*side, strict=True)) for side in ((layer_a, head_a), (layer_b, head_b)))
    found = [(label, frozenset({a, b})) for label, a, b in zip(of, one, other, strict=True)]
    if len(set(found)) < len(found) or any(len(pair) < 2 for _, pair in found):
        return None
    return Pairs(of, one, other)


@dataclass(frozen=True)
class Distances:
    """Distances between some heads.

    Attributes:
        heads: The heads, in order.
        matrix: (head, head), symmetric, 0 on the diagonal.
        left_out: Heads without a distance to some other.
        name: What the distances are.
    """

    heads: list[Place]
    matrix: Floats
    left_out: list[Place]
    name: str


def distances(table: HeadTable, rows: list[int], pairs: Pairs, asked: Asked) -> Distances:
    """Lay out the distances of some rows as a matrix: the root of the Jensen-Shannon divergence.

    Of a measure that somebody names, the numbers are taken as they are.

    Raises:
        AttnprobeError: When fewer than three heads have distances to one another.
    """
    name = asked.columns(table, 1)[0].name if asked.measures else SQUARED
    values = numbers(table, name)
    heads = list(dict.fromkeys([pairs.one[row] for row in rows] + [pairs.other[row] for row in rows]))
    if all(isinstance(part, int) for head in heads for part in head):
        heads.sort()  # type: ignore[type-var]
    place = {head: number for number, head in enumerate(heads)}
    matrix = np.full((len(heads), len(heads)), np.nan)
    np.fill_diagonal(matrix, 0.0)
    for row in rows:
        value = values[row]
        if value is not None:
            a, b = place[pairs.one[row]], place[pairs.other[row]]
            matrix[a, b] = matrix[b, a] = np.sqrt(max(value, 0.0)) if name == SQUARED else value
    kept = np.ones(len(heads), bool)
    while kept.any() and (gaps := np.isnan(matrix[np.ix_(kept, kept)]).sum(1)).any():
        kept[np.flatnonzero(kept)[int(gaps.argmax())]] = False
    left_out = [head for head, keep in zip(heads, kept, strict=True) if not keep]
    if kept.sum() < 3:
        raise AttnprobeError(
            f"fewer than three heads have {name} to one another, too few for a map or a tree"
        )
    heads = [head for head, keep in zip(heads, kept, strict=True) if keep]
    unit = unit_of(table, asked)
    shown = "root of the divergence" if name == SQUARED else name_of(table.column(name))
    return Distances(heads, matrix[np.ix_(kept, kept)], left_out, f"{shown} ({unit})" if unit else shown)


def unit_of(table: HeadTable, asked: Asked) -> str:
    """Give the unit of the distances."""
    if asked.measures:
        return clean(table.column(asked.measures[0]).unit)
    unit = clean(table.column(SQUARED).unit)
    return f"sqrt({unit})" if unit else ""


def has_distances(table: HeadTable) -> bool:
    """Tell whether a table holds divergences of pairs."""
    return SQUARED in table.data and pairs_of(table) is not None


def head_name(head: Place) -> str:
    """Name a head in a picture.

    >>> head_name((3, 11))
    'L3 H11'
    """
    return f"L{written(head[0])} H{written(head[1])}"
