"""Each step of a pruning curve against the whole model, and against random orders, pair by pair."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.metrics.mean import student_p
from attnprobe.intervention.metrics.metric import CLUSTER, Comparison, Metric, Outcome
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.significance import adjust

Floats = NDArray[np.float64]
_NOTHING = Comparison(np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class Differences:
    """Differences of scores along the steps of an order, each over the same examples.

    Attributes:
        delta: The score minus the other, (step,); NaN where there is nothing to compare.
        error: The standard error of the difference, over examples.
        p: How likely so large a difference is, either way, if there were none.
        adjusted: p adjusted for the number of steps, by Holm.
    """

    delta: Floats
    error: Floats
    p: Floats
    adjusted: Floats

    @classmethod
    def of(cls, steps: Sequence[Comparison]) -> "Differences":
        """Put the steps of one order together."""
        delta, error, p = (np.array([getattr(step, part) for step in steps], np.float64)
                           for part in ("delta", "error", "p"))  # fmt: skip
        return cls(delta, error, p, adjust(p))


def from_whole(metric: Metric, order: Sequence[Outcome], untouched: Outcome) -> Differences:
    """Compare every step after the first, at which no head is off, with the whole model.

    The difference is the score minus that of the whole model, and its standard error and p are taken pair by
    pair over the same examples, as ``ablate`` takes them. The adjusted p is Holm's, over the steps of an
    order.
    """
    return Differences.of([_NOTHING, *(metric.compare(step, untouched) for step in order[1:])])


def from_random(metric: Metric, order: Sequence[Outcome], orders: Sequence[Sequence[Outcome]]) -> Differences:
    """Compare the inner steps of an order with the mean of some random orders; all share both ends.

    Rows of the random orders themselves have no such numbers. The adjusted p is Holm's, over the inner steps.

    The difference of scores, s - mean_r s_r, is the mean of the differences of their pseudovalues, example by
    example, and Student's t of those is its test. The random orders are taken as they are: what other random
    orders would give is what their spread is for.
    """
    if not orders:
        return Differences.of([_NOTHING] * len(order))
    inner = [_from_mean(metric, step, others) for step, *others in zip(order, *orders, strict=True)][1:-1]
    ends = [_NOTHING] * (len(order) - len(inner) - 1)
    return Differences.of([_NOTHING, *inner, *ends])


def _from_mean(metric: Metric, step: Outcome, others: Sequence[Outcome]) -> Comparison:
    delta = metric.score(step) - float(np.mean([metric.score(other) for other in others]))
    apart = metric.pseudovalues(step) - np.mean([metric.pseudovalues(other) for other in others], 0)
    found = Clustered.of(apart, step.get(CLUSTER))
    return Comparison(delta, float(found.standard_error), student_p(found))
