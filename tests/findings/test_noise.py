"""Correlation without noise: unbiased, honest about what it can't know, and safe with damaged records."""

import numpy as np
import pytest
from scipy import stats

from attnprobe.attention.kinds import Kind, Place
from attnprobe.errors import AttnprobeError
from attnprobe.findings.noise import Sample, block_record, disattenuate, read_sample
from attnprobe.sums.blocked import Blocked

HEADS = 72


def truths(rho, draw):
    """Draw two vectors over heads whose correlation is rho exactly."""
    x, y = draw.normal(size=(2, HEADS))
    x, y = x - x.mean(), y - y.mean()
    x /= np.linalg.norm(x)
    y -= x * (x @ y)
    y /= np.linalg.norm(y)
    return x * HEADS**0.5, (rho * x + (1 - rho**2) ** 0.5 * y) * HEADS**0.5


def sample(truth, noise, draw, examples=120):
    """Sum up examples whose noise has heavy tails, and is correlated among heads."""
    shared = draw.normal(size=(examples, 5)) @ draw.normal(size=(5, HEADS)) / 5**0.5
    separate = draw.normal(size=(examples, HEADS))
    values = truth + noise * draw.exponential(size=(examples, 1)) * (0.6 * shared + 0.8 * separate)
    return blocked(values + draw.normal(size=(examples, 1)))


def blocked(values, start=0):
    estimate = Blocked.of(values, documents=np.arange(start, start + len(values)))
    return Sample(estimate.counts[:, 0], estimate.totals)


@pytest.mark.parametrize("rho", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("noise", "examples"), [(1, 120), (6, 120), (20, 120), (1, 5), (1, 12), (3, 30)])
@pytest.mark.slow
def test_coverage(rho, noise, examples):
    """The 95 % interval holds the truth in at least 93 % of samples, whatever the noise."""
    draw, held = np.random.default_rng(1), 0
    for _ in range(200):
        x, y = truths(rho, draw)
        estimate = disattenuate(sample(x, noise, draw, examples), sample(y, noise, draw, examples))
        held += estimate.low - 1e-9 <= rho <= estimate.high + 1e-9
    assert held >= 186


def same_documents(x, y, noise, alike, draw, examples=120, other=0):
    """Sum up both sides over the same documents, whose noise is ``alike`` on both.

    The documents of the second side begin ``other`` documents later.
    """
    size = draw.exponential(size=(examples + other, 1))
    ours, separate = draw.normal(size=(2, examples + other, HEADS))
    theirs = alike * ours + (1 - alike**2) ** 0.5 * separate
    samples = []
    for truth, scatter, start in ((x, ours, 0), (y, theirs, other)):
        values = (truth + noise * size * scatter)[start : start + examples]
        samples.append(blocked(values, start))
    return samples


@pytest.mark.parametrize("alike", [-0.5, 0.9])
def test_noise_that_both_sides_share_has_no_bias(alike):
    """Taken for independent, it makes r of 0 a sizeable correlation, and its interval holds 0 at times."""
    draw, naive, paired, held = np.random.default_rng(2), [], [], 0
    for _ in range(100):
        x, y = truths(0.0, draw)
        both = same_documents(x, y, 6, alike, draw)
        unshared = disattenuate(*both)
        held += unshared.low <= 0 <= unshared.high
        naive.append(unshared.pearson)
        paired.append(disattenuate(*both, shared=True).pearson)
    assert abs(np.nanmedian(naive)) > 0.2
    assert held < 75
    assert np.nanmedian(paired) == pytest.approx(0, abs=0.06)


def test_a_side_with_itself_is_1_whatever_the_noise():
    draw = np.random.default_rng(0)
    side = sample(truths(0.5, draw)[0], 3, draw)
    estimate = disattenuate(side, side, shared=True)
    assert [estimate.pearson, estimate.low, estimate.high] == pytest.approx([1, 1, 1])


def without_own(ours, theirs):
    """Give the mean product of different blocks, by two loops; a block is examples and their sum."""
    pairs = [(a, b) for number, a in ours.items() for other, b in theirs.items() if number != other]
    return sum(a[1] @ b[1] for a, b in pairs) / sum(a[0] * b[0] for a, b in pairs)


def by_loops(first, second, shared):
    """Give the jackknifed correlation and its variance, block by block."""
    sides = [
        {
            block: (n, s - s.mean())
            for block, (n, s) in enumerate(zip(side.count, side.total, strict=True))
            if n
        }
        for side in (first, second)
    ]

    def r(ours, theirs):
        crossed = without_own(ours, theirs)
        if not shared:
            sums = [[sum(column) for column in zip(*side.values(), strict=True)] for side in (ours, theirs)]
            crossed = sums[0][1] @ sums[1][1] / (sums[0][0] * sums[1][0])
        return crossed / (without_own(ours, ours) * without_own(theirs, theirs)) ** 0.5

    def less(side, block):
        return {number: sums for number, sums in side.items() if number != block}

    ours, theirs = sides
    if shared:
        blocks = ours.keys() | theirs.keys()
        left = [[r(less(ours, block), less(theirs, block)) for block in blocks]]
    else:
        left = [
            [r(less(ours, block), theirs) for block in ours],
            [r(ours, less(theirs, block)) for block in theirs],
        ]
    estimate = r(ours, theirs)
    bias = sum((len(one) - 1) * (np.mean(one) - estimate) for one in left)
    variance = sum((len(one) - 1) / len(one) * np.square(np.subtract(one, estimate)).sum() for one in left)
    return estimate - bias, variance**0.5, min(map(len, left))


