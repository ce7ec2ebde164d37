"""The rule that ends a run, against scipy's t, and what it promises, simulated on numbers of known means."""

import math

import numpy as np
import pytest
from scipy import stats

from attnprobe.sums.precision import (
    FIRST,
    Look,
    Widest,
    find_widest,
    half_widths,
    is_enough,
    plan_looks,
    shrink_error,
)


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


#: Documents of a corpus, and how often some of them are drawn.
CORPUS, DRAWS = 400, 2500


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("draw", [normal, skewed])
def test_of_a_corpus_that_runs_out_intervals_cover_its_mean(draw, share):
    """About 95 % of draws without replacement; as if of all text like it, they would cover far too often."""
    corpus = draw(np.random.default_rng(26))[:CORPUS]
    number, random = int(share * CORPUS), np.random.default_rng(7)
    covered = np.zeros((2, HEADS))
    for _ in range(DRAWS):
        some = corpus[random.permutation(CORPUS)[:number]]
        widths = half_widths(some.std(0, ddof=1) / number**0.5, number)
        off = np.abs(some.mean(0) - corpus.mean(0))
        covered += np.stack([off <= widths * shrink_error(number, CORPUS), off <= widths])
    covered /= DRAWS
    assert covered[0].min() >= 0.93
    assert covered[0].max() <= 0.965
    assert covered[1].mean() > {0.25: 0.965, 0.5: 0.985, 0.9: 0.9999}[share]


def test_of_a_corpus_that_runs_out_a_run_that_ends_early_covers_its_mean():
    """The rule of ``--until``, on a corpus of 1,024 documents, of which it reads 512 or 1,024."""
    corpus = normal(np.random.default_rng(3))
    runs, random = 1500, np.random.default_rng(4)
    covered, within, read = np.zeros(HEADS), 0, []
    for _ in range(runs):
        documents, number = random.permutation(corpus), FIRST
        while True:
            some, shrunk = documents[:number], shrink_error(number, MOST)
            widths = half_widths(some.std(0, ddof=1) / number**0.5, number) * shrunk
            if widths.max() <= 0.062:
                break
            number *= 2
        off = np.abs(some.mean(0) - corpus.mean(0))
        covered += off <= widths + 1e-12
        within += (off <= 0.062).all()
        read.append(number)
    assert set(read) == {512, 1024}
    assert (covered / runs).min() >= 0.93
    assert within / runs >= 0.93


def test_the_estimate_knows_that_documents_run_out():
    """How many are needed, tried one by one: errors fall with the root of 1/n - 1/N."""
    error = 0.9 / 100**0.5 * shrink_error(100, 1000)
    for target in (0.05, 0.02, 0.001):
        needed = next(n for n in range(1, 1001) if 0.9 / n**0.5 * shrink_error(n, 1000) <= target)
        look = Look(100, {"entropy": find_widest(np.array([error]), target)}, 1000)
        assert look.estimate == needed
    assert Look(1000, {"entropy": find_widest(np.array([0.0]), 0.1)}, 1000).estimate == 0
