"""Rank correlation without noise: little bias, intervals that hold the truth, nothing from noise alone."""

import numpy as np
import pytest
from scipy.stats import norm, spearmanr

from attnprobe.findings.noise import LEAST, Sample
from attnprobe.findings.rank_noise import disattenuate_ranks
from attnprobe.sums.groups import Blocks

HEADS = 72


def truths(r, draw, skewed=False):
    """Draw two vectors over heads, normal or lognormal, and their rank correlation."""
    one, other = draw.normal(size=(2, HEADS))
    both = one, r * one + (1 - r**2) ** 0.5 * other
    both = tuple(np.exp(side) for side in both) if skewed else both
    return *both, spearmanr(*both).statistic


def summed(values, start=0):
    blocks = Blocks.of(values, np.arange(start, start + len(values)))
    some = blocks.count > 0
    return Sample(blocks.count[some], blocks.total[some], np.flatnonzero(some))


def sample(truth, noise, draw, examples=100):
    """Sum up examples whose noise has heavy tails, and is larger for heads with larger values."""
    scatter = draw.normal(size=(examples, HEADS)) * draw.exponential(size=(examples, 1))
    return summed(truth + noise * np.maximum(abs(truth), 0.5) * scatter)


def same_documents(x, y, noise, draw, examples=120, other=0):
    """Sum up both sides over the same documents, whose noise is nearly the same."""
    size = draw.exponential(size=(examples + other, 1))
    ours, own = draw.normal(size=(2, examples + other, HEADS))
    theirs = 0.9 * ours + 0.19**0.5 * own
    first = (x + noise * size * ours)[:examples]
    second = (y + noise * size * theirs)[other:]
    return summed(first), summed(second, other)


