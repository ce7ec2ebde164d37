"""Scores of the confusion matrix: Matthews correlation and F1."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.metrics.exchanges import Exchanges
from attnprobe.intervention.metrics.metric import Comparison, Metric, Outcome

#: Cells of confusion matrices that are held at once.
_CELLS = 4_000_000

Matrix = NDArray[np.float64]


class Confusion(Metric):
    """A function of the confusion matrix, which is no mean over examples.

    Standard errors come from the jackknife: the score is taken once without each example. Differences
    are tested by randomisation: with the predictions of pairs exchanged at random, how often is the
    difference as large?

    References:
        Noreen (1989), Computer-intensive methods for testing hypotheses.
    """

    needs = ("label", "prediction")
    higher_is_better = True
    unit = ""

    def __init__(
        self, name: str, function: Callable[[Matrix], Matrix], classes: int, exchanges: Exchanges
    ) -> None:
        """Score confusion matrices (..., right class, predicted class) by a function."""
        self.name, self._function, self._classes, self._exchanges = name, function, classes, exchanges

    def score(self, outcome: Outcome) -> float:
        """Score the confusion matrix of all examples; NaN if all have the same label."""
        matrix = self._matrix(_pairs(outcome))
        if (matrix.sum(-1) > 0).sum() < 2:  # one class only: there is nothing to confuse
            return float("nan")
        return float(self._function(matrix))

    def standard_error(self, outcome: Outcome) -> float:
        """Leave each example out in turn."""
        kinds, counts = np.unique(_pairs(outcome), axis=0, return_counts=True)
        return _jackknife(self._without(kinds, counts), counts)

    def pseudovalues(self, outcome: Outcome) -> NDArray[np.float64]:
        """Leave each example out in turn."""
        kinds, which, counts = np.unique(_pairs(outcome), axis=0, return_inverse=True, return_counts=True)
        number = counts.sum()
        return number * self.score(outcome) - (number - 1) * self._without(kinds, counts)[which]

    def compare(self, outcome: Outcome, untouched: Outcome) -> Comparison:
        """Take the jackknife over pairs, and exchange their predictions at random."""
        label, ours, theirs = (
            part.astype(np.int64)
            for part in (outcome["label"], outcome["prediction"], untouched["prediction"])
        )
        kinds, counts = np.unique(np.stack([label, ours, theirs], 1), axis=0, return_counts=True)
        delta = self.score(outcome) - self.score(untouched)
        apart = self._without(kinds[:, [0, 1]], counts) - self._without(kinds[:, [0, 2]], counts)
        return Comparison(delta, _jackknife(apart, counts), self._exchanged(kinds, counts, delta))

    def _without(self, kinds: NDArray[np.int64], counts: NDArray[np.int64]) -> Matrix:
        """Score everything but one example, for each kind (right class, predicted class)."""
        without = np.repeat(self._matrix(kinds, counts)[None], len(kinds), axis=0)
        without[np.arange(len(kinds)), kinds[:, 0], kinds[:, 1]] -= 1
        return self._function(without)

    def _matrix(self, kinds: NDArray[np.int64], counts: NDArray[np.int64] | int = 1) -> Matrix:
        """Count (right class, predicted class)."""
        matrix = np.zeros((self._classes, self._classes))
        np.add.at(matrix, (kinds[:, 0], kinds[:, 1]), counts)
        return matrix

    def _exchanged(self, kinds: NDArray[np.int64], counts: NDArray[np.int64], delta: float) -> float:
        """Give the share of random exchanges that differ as much; pairs of a kind are alike."""
        differ = kinds[:, 1] != kinds[:, 2]
        if not differ.any():
            return 1.0
        agreed = self._matrix(kinds[~differ], counts[~differ])
        kinds, counts = kinds[differ], counts[differ]

        def as_large(draw: np.random.Generator, some: int) -> NDArray[np.bool_]:
            exchanged = draw.binomial(counts, 0.5, (some, len(counts)))
            sides = [np.repeat(agreed[None], some, axis=0) for _ in range(2)]
            for kind, (label, ours, theirs) in enumerate(kinds):
                moved = exchanged[:, kind]
                for side, (kept, taken) in zip(sides, ((ours, theirs), (theirs, ours)), strict=True):
                    side[:, label, kept] += counts[kind] - moved
                    side[:, label, taken] += moved
            apart = np.abs(self._function(sides[0]) - self._function(sides[1]))
            return apart >= abs(delta) - 1e-12

        return self._exchanges.p(as_large, max(1, _CELLS // self._classes**2))


def matthews(matrix: Matrix) -> Matrix:
    """Give Matthews' correlation, for any number of classes; 0 where it is undefined.

    Limits: -1 to 1; 1 where every answer is right, 0 for answers that do not depend on the labels.

    References:
        Gorodkin (2004), Comparing two K-category assignments by a K-category correlation coefficient.
    """
    right, predicted = matrix.sum(-1), matrix.sum(-2)
    total, correct = matrix.sum((-1, -2)), np.trace(matrix, axis1=-2, axis2=-1)
    above = correct * total - (right * predicted).sum(-1)
    below = np.sqrt((total**2 - (predicted**2).sum(-1)) * (total**2 - (right**2).sum(-1)))
    return np.divide(above, below, out=np.zeros_like(below), where=below > 0)


def f1(matrix: Matrix) -> Matrix:
    """Give F1 of class 1 where there are two, else the mean F1 of the classes that occur."""
    hits = np.diagonal(matrix, axis1=-2, axis2=-1)
    named = matrix.sum(-1) + matrix.sum(-2)
    each = np.divide(2 * hits, named, out=np.zeros_like(named), where=named > 0)
    if matrix.shape[-1] == 2:
        return each[..., 1]
    return each.sum(-1) / np.maximum((named > 0).sum(-1), 1)


def _pairs(outcome: Outcome) -> NDArray[np.int64]:
    return np.stack([outcome["label"], outcome["prediction"]], 1).astype(np.int64)


def _jackknife(without: Matrix, counts: NDArray[np.int64]) -> float:
    """Give the standard error from the score without one example of each kind."""
    number = counts.sum()
    if number < 2:
        return float("nan")
    centre = (counts * without).sum() / number
    return float(np.sqrt((number - 1) / number * (counts * np.square(without - centre)).sum()))
