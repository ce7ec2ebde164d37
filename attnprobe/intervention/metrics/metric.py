"""The interface of a metric: outcomes of examples in, a score and its uncertainty out."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.objectives.objective import Values
from attnprobe.sums.resampling import SIGNIFICANT

#: What every example gave: one array over examples for each number.
Outcome = Mapping[str, Values]
#: Under this name an outcome says which documents the examples are of: see ``Batch.clusters``.
CLUSTER = "cluster"


@dataclass(frozen=True)
class Comparison:
    """A score against the score of the untouched model, over the same examples.

    Attributes:
        delta: The score minus that of the untouched model.
        error: The standard error of the difference, over examples, paired.
        p: How likely a difference as large is, either way, if the heads did not matter; NaN where
            there is no sensible null hypothesis.
    """

    delta: float
    error: float
    p: float


class Metric(ABC):
    """A score of outcomes.

    Attributes:
        name: The ``metric`` column.
        unit: Of the score.
        higher_is_better: Whether a good model has a high score.
        needs: The numbers it reads of an outcome.
        most: How much an example's own value can change at most, of a mean of shares; None of other scores.
        continuous: Whether any change of what the model gives changes the score, as it does a loss; a share
            of right answers stays the same until an answer changes.
    """

    name: str
    unit: str
    higher_is_better: bool
    needs: tuple[str, ...]
    most: float | None = None
    continuous: bool = False

    @abstractmethod
    def score(self, outcome: Outcome) -> float:
        """Score the examples together."""

    @abstractmethod
    def standard_error(self, outcome: Outcome) -> float:
        """Give the standard error of the score over examples."""

    @abstractmethod
    def pseudovalues(self, outcome: Outcome) -> NDArray[np.float64]:
        """Give what each example adds to the score, (example,).

            v_i = N s - (N - 1) s_i, with s_i the score without example i

        Their mean is the score up to its bias, and their spread is its error; of a score that is a mean over
        examples, they are the examples' own values. Differences of scores have the differences of their
        pseudovalues, so that any of them can be tested pair by pair.

        References:
            Tukey (1958), Bias and confidence in not-quite large samples.
        """

    @abstractmethod
    def compare(self, outcome: Outcome, untouched: Outcome) -> Comparison:
        """Compare the outcomes of the same examples."""


def some(outcome: Outcome, examples: NDArray[np.bool_]) -> Outcome:
    """Pick examples out of an outcome."""
    return {name: values[examples] for name, values in outcome.items()}


#: The smallest p that can be reached is so many times smaller than what the correction asks for.
FINER = 10
#: At least so many exchanges for what is far from chance, and never more than so many.
FEWEST, MOST = 9_999, 999_999
#: A test is over once so many exchanges gave a difference as large: it is not going to be significant.
ENOUGH = 400


@dataclass(frozen=True)
class Exchanges:
    """A Monte Carlo test, one of many.

    With g exchanges that give a difference as large among n, p = (g + 1) / (n + 1), which can't fall below
    1 / (n + 1). A correction over m tests multiplies it by up to m, so n is at least 10 m / 0.05. What is
    clearly no effect need not be drawn that often: a test ends with the exchange at which g reaches 400, and
    p = g / n there.

    Attributes:
        seed: Every test draws the same.
        most: The number of exchanges n.

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

    def p(self, as_large: Callable[[np.random.Generator, int], NDArray[np.bool_]], at_once: int) -> float:
        """Test.

        Args:
            as_large: Draws some exchanges, and tells of each whether its difference is as large.
            at_once: The most exchanges that may be drawn at once.
        """
        draw, hits, drawn = np.random.default_rng(self.seed), 0, 0
        some = min(at_once, 2 * ENOUGH)
        while drawn < self.most:
            found = as_large(draw, min(some, self.most - drawn))
            if hits + found.sum() >= ENOUGH:
                last = int(np.flatnonzero(found.cumsum() == ENOUGH - hits)[0])
                return ENOUGH / (drawn + last + 1)
            hits, drawn = hits + int(found.sum()), drawn + len(found)
            some = min(at_once, 2 * some)
        return (hits + 1) / (drawn + 1)


#: Exchanged pairs that are held at once.
_CELLS = 4_000_000
#: Differences this close are equal: sums of other orders round otherwise.
_ROUNDING = 1e-12

Matrix = NDArray[np.float64]


class Additive(Metric):
    """A function of sums over examples, which is no mean over them.

    Standard errors come from the jackknife: the score is taken once without each example. Differences are
    tested by randomisation: with the answers to some examples exchanged at random, how often is the
    difference as large?

    References:
        Noreen (1989), Computer-intensive methods for testing hypotheses.
    """

    higher_is_better = True

    def __init__(
        self,
        name: str,
        unit: str,
        needs: tuple[str, ...],
        rows: Callable[[Outcome], Matrix],
        function: Callable[[Matrix], Matrix],
        exchanges: Exchanges,
    ) -> None:
        """Score the sums of ``rows`` (example, part) by a function of (..., part)."""
        self.name, self.unit, self.needs = name, unit, needs
        self._rows, self._function, self._exchanges = rows, function, exchanges

    def score(self, outcome: Outcome) -> float:
        """Score all examples together; NaN where that is undefined."""
        return float(self._function(self._rows(outcome).sum(0)))

    def standard_error(self, outcome: Outcome) -> float:
        """Leave each example out in turn."""
        return _jackknife(self._without(outcome))

    def pseudovalues(self, outcome: Outcome) -> Matrix:
        """Leave each example out in turn."""
        without = self._without(outcome)
        return len(without) * self.score(outcome) - (len(without) - 1) * without

    def compare(self, outcome: Outcome, untouched: Outcome) -> Comparison:
        """Take the jackknife over pairs, and exchange their answers at random."""
        delta = self.score(outcome) - self.score(untouched)
        apart = self._without(outcome) - self._without(untouched)
        return Comparison(delta, _jackknife(apart), self._exchanged(outcome, untouched, delta))

    def _without(self, outcome: Outcome) -> Matrix:
        """Score everything but one example, for each."""
        rows = self._rows(outcome)
        return self._function(rows.sum(0) - rows)

    def _exchanged(self, outcome: Outcome, untouched: Outcome, delta: float) -> float:
        """Give the share of random exchanges that differ as much; only pairs that differ matter."""
        if not np.isfinite(delta):
            return float("nan")
        ours, theirs = self._rows(outcome), self._rows(untouched)
        differ = (ours != theirs).any(-1)
        if not differ.any():
            return 1.0
        apart, both = (theirs - ours)[differ], ours.sum(0) + theirs.sum(0)

        def as_large(draw: np.random.Generator, some: int) -> NDArray[np.bool_]:
            exchanged = draw.integers(2, size=(some, len(apart)), dtype=np.int8).astype(np.float64)
            first = ours.sum(0) + exchanged @ apart
            found = np.abs(self._function(first) - self._function(both - first))
            return found >= abs(delta) - _ROUNDING

        return self._exchanges.p(as_large, max(1, _CELLS // len(apart)))


def _jackknife(without: Matrix) -> float:
    """Give the standard error from the score without each example."""
    number = len(without)
    if number < 2:
        return float("nan")
    return float(np.sqrt((number - 1) / number * np.square(without - without.mean()).sum()))
