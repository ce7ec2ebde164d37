"""Whether groups are alike: against loops, against Student's and Welch's tests, and over simulated groups."""

import numpy as np
import pytest
from scipy.stats import chi2, kstest, ttest_ind

from attnprobe.sums.groups import Clustered
from attnprobe.sums.heterogeneity import compare_groups


def summarise(samples):
    """Give the mean, its standard error and the number of each sample."""
    return (
        np.array([sample.mean(0) for sample in samples]),
        np.array([sample.std(0, ddof=1) / len(sample) ** 0.5 for sample in samples]),
        np.array([len(sample) for sample in samples]),
    )


def test_q_by_hand():
    values, errors = [0.2, 0.5, 0.9], [0.1, 0.2, 0.1]
    weights = [1 / error**2 for error in errors]
    mean = sum(w * x for w, x in zip(weights, values, strict=True)) / sum(weights)
    expected = sum(w * (x - mean) ** 2 for w, x in zip(weights, values, strict=True))
    found = compare_groups(values, errors, [40, 40, 40])
    assert found.q == pytest.approx(expected, rel=1e-12)
    assert found.p > chi2.sf(expected, 2)  # which takes the errors for known


def test_two_groups_are_welchs_t():
    draw = np.random.default_rng(0)
    samples = [draw.normal(0.0, 1.0, (9, 20)), draw.normal(0.3, 3.0, (31, 20))]
    expected = ttest_ind(*samples, equal_var=False)
    found = compare_groups(*summarise(samples))
    np.testing.assert_allclose(found.q, expected.statistic**2, rtol=1e-10)
    np.testing.assert_allclose(found.p, expected.pvalue, rtol=1e-9)


def test_welchs_f_of_several_groups():
    """Written out once more, after Welch (1951), a sample at a time."""
    from scipy.stats import f

    draw = np.random.default_rng(1)
    samples = [draw.exponential(1 + group, 8 + 5 * group) for group in range(4)]
    k, weights = len(samples), [len(one) / one.var(ddof=1) for one in samples]
    whole = sum(weights)
    grand = sum(w * one.mean() for w, one in zip(weights, samples, strict=True)) / whole
    between = sum(w * (one.mean() - grand) ** 2 for w, one in zip(weights, samples, strict=True)) / (k - 1)
    lost = sum((1 - w / whole) ** 2 / (len(one) - 1) for w, one in zip(weights, samples, strict=True))
    ratio = between / (1 + 2 * (k - 2) * lost / (k**2 - 1))
    expected = f.sf(ratio, k - 1, (k**2 - 1) / (3 * lost))
    assert compare_groups(*summarise(samples)).p == pytest.approx(expected, rel=1e-10)


def test_many_documents_make_it_chi_square():
    values, errors = np.array([[0.1], [0.14], [0.2]]), np.full((3, 1), 0.02)
    found = compare_groups(values, errors, np.full(3, 10**7))
    assert found.p == pytest.approx(chi2.sf(found.q, 2), rel=1e-5)


@pytest.mark.parametrize("documents", [[30] * 2, [30] * 5, [30] * 12, [30, 60, 200], [100] * 8])
def test_p_is_uniform_where_groups_are_alike(documents):
    """From 30 documents on; groups differ in spread, and shares are a little skewed."""
    draw, times = np.random.default_rng(len(documents)), 20_000
    for make in (
        lambda place, number: draw.normal(0, 1 + place, (number, times)),
        lambda place, number: draw.beta(2, 5, (number, times)),
    ):
        found = compare_groups(*summarise([make(*one) for one in enumerate(documents)]))
        assert 0.04 <= (found.p < 0.05).mean() <= 0.06
        assert 0.006 <= (found.p < 0.01).mean() <= 0.015
        assert kstest(found.p, "uniform").statistic < 0.02


def test_chi_square_alone_would_not_hold_its_level():
    draw = np.random.default_rng(3)
    samples = [draw.normal(size=(30, 20_000)) for _ in range(12)]
    found = compare_groups(*summarise(samples))
    assert (chi2.sf(found.q, 11) < 0.05).mean() > 0.07


def test_documents_of_several_windows():
    """Errors over documents of several windows, as sums give them."""
    draw, times, p = np.random.default_rng(4), 400, []
    for _ in range(times):
        sums = []
        for group in range(4):
            windows = draw.integers(1, 6, 40)
            of = np.repeat(np.arange(40), windows)
            values = draw.normal(size=(40, 12))[of] + draw.normal(size=(len(of), 12))
            clusters = np.where(windows[of] > 1, 1000 * (group + 1) + of, -1)
            sums.append(Clustered.of(values, clusters))
        arrays = ([one.average for one in sums], [one.standard_error for one in sums])
        p.append(compare_groups(*arrays, [one.clusters for one in sums]).p)
    assert 0.04 <= (np.array(p) < 0.05).mean() <= 0.065


def test_groups_without_an_error_do_not_count():
    values, errors = [1.0, 3.0, 7.0, 5.0, np.nan], [1.0, 1.0, 0.0, np.nan, np.nan]
    found = compare_groups(values, errors, [31] * 5)
    two = compare_groups(values[:2], errors[:2], [31] * 2)
    assert (found.q, found.p) == (two.q, two.p)
    assert found.weighed.tolist() == [True, True, False, False, False]
    noise = compare_groups([1.0, 1.0, 1.0 + 1e-12], [0.1, 0.1, 1e-13], [40] * 3)
    assert noise.weighed.tolist() == [True, True, False]


@pytest.mark.parametrize("documents", [[31, 1], [1, 1]])
def test_one_group_is_compared_with_nothing(documents):
    found = compare_groups([1.0, 3.0], [1.0, 1.0], documents)
    assert np.isnan(found.q)
    assert np.isnan(found.p)
