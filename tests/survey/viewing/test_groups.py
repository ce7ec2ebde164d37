"""Words, blocks of patches and rollout against loops that spell out what they are."""

import numpy as np
import pytest

from attnprobe.survey.viewing.groups import (
    find_squares,
    find_stretches,
    group_tokens,
    number_groups,
    roll_out,
)

DRAW = np.random.default_rng(3)


def softmax(*shape):
    found = np.exp(DRAW.normal(size=shape) * 2)
    return found / found.sum(-1, keepdims=True)


def test_words_are_sums_of_keys_and_means_of_queries():
    rows, queries, keys = softmax(2, 3, 6, 5), np.array([0, 1, 1, 2, 2, 2]), np.array([0, 0, 1, 2, 2])
    found = group_tokens(rows, queries, keys)
    assert found.shape == (2, 3, 3, 3)
    for query in range(3):
        for key in range(3):
            expected = np.zeros((2, 3))
            members = [place for place in range(6) if queries[place] == query]
            for one in members:
                for other in range(5):
                    if keys[other] == key:
                        expected += rows[:, :, one, other] / len(members)
            np.testing.assert_allclose(found[:, :, query, key], expected, atol=1e-12)
    np.testing.assert_allclose(found.sum(-1), 1)
    np.testing.assert_array_equal(group_tokens(rows, None, None), rows)


@pytest.mark.parametrize("removed", [False, True])
def test_rollout_multiplies_half_the_mean_and_half_the_identity(removed):
    rows = softmax(4, 3, 5, 5)
    standing = np.ones((4, 3), bool)
    if removed:
        standing[1, 0] = standing[3] = False
    expected = None
    for layer, found in enumerate(roll_out(rows, standing if removed else None)):
        left = [rows[layer, head] for head in range(3) if standing[layer, head]]
        mean = sum(left) / len(left) if left else np.eye(5)
        step = 0.5 * mean + 0.5 * np.eye(5)
        expected = step if expected is None else step @ expected
        np.testing.assert_allclose(found, expected, atol=1e-12)
        np.testing.assert_allclose(found.sum(-1), 1)


def test_rollout_shares_rows_out_that_sinks_take_from():
    rows = softmax(2, 3, 5, 5)
    np.testing.assert_allclose(roll_out(rows * 0.5), roll_out(rows))


@pytest.mark.parametrize(
    ("rows", "columns", "most"), [(28, 28, 256), (14, 14, 255), (37, 37, 251), (16, 40, 100)]
)
def test_squares_are_square_and_no_larger_than_need_be(rows, columns, most):
    found, down, right = find_squares(rows, columns, most)
    assert len(found) == rows * columns
    assert down * right <= most
    assert sorted(set(found)) == list(range(down * right))
    side = -(-rows // down)
    for row in range(rows):
        for column in range(columns):
            assert found[row * columns + column] == row // side * right + column // side
    if side > 1:
        assert -(-rows // (side - 1)) * -(-columns // (side - 1)) > most


def test_stretches_and_numbers():
    assert find_stretches(10, 4).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert len(set(find_stretches(1500, 256).tolist())) == 250
    assert number_groups([5, 5, -1, 5, 2]).tolist() == [0, 0, 1, 0, 2]
