"""Intervals and p values, against scipy and procedures written out."""

from itertools import product
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import f, t, ttest_1samp, ttest_ind

from attnprobe.sums.clustered import Clustered
from attnprobe.sums.inference import Estimate, PermutationTest, adjust, compare_groups, half_width, sign_flip


@pytest.mark.parametrize("heads", [1, 72, 144, 1024])
def test_the_smallest_p_survives_holm(heads: int):
    tests = PermutationTest.for_tests(heads, 0)
    smallest = tests.p_of(lambda draw, number: np.zeros(number), 1, 10_000)
    assert smallest == 1 / (tests.most + 1)
    assert adjust([smallest, *[1.0] * (heads - 1)])[0] <= 0.05 / 10 + 1e-12


def holm(p: list[float]) -> list[float]:
    """The smallest level at which Holm's procedure rejects each hypothesis."""
    steps = [min(1.0, sum(r >= q for r in p) * q) for q in p]
    return [max(step for step, q in zip(steps, p, strict=True) if q <= level) for level in p]


P = st.lists(st.floats(0, 1).map(lambda x: round(x, 4)), min_size=1, max_size=12)


@given(P)
def test_holm(p: list[float]):
    np.testing.assert_allclose(adjust(p), holm(p), rtol=1e-12)


@given(P)
def test_bh(p: list[float]):
    """The smallest rate at which Benjamini and Hochberg reject each hypothesis."""
    rates = [len(p) * q / sum(r <= q for r in p) for q in p]
    expected = [min(rate for rate, r in zip(rates, p, strict=True) if r >= q) for q in p]
    np.testing.assert_allclose(adjust(p, "bh"), expected, rtol=1e-12)


@pytest.mark.parametrize("correction", ["holm", "bh"])
def test_undefined(correction: str):
    """Undefined p values stay so and do not count."""
    p = np.array([0.01, np.nan, 0.04, np.nan, 0.03])
    adjusted = adjust(p, correction)
    assert np.isnan(adjusted[[1, 3]]).all()
    np.testing.assert_array_equal(adjusted[[0, 2, 4]], adjust(p[[0, 2, 4]], correction))
    assert np.isnan(adjust([np.nan, np.nan], correction)).all()
    assert adjust([], correction).shape == (0,)
    np.testing.assert_array_equal(p, [0.01, np.nan, 0.04, np.nan, 0.03])  # not in place


@given(st.lists(st.integers(-5, 5), max_size=7))
def test_sign_flip_over_all_throws(differences: list[int]):
    """Every throw of every coin, of whole numbers and of fractions."""
    throws = np.array(list(product((1, -1), repeat=len(differences))), int)
    sums = throws.reshape(2 ** len(differences), -1) @ np.array(differences, int)
    one_sided, two_sided = (sums >= sum(differences)).mean(), (np.abs(sums) >= abs(sum(differences))).mean()
    for scale in (1, 0.3):  # fractions are rounded
        d = scale * np.array(differences)
        assert sign_flip(d) == pytest.approx(one_sided, abs=1e-12)
        assert sign_flip(d, one_sided=False) == pytest.approx(two_sided, abs=1e-12)


@pytest.mark.parametrize(("number", "ahead"), [(12, 0.5), (64, 0.3)])
def test_sign_flip_of_fractions(number: int, ahead: float):
    """As often as among 200,000 throws, and quick also of large sums."""
    random = np.random.default_rng(number)
    differences = random.lognormal(4, 1, number) * np.where(random.random(number) < (1 + ahead) / 2, 1, -1)
    throws = random.choice([-1.0, 1.0], (200_000, number)) @ differences
    expected = (throws >= differences.sum() - 1e-9).mean()
    start = process_time()
    assert sign_flip(differences) == pytest.approx(expected, abs=4 * (expected / 2e5) ** 0.5)
    assert process_time() - start < 0.5


@pytest.mark.parametrize("one_sided", [False, True])
def test_a_monte_carlo_p_by_hand(one_sided: bool):
    """Of 999 draws, and the difference itself; of those close to chance, until 400 are as large."""
    values = np.random.default_rng(0).normal(size=999)
    for delta in (1.5, 0.1):
        left = iter(values)
        p = PermutationTest(0, 999).p_of(
            lambda _, number, left=left: np.array([next(left) for _ in range(number)]), delta, 7,
            one_sided=one_sided,
        )  # fmt: skip
        large = (values if one_sided else np.abs(values)) >= delta
        last = np.flatnonzero(large.cumsum() == 400)
        assert p == (400 / (last[0] + 1) if len(last) else (large.sum() + 1) / 1000)


