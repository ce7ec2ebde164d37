"""The rule that ends a run, against scipy's t, and what it promises, simulated on numbers of known means."""

import math

import numpy as np
import pytest
from scipy import stats

from attnprobe.sums.precision import FIRST, Look, Widest, find_widest, half_widths, is_enough, plan_looks


def test_half_widths_are_those_of_students_t():
    drawn = np.random.default_rng(3).gamma(2.0, size=(40, 5))
    error = drawn.std(0, ddof=1) / 40**0.5
    low, high = stats.t.interval(0.95, 39, drawn.mean(0), error)
    np.testing.assert_allclose(half_widths(error, 40), (high - low) / 2, rtol=1e-12)


def test_nothing_is_precise_without_an_error_or_with_one_document():
    found = half_widths([0.1, 0.0, np.nan, np.inf, 0.0], [1, 1, 50, 50, 2])
    assert found.tolist() == [np.inf, np.inf, np.inf, np.inf, 0.0]


@pytest.mark.parametrize(
    ("total", "looks"),
    [(None, [128, 256, 512, 1024]), (1000, [128, 256, 512, 1000]), (256, [128, 256]), (5, [5])],
)
def test_looks_are_at_doubled_numbers_and_at_the_end(total, looks):
    assert [number for number, _ in zip(plan_looks(total), range(4), strict=False)] == looks


def test_a_run_ends_when_every_column_is_there_strictly_twice_in_a_row():
    def look(*pairs):
        return Look(1, {str(place): Widest(*pair) for place, pair in enumerate(pairs)})

    there, beyond = look((0.1, 0.1), (0.02, 0.05)), look((0.1, 0.1), (0.06, 0.05))
    assert [is_enough(some) for some in ([], [beyond], [there], [there, beyond], [beyond, there])] == [
        False, False, True, False, True
    ]  # fmt: skip
    assert [is_enough(some, strict=True) for some in ([there], [there, beyond], [beyond, there, there])] == [
        False, False, True
    ]  # fmt: skip


def test_the_estimate_is_of_the_column_furthest_from_its_target():
    found = Look(200, {"near": Widest(0.11, 0.1), "far": Widest(0.4, 0.2), "there": Widest(0.0, 0.1)})
    assert (found.worst[0], found.estimate) == ("far", 800)
    assert Look(200, {"one": Widest(math.inf, 0.1)}).estimate is None


#: Runs of the simulation, heads, and the most documents of a run.
RUNS, HEADS, MOST = 2000, 6, 1024


def simulate(first, draw, target):
    """Run the rule on documents drawn anew; give estimates and half-widths at the end, and where that was."""
    ends = np.full((2, RUNS, HEADS), np.nan)
    read = np.zeros(RUNS, int)
    for run in range(RUNS):
        documents = draw(np.random.default_rng([run, 26]))
        number, looks = first, []
        while True:
            some = documents[:number]
            widths = half_widths(some.std(0, ddof=1) / number**0.5, number)
            looks.append(Look(number, {"entropy": find_widest(widths, target)}))
            if is_enough(looks) or number >= MOST:
                ends[:, run], read[run] = (some.mean(0), widths), number
                break
            number *= 2
    return *ends, read


def normal(random):
    """Heads that differ in spread, and agree in part on which documents are hard."""
    shared = random.standard_normal((MOST, 1))
    return (0.6 * shared + 0.8 * random.standard_normal((MOST, HEADS))) * np.linspace(0.4, 1.0, HEADS)


def skewed(random):
    """Heads whose numbers are shares: most documents near 0, a few far from it."""
    shared = random.gamma(1.0, size=(MOST, 1))
    return (0.5 * (shared - 1) + random.gamma(1.0, size=(MOST, HEADS)) - 1) * np.linspace(0.4, 0.9, HEADS)


@pytest.mark.parametrize("draw", [normal, skewed])
def test_intervals_cover_and_heads_are_within_the_target(draw):
    """Every head's interval covers its mean, 0, in .92 to .96 of runs; all heads are within the target."""
    estimates, widths, read = simulate(FIRST, draw, 0.12)
    assert 128 < read.mean() < 1024  # it stops early, and not at once
    covered = (np.abs(estimates) <= widths).mean(0)
    assert covered.min() >= 0.92
    assert covered.max() <= 0.96
    assert (np.abs(estimates) <= 0.12).all(1).mean() >= 0.93


def rare(random):
    """Shares that are 0 for most documents, as of attention to what few of them hold."""
    return random.gamma(0.1, size=(MOST, HEADS)) - 0.1


def test_to_begin_to_look_early_covers_less():
    """Why the first look is at 128: what looks precise after few documents is what has too small an error."""
    early, late = (simulate(first, rare, 0.12) for first in (16, FIRST))
    covered = [(np.abs(estimates) <= widths).mean() for estimates, widths, _ in (early, late)]
    assert covered[0] < 0.88 < covered[1]