@pytest.mark.parametrize("shared", [True, False])
def test_the_estimate_is_the_jackknife_of_products_of_different_blocks(shared):
    draw = np.random.default_rng(7)
    sides = same_documents(*truths(0.5, draw), 2, 0.5, draw, examples=40, other=7)
    assert np.not_equal(*(side.count > 0 for side in sides)).any()  # a few blocks are of only one side
    estimate = disattenuate(*sides, shared=shared)
    r, error, blocks = by_loops(*sides, shared)
    half = stats.t.ppf(0.975, blocks - 1) * error
    ends = max(r - half, -1), min(r + half, 1)
    assert (estimate.pearson, estimate.low, estimate.high) == pytest.approx((r, *ends))


def scaled(truth, sd, draw, examples):
    """Sum up examples of which some have all values large, as gradients have: a lognormal scale for each."""
    scale = np.exp(draw.normal(size=(examples, 1)) * sd - sd**2 / 2)
    return blocked(scale * (truth + draw.normal(size=(examples, HEADS))))


@pytest.mark.parametrize("rho", [0.55, 0.978])
@pytest.mark.parametrize("examples", [40, 100, 400])
def test_a_scale_that_all_heads_share_has_no_bias(rho, examples):
    """Such noise does not lower r; taken out as if it did, .978 became 1.04 of 40 examples."""
    draw, estimates = np.random.default_rng(6), []
    for _ in range(120):
        x, y = truths(rho, draw)
        sides = (scaled(truth, 1.0, draw, examples) for truth in (x, y))
        estimates.append(disattenuate(*sides).pearson)
    assert np.mean(estimates) == pytest.approx(rho, abs=0.01)


def test_nothing_but_noise_is_compatible_with_anything():
    draw = np.random.default_rng(0)
    estimate = disattenuate(*(sample(np.zeros(HEADS), 5, draw) for _ in range(2)))
    assert (estimate.low, estimate.high) == (-1, 1)


def test_two_documents_have_no_estimate():
    draw = np.random.default_rng(0)
    x, y = truths(0.5, draw)
    many = sample(y, 1, draw)
    assert np.isfinite(disattenuate(sample(x, 0.1, draw, 3), many).pearson)
    estimate = disattenuate(sample(x, 0.1, draw, 2), many)
    assert np.isnan([estimate.pearson, estimate.low, estimate.high]).all()


@pytest.mark.parametrize("seed", [1, 2])
def test_reliability_is_spearman_brown(seed):
    """Of halves that disagree it is their correlation: 2 r / (1 + r) would run to minus infinity."""
    draw = np.random.default_rng(seed)
    truth, noise = draw.normal(size=(2, HEADS))
    x, y = truth + noise, 2 * truth + draw.normal(size=HEADS)
    r = np.corrcoef(x, y)[0, 1]
    assert 0.1 < r < 0.95
    assert Sample(np.ones(2), np.stack([x, y])).reliability == pytest.approx(2 * r / (1 + r))
    assert Sample(np.ones(2), np.stack([x, -y])).reliability == pytest.approx(-r)


PLACES = [Place(0, Kind.ENCODER), Place(0, Kind.CROSS)]
NAMES = [(kind, 0, head) for kind in ("encoder", "cross") for head in range(3)]


def record():
    values = np.random.default_rng(0).normal(size=(30, 2, 3))
    return block_record("score", PLACES, Blocked.of(values, documents=np.arange(30)), values.mean(0)), values


def numbers(values):
    return dict(zip(NAMES, values.mean(0).ravel().tolist(), strict=True))


def test_record_gives_the_sample_back_in_the_order_that_is_asked_for():
    kept, values = record()
    reordered = dict(reversed(numbers(values).items()))
    estimate = read_sample(kept, "score", reordered, "x.csv")
    assert estimate is not None
    assert estimate.count.sum() == 30
    np.testing.assert_allclose(estimate.total.sum(0), values.sum(0).ravel()[::-1])
    assert read_sample(kept, "delta", reordered, "x.csv") is None
    assert read_sample({}, "score", reordered, "x.csv") is None


@pytest.mark.parametrize("damage", [
    {"sums": "no base64!"}, {"sums": 3}, {"layers": []}, {"layers": 5}, {"layers": [["encoder", 0]] * 3},
    {"layers": [[["deep"], 0], ["cross", 0]]}, None,
])  # fmt: skip
def test_damaged_records(damage):
    kept, values = record()
    broken = {"blocks": "gone" if damage is None else {**kept["blocks"], **damage}}
    with pytest.raises(AttnprobeError, match=r"record of x\.csv can't be read"):
        read_sample(broken, "score", numbers(values), "x.csv")


def test_sums_that_are_no_numbers():
    values = np.full((30, 2, 3), np.inf)
    kept = block_record("score", PLACES, Blocked.of(values, documents=np.arange(30)), values.mean(0))
    with pytest.raises(AttnprobeError, match="something that is no number"):
        read_sample(kept, "score", numbers(values), "x.csv")


def test_heads_that_the_record_does_not_know():
    with pytest.raises(AttnprobeError, match="can't be read"):
        read_sample(record()[0], "score", {("encoder", 0, 3): 1.0}, "x.csv")


def test_the_record_of_another_table():
    """A table that was piped over the csv that its record describes has other numbers."""
    kept, values = record()
    other = {name: number * 1.01 for name, number in numbers(values).items()}
    with pytest.raises(AttnprobeError, match=r"record of x\.csv is that of another table: its score is not"):
        read_sample(kept, "score", other, "x.csv")
