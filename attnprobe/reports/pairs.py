"""Pairs of heads laid out: the distances between them, a tree of heads that attend alike, a map of points."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.reports.columns import (
    DrawingRequest,
    label_rows,
    list_keys,
    name_measure,
    read_cells,
    read_numbers,
)
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.kinds import PAIR, PAIR_IN_LAYER
from attnprobe.table.naming import join_names
from attnprobe.table.numbers import format_number, name_head
from attnprobe.table.table import Cell, HeadTable

Floats = NDArray[np.float64]
Place = tuple[Cell, Cell]
#: What is a square of a distance; its root obeys the triangle inequality (Endres and Schindelin 2003).
SQUARED = "jsd"


@dataclass(frozen=True)
class Pairs:
    """The pairs of a table."""

    of: list[str]  # for each row what sets it apart beside its heads, such as the kind of attention
    one: list[Place]  # layer and head of the first of each pair
    other: list[Place]  # layer and head of the second

    @property
    def maps(self) -> list[str]:
        """What sets pairs apart, in order."""
        return list(dict.fromkeys(self.of))

    def rows(self, of: str) -> list[int]:
        """The rows of one of ``maps``."""
        return [row for row, one in enumerate(self.of) if one == of]

    @property
    def within(self) -> bool:
        """Whether all pairs lie within a layer."""
        return all(one[0] == other[0] for one, other in zip(self.one, self.other, strict=True))


def find_pairs(table: HeadTable) -> Pairs | None:
    """Find the pairs of a table; None where its rows are none, or a pair is there twice."""
    names = list_keys(table)
    used = next((pair for pair in (PAIR, PAIR_IN_LAYER) if set(pair) <= set(names)), None)
    if used is None or not len(table):
        return None
    layer, head, *others = (read_cells(table, name) for name in used)
    sides = (layer, head), (others if len(others) == 2 else (layer, *others))
    of = label_rows(table, [name for name in names if name not in used])
    one, other = (list(zip(*side, strict=True)) for side in sides)
    found = [(label, frozenset({a, b})) for label, a, b in zip(of, one, other, strict=True)]
    if len(set(found)) < len(found) or any(len(pair) < 2 for _, pair in found):
        return None
    return Pairs(of, one, other)


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


def has_all_pairs(table: HeadTable) -> bool:
    """Tell whether a table has the divergence of all pairs of heads, also those of different layers."""
    pairs = find_pairs(table) if SQUARED in table.data else None
    return pairs is not None and not pairs.within


@dataclass(frozen=True)
class Distances:
    """Distances between some heads."""

    heads: list[Place]
    matrix: Floats  # (head, head), symmetric, 0 on the diagonal
    left_out: list[Place]  # heads without a distance to some other
    name: str  # what the distances are


def compute_distances(table: HeadTable, rows: list[int], pairs: Pairs, request: DrawingRequest) -> Distances:
    """Lay out the distances of some rows as a matrix: the root of the Jensen-Shannon divergence.

    Raises:
        AttnprobeError: When fewer than three heads have distances to one another.
    """
    name = request.columns(table, 1)[0].name if request.measures else SQUARED
    values = read_numbers(table, name)
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
    heads = [head for head, keep in zip(heads, kept, strict=True) if keep]
    if len(heads) < 3:
        raise AttnprobeError(
            f"fewer than three heads have {name} to one another, too few for a map or a tree"
        )
    unit = find_unit(table, request)
    shown = "Jensen-Shannon distance" if name == SQUARED else name_measure(table.column(name))
    return Distances(heads, matrix[np.ix_(kept, kept)], left_out, f"{shown} ({unit})" if unit else shown)


def find_unit(table: HeadTable, request: DrawingRequest) -> str:
    if request.measures:
        return clean(table.column(request.measures[0]).unit)
    unit = clean(table.column(SQUARED).unit)
    return f"sqrt({unit})" if unit else ""


#: Where a tree is cut when nobody says into how many clusters: this share of the height of its top. So does
#: scipy (``color_threshold`` of ``dendrogram``), after MATLAB.
CUT = 0.7


@dataclass(frozen=True)
class Clusters:
    """A tree of heads, and the clusters that a cut leaves."""

    found: Distances  # the heads and the distances between them
    joined: Floats  # the tree as scipy's ``linkage`` gives it: (join, (one, other, height, heads))
    height: float  # where the tree is cut: what joins at or below it is a cluster
    rule: str  # why there, in words
    #: For each head the number of its cluster, counted down the picture from 1; None for a head on its own.
    numbers: Sequence[int | None]
    leaves: Sequence[int]  # the places of the heads in the order in which they are drawn

    @property
    def sizes(self) -> dict[int, int]:
        """How many heads each cluster of two or more has."""
        return dict(sorted(Counter(one for one in self.numbers if one is not None).items()))

    @property
    def alone(self) -> list[Place]:
        """The heads that are in no cluster with another."""
        return [head for head, number in zip(self.found.heads, self.numbers, strict=True) if number is None]

    def sentence(self) -> str:
        """Say where the tree is cut, and what that leaves."""
        sizes, alone = list(map(str, self.sizes.values())), len(self.alone)
        clusters = "1 cluster" if len(sizes) == 1 else f"{len(sizes)} clusters"
        many = f"{clusters} of {join_names(sizes, len(sizes))} heads" if sizes else ""
        own = "1 head on its own" if alone == 1 else f"{alone} heads on their own" if alone else ""
        height = format_number(self.height)
        return f"cut at {height} ({self.rule}): {', and '.join(filter(None, [many, own]))}"


def cluster_parts(table: HeadTable, request: DrawingRequest) -> Iterator[tuple[str, Clusters]]:
    """Cluster the heads of each part of a table of all pairs, such as a kind of attention."""
    pairs = find_pairs(table)
    assert pairs is not None  # or the table would not fit
    for place in pairs.maps:
        found = compute_distances(table, pairs.rows(place), pairs, request)
        yield place, cluster_heads(found, request.clusters)


def cluster_heads(found: Distances, number: int | None = None) -> Clusters:
    """Join heads by average linkage (UPGMA, Sokal and Michener 1958), and cut the tree.

    Two groups join at the mean distance of their pairs. The tree is cut at 0.7 of the height of its last
    join, or where it falls into ``number`` parts; a part of one head is a head on its own, and no cluster.

    Raises:
        AttnprobeError: When there are not so many heads.
    """
    from scipy.cluster.hierarchy import dendrogram, fcluster, linkage
    from scipy.spatial.distance import squareform

    heads = len(found.heads)
    ordered = heads <= 300  # with more, the best order of leaves takes too long
    joined = linkage(squareform(found.matrix, checks=False), "average", optimal_ordering=ordered)
    if number is None:
        height, rule = CUT * float(joined[-1, 2]), f"{CUT} of the height of the last join"
    elif not 1 <= number <= heads:
        raise AttnprobeError(f"--clusters is a number from 1 to {heads}, as there are {heads} heads")
    else:
        height = _find_cut(joined, heads, number)
        parts = heads - int((joined[:, 2] <= height).sum())
        rule = f"into {parts} parts" if parts == number else f"into {parts} parts: some join at one height"
    parts_of = fcluster(joined, height, "distance")
    leaves = list(map(int, dendrogram(joined, no_plot=True)["leaves"]))
    sizes = Counter(parts_of.tolist())
    order = [part for part in dict.fromkeys(parts_of[leaves].tolist()) if sizes[part] > 1]
    numbers = {part: place for place, part in enumerate(order, start=1)}
    return Clusters(found, joined, height, rule, [numbers.get(part) for part in parts_of.tolist()], leaves)


def _find_cut(joined: Floats, heads: int, number: int) -> float:
    """Find the middle of the heights at which there are so many parts, or the next fewer."""
    heights = np.concatenate([[0.0], joined[:, 2]])  # of average linkage, they never fall
    low = heights[heads - number]
    above = heights[heights > low]
    return float((low + above[0]) / 2 if len(above) else low)


@dataclass(frozen=True)
class Map:
    """Points in the plane."""

    points: Floats  # (item, 2), centred, turned so that they spread most along the first axis
    stress: float  # Kruskal's stress-1; 0 is perfect, 0.2 is poor


def scale_to_plane(distances: Floats) -> Map:
    """Scale distances (item, item) to two dimensions: metric MDS by majorisation (SMACOF).

    It starts from classical scaling (Torgerson 1952) and moves the points by Guttman's transform,

        X <- B(X) X / n,    b_ij = -delta_ij / d_ij(X) for i != j,    b_ii = -sum_j b_ij,

    which never raises the raw stress sum (delta_ij - d_ij)^2. No random start: the same distances give the
    same map. The quality is Kruskal's stress-1, sqrt(sum (delta - d)^2 / sum d^2).

    References:
        Kruskal (1964), Multidimensional scaling by optimizing goodness of fit; de Leeuw (1977);
        Borg and Groenen (2005), Modern multidimensional scaling, chapter 8.
    """
    points = _scale_classically(distances)
    before = np.inf
    for _ in range(1000):
        apart = _measure_distances(points)
        now = float(np.square(distances - apart).sum())
        if not before - now > 1e-7 * max(now, 1e-300) or now == 0:
            break
        before = now
        ratio = np.divide(distances, apart, out=np.zeros_like(apart), where=apart > 0)
        points = (ratio.sum(1)[:, None] * points - ratio @ points) / len(points)
    return Map(_align_axes(points), compute_stress(distances, points))


def compute_stress(distances: Floats, points: Floats) -> float:
    """Give Kruskal's stress-1 of points (item, 2) for distances (item, item)."""
    apart = _measure_distances(points)
    length = np.square(apart).sum()
    return float(np.sqrt(np.square(distances - apart).sum() / length)) if length > 0 else 0.0


def _scale_classically(distances: Floats) -> Floats:
    """Scale by the two largest eigenvectors of the doubly centred squares."""
    squares = np.square(distances)
    rows = squares.mean(1, keepdims=True)
    gram = -(squares - rows - rows.T + squares.mean()) / 2
    values, vectors = np.linalg.eigh(gram)
    return vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0))


def _align_axes(points: Floats) -> Floats:
    """Turn points to their principal axes, with signs that do not depend on chance."""
    centred = points - points.mean(0)
    turned = centred @ np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    signs = np.sign(turned[np.abs(turned).argmax(0), [0, 1]])
    return turned * np.where(signs == 0, 1, signs)


def _measure_distances(points: Floats) -> Floats:
    x, y = points.T
    return np.sqrt(np.square(x[:, None] - x) + np.square(y[:, None] - y))
