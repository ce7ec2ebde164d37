"""Heads in clusters: a tree of those that attend alike, cut at one height."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attnprobe.errors import AttnprobeError
from attnprobe.reports.pictures.asked import Asked
from attnprobe.reports.pictures.pairs import PAIR, Distances, Floats, Place, distances, pairs_of, unit_of
from attnprobe.reports.pictures.rows import cells, keys
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Cell, Column

#: Where a tree is cut when nobody says into how many clusters: this share of the height of its top. So does
#: scipy (``color_threshold`` of ``dendrogram``), after MATLAB.
CUT = 0.7
#: With more heads, to put leaves in the best order takes too long.
_ORDERED = 300


@dataclass(frozen=True)
class Clusters:
    """A tree of heads, and the clusters that a cut leaves.

    Attributes:
        found: The heads and the distances between them.
        joined: The tree as scipy's ``linkage`` gives it: (join, (one, other, height, heads)).
        height: Where the tree is cut: what joins at or below it is a cluster.
        rule: Why there, in words.
        numbers: For each head the number of its cluster, counted down the picture from 1; None for a head on
            its own.
        leaves: The places of the heads in the order in which they are drawn.
    """

    found: Distances
    joined: Floats
    height: float
    rule: str
    numbers: Sequence[int | None]
    leaves: Sequence[int]

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
        sizes, alone = list(self.sizes.values()), len(self.alone)
        many = f"{len(sizes)} cluster{'s' * (len(sizes) != 1)} of {_listed(sizes)} heads" if sizes else ""
        single = (
            f"{alone} head{'s' * (alone != 1)} on {'its' if alone == 1 else 'their'} own" if alone else ""
        )
        said = ", and ".join(filter(None, [many, single]))
        return f"cut at {self.height:.3g} ({self.rule}): {said}"

    def mean_distances(self) -> list[float | None]:
        """Give for each head the mean distance to the other heads of its cluster; None on its own."""
        found: list[float | None] = []
        for head, number in enumerate(self.numbers):
            fellows = [
                other for other, one in enumerate(self.numbers) if one == number is not None and other != head
            ]
            found.append(float(self.found.matrix[head, fellows].mean()) if fellows else None)
        return found


def of_table(table: HeadTable, asked: Asked) -> Iterator[tuple[str, Clusters]]:
    """Give the clusters of each part of a table of all pairs of heads, with what sets the part apart."""
    pairs = pairs_of(table)
    assert pairs is not None  # or the table would not fit
    for place in pairs.maps:
        rows = [row for row, of in enumerate(pairs.of) if of == place]
        yield place, clusters(distances(table, rows, pairs, asked), asked.clusters)


def cluster_table(table: HeadTable, asked: Asked) -> HeadTable:
    """Tabulate which head is in which cluster, and how far it is from the others in it.

    ``cluster`` counts from 1 and is None for a head on its own, and ``heads`` is the size of the cluster.
    ``mean_distance`` is the mean distance from the head to the other heads of its cluster; None on its own. A
    distance is the root of the Jensen-Shannon divergence, in sqrt(nats), or the measure that somebody names.
    """
    pairs = pairs_of(table)
    assert pairs is not None  # or the table would not fit
    names = [name for name in keys(table) if name not in PAIR]
    columns = [Column(name, role="key") for name in (*names, "layer", "head")]
    columns += [
        Column("cluster", role="count"),
        Column("heads", "heads", role="count"),
        Column("mean_distance", unit_of(table, asked), title="mean distance to the rest of its cluster"),
    ]
    data: dict[str, list[Cell]] = {column.name: [] for column in columns}
    notes, heights = [], []
    for place, one in of_table(table, asked):
        row = pairs.of.index(place)
        own = {name: cells(table, name)[row] for name in names}
        for head, number, mean in zip(one.found.heads, one.numbers, one.mean_distances(), strict=True):
            said = {**own, "layer": head[0], "head": head[1], "cluster": number}
            said |= {"heads": 1 if number is None else one.sizes[number], "mean_distance": mean}
            for name, cell in said.items():
                data[name].append(cell)
        sentence = one.sentence()
        notes.append(": ".join(filter(None, [place, f"{sentence[0].upper()}{sentence[1:]}."])))
        heights.append(one.height)
    record = {"linkage": "average", "heights": heights, "parts": asked.clusters}
    kept = {name: one for name, one in table.provenance.items() if name != "measurement"}
    provenance = {"clusters": record, "tables": [{"name": table.title, "provenance": kept}]}
    return HeadTable("clusters of heads", columns, data, notes, provenance)


def clusters(found: Distances, number: int | None = None) -> Clusters:
    """Join heads by average linkage (UPGMA, Sokal and Michener 1958), and cut the tree.

    Two groups join at the mean distance of their pairs. The tree is cut at 0.7 of the height of its last
    join, or where it falls into ``number`` parts; a part of one head is a head on its own, and no cluster.

    Raises:
        AttnprobeError: When there are not so many heads.
    """
    from scipy.cluster.hierarchy import dendrogram, fcluster, linkage
    from scipy.spatial.distance import squareform

    heads = len(found.heads)
    joined = linkage(squareform(found.matrix, checks=False), "average", optimal_ordering=heads <= _ORDERED)
    if number is None:
        height, rule = CUT * float(joined[-1, 2]), f"{CUT} of the last join"
    elif not 1 <= number <= heads:
        raise AttnprobeError(f"--clusters is a number from 1 to {heads}, as there are {heads} heads")
    else:
        height = _height(joined, heads, number)
        parts = heads - int((joined[:, 2] <= height).sum())
        rule = f"into {parts} parts" if parts == number else f"into {parts} parts: some join at one height"
    parts_of = fcluster(joined, height, "distance")
    leaves = list(map(int, dendrogram(joined, no_plot=True)["leaves"]))
    sizes = Counter(parts_of.tolist())
    order = [part for part in dict.fromkeys(parts_of[leaves].tolist()) if sizes[part] > 1]
    numbers = {part: place for place, part in enumerate(order, start=1)}
    return Clusters(found, joined, height, rule, [numbers.get(part) for part in parts_of.tolist()], leaves)


def _height(joined: Floats, heads: int, number: int) -> float:
    """Give the middle of the heights at which there are so many parts, or the next fewer."""
    heights = np.concatenate([[0.0], joined[:, 2]])  # of average linkage, they never fall
    low = heights[heads - number]
    above = heights[heights > low]
    return float((low + above[0]) / 2 if len(above) else low)


def _listed(sizes: Sequence[int]) -> str:
    *most, last = map(str, sizes)
    return f"{', '.join(most)} and {last}" if most else last
