"""Tables of pairs of heads: their distances as a matrix, as a tree of heads, and as points in a plane."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import DataError, UsageError
from attnprobe.reports.columns import (
    DrawingRequest,
    label_rows,
    list_keys,
    name_measure,
    read_cells,
    read_floats,
)
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.kinds import PAIR, PAIR_IN_LAYER
from attnprobe.table.numbers import format_number, name_head
from attnprobe.table.table import Cell, HeadTable

Floats = NDArray[np.float64]
Place = tuple[Cell, Cell]
#: The divergence, which is the square of a distance: its root obeys the triangle inequality (Endres and
#: Schindelin 2003).
SQUARED = "jsd"
#: The usual cut of a tree, as a share of the height of its last join; scipy's ``dendrogram`` colours by it.
CUT = 0.7


@dataclass(frozen=True)
class Pairs:
    """The pairs of a table: for each row the layer and head of both, and its other keys as a label."""

    labels: Sequence[str]
    first: Sequence[Place]
    second: Sequence[Place]

    @property
    def within(self) -> bool:
        """Whether all pairs lie within a layer."""
        return all(a[0] == b[0] for a, b in zip(self.first, self.second, strict=True))


def find_pairs(table: HeadTable) -> Pairs | None:
    """Read the pairs of a table; None where its rows are not pairs of two heads, or a pair has two rows."""
    keys = list_keys(table)
    names = next((pair for pair in (PAIR, PAIR_IN_LAYER) if set(pair) <= set(keys)), None)
    if names is None or not len(table):
        return None
    layer, head, *others = (read_cells(table, name) for name in names)
    labels = label_rows(table, [name for name in keys if name not in names])
    first = list(zip(layer, head, strict=True))
    second = list(zip(*(others if len(others) == 2 else (layer, *others)), strict=True))
    pairs = {(label, frozenset({a, b})) for label, a, b in zip(labels, first, second, strict=True)}
    if len(pairs) < len(table) or any(len(pair) < 2 for _, pair in pairs):
        return None
    return Pairs(labels, first, second)


def name_pairs(table: HeadTable) -> list[str]:
    """Name the pair of each row, such as ``L3 H1 + L5 H2``, with its kinds of attention if several."""
    sides = []
    for side in "ab":
        names = [f"{part}_{side}" for part in ("attention", "layer", "head")]
        cells = [read_cells(table, name) for name in names if name in table.data]
        sides.append([name_head(*map(format_cell, place)) for place in zip(*cells, strict=True)])
    return [" + ".join(pair) for pair in zip(*sides, strict=True)]


def has_all_pairs(table: HeadTable) -> bool:
    """Tell whether a table has the divergences of pairs of heads in different layers."""
    pairs = find_pairs(table) if SQUARED in table.data else None
    return pairs is not None and not pairs.within


@dataclass(frozen=True)
class Distances:
    """Distances between the heads of a part of a table, such as a kind of attention."""

    part: str
    heads: list[Place]
    matrix: Floats  # (head, head), symmetric, 0 on the diagonal
    left_out: list[Place]  # heads that lack a distance to another head
    name: str  # of the distances, with their unit


def read_distances(table: HeadTable, request: DrawingRequest) -> Iterator[Distances]:
    """Lay out distances in each part of a table as a matrix: the root of the divergence, or a named measure.

    Heads are left out, those with most gaps first, until each pair has a distance.
    Raises AttnprobeError when fewer than three heads have distances to one another.
    """
    pairs = find_pairs(table)
    assert pairs is not None  # or the table would not fit
    column = request.columns(table, 1)[0] if request.measures else table.column(SQUARED)
    squared, unit = column.name == SQUARED, clean(column.unit)
    name = "Jensen-Shannon distance" if squared else name_measure(column)
    values = read_floats(table, column.name)
    values = np.sqrt(np.maximum(values, 0)) if squared else values
    for part in dict.fromkeys(pairs.labels):
        rows = [row for row, label in enumerate(pairs.labels) if label == part]
        heads = list(dict.fromkeys(side[row] for side in (pairs.first, pairs.second) for row in rows))
        if all(isinstance(number, int) for head in heads for number in head):
            heads.sort()  # type: ignore[type-var]
        place = {head: number for number, head in enumerate(heads)}
        matrix = np.full((len(heads), len(heads)), np.nan)
        np.fill_diagonal(matrix, 0.0)
        for row in rows:
            a, b = place[pairs.first[row]], place[pairs.second[row]]
            matrix[a, b] = matrix[b, a] = values[row]
        kept = np.arange(len(heads))
        while (gaps := np.isnan(matrix[np.ix_(kept, kept)]).sum(1)).any():
            kept = np.delete(kept, gaps.argmax())
        if len(kept) < 3:
            raise DataError(
                f"fewer than three heads have {column.name} to one another, too few for a map or a tree"
            )
        left_out = [head for number, head in enumerate(heads) if number not in kept]
        shown = f"{name} ({f'sqrt({unit})' if squared else unit})" if unit else name
        yield Distances(part, [heads[row] for row in kept], matrix[np.ix_(kept, kept)], left_out, shown)


@dataclass(frozen=True)
class Clusters:
    """A tree of heads, and the clusters that a cut leaves."""

    distances: Distances
    joined: Floats  # the tree as scipy's ``linkage`` gives it: (join, (first, second, height, heads))
    height: float  # of the cut: groups that join at or below it are one cluster
    rule: str  # how the height was chosen, in words
    numbers: Sequence[int | None]  # the cluster of each head, from 1 down the picture; None for a lone head
    leaves: Sequence[int]  # the heads in the order in which they are drawn

    @property
    def sizes(self) -> dict[int, int]:
        """How many heads each cluster of two or more has."""
        return dict(sorted(Counter(number for number in self.numbers if number is not None).items()))

    def explain(self) -> str:
        """Write the height of the cut and its rule, the number and sizes of clusters, and of lone heads."""
        sizes, alone = self.sizes.values(), self.numbers.count(None)
        ends = dict.fromkeys(map(str, (min(sizes, default=0), max(sizes, default=0))))
        plural = "" if len(sizes) == 1 else "s"
        parts = [f"{len(sizes)} cluster{plural} of {' to '.join(ends)} heads"] if sizes else []
        parts += [f"{alone} alone"] if alone else []
        return f"cut at {format_number(self.height)} ({self.rule}): {', '.join(parts)}"


def cluster_heads(distances: Distances, number: int | None = None) -> Clusters:
    """Join heads by average linkage (UPGMA, Sokal and Michener 1958), and cut the tree.

    Two groups join at the mean distance of their pairs. The tree is cut at 0.7 of the height of its last
    join, or so that it falls into ``number`` parts, or fewer if joins tie. A single head is not a cluster.

    Raises AttnprobeError when there are fewer heads than ``number``.
    """
    from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
    from scipy.spatial.distance import squareform

    heads = len(distances.heads)
    ordered = heads <= 300  # with more, the best order of leaves takes too long
    joined = linkage(squareform(distances.matrix, checks=False), "average", optimal_ordering=ordered)
    heights = np.concatenate([[0.0], joined[:, 2]])  # of average linkage, they never fall
    if number is None:
        height, rule = CUT * float(heights[-1]), f"{CUT} of the last join"
    elif number > heads:
        raise UsageError(f"--clusters is a number from 1 to {heads}, as there are {heads} heads")
    else:
        # The middle of the heights at which there are so many parts, or the next fewer.
        low = heights[heads - number]
        height = float((low + min(heights[heights > low], default=low)) / 2)
        parts = heads - int((joined[:, 2] <= height).sum())
        rule = f"into {parts} parts" + (": some join at one height" if parts < number else "")
    labels, leaves = fcluster(joined, height, "distance"), leaves_list(joined).tolist()
    sizes = Counter(labels.tolist())
    order = [label for label in dict.fromkeys(labels[leaves].tolist()) if sizes[label] > 1]
    numbers = {label: place for place, label in enumerate(order, start=1)}
    return Clusters(distances, joined, height, rule, [numbers.get(one) for one in labels.tolist()], leaves)


def scale_to_plane(distances: Floats) -> tuple[Floats, float]:
    """Scale distances (item, item) to two dimensions: metric MDS by majorisation (SMACOF).

    It starts from classical scaling (Torgerson 1952) and moves the points by Guttman's transform,

        X <- B(X) X / n,    b_ij = -delta_ij / d_ij(X) for i != j,    b_ii = -sum_j b_ij,

    which never raises the raw stress sum (delta_ij - d_ij)^2. No random start: the same distances give the
    same map.

    Returns the points (item, 2), centred and turned so that they spread most along the first axis; and the
    stress-1 of Kruskal (1964), sqrt(sum (delta - d)^2 / sum d^2): 0 is perfect, 0.2 is poor. After de Leeuw
    (1977); Borg and Groenen (2005), Modern multidimensional scaling, chapter 8.
    """
    squares = np.square(distances)
    rows = squares.mean(1, keepdims=True)
    values, vectors = np.linalg.eigh(-(squares - rows - rows.T + squares.mean()) / 2)
    points = vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0))
    reached, before = _measure_distances(points), np.inf
    for _ in range(1000):
        stress = float(np.square(distances - reached).sum())
        if not before - stress > 1e-7 * max(stress, 1e-300) or stress == 0:
            break
        before = stress
        ratio = np.divide(distances, reached, out=np.zeros_like(reached), where=reached > 0)
        points = (ratio.sum(1)[:, None] * points - ratio @ points) / len(points)
        reached = _measure_distances(points)
    points = points - points.mean(0)
    points = points @ np.linalg.eigh(points.T @ points)[1][:, ::-1]
    points *= np.where(points[np.abs(points).argmax(0), [0, 1]] < 0, -1, 1)  # no sign depends on chance
    length = np.square(reached).sum()
    stress = np.square(distances - reached).sum()
    return points, float(np.sqrt(stress / length)) if length > 0 else 0.0


def _measure_distances(points: Floats) -> Floats:
    return np.hypot(*(side[:, None] - side for side in points.T))
