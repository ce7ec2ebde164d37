"""The interface of a metric: outcomes of examples in, a score and its uncertainty out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.inference import PermutationTest, jackknife_error, pseudovalues

#: What is kept of the examples: a number each, or a text.
Values = NDArray[Any]
#: What every example gave: one array over examples for each number.
Outcome = Mapping[str, Values]
#: Under this name an outcome says which documents the examples are of: see ``Batch.clusters``.
CLUSTER = "cluster"


@dataclass(frozen=True)
class Comparison:
    """A score compared with that of the untouched model, over the same examples.

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
        title: What scores of its kind are.
        name: The ``metric`` column.
        higher_is_better: Whether a good model has a high score.
        needs: The numbers it reads of an outcome.
        most: How much an example's own value can change at most, of a mean of shares; None of other scores.
        continuous: Whether any change of what the model gives changes the score, as it does a loss; a share
            of right answers stays the same until an answer changes.
    """

    title: ClassVar[str]
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
        """Compute the standard error of the score over examples."""

    @abstractmethod
    def pseudovalues(self, outcome: Outcome) -> NDArray[np.float64]:
        """Compute what each example adds to the score, (example,).

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


#: Exchanged pairs that are held at once.
_CELLS = 4_000_000

Matrix = NDArray[np.float64]


class Additive(Metric):
    """A function of sums over examples, which is no mean over them.

    Standard errors come from the jackknife: the score is taken once without each example. Differences are
    tested by randomisation: with the answers to some examples exchanged at random, how often is the
    difference as large?

    References:
        Noreen (1989), Computer-intensive methods for testing hypotheses.
    """

    title = "Scores that are functions of sums over examples: ratios, F1 of counts, correlations of moments"

    higher_is_better = True

    def __init__(
        self,
        name: str,
        unit: str,
        needs: tuple[str, ...],
        rows: Callable[[Outcome], Matrix],
        function: Callable[[Matrix], Matrix],
        exchanges: PermutationTest,
    ) -> None:
        """Score the sums of ``rows`` (example, part) by a function of (..., part)."""
        self.name, self.unit, self.needs = name, unit, needs
        self._rows, self._function, self._exchanges = rows, function, exchanges

    def score(self, outcome: Outcome) -> float:
        """Score all examples together; NaN where that is undefined."""
        return float(self._function(self._rows(outcome).sum(0)))

    def standard_error(self, outcome: Outcome) -> float:
        return jackknife_error(self._without(outcome))

    def pseudovalues(self, outcome: Outcome) -> Matrix:
        without = self._without(outcome)
        return pseudovalues(self.score(outcome), without, len(without))

    def compare(self, outcome: Outcome, untouched: Outcome) -> Comparison:
        delta = self.score(outcome) - self.score(untouched)
        apart = self._without(outcome) - self._without(untouched)
        return Comparison(delta, jackknife_error(apart), self._test_exchanges(outcome, untouched, delta))

    def _without(self, outcome: Outcome) -> Matrix:
        """Score all examples but one, for each."""
        rows = self._rows(outcome)
        return self._function(rows.sum(0) - rows)

    def _test_exchanges(self, outcome: Outcome, untouched: Outcome, delta: float) -> float:
        """Compute the share of random exchanges that differ as much; only pairs that differ matter."""
        if not np.isfinite(delta):
            return float("nan")
        ours, theirs = self._rows(outcome), self._rows(untouched)
        differ = (ours != theirs).any(-1)
        if not differ.any():
            return 1.0
        apart, both = (theirs - ours)[differ], ours.sum(0) + theirs.sum(0)

        def differences(draw: np.random.Generator, some: int) -> Matrix:
            exchanged = draw.integers(2, size=(some, len(apart)), dtype=np.int8).astype(np.float64)
            first = ours.sum(0) + exchanged @ apart
            return self._function(first) - self._function(both - first)

        return self._exchanges.p_of(differences, delta, _CELLS // len(apart))