def by_loops(one, other, splits, seed, shared):
    """Divide correlations of halves, split by split, with scipy."""
    draw = np.random.default_rng(seed)

    def cut(side):
        places = draw.permuted(np.tile(np.arange(len(side.count)), (splits, 1)), axis=1)
        return [set(np.flatnonzero(row < len(side.count) // 2)) for row in places]

    here = cut(one)
    there = here if shared else cut(other)

    def halves(side, first):
        found = []
        for half in (first, set(range(len(side.count))) - first):
            some = sorted(half)
            found.append(side.total[some].sum(0) / side.count[some].sum())
        return found

    crossed, own, its = [], [], []
    for a, b in zip(here, there, strict=True):
        x, y = halves(one, a), halves(other, b)
        crossed += [spearmanr(x[0], y[1]).statistic, spearmanr(x[1], y[0]).statistic]
        own.append(spearmanr(*x).statistic)
        its.append(spearmanr(*y).statistic)
    r = [2 * np.sin(np.pi / 6 * np.mean(part)) for part in (crossed, own, its)]
    return 6 / np.pi * np.arcsin(r[0] / (r[1] * r[2]) ** 0.5 / 2)


@pytest.mark.parametrize("shared", [True, False])
def test_the_estimate_is_that_of_halves_by_scipy(shared):
    draw = np.random.default_rng(7)
    x, y, _ = truths(0.5, draw)
    one, other = same_documents(x, y, 2, draw, examples=40)
    one = Sample(one.count, one.total.round(), one.block)  # with ties
    found = disattenuate_ranks(one, other, splits=7, seed=3, shared=shared)
    assert found.spearman == pytest.approx(by_loops(one, other, 7, 3, shared))


def test_the_error_is_the_jackknife_over_blocks():
    """Without a block, the halves are those of the others, cut as before."""
    draw = np.random.default_rng(2)
    x, y, _ = truths(0.5, draw)
    one, other = same_documents(x, y, 2, draw, examples=20)
    found = disattenuate_ranks(one, other, splits=5, shared=True)
    left = []
    for block in range(len(one.count)):
        less = []
        for side in (one, other):
            count, total = side.count.copy(), side.total.copy()
            count[block], total[block] = 0, 0
            less.append(Sample(count, total, side.block))
        left.append(by_loops(*less, 5, 0, shared=True))
    error = ((len(left) - 1) / len(left) * np.square(np.array(left) - np.mean(left)).sum()) ** 0.5
    from scipy.stats import t

    reach = t.ppf(0.975, len(left) - 1) * error
    ends = np.clip([found.spearman - reach, found.spearman + reach], -1, 1)
    assert [found.low, found.high] == pytest.approx(ends.tolist())


def test_no_noise_leaves_the_correlation_as_it_is():
    draw = np.random.default_rng(0)
    x, y, rho = truths(0.3, draw)
    found = disattenuate_ranks(sample(x, 0, draw), sample(y, 0, draw))
    assert [found.spearman, found.low, found.high] == pytest.approx([rho] * 3, abs=1e-9)


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize(("r", "reach"), [(0.0, 0.03), (0.55, 0.04), (0.97, 0.04)])
@pytest.mark.slow
def test_noise_has_little_bias(r, reach, skewed):
    """rho of the noisy means is far below; the estimate is not."""
    draw, noisy, found = np.random.default_rng(0), [], []
    for _ in range(60):
        x, y, rho = truths(r, draw, skewed)
        one, other = sample(x, 4, draw), sample(y, 4, draw)
        noisy.append(spearmanr(one.mean, other.mean).statistic - rho)
        found.append(disattenuate_ranks(one, other, splits=20).spearman - rho)
    assert np.mean(noisy) < -0.1 * r or r == 0
    assert np.nanmean(found) == pytest.approx(0, abs=reach)


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("r", [0.0, 0.55, 0.97])
@pytest.mark.parametrize("noise", [1.0, 2.5, 5.0])
@pytest.mark.exhaustive
def test_coverage(r, noise, skewed):
    """The 95 % interval holds the truth in at least 52 of 60 samples, whatever the noise."""
    draw, held = np.random.default_rng(1), 0
    for _ in range(60):
        x, y, rho = truths(r, draw, skewed)
        found = disattenuate_ranks(sample(x, noise, draw), sample(y, noise, draw))
        held += found.low - 1e-9 <= rho <= found.high + 1e-9
    assert held >= 52


@pytest.mark.parametrize("examples", [40, 400])
def test_coverage_with_few_and_many_examples(examples):
    draw, held = np.random.default_rng(5), 0
    for _ in range(40):
        x, y, rho = truths(0.55, draw, skewed=True)
        both = (sample(side, 2.0, draw, examples) for side in (x, y))
        found = disattenuate_ranks(*both, splits=20)
        held += found.low <= rho <= found.high
    assert held >= 35


@pytest.mark.parametrize("other", [0, 40])
@pytest.mark.slow
def test_noise_that_both_sides_share_has_little_bias(other):
    """Taken for independent, it makes rho of 0 a sizeable correlation."""
    draw, naive, found, held = np.random.default_rng(2), [], [], 0
    for _ in range(60):
        x, y, rho = truths(0.0, draw)
        both = same_documents(x, y, 5, draw, other=other)
        naive.append(disattenuate_ranks(*both, splits=20).spearman - rho)
        one = disattenuate_ranks(*both, splits=20, shared=True)
        held += one.low <= rho <= one.high
        found.append(one.spearman - rho)
    assert np.nanmean(naive) > 0.15
    assert np.nanmean(found) == pytest.approx(0, abs=0.05)
    assert held >= 52


def test_ranks_of_normal_values_are_those_of_their_correlation():
    """At probabilities of a normal sample, the formula that the estimate leans on."""
    draw = np.random.default_rng(0)
    x, y = draw.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], 200_000).T
    grades = np.corrcoef(norm.cdf(x), norm.cdf(y))[0, 1]
    assert 2 * np.sin(np.pi * grades / 6) == pytest.approx(0.7, abs=0.005)


def test_a_side_with_itself_is_1_whatever_the_noise():
    draw = np.random.default_rng(0)
    one = sample(truths(0.5, draw)[0], 3, draw)
    found = disattenuate_ranks(one, one, shared=True)
    assert [found.spearman, found.low, found.high] == pytest.approx([1, 1, 1])


def test_nothing_but_noise_is_compatible_with_anything():
    draw = np.random.default_rng(3)
    found = disattenuate_ranks(*(sample(np.zeros(HEADS), 5, draw) for _ in range(2)))
    assert (found.low, found.high) == (-1, 1)


def test_few_documents_have_no_interval():
    draw = np.random.default_rng(0)
    x, y, _ = truths(0.5, draw)
    few, many = sample(x, 1, draw, LEAST - 1), sample(y, 1, draw)
    found = disattenuate_ranks(few, many)
    assert np.isfinite(found.spearman)
    assert np.isnan([found.low, found.high]).all()
    assert np.isnan(disattenuate_ranks(sample(x, 1, draw, 1), many).spearman)
