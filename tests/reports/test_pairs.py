"""Clusters of heads: scipy's, in picture and table alike; points in the plane: scikit-learn's."""

from collections import Counter

import numpy as np
import picture_tables as tables
import pytest
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
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


def tiles(drawn):
    """Give the data of the tiles of heads, from the top."""
    found = [one for one in drawn.spec["datasets"].values() if one and "cluster" in one[0]]
    assert len(found) == 1
    return sorted(found[0], key=lambda tile: tile["row"])


def test_the_cut_is_scipys_customary_one(pairs):
    joined = joined_of(pairs)
    expected = fcluster(joined, CUT * joined[-1, 2], "distance")
    drawn = draw_picture([pairs], "dendrogram")
    assert drawn_parts(drawn.clusters) == parts_of(expected)
    assert len(set(expected)) > 2
    sizes = Counter(expected.tolist())
    said = " ".join(drawn.spec["vconcat"][0]["title"]["subtitle"])
    assert f"cut at {CUT * joined[-1, 2]:.3g} (0.7 of the height of the last join)" in said
    assert f"{sum(size > 1 for size in sizes.values())} cluster" in said
    assert drawn.clusters.provenance["clusters"]["heights"] == [pytest.approx(CUT * joined[-1, 2])]


@pytest.mark.parametrize("number", [1, 2, 3, 7, LAYERS * HEADS])
def test_so_many_parts_as_are_asked_for(pairs, number):
    drawn = draw_picture([pairs], clusters=number)
    groups, alone = drawn_parts(drawn.clusters)
    assert (groups, alone) == parts_of(fcluster(joined_of(pairs), number, "maxclust"))
    assert len(groups) + len(alone) == number
    assert drawn.kind == "dendrogram"


def test_picture_and_table_say_the_same_from_the_top_down(pairs):
    drawn = draw_picture([pairs], clusters=6)
    table, leaves = drawn.clusters, tiles(drawn)
    of_table = {
        (layer, head): (number, mean)
        for layer, head, number, mean in zip(
            *(table.data[name] for name in ("layer", "head", "cluster", "mean_distance")), strict=True
        )
    }
    for tile in leaves:
        number, mean = of_table[tile["layer"], tile["head"]]
        assert tile["cluster"] == ("on its own" if number is None else str(number))
        assert tile["mean"] == mean
    numbers = [int(tile["cluster"]) for tile in leaves if tile["cluster"] != "on its own"]
    assert numbers == sorted(numbers)
    assert sorted(set(numbers)) == list(range(1, max(numbers) + 1))
    sizes = Counter(numbers)
    assert list(table.data["heads"]) == [sizes.get(one, 1) for one in table.data["cluster"]]


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


def test_the_tree_is_scipys(pairs):
    drawn = draw_picture([pairs], "dendrogram")
    heights = {
        round(point["distance"], 12)
        for data in drawn.spec["datasets"].values()
        for point in data
        if "link" in point and point["distance"] > 0
    }
    assert heights == {round(height, 12) for height in joined_of(pairs)[:, 2]}
    points = np.sqrt(np.asarray(pairs.data["jsd"]))
    order = leaves_list(linkage(points, "average", optimal_ordering=True))
    assert [tile["layer"] * HEADS + tile["head"] for tile in tiles(drawn)] == order.tolist()


def test_equal_heads_are_not_torn_apart(pairs):
    data = {name: list(cells) for name, cells in pairs.data.items()}
    data["jsd"] = [0.0] * len(pairs)
    same = HeadTable(pairs.title, pairs.columns, data)
    assert set(draw_picture([same], clusters=3).clusters.data["cluster"]) == {1}
    said = draw_picture([same], clusters=3).clusters.notes[0]
    assert "into 1 parts: some join at one height" in said


def test_two_models_have_clusters_of_their_own(pairs):
    other = HeadTable(pairs.title, pairs.columns, {**pairs.data, "model": ["b"] * len(pairs)})
    table = draw_picture([pairs, other], "dendrogram").clusters
    half = len(table) // 2
    assert table.data["model"] == ["m"] * half + ["b"] * half
    assert table.data["cluster"][:half] == table.data["cluster"][half:]
    assert [note.partition(":")[0] for note in table.notes] == ["m", "b"]


def test_colours_of_joins_are_those_of_their_clusters(pairs):
    """All heads below a coloured join are in one cluster, and none below a grey one are."""
    drawn = draw_picture([pairs], clusters=5)
    cluster_at = {tile["row"]: tile["cluster"] for tile in tiles(drawn)}
    cut = drawn.clusters.provenance["clusters"]["heights"][0]
    layers = drawn.spec["vconcat"][0]["layer"]
    seen = 0
    for layer in layers:
        points = drawn.spec["datasets"].get(layer.get("data", {}).get("name"), [])
        if not points or "link" not in points[0]:
            continue
        colour = layer["mark"]["color"]
        coloured = colour in drawn.theme.categories[:2]
        for point in points:
            assert (point["distance"] <= cut) or not coloured
            if coloured and point["distance"] == 0:
                number = int(cluster_at[round(point["row"])])
                assert drawn.theme.categories[number % 2] == colour
                seen += 1
    assert seen


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
