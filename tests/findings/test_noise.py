"""Correlation without noise: unbiased, honest about what it can't know, and safe with damaged records."""

import numpy as np
import pytest

from attnprobe.attention.kinds import Kind, Place
from attnprobe.errors import AttnprobeError
from attnprobe.findings.noise import LEAST, Sample, disattenuated, record_of, sample_of
from attnprobe.sums.blocks import Blocks

HEADS = 72


def truths(rho, draw):
    """Draw two vectors over heads whose correlation is rho exactly."""
    one, other = draw.normal(size=(2, HEADS))
    one, other = one - one.mean(), other - other.mean()
    one /= np.linalg.norm(one)
    other -= one * (one @ other)
    other /= np.linalg.norm(other)
    return one * HEADS**0.5, (rho * one + (1 - rho**2) ** 0.5 * other) * HEADS**0.5


def sample(truth, noise, draw, examples=120):
    """Sum up examples whose noise has heavy tails, and is correlated among heads."""
    shared = draw.normal(size=(examples, 5)) @ draw.normal(size=(5, HEADS)) / 5**0.5
    own = draw.normal(size=(examples, HEADS))
    values = truth + noise * draw.exponential(size=(examples, 1)) * (0.6 * shared + 0.8 * own)
    found = Blocks.of(values + draw.normal(size=(examples, 1)), np.arange(examples))
    some = found.count > 0
    return Sample(found.count[some], found.total[some])


def test_no_noise_leaves_the_correlation_as_it_is():
    draw = np.random.default_rng(0)
    x, y = truths(0.3, draw)
    found = disattenuated(sample(x, 0, draw), sample(y, 0, draw))
    assert [found.pearson, found.low, found.high] == pytest.approx([0.3] * 3, abs=1e-9)


