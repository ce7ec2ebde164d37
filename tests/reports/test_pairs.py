"""Clusters of heads: scipy's, in picture and table alike; points in the plane: scikit-learn's."""

import numpy as np
import picture_tables as tables
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist, squareform

from attnprobe import AttnprobeError
from attnprobe.reports.pairs import CUT, compute_stress, scale_to_plane
from attnprobe.reports.pictures.choosing import draw_picture

LAYERS, HEADS = 4, 5


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


def drawn_parts(table):
    own = [f"own {row}" if number is None else number for row, number in enumerate(table.data["cluster"])]
    return parts_of(own)


def test_the_cut_is_scipys_customary_one(pairs):
    joined = joined_of(pairs)
    expected = fcluster(joined, CUT * joined[-1, 2], "distance")
    drawn = draw_picture([pairs], "clustermap")
    assert drawn_parts(drawn.clusters) == parts_of(expected)
    assert len(set(expected)) > 2
    assert drawn.clusters.provenance["clusters"]["heights"] == [pytest.approx(CUT * joined[-1, 2])]


def test_the_mean_distance_is_over_the_others_of_the_cluster(pairs):
    table = draw_picture([pairs], clusters=4).clusters
    distance = {}
    for row in range(len(pairs)):
        one, other = ((pairs.data[f"layer_{s}"][row], pairs.data[f"head_{s}"][row]) for s in "ab")
        distance[one, other] = distance[other, one] = np.sqrt(pairs.data["jsd"][row])
    heads = list(zip(table.data["layer"], table.data["head"], strict=True))
    for place, head in enumerate(heads):
        number = table.data["cluster"][place]
        fellows = [
            other
            for other, one in zip(heads, table.data["cluster"], strict=True)
            if one == number is not None and other != head
        ]
        expected = np.mean([distance[head, other] for other in fellows]) if fellows else None
        assert table.data["mean_distance"][place] == (
            expected if expected is None else pytest.approx(expected)
        )


@pytest.mark.parametrize(
    ("make", "asked", "says"),
    [
        (
            lambda: tables.of_heads("entropy"),
            {"clusters": 3},
            "--clusters, which is about all pairs of heads",
        ),
        (tables.all_pairs, {"clusters": 13}, "from 1 to 12, as there are 12 heads"),
        (tables.all_pairs, {"clusters": 0}, "1 or more, not 0"),
        (tables.all_pairs, {"clusters": 3, "kind": "map"}, "leave it out of --kind map"),
    ],
)
def test_refusals(make, asked, says):
    with pytest.raises(AttnprobeError, match=says):
        draw_picture([make()], **asked)


@pytest.fixture
def distances():
    return squareform(pdist(np.random.default_rng(3).normal(size=(20, 6))))


def test_points_in_the_plane_come_back():
    points = np.random.default_rng(0).normal(size=(15, 2))
    found = scale_to_plane(squareform(pdist(points)))
    assert pdist(found.points) == pytest.approx(pdist(points), abs=1e-6)
    assert found.stress < 1e-6


def test_stress_is_kruskals(distances):
    found = scale_to_plane(distances)
    apart = pdist(found.points)
    assert found.stress == pytest.approx(
        np.sqrt(np.sum((pdist_of(distances) - apart) ** 2) / np.sum(apart**2))
    )
    assert found.stress == pytest.approx(
        compute_stress(distances, found.points[:, ::-1] * [1, -1])
    )  # however it is turned


def pdist_of(matrix):
    return matrix[np.triu_indices(len(matrix), 1)]