@pytest.mark.parametrize("one_sided", [False, True])
def test_student_s_p_is_scipy_s(one_sided: bool):
    values = np.random.default_rng(0).normal(0.2, 1, (12, 5))
    expected = ttest_1samp(values, 0, alternative="greater" if one_sided else "two-sided").pvalue
    np.testing.assert_allclose(Clustered.of(values).estimate.p(one_sided=one_sided), expected)


def test_what_does_not_vary_is_sure():
    estimate = Estimate(np.array([2.0, -2.0, 0.0, 2.0, 1.0]), np.array([0, 1e-11, 0, np.nan, 1]), np.array(9))
    np.testing.assert_array_equal(estimate.p()[:4], [0, 0, 1, np.nan])
    np.testing.assert_array_equal(estimate.p(one_sided=True)[:4], [0, 1, 1, np.nan])
    assert np.isnan(Estimate(np.array(1.0), np.array(0.0), np.array(1)).p())


@pytest.mark.parametrize("documents", [5, 30])
def test_intervals_of_all_heads_miss_in_a_twentieth(documents: int):
    """Simulated: that any of 72 intervals misses its mean has a chance of .05, however few documents."""
    draw, missed, runs = np.random.default_rng(documents), 0, 3000
    for _ in range(runs):
        low, high = Clustered.of(draw.normal(size=(documents, 72))).estimate.interval(together=None)
        missed += bool(((low > 0) | (high < 0)).any())
    assert 0.04 < missed / runs < 0.06


def test_each_number_has_the_quantile_of_its_own_documents():
    widths = half_width(np.full(3, 0.1), [5, 128, np.inf])
    expected = [t.isf(0.025 / 3, degrees) * 0.1 for degrees in (4, 127, 1e9)]
    np.testing.assert_allclose(widths, expected, rtol=1e-6)
    assert np.isinf(half_width([0.1], 1))
    assert np.isnan(half_width([np.nan], 9))


def summarise(samples):
    """Give the mean, its standard error and the number of each sample."""
    return (
        np.array([sample.mean(0) for sample in samples]),
        np.array([sample.std(0, ddof=1) / len(sample) ** 0.5 for sample in samples]),
        np.array([len(sample) for sample in samples]),
    )


def test_two_groups_are_welchs_t():
    draw = np.random.default_rng(0)
    samples = [draw.normal(0.0, 1.0, (9, 20)), draw.normal(0.3, 3.0, (31, 20))]
    expected = ttest_ind(*samples, equal_var=False)
    q, p = compare_groups(*summarise(samples))
    np.testing.assert_allclose(q, expected.statistic**2, rtol=1e-10)
    np.testing.assert_allclose(p, expected.pvalue, rtol=1e-9)


def test_welchs_f_of_several_groups():
    """Written out once more, after Welch (1951), a sample at a time."""
    draw = np.random.default_rng(1)
    samples = [draw.exponential(1 + group, 8 + 5 * group) for group in range(4)]
    k, weights = len(samples), [len(one) / one.var(ddof=1) for one in samples]
    whole = sum(weights)
    grand = sum(w * one.mean() for w, one in zip(weights, samples, strict=True)) / whole
    between = sum(w * (one.mean() - grand) ** 2 for w, one in zip(weights, samples, strict=True)) / (k - 1)
    lost = sum((1 - w / whole) ** 2 / (len(one) - 1) for w, one in zip(weights, samples, strict=True))
    ratio = between / (1 + 2 * (k - 2) * lost / (k**2 - 1))
    expected = f.sf(ratio, k - 1, (k**2 - 1) / (3 * lost))
    groups = summarise(samples)
    assert compare_groups(*groups)[1] == pytest.approx(expected, rel=1e-10)
    # One of four documents, and one without an error, are as good as not there.
    more = (np.append(one, two) for one, two in zip(groups, ([9, 9], [0.1, 0], [4, 30]), strict=True))
    assert compare_groups(*more)[1] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("documents", [2, 3, 4])
def test_there_is_no_p_of_groups_of_few_documents(documents):
    draw = np.random.default_rng(5)
    q, p = compare_groups(*summarise([draw.normal(size=(documents, 100)) for _ in range(8)]))
    assert np.isnan(q).all()
    assert np.isnan(p).all()
    five = compare_groups(*summarise([draw.normal(size=(5, 20_000)) for _ in range(8)]))[1]
    assert (five < 0.05).mean() < 0.08
    of_few = compare_groups([1.0, 3.0], [1.0, 1.0], [31, documents])
    assert np.isnan(of_few).all()
