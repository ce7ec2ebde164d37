"""Adjusted p values against the step-down and step-up procedures, written out."""

from itertools import product
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control, norm

from attnprobe.sums import resampling
from attnprobe.sums.resampling import adjust, sign_flip


def holm(p: list[float]) -> list[float]:
    """The smallest level at which Holm's procedure rejects each hypothesis."""
    found = []
    for i, own in enumerate(p):
        no_larger = [q for j, q in enumerate(p) if q < own or (q == own and j <= i)]
        steps = []
        for q in no_larger:
            smaller = sum(r < q for r in p)
            steps.append(min(1.0, (len(p) - smaller) * q))
        found.append(max(steps))
    return found


def rejected_by_holm(p: list[float], level: float) -> list[bool]:
    """Step down: compare the k-th smallest with level / (m - k), and stop at the first that fails."""
    rejected = [False] * len(p)
    for step, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if p[i] > level / (len(p) - step):
            break
        rejected[i] = True
    return rejected


P = st.lists(st.floats(0, 1).map(lambda x: round(x, 4)), min_size=1, max_size=12)


@given(P)
def test_holm(p: list[float]):
    np.testing.assert_allclose(adjust(p), holm(p), rtol=1e-12)


@given(P, st.sampled_from([0.011, 0.0513, 0.217]))
def test_holm_rejects_as_the_procedure_does(p: list[float], level: float):
    assert (adjust(p, "holm") <= level).tolist() == rejected_by_holm(p, level)


@given(P)
def test_bh(p: list[float]):
    np.testing.assert_allclose(adjust(p, "bh"), false_discovery_control(p), rtol=1e-12)
    ranked = sorted(p)
    by_hand = [
        min(1.0, *(len(p) * q / (rank + 1) for rank, q in enumerate(ranked) if q >= own), 1.0) for own in p
    ]
    np.testing.assert_allclose(adjust(p, "bh"), by_hand, rtol=1e-12)


def test_known():
    np.testing.assert_allclose(adjust([0.01, 0.02, 0.03, 0.04]), [0.04, 0.06, 0.06, 0.06])
    np.testing.assert_allclose(adjust([0.04, 0.01, 0.005, 0.03]), [0.06, 0.03, 0.02, 0.06])
    np.testing.assert_allclose(adjust([0.5, 0.9, 0.001]), [1, 1, 0.003])
    np.testing.assert_allclose(adjust([0.01, 0.02, 0.03, 0.04], "bh"), [0.04] * 4)


@pytest.mark.parametrize("correction", ["holm", "bh"])
def test_undefined(correction: str):
    """Undefined p values stay so and do not count."""
    p = np.array([0.01, np.nan, 0.04, np.nan, 0.03])
    found = adjust(p, correction)
    assert np.isnan(found[[1, 3]]).all()
    np.testing.assert_array_equal(found[[0, 2, 4]], adjust(p[[0, 2, 4]], correction))
    assert np.isnan(adjust([np.nan, np.nan], correction)).all()
    assert adjust([], correction).shape == (0,)
    np.testing.assert_array_equal(p, [0.01, np.nan, 0.04, np.nan, 0.03])  # not in place


@pytest.mark.parametrize("correction", ["holm", "bh"])
def test_false_alarms(correction: str):
    """With nothing to find, one alarm in twenty rounds at most, within the error of 2,000 rounds."""
    rounds = np.random.default_rng(0).random((2000, 12))
    alarms = np.mean([(adjust(p, correction) <= 0.05).any() for p in rounds])
    assert 0.035 < alarms < 0.065


@given(
    st.lists(st.integers(-5, 5), max_size=6),
    st.integers(0, 5).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
)
def test_sign_flip_over_all_throws(documents: list[int], coins: tuple[int, int]):
    """Every throw of every coin, of documents and of those of one observation."""
    number, heads = coins
    units = np.array([*map(abs, documents), *[1] * number], int)
    ahead = 2 * heads - number
    throws = np.array(list(product((1, -1), repeat=len(units))), int).reshape(2 ** len(units), len(units))
    expected = (throws @ units >= sum(documents) + ahead).mean()
    found = sign_flip(np.array(documents, np.int64), ahead, number)
    assert found == pytest.approx(expected, abs=1e-12)


def test_many_coins_are_a_normal_distribution():
    few, many = (sign_flip(np.array([30, -10]), 100, squares) for squares in (4096, 4098))
    assert few == pytest.approx(many, rel=1e-3)


@pytest.mark.parametrize("coins", [0, 400])
@pytest.mark.parametrize(("documents", "ahead"), [(12, 0.2), (128, 0.15), (128, 0.5)])
def test_large_differences_on_a_coarse_grid(monkeypatch, documents: int, ahead: float, coins: int):
    """The same p within 5 %, and 20 % far into the tail, also where one document outweighs many."""
    random = np.random.default_rng(documents)
    sizes = np.round(random.lognormal(4, 1, documents)).astype(np.int64)
    differences = np.where(random.random(documents) < (1 + ahead) / 2, sizes, -sizes)
    differences[0] = sizes.max() * 5
    exact = sign_flip(differences, 3, coins)
    monkeypatch.setattr(resampling, "_CELLS", len(sizes) * 2 * int(abs(differences).sum()) // 8)
    assert sign_flip(differences, 3, coins) == pytest.approx(exact, rel=0.05 if exact > 1e-4 else 0.2)


def test_very_large_differences_are_quick():
    """128 documents of 20,000 links: a grid of at most a million cells, where 650 million were filled."""
    differences = np.random.default_rng(0).integers(-15_000, 20_000, 128)
    start = perf_counter()
    found = sign_flip(differences)
    assert perf_counter() - start < 0.5
    deviation = float(np.square(differences, dtype=float).sum() ** 0.5)
    assert found == pytest.approx(norm.sf(differences.sum() / deviation), rel=0.15)  # whose tail is too fat