def test_noise_has_no_bias():
    """r of the noisy means is far below; the estimate is not."""
    draw, noisy, found = np.random.default_rng(0), [], []
    for _ in range(150):
        x, y = truths(0.8, draw)
        one, other = sample(x, 6, draw), sample(y, 6, draw)
        noisy.append(np.corrcoef(one.total.sum(0), other.total.sum(0))[0, 1])
        found.append(disattenuated(one, other, draws=2).pearson)
    assert np.mean(noisy) < 0.6
    assert np.nanmedian(found) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("rho", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("noise", [1.0, 6.0, 20.0])
@pytest.mark.slow
def test_coverage(rho, noise):
    """The 95 % interval holds the truth in at least 52 of 60 samples, whatever the noise."""
    draw, held = np.random.default_rng(1), 0
    for _ in range(60):
        x, y = truths(rho, draw)
        found = disattenuated(sample(x, noise, draw), sample(y, noise, draw), draws=200)
        held += found.low - 1e-9 <= rho <= found.high + 1e-9
    assert held >= 52


def same_documents(x, y, noise, alike, draw, examples=120, other=0):
    """Sum up both sides over the same documents, whose noise is ``alike`` on both.

    The documents of the second side begin ``other`` documents later.
    """
    size = draw.exponential(size=(examples + other, 1))
    ours, own = draw.normal(size=(2, examples + other, HEADS))
    theirs = alike * ours + (1 - alike**2) ** 0.5 * own
    found = []
    for truth, scatter, start in ((x, ours, 0), (y, theirs, other)):
        values = (truth + noise * size * scatter)[start : start + examples]
        blocks = Blocks.of(values, np.arange(start, start + examples))
        some = blocks.count > 0
        found.append(Sample(blocks.count[some], blocks.total[some], np.flatnonzero(some)))
    return found


@pytest.mark.parametrize("alike", [-0.5, 0.9])
def test_noise_that_both_sides_share_has_no_bias(alike):
    """Taken for independent, it makes r of 0 a sizeable correlation, and its interval holds 0 at times."""
    draw, naive, found, held = np.random.default_rng(2), [], [], 0
    for _ in range(100):
        x, y = truths(0.0, draw)
        both = same_documents(x, y, 6, alike, draw)
        apart = disattenuated(*both, draws=200)
        held += apart.low <= 0 <= apart.high
        naive.append(apart.pearson)
        found.append(disattenuated(*both, draws=2, shared=True).pearson)
    assert abs(np.nanmedian(naive)) > 0.2
    assert held < 75
    assert np.nanmedian(found) == pytest.approx(0, abs=0.06)


@pytest.mark.parametrize("rho", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("alike", [-0.5, 0.0, 0.9])
@pytest.mark.parametrize("noise", [1.0, 6.0])
@pytest.mark.slow
def test_coverage_where_both_sides_read_the_same_documents(rho, alike, noise):
    """The 95 % interval holds the truth in at least 50 of 60 samples, and the median is the truth."""
    draw, held, found = np.random.default_rng(4), 0, []
    for _ in range(60):
        x, y = truths(rho, draw)
        one = disattenuated(*same_documents(x, y, noise, alike, draw), draws=200, shared=True)
        held += one.low - 1e-9 <= rho <= one.high + 1e-9
        found.append(one.pearson)
    assert held >= 50
    assert np.nanmedian(found) == pytest.approx(rho, abs=0.02 * noise)


@pytest.mark.parametrize("other", [40, 120])
def test_some_documents_are_the_same_or_none(other):
    draw, found = np.random.default_rng(5), []
    for _ in range(100):
        x, y = truths(0.0, draw)
        both = same_documents(x, y, 6, 0.9, draw, other=other)
        found.append(disattenuated(*both, draws=2, shared=True).pearson)
    assert np.nanmedian(found) == pytest.approx(0, abs=0.06)


def test_a_side_with_itself_is_1_whatever_the_noise():
    draw = np.random.default_rng(0)
    one = sample(truths(0.5, draw)[0], 3, draw)
    found = disattenuated(one, one, shared=True)
    assert [found.pearson, found.low, found.high] == pytest.approx([1, 1, 1])


def test_the_noise_that_is_taken_out_is_that_of_the_formula():
    draw = np.random.default_rng(7)
    one, other = same_documents(*truths(0.5, draw), 2, 0.5, draw, examples=40, other=7)
    blocks = np.union1d(one.block, other.block)
    assert len(blocks) > len(one.block) or len(blocks) > len(other.block)  # some of only one side
    n, m, s, t = (np.zeros((len(blocks), *shape)) for shape in ((1,), (1,), (HEADS,), (HEADS,)))
    for row, block in enumerate(blocks):
        for side, count, total in ((one, n, s), (other, m, t)):
            if block in side.block:
                at = list(side.block).index(block)
                count[row], total[row] = side.count[at], side.total[at] - side.total[at].mean()
    x, y = s.sum(0) / n.sum(), t.sum(0) / m.sum()
    factor = len(blocks) / (len(blocks) - 1)

    def inner(a, b, u, v, p, q):
        return a @ b - factor * ((u - p * a) * (v - q * b)).sum() / (p.sum() * q.sum())

    c, v, w = inner(x, y, s, t, n, m), inner(x, x, s, s, n, n), inner(y, y, t, t, m, m)
    assert disattenuated(one, other, draws=2, shared=True).pearson == pytest.approx(c / (v * w) ** 0.5)


def test_nothing_but_noise_is_compatible_with_anything():
    draw = np.random.default_rng(0)
    found = disattenuated(*(sample(np.zeros(HEADS), 5, draw) for _ in range(2)))
    assert (found.low, found.high) == (-1, 1)


def test_few_documents_have_no_interval():
    draw = np.random.default_rng(0)
    x, y = truths(0.5, draw)
    few, many = sample(x, 1, draw, LEAST - 1), sample(y, 1, draw)
    found = disattenuated(few, many)
    assert np.isfinite(found.pearson)
    assert np.isnan([found.low, found.high]).all()
    assert np.isnan(disattenuated(sample(x, 1, draw, 1), many).pearson)


PLACES = [Place(0, Kind.ENCODER), Place(0, Kind.CROSS)]
NAMES = [(kind, 0, head) for kind in ("encoder", "cross") for head in range(3)]


def record():
    values = np.random.default_rng(0).normal(size=(30, 2, 3))
    return record_of("score", PLACES, Blocks.of(values, np.arange(30)), values.mean(0)), values


def numbers(values):
    return dict(zip(NAMES, values.mean(0).ravel().tolist(), strict=True))


def test_record_gives_the_sample_back_in_the_order_that_is_asked_for():
    kept, values = record()
    turned = dict(reversed(numbers(values).items()))
    found = sample_of(kept, "score", turned, "x.csv")
    assert found is not None
    assert found.count.sum() == 30
    np.testing.assert_allclose(found.total.sum(0), values.sum(0).ravel()[::-1])
    assert sample_of(kept, "delta", turned, "x.csv") is None
    assert sample_of({}, "score", turned, "x.csv") is None


@pytest.mark.parametrize("damage", [
    {"sums": "no base64!"}, {"sums": 3}, {"layers": []}, {"layers": 5}, {"layers": [["encoder", 0]] * 3},
    {"layers": [[["deep"], 0], ["cross", 0]]}, None,
])  # fmt: skip
def test_damaged_records(damage):
    kept, values = record()
    broken = {"blocks": "gone" if damage is None else {**kept["blocks"], **damage}}
    with pytest.raises(AttnprobeError, match=r"record of x\.csv can't be read"):
        sample_of(broken, "score", numbers(values), "x.csv")


def test_heads_that_the_record_does_not_know():
    with pytest.raises(AttnprobeError, match="can't be read"):
        sample_of(record()[0], "score", {("encoder", 0, 3): 1.0}, "x.csv")


@pytest.mark.parametrize("digits", [1, 2, 3, 6, 17])
def test_precision_leaves_the_record_the_table_s_own(digits):
    kept, values = record()
    written = {name: float(f"{number:.{digits}g}") for name, number in numbers(values).items()}
    assert sample_of(kept, "score", written, "x.csv") is not None


def test_the_record_of_another_table():
    """A table that was piped over the csv that its record describes has other numbers."""
    kept, values = record()
    other = {name: number * 1.01 for name, number in numbers(values).items()}
    with pytest.raises(AttnprobeError, match=r"record of x\.csv is that of another table: its score is not"):
        sample_of(kept, "score", other, "x.csv")
