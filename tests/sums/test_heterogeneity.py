"""Whether groups are alike: against loops, against Student's and Welch's tests, and over simulated groups."""

import numpy as np
import pytest
from scipy.stats import kstest, ttest_ind

from attnprobe.sums.heterogeneity import compare_groups


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
    assert compare_groups(*summarise(samples))[1] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("documents", [[30] * 2, [30] * 5, [30, 60, 100]])
def test_p_is_uniform_where_groups_are_alike(documents):
    """From 30 documents on; groups differ in spread, and shares are a little skewed."""
    draw, times = np.random.default_rng(len(documents)), 20_000
    for make in (
        lambda place, number: draw.normal(0, 1 + place, (number, times)),
        lambda place, number: draw.beta(2, 5, (number, times)),
    ):
        _, p = compare_groups(*summarise([make(*one) for one in enumerate(documents)]))
        assert 0.04 <= (p < 0.05).mean() <= 0.06
        assert 0.006 <= (p < 0.01).mean() <= 0.015
        assert kstest(p, "uniform").statistic < 0.02


@pytest.mark.parametrize("documents", [2, 3, 4])
def test_there_is_no_p_of_groups_of_few_documents(documents):
    draw = np.random.default_rng(5)
    q, p = compare_groups(*summarise([draw.normal(size=(documents, 100)) for _ in range(8)]))
    assert np.isnan(q).all()
    assert np.isnan(p).all()
    five = compare_groups(*summarise([draw.normal(size=(5, 20_000)) for _ in range(8)]))[1]
    assert (five < 0.05).mean() < 0.08
    one = compare_groups([1.0, 3.0], [1.0, 1.0], [31, documents])
    assert np.isnan(one).all()
