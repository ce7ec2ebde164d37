"""Intervals of ranks against paired t tests of scipy, and simulated: do all of them hold together?"""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from attnprobe.sums.groups import Clustered
from attnprobe.sums.ranks import rank_cells

CELLS = 9


def by_hand(values):
    """Compare every two columns by scipy's paired t at .05 / m; count who is above and below."""
    pairs = list(combinations(range(values.shape[1]), 2))
    low, high = np.ones(values.shape[1]), np.full(values.shape[1], float(values.shape[1]))
    for one, other in pairs:
        if stats.ttest_rel(values[:, one], values[:, other]).pvalue * len(pairs) < 0.05:
            above, below = (one, other) if values[:, one].mean() > values[:, other].mean() else (other, one)
            low[below] += 1
            high[above] -= 1
    return low, high


@pytest.mark.parametrize("seed", range(4))
def test_pairs_are_compared_as_scipy_does(seed):
    """What all cells of an example have in common is in no difference."""
    draw = np.random.default_rng(seed)
    values = draw.normal(size=(40, 1)) * 5 + draw.normal(size=(40, CELLS)) + draw.normal(size=CELLS)
    found = rank_cells(values)
    low, high = by_hand(values)
    assert found.low.tolist() == low.tolist()
    assert found.high.tolist() == high.tolist()
    assert 0 < found.separated < found.pairs == CELLS * (CELLS - 1) // 2
    assert found.separated == (low - 1).sum() == (CELLS - high).sum()


def test_windows_of_a_document_count_once():
    """The variance of a difference is that of ``Clustered``, and df are documents."""
    draw = np.random.default_rng(5)
    names = np.repeat([300, 400, 500, 600, -1], [5, 3, 4, 2, 3])
    values = draw.normal(size=(17, 2)) + np.array([0.0, 3.0])
    apart = Clustered.of(values[:, 1] - values[:, 0], names)
    t = float(apart.average / apart.standard_error)
    reached = stats.t.ppf(0.975, float(apart.clusters) - 1)
    assert t > reached
    assert rank_cells(values, names).separated == 1
    # Moved until the difference is just known, or just not.
    for shift, separated in ((reached * 0.999, 0), (reached * 1.001, 1)):
        moved = values - np.array([0.0, (t - shift) * float(apart.standard_error)])
        assert rank_cells(moved, names).separated == separated
    # As if windows were documents, four times as much is known.
    assert (
        rank_cells(values - np.array([0.0, 1.5])).separated
        >= rank_cells(values - [0.0, 1.5], names).separated
    )


@pytest.mark.parametrize("spread", ["normal", "skewed"])
@pytest.mark.parametrize("known", [0.0, 0.3])
def test_all_intervals_hold_in_95_percent_of_samples(spread, known):
    """With equal cells, of which any rank is true, and with different ones."""
    draw, held, wide = np.random.default_rng(11), [], []
    means = known * np.arange(CELLS)[::-1]
    truth = np.array([[1 + (means > one).sum(), (means >= one).sum()] for one in means])
    for _ in range(400):
        noise = (
            draw.normal(size=(128, CELLS)) if spread == "normal" else draw.exponential(size=(128, CELLS)) - 1
        )
        found = rank_cells(means + draw.normal(size=(128, 1)) * 3 + noise)
        held.append(((found.low <= truth[:, 0]) & (found.high >= truth[:, 1])).all())
        wide.append((found.high - found.low).mean())
    assert np.mean(held) >= 0.94
    assert np.mean(wide) < 2 if known else np.mean(wide) > CELLS - 1.2


@pytest.mark.slow
def test_cells_of_fewer_examples():
    """The variance of a difference between means that share some examples, against many samples."""
    draw = np.random.default_rng(12)
    shared = draw.normal(size=(4000, 200, 1))
    values = shared + draw.normal(size=(4000, 200, 2)) * 0.5
    apart = values[:, :, 0].mean(1) - values[:, :80, 1].mean(1)
    values[:, 80:, 1] = np.nan
    found = []
    for sample in values[:300]:
        # The gap at which the pair is just separated is t times the error.
        for gap in np.linspace(0, 1, 401):
            if rank_cells(sample - np.array([0, gap]) - np.nanmean(sample, 0)).separated:
                found.append(gap / stats.t.ppf(0.975, 79))
                break
    assert np.mean(found) == pytest.approx(apart.std(), rel=0.05)


def test_the_next_two_and_how_many_examples_they_take():
    draw = np.random.default_rng(13)
    noise = draw.normal(size=(100, 3))
    noise = (noise - noise.mean(0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(noise.T))).T  # exactly so
    values = noise + np.array([5.0, 1.0, 0.9])
    pair = rank_cells(values).unseparated
    assert pair is not None
    assert (pair.rank, pair.cells) == (2, (1, 2))
    assert pair.observations is not None
    t = stats.t.ppf(1 - 0.025 / 3, 99)
    assert pair.observations == int(np.ceil(100 * (t * (2 / 100) ** 0.5 / 0.1) ** 2))
    more = noise.repeat(int(pair.observations / 100) + 2, 0) + np.array([5.0, 1.0, 0.9])
    assert rank_cells(more).unseparated is None


def test_groups_are_ranked_by_themselves():
    draw = np.random.default_rng(14)
    values = draw.normal(size=(60, 6)) * 0.1 + np.array([3.0, 1.0, 2.0, 9.0, 9.0, 8.0])
    found = rank_cells(values, within=np.array([0, 0, 0, 1, 1, 1]))
    assert found.pairs == 6
    assert found.low.tolist() == [1, 3, 2, 1, 1, 3]
    assert found.high.tolist() == [1, 3, 2, 2, 2, 3]
    assert found.unseparated is not None
    assert found.unseparated.cells in {(3, 4), (4, 3)}


def test_what_is_not_known():
    alone = rank_cells(np.array([[1.0, 5.0]]))  # one example
    assert (alone.high.tolist(), alone.unseparated) == ([2, 2], None)
    same = rank_cells(np.zeros((20, 3)))
    assert (same.separated, same.low.tolist(), same.high.tolist()) == (0, [1, 1, 1], [3, 3, 3])
    assert same.unseparated is not None
    assert same.unseparated.observations is None
    undefined = rank_cells(np.full((20, 2), np.nan))
    assert np.isnan(undefined.low).all()
    assert undefined.unseparated is None
    draw = np.random.default_rng(15)
    twice = draw.normal(size=(20, 1)).repeat(2, 1)
    assert rank_cells(twice).separated == 0  # rounding is no difference
    assert rank_cells(twice + np.array([0.0, 1.0])).separated == 1  # the same for every example
