"""Jackknife, exchanges, sign flips and adjusted p values, against procedures written out."""

from itertools import product
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import false_discovery_control, kstest, norm, t

from attnprobe.statistics.mixing import explained_by_others
from attnprobe.sums import resampling
from attnprobe.sums.documents import find_block
from attnprobe.sums.groups import Clustered
from attnprobe.sums.resampling import (
    Exchanges,
    Jackknife,
    adjust,
    half_width,
    sign_flip,
)

Floats = NDArray[np.float64]


def ratio(means: Floats) -> Floats:
    return means[..., 0] / means[..., 1]


@pytest.mark.parametrize("number", [2, 7, 40, 300])
def test_by_leaving_out(number):
    """Each block is left out by hand."""
    generator = np.random.default_rng(number)
    documents = np.sort(generator.integers(0, number, 3 * number))
    values = generator.normal(5, 1, (len(documents), 2))
    whole, error = Jackknife.of(values, documents=documents).apply(ratio)
    block = find_block(documents)
    t = values.mean(0)[0] / values.mean(0)[1]
    assert whole == pytest.approx(t, rel=1e-12)
    names = np.unique(block)
    if len(names) < 2:
        assert np.isnan(error)
        return
    without = []
    for name in names:
        left = values[block != name].mean(0)
        without.append(left[0] / left[1])
    expected = (len(names) - 1) / len(names) * np.square(np.array(without) - t).sum()
    assert error == pytest.approx(np.sqrt(expected), rel=1e-9)


def test_of_a_mean_over_windows_it_is_the_error_clustered_by_document():
    """A document a block, of one window to many."""
    _, documents = np.unique(find_block(np.arange(1000)), return_index=True)
    generator = np.random.default_rng(5)
    documents = np.repeat(documents, generator.integers(1, 30, len(documents)))
    values = generator.normal(size=(len(documents), 2)) + generator.normal(size=(1000, 2))[documents]
    found = Jackknife.of(values, documents=documents)
    np.testing.assert_allclose(found.standard_error, Clustered.of(values, documents).standard_error)


@pytest.mark.parametrize("windows", [1, 4])
def test_errors_are_honest(windows):
    """What others explain of a head: the error is that of samples drawn again, also of windows alike."""
    generator, heads, size, draws = np.random.default_rng(1), 4, 120, 150
    a, b = np.triu_indices(heads, 1)
    common = np.array([0.6, 0.5, 0.2, 0.0])
    truth = np.outer(common, common)[a, b]
    found, errors = [], []
    for _ in range(draws):
        each = truth + 0.25 * generator.normal(size=(size, len(truth)))
        values = np.repeat(each, windows, 0) + 0.02 * generator.normal(size=(size * windows, len(truth)))
        documents = np.repeat(np.arange(size), windows)
        share, error = Jackknife.of(values, documents=documents).apply(explained_by_others)
        found.append(share)
        errors.append(error)
    true = np.std(found, 0, ddof=1)[:2]
    said = np.sqrt(np.mean(np.square(errors), 0))[:2]
    assert (np.abs(said / true - 1) < 0.25).all(), said / true


@pytest.mark.parametrize("heads", [1, 72, 144, 1024])
def test_the_smallest_p_survives_holm(heads: int):
    tests = Exchanges.for_tests(heads, 0)
    smallest = tests.p_of(lambda draw, some: np.zeros(some), 1, 10_000)
    assert smallest == 1 / (tests.most + 1)
    assert adjust([smallest, *[1.0] * (heads - 1)])[0] <= 0.05 / 10 + 1e-12


def test_uniform_under_the_null():
    """The share of draws that are as large is uniform itself; so has p to be."""
    draw = np.random.default_rng(0)
    p = [
        Exchanges(seed).p_of(lambda inner, some, level=level: inner.random(some) < level, 1, 4000)
        for seed, level in enumerate(draw.random(2000))
    ]
    assert kstest(p, "uniform").pvalue > 0.01


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


P = st.lists(st.floats(0, 1).map(lambda x: round(x, 4)), min_size=1, max_size=12)


@given(P)
def test_holm(p: list[float]):
    np.testing.assert_allclose(adjust(p), holm(p), rtol=1e-12)


@given(P)
def test_bh(p: list[float]):
    np.testing.assert_allclose(adjust(p, "bh"), false_discovery_control(p), rtol=1e-12)
    ranked = sorted(p)
    by_hand = [
        min(1.0, *(len(p) * q / (rank + 1) for rank, q in enumerate(ranked) if q >= own), 1.0) for own in p
    ]
    np.testing.assert_allclose(adjust(p, "bh"), by_hand, rtol=1e-12)


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


@pytest.mark.parametrize(("documents", "by_normal"), [(5, 0.88), (12, 0.36), (30, 0.13), (128, 0.067)])
def test_intervals_of_all_heads_miss_in_a_twentieth(documents: int, by_normal: float):
    """Simulated: that any of 72 intervals misses its mean has a chance of .05, however few documents."""
    draw, heads, runs = np.random.default_rng(documents), 72, 3000
    missed, missed_by_normal = 0, 0
    for _ in range(runs):
        found = Clustered.of(draw.normal(size=(documents, heads)))
        far = np.abs(found.average)
        missed += bool((far > half_width(found.standard_error, found.clusters)).any())
        missed_by_normal += bool((far > norm.isf(0.025 / heads) * found.standard_error).any())
    assert 0.04 < missed / runs < 0.06
    assert missed_by_normal / runs == pytest.approx(by_normal, abs=0.02)


def test_each_number_has_the_quantile_of_its_own_documents():
    widths = half_width(np.full(3, 0.1), [5, 128, np.inf])
    expected = [t.isf(0.025 / 3, degrees) * 0.1 for degrees in (4, 127, 1e9)]
    np.testing.assert_allclose(widths, expected, rtol=1e-6)
    assert np.isinf(half_width([0.1], 1))
    assert np.isnan(half_width([np.nan], 9))
