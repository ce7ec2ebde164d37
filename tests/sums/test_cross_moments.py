"""Linear CKA from streamed products, against centred Gram matrices of all tokens."""

import numpy as np
import pytest
import torch

from attnprobe.sums.cross_moments import CrossMoments


def by_gram_matrices(x, y):
    """Kornblith et al. (2019), equations 3 and 5: tr(K H L H), over those of each with itself."""
    centring = np.eye(len(x)) - 1 / len(x)

    def hsic(x, y):
        return np.trace(x @ x.T @ centring @ y @ y.T @ centring)

    return hsic(x, y) / np.sqrt(hsic(x, x) * hsic(y, y))


@pytest.fixture
def sides():
    draw = np.random.default_rng(0)
    first = draw.normal(size=(50, 3, 4)) + 30  # far from 0
    second = draw.normal(size=(50, 2, 6))
    second[:, 0, :4] += first[:, 1] * [1, 2, 0, 0]
    return first, second


def summed(first, second, cuts=()):
    parts = zip(np.split(first, cuts), np.split(second, cuts), strict=True)
    whole = None
    for part in parts:
        sums = CrossMoments.of_tokens(*(torch.from_numpy(side) for side in part))
        whole = sums if whole is None else whole + sums
    return whole


@pytest.mark.parametrize("cuts", [(), (20,), (0, 1, 1, 2, 30), (50,)])
def test_every_pair_is_that_of_gram_matrices(sides, cuts):
    first, second = sides
    sums = summed(first, second, cuts)
    wanted = [[by_gram_matrices(first[:, g], second[:, h]) for h in range(2)] for g in range(3)]
    np.testing.assert_allclose(sums.cka, wanted, rtol=1e-9)
    assert sums.count == 50
    np.testing.assert_allclose(sums.first_mean, first.mean(0))
    assert wanted[1][0] > 0.3


def test_what_is_the_same_for_all_tokens_has_none(sides):
    first, second = sides
    still = second.copy()
    still[:, 1] = 0
    cka = summed(first, still).cka
    assert np.isnan(cka[:, 1]).all()
    assert np.isfinite(cka[:, 0]).all()
