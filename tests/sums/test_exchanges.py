"""Tests by exchange: as fine as the correction needs, and no more draws than that takes."""

import numpy as np
import pytest
from scipy.stats import kstest

from attnprobe.sums.resampling import ENOUGH, FEWEST, MOST, Exchanges, adjust


@pytest.mark.parametrize("heads", [1, 72, 144, 1024])
def test_the_smallest_p_survives_holm(heads: int):
    tests = Exchanges.for_tests(heads, 0)
    smallest = tests.p_of(lambda draw, some: np.zeros(some), 1, 10_000)
    assert smallest == 1 / (tests.most + 1)
    assert adjust([smallest, *[1.0] * (heads - 1)])[0] <= 0.05 / 10 + 1e-12


def test_budget():
    assert Exchanges.for_tests(1, 0).most == FEWEST
    assert Exchanges.for_tests(10**9, 0).most == MOST


def test_what_is_no_effect_ends_early():
    asked = []

    def as_large(draw: np.random.Generator, some: int) -> np.ndarray:
        asked.append(some)
        return draw.random(some) < 0.4

    found = Exchanges.for_tests(1000, 0).p_of(as_large, 1, 10**6)
    assert found == pytest.approx(0.4, abs=0.08)
    assert sum(asked) <= 4 * ENOUGH / 0.4
    assert Exchanges(0).p_of(lambda draw, some: np.ones(some), 1, 7) == 1


@pytest.mark.parametrize("at_once", [1, 37, 10**6])
def test_pieces_do_not_matter(at_once: int):
    drawn = np.random.default_rng(1).random(FEWEST) < 0.05
    place = 0

    def as_large(_: np.random.Generator, some: int) -> np.ndarray:
        nonlocal place
        place += some
        return drawn[place - some : place]

    assert Exchanges(0).p_of(as_large, 1, at_once) == ENOUGH / (1 + np.flatnonzero(drawn)[ENOUGH - 1])


def test_uniform_under_the_null():
    """The share of draws that are as large is uniform itself; so has p to be."""
    draw = np.random.default_rng(0)
    p = [
        Exchanges(seed).p_of(lambda inner, some, level=level: inner.random(some) < level, 1, 4000)
        for seed, level in enumerate(draw.random(2000))
    ]
    assert kstest(p, "uniform").pvalue > 0.01
