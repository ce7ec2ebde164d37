"""Scores that are means over examples: loss, accuracy, similarity."""

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.metrics.metric import CLUSTER, Comparison, Metric, Outcome
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.inference import sign_flip


class Mean(Metric):
    """The mean of a number over examples.

    Differences are tested pair by pair: by McNemar's exact test where every example is either right
    or wrong, otherwise by Student's paired t. Where examples are windows of longer documents, standard errors
    and t are over documents, by the jackknife.
    """

    title = "Scores that are means over examples: loss, accuracy, similarity"

    def __init__(self, name: str, unit: str = "", *, higher_is_better: bool, tested: bool = True) -> None:
        """Average the number of that name; ``tested`` where no difference is a sensible hypothesis."""
        self.name, self.unit, self.higher_is_better = name, unit, higher_is_better
        self.needs = (name,)
        self.most = 1.0 if unit == "share" else None
        self.continuous = self.most is None
        self._tested = tested

    def score(self, outcome: Outcome) -> float:
        return float(self._values(outcome).mean())

    def standard_error(self, outcome: Outcome) -> float:
        return float(Clustered.of(self._values(outcome), outcome.get(CLUSTER)).standard_error)

    def pseudovalues(self, outcome: Outcome) -> NDArray[np.float64]:
        return self._values(outcome)

    def compare(self, outcome: Outcome, untouched: Outcome) -> Comparison:
        ours, theirs = self._values(outcome), self._values(untouched)
        apart = Clustered.of(ours - theirs, outcome.get(CLUSTER))
        if not self._tested:
            p = np.nan
        elif np.array_equal(ours, theirs):
            p = 1.0
        elif not len(apart.groups) and np.isin([ours, theirs], (0, 1)).all():
            p = sign_flip(ours - theirs, one_sided=False)
        else:
            p = float(apart.estimate.p())
        return Comparison(float((ours - theirs).mean()), float(apart.standard_error), p)

    def _values(self, outcome: Outcome) -> NDArray[np.float64]:
        return outcome[self.name].astype(np.float64)
