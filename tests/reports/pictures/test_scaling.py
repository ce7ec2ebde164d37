"""Points in the plane: against scikit-learn, against known points, and never by chance."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from sklearn.manifold import smacof

from attnprobe.reports.pictures.pairs import compute_stress, scale_to_plane


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
