"""The interface of a metric: outcomes of examples in, a score and its uncertainty out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.objectives.objective import Values

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
