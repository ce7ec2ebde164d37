"""Scores that are functions of sums over examples: ratios, F1 of counts, correlations of moments."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.metrics.exchanges import Exchanges
from attnprobe.intervention.metrics.metric import Comparison, Metric, Outcome

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
