"""Errors and p values: jackknife, exchanges, sign flips, McNemar's test, adjusted p, intervals."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.base import Sum
from attnprobe.sums.documents import BLOCKS, find_block
from attnprobe.sums.groups import Ratio, sum_by_key

Floats = NDArray[np.float64]

#: Blocks that pull a number by less than this part of it pull by rounding alone.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Jackknife(Sum):
    """Sums over blocks of documents, cell by cell, so that blocks can be left out one at a time.

    With g blocks that have observations, a number t made of means, and t_j made without block j,

        SE^2 = (g - 1) / g  sum_j (t_j - t)^2

    All windows of a document are in one block. Where t is a mean and blocks are documents, SE is that of
    ``Clustered``. ``counts`` and ``totals`` are (block, ...).

    References:
        Tukey (1958), Bias and confidence in not quite large samples; Cameron and Miller (2015), A
        practitioner's guide to cluster-robust inference, section VI.

    >>> found = Jackknife.of([[1.0], [3.0], [5.0]], documents=np.arange(3))
    >>> found.average, found.standard_error.round(4)
    (array([3.]), array([1.1547]))
    """

    counts: Floats
    totals: Floats
    by_name: ClassVar[bool] = False

    @classmethod
    def of(
        cls,
        values: ArrayLike,
        clusters: NDArray[np.int64] | None = None,  # a block holds whole documents anyway
        documents: NDArray[np.int64] | None = None,
    ) -> "Jackknife":
        """Sum up a sample over its first axis; NaN is no observation."""
        sample = np.asarray(values, dtype=np.float64)
        block = find_block(np.arange(len(sample)) if documents is None else documents)
        counts, totals = (np.zeros((BLOCKS, *sample.shape[1:])) for _ in range(2))
        filled, counts_there, totals_there = sum_by_key(sample, block)
        counts[filled], totals[filled] = counts_there, totals_there
        return cls(counts, totals)

    @cached_property
    def count(self) -> Floats:
        """Observations in each cell."""
        return self.counts.sum(0)

    @property
    def documents(self) -> int:
        """Blocks that have an observation, of which the error is."""
        return int(self.counts.reshape(BLOCKS, -1).any(1).sum())

    @property
    def average(self) -> Floats:
        """The mean, NaN where nothing was observed."""
        return _mean(self.totals.sum(0), self.count)

    @property
    def standard_error(self) -> Floats:
        """The standard error of the mean, NaN below two blocks."""
        return self.apply(lambda means: means)[1]

    def apply(self, of: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
        """Make something of the means, (..., cells), and give its standard error; NaN below two blocks.

        ``of`` is called with the means of all blocks, and with those of all but one, (block, ...), at once.
        """
        some = np.flatnonzero(self.counts.reshape(BLOCKS, -1).any(1))
        left = _mean(self.totals.sum(0) - self.totals[some], self.count - self.counts[some])
        whole = of(self.average)
        number = len(some)
        if number < 2:
            return whole, np.full_like(whole, np.nan)
        apart = of(left) - whole
        apart = np.where(np.abs(apart) * number <= _ROUNDING * np.abs(whole), 0.0, apart)
        return whole, np.sqrt(np.square(apart).sum(0) * (number - 1) / number)


class NamedJackknife(Jackknife):
    """The same over blocks that go by the names of documents, so that separate jobs have the same blocks.

    They are filled less evenly than those that go by numbers: 64 documents fill about 40 of them.
    """

    by_name: ClassVar[bool] = True


def _mean(total: Floats, count: Floats) -> Floats:
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def jackknife_error(without: Floats, counts: NDArray[np.int64] | None = None) -> float:
    """Give the standard error of a number from what it is without each example.

        SE^2 = (n - 1) / n  sum_i (t_i - mean t)^2

    ``counts`` says how many examples there are of each kind. NaN below two.
    """
    counts = np.ones(len(without), np.int64) if counts is None else counts
    number = counts.sum()
    if number < 2:
        return float("nan")
    centre = (counts * without).sum() / number
    return float(np.sqrt((number - 1) / number * (counts * np.square(without - centre)).sum()))


def pseudovalues(whole: ArrayLike, without: Floats, number: int) -> Floats:
    """Give what each of n examples adds to a number t: n t - (n - 1) t_i, with t_i made without it.

    References:
        Tukey (1958), Bias and confidence in not-quite large samples.
    """
    return number * np.asarray(whole) - (number - 1) * without


#: Fair coins beyond so many add up to a normal distribution, as far as p values can tell.
_MANY = 4096
#: Documents times possible sums, beyond which sums are told apart less finely: some milliseconds.
_CELLS = 1_000_000
Correction = Literal["holm", "bh"]
#: Student's t of so many degrees of freedom is normal.
_NORMAL = 1e9
#: A p below this, adjusted for the number of tests, is called significant.
SIGNIFICANT = 0.05


def adjust(p: ArrayLike, correction: Correction = "holm") -> Floats:
    """Adjust p values so that they can be read as if there had been one test.

    Holm's bounds the chance of a single false alarm among all heads, Benjamini and Hochberg's ("bh")
    the share of false alarms among the heads that are called significant. Undefined p values stay
    undefined and do not count.

    References:
        Holm (1979), A simple sequentially rejective multiple test procedure.
        Benjamini and Hochberg (1995), Controlling the false discovery rate.

    >>> adjust([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    raw = np.asarray(p, np.float64)
    adjusted = np.full_like(raw, np.nan)
    tried = np.isfinite(raw)
    if not tried.any():
        return adjusted
    if correction == "bh":
        from scipy.stats import false_discovery_control  # takes a second to import

        adjusted[tried] = false_discovery_control(raw[tried])
        return adjusted
    order = np.argsort(raw[tried], kind="stable")
    stepped = np.maximum.accumulate(raw[tried][order] * np.arange(tried.sum(), 0, -1))
    adjusted[np.flatnonzero(tried)[order]] = stepped.clip(max=1)
    return adjusted


#: The smallest p that can be reached is so many times smaller than what the correction asks for.
FINER = 10
#: At least so many exchanges for what is far from chance, and never more than so many.
FEWEST, MOST = 9_999, 999_999
#: A test is over once so many exchanges gave a difference as large: it is not going to be significant.
ENOUGH = 400


@dataclass(frozen=True)
class Exchanges:
    """A Monte Carlo test, one of many.

    With g of n exchanges that give a difference as large, p = (g + 1) / (n + 1). A correction over m tests
    multiplies it by up to m, so n is at least 10 m / 0.05. A test ends when g reaches 400, with p = g / n
    there.

    References:
        Phipson and Smyth (2010), Permutation p-values should never be zero.
        Besag and Clifford (1991), Sequential Monte Carlo p-values.

    >>> Exchanges.for_tests(1000, seed=0).most
    199999
    """

    seed: int
    most: int = FEWEST

    @classmethod
    def for_tests(cls, tests: int, seed: int) -> "Exchanges":
        """Be fine enough for a correction over so many tests."""
        return cls(seed, min(max(FEWEST, math.ceil(FINER * tests / SIGNIFICANT) - 1), MOST))

    def p_of(
        self,
        differences: Callable[[np.random.Generator, int], Floats],
        delta: float,
        at_once: int,
        rounding: float = 1e-12,
        *,
        one_sided: bool = False,
    ) -> float:
        """Test a difference ``delta``, two-sided or that it is above 0; ``differences`` draws some exchanges.

        Differences as close as ``rounding`` are equal: sums of other orders round otherwise.
        """
        draw, hits, drawn = np.random.default_rng(self.seed), 0, 0
        at_once = max(1, at_once)
        some = min(at_once, 2 * ENOUGH)
        while drawn < self.most:
            found = differences(draw, min(some, self.most - drawn))
            found = found >= delta - rounding if one_sided else np.abs(found) >= abs(delta) - rounding
            if hits + found.sum() >= ENOUGH:
                last = int(np.flatnonzero(found.cumsum() == ENOUGH - hits)[0])
                return ENOUGH / (drawn + last + 1)
            hits, drawn = hits + int(found.sum()), drawn + len(found)
            some = min(at_once, 2 * some)
        return (hits + 1) / (drawn + 1)


def sign_flip(differences: NDArray[np.int64], ahead: int = 0, squares: int = 0) -> float:
    """Give the p value of the sign-flip test over documents, one-sided: that the sum is above 0.

    P(sum of s_c d_c >= sum of d_c), with each s_c = 1 or -1 alike. The sum is over all signs: exactly, or,
    where documents times the sum of |d| are beyond some 500,000, with |d| rounded to a coarser grid. Of C
    documents, the least p is 2^-C.

    Args:
        differences: d of each document.
        ahead: The sum of d over other documents, of one observation each.
        squares: The sum of d^2 over those.

    References:
        Fisher (1935), The design of experiments, section 21.
        Canay, Romano and Shaikh (2017), Randomization tests under an approximate symmetry assumption.

    >>> sign_flip(np.array([3, 1, 2])), sign_flip(np.array([3, -1])), sign_flip(np.array([]), 2, 2)
    (0.125, 0.5, 0.25)
    """
    sizes = np.abs(differences[differences != 0]).astype(np.int64)
    step: float = -(-len(sizes) * (2 * int(sizes.sum()) + 1) // _CELLS)
    if step > 1:
        size = float(np.square(sizes, dtype=np.float64).sum())
        sizes = np.rint(sizes / step).astype(np.int64)
        sizes = sizes[sizes > 0]
        step = (size / float(np.square(sizes).sum())) ** 0.5  # of the same variance
    most = int(sizes.sum())
    share = np.zeros(2 * most + 1)  # of throws that add up to -most, ..., most
    share[most] = 1.0
    for size in sizes.tolist():
        once = np.zeros_like(share)
        once[size:] += share[:-size] / 2
        once[:-size] += share[size:] / 2
        share = once
    reached = int(differences.sum()) + ahead
    if step > 1:
        return max(float(share @ _beyond(step * np.arange(-most, most + 1.0), reached, step, squares)), 0.0)
    least = reached - np.arange(-most, most + 1)
    if not squares:
        return float(min(1.0, share[least <= 0].sum()))
    # Of ``squares`` coins, X show heads and add up to 2 X - squares.
    heads = np.ceil((least + squares) / 2)
    if squares > _MANY:
        from scipy.special import ndtr  # takes a while to import

        beyond = ndtr((squares / 2 - heads + 0.5) / (squares / 4) ** 0.5)
    else:
        from scipy.special import bdtrc

        beyond = np.where(heads <= 0, 1.0, bdtrc(np.clip(heads - 1, 0, squares), squares, 0.5))
    return float(min(1.0, share @ beyond))


def find_gain(found: Ratio, weights: Sequence[float]) -> tuple[Floats, Floats, Floats]:
    """Give a weighted sum of totals, divided by the first of them, its error, and p, cell by cell.

    The p value is one-sided: P(T >= gain / error) of Student's t, whose error pairs the numbers in each
    document. An error of 0, as of numbers that are the same everywhere, is sure: a gain of 0 has p = 1. Where
    sequences are parts of documents, documents are compared, see ``sign_flip``. It is NaN without an error.
    """
    gain, error = found.of_totals(weights)
    if len(found.groups):
        apart, ahead, squares = (part.round().astype(np.int64) for part in found.part(weights))
        p = [
            sign_flip(apart[:, *cell], int(ahead[cell]), int(squares[cell]))
            if np.isfinite(error[cell])
            else np.nan
            for cell in np.ndindex(error.shape)
        ]
        return gain, error, np.array(p).reshape(error.shape)
    from scipy.stats import t  # takes a second to import

    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(error == 0, np.where(gain > 0, 0.0, 1.0), t.sf(gain / error, found.clusters - 1))
    return gain, error, np.where(np.isfinite(error), p, np.nan)


def _beyond(sums: Floats, reached: int, step: float, squares: int) -> Floats:
    """Give the chance that a sum on a coarse grid, with so many coins beside it, reaches a number.

    Each stands for all sums from a step below to a step above it, which are as likely. Possible sums are two
    apart, so that the bound lies one below the number.
    """
    ends = (sums + np.array([[-step], [step]]) - reached + 1).astype(np.float64)
    if squares:
        from scipy.special import ndtr  # takes a while to import

        spread = squares**0.5
        ends = (
            ends * ndtr(ends / spread) + spread * np.exp(-np.square(ends / spread) / 2) / (2 * np.pi) ** 0.5
        )
    else:
        ends = ends.clip(min=0)
    return ((ends[1] - ends[0]) / (2 * step)).clip(0, 1)


#: Confidence of the intervals of all heads together.
CONFIDENCE = 0.95


def half_width(errors: ArrayLike, documents: ArrayLike, together: int | None = None) -> Floats:
    """Give half the width of each of m intervals that hold together: t(1 - .025 / m, n - 1) s.

    Args:
        errors: Standard errors s over documents, of m numbers.
        documents: How many documents n each is made of; infinite where nobody knows.
        together: The number m, that of all errors by default; 1 for intervals that hold each by itself.

    Returns:
        The widths; infinite below two documents, NaN where there is no error.

    References:
        Student (1908), The probable error of a mean; Dunn (1961), Multiple comparisons among means.

    >>> half_width([0.01, 0.01], [5, 128]).round(4).tolist()
    [0.035, 0.0227]
    """
    from scipy.special import stdtrit  # takes a while to import

    errors, degrees = np.asarray(errors, np.float64), np.asarray(documents, np.float64) - 1
    number = errors.size if together is None else together
    quantile = stdtrit(degrees.clip(1, _NORMAL), 1 - (1 - CONFIDENCE) / 2 / max(1, number))
    with np.errstate(invalid="ignore"):  # an error of 0 over one document has no interval
        return np.where(degrees >= 1, quantile, np.inf) * errors
