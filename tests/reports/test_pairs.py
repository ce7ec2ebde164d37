"""Clusters of heads: scipy's, points in the plane: scikit-learn's."""

from dataclasses import replace

import numpy as np
import picture_tables as tables
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist, squareform

from attnprobe import AttnprobeError
from attnprobe.reports.charts.draw import draw_picture
from attnprobe.reports.columns import DrawingRequest
from attnprobe.reports.pairs import CUT, cluster_heads, read_distances, scale_to_plane
from attnprobe.reports.theme import THEMES

LAYERS, HEADS = 4, 5
UNKNOWN = replace(tables.all_pairs(), data={**tables.all_pairs().data, "jsd": [np.nan] * 66})


@pytest.fixture
def pairs():
    return tables.all_pairs(LAYERS, HEADS)


def joined_of(pairs):
    """The tree of a table whose pairs come in scipy's order."""
    return linkage(np.sqrt(np.asarray(pairs.data["jsd"])), "average")


def parts_of(labels):
    """Give the parts of two heads or more, and the heads on their own."""
    groups = {}
    for head, label in enumerate(labels):
        groups.setdefault(label, set()).add(head)
    return (
        {frozenset(one) for one in groups.values() if len(one) > 1},
        {next(iter(one)) for one in groups.values() if len(one) == 1},
    )


def parts_in(pairs, number=None):
    """Give the parts of the tree as it is drawn."""
    (distances,) = read_distances(pairs, DrawingRequest(THEMES["light"], 605))
    drawn = cluster_heads(distances, number)
    assert distances.heads == [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    return parts_of([f"alone {row}" if one is None else one for row, one in enumerate(drawn.numbers)])


def test_the_cut_is_scipys_customary_one(pairs):
    joined = joined_of(pairs)
    expected = fcluster(joined, CUT * joined[-1, 2], "distance")
    assert parts_in(pairs) == parts_of(expected)
    assert len(set(expected)) > 2


def test_a_tree_is_cut_into_so_many_parts(pairs):
    assert parts_in(pairs, 4) == parts_of(fcluster(joined_of(pairs), 4, "maxclust"))


@pytest.mark.parametrize(
    ("make", "options", "says"),
    [
        (
            lambda: tables.of_heads("entropy"),
            {"clusters": 3},
            "--clusters, which is about all pairs of heads",
        ),
        (lambda: UNKNOWN, {"kind": "map"}, "fewer than three heads have jsd"),
        (tables.all_pairs, {"clusters": 13}, "from 1 to 12, as there are 12 heads"),
        (tables.all_pairs, {"clusters": 3, "kind": "map"}, "leave it out of --kind map"),
    ],
)
def test_refusals(make, options, says):
    with pytest.raises(AttnprobeError, match=says):
        draw_picture([make()], **options)


def test_points_in_the_plane_come_back():
    points = np.random.default_rng(0).normal(size=(15, 2))
    scaled, stress = scale_to_plane(squareform(pdist(points)))
    assert pdist(scaled) == pytest.approx(pdist(points), abs=1e-6)
    assert stress < 1e-6


def test_stress_is_kruskals():
    matrix = squareform(pdist(np.random.default_rng(3).normal(size=(20, 6))))
    points, stress = scale_to_plane(matrix)
    given, drawn = squareform(matrix), pdist(points)
    assert stress == pytest.approx(np.sqrt(np.sum((given - drawn) ** 2) / np.sum(drawn**2)))
