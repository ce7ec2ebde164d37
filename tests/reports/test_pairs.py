"""Clusters of heads: scipy's, in picture and table alike; points in the plane: scikit-learn's."""

import numpy as np
import picture_tables as tables
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist, squareform
from sklearn.manifold import smacof

from attnprobe import AttnprobeError
from attnprobe.reports.pairs import CUT, compute_stress, scale_to_plane
from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.table.head_table import HeadTable

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


@pytest.mark.parametrize("number", [1, 2, 3, 7, LAYERS * HEADS])
def test_so_many_parts_as_are_asked_for(pairs, number):
    drawn = draw_picture([pairs], clusters=number)
    groups, alone = drawn_parts(drawn.clusters)
    assert (groups, alone) == parts_of(fcluster(joined_of(pairs), number, "maxclust"))
    assert len(groups) + len(alone) == number
    assert drawn.kind == "clustermap"


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


def test_two_models_have_clusters_of_their_own(pairs):
    other = HeadTable(pairs.title, pairs.columns, {**pairs.data, "model": ["b"] * len(pairs)})
    table = draw_picture([pairs, other], "clustermap").clusters
    half = len(table) // 2
    assert table.data["model"] == ["m"] * half + ["b"] * half
    assert table.data["cluster"][:half] == table.data["cluster"][half:]
    assert [note.partition(":")[0] for note in table.notes] == ["m", "b"]


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


def test_other_pictures_have_no_clusters(pairs):
    with pytest.raises(AttnprobeError, match="a picture of kind map has no clusters"):
        draw_picture([pairs], "map").clusters  # noqa: B018 - asking is what fails


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


def test_no_random_start_of_scikit_learn_finds_a_better_map(distances):
    """And from where ours ends, its own iterations find nothing more."""
    found = scale_to_plane(distances)
    raw = np.sum((pdist_of(distances) - pdist(found.points)) ** 2)
    _, theirs = smacof(distances, n_components=2, init=found.points, n_init=1, max_iter=3000, eps=1e-12)
    assert theirs == pytest.approx(raw, rel=1e-3)
    _, best = smacof(distances, n_components=2, n_init=8, random_state=0, max_iter=1000, eps=1e-9)
    assert raw < 1.05 * best


def test_a_map_is_the_same_every_time_and_in_every_order(distances):
    found, again = scale_to_plane(distances), scale_to_plane(distances.copy())
    assert np.array_equal(found.points, again.points)
    order = np.random.default_rng(5).permutation(20)
    turned = scale_to_plane(distances[np.ix_(order, order)])
    assert turned.points == pytest.approx(found.points[order], abs=1e-2)
    assert np.ptp(found.points, axis=0)[0] > 0
    assert np.var(found.points, axis=0)[0] >= np.var(found.points, axis=0)[1]


def test_equal_heads_lie_on_one_point():
    found = scale_to_plane(np.zeros((4, 4)))
    assert (found.points == 0).all()
    assert found.stress == 0
