"""Scores that are means over examples: loss, accuracy, similarity."""

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.metrics.metric import CLUSTER, Comparison, Metric, Outcome
from attnprobe.sums.groups import Clustered

#: Relative scatter of differences that is rounding.
_ROUNDING = 1e-10


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
        elif len(apart.groups):
            p = student_p(apart)
        else:
            p = _paired_p(ours, theirs)
        return Comparison(float((ours - theirs).mean()), float(apart.standard_error), p)

    def _values(self, outcome: Outcome) -> NDArray[np.float64]:
        return outcome[self.name].astype(np.float64)


def student_p(apart: Clustered) -> float:
    """Test that the mean difference is 0: Student's t, of the jackknife where documents have windows."""
    from scipy.stats import t  # takes a second to import

    mean, error, clusters = float(apart.average), float(apart.standard_error), float(apart.clusters)
    if mean == 0 and not error:
        return 1.0
    return float(2 * t.sf(abs(mean) / error, clusters - 1)) if error else 0.0


def _paired_p(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    from scipy.stats import binomtest, ttest_rel  # takes a second to import

    apart = ours - theirs
    if not apart.any():
        return 1.0
    if np.isin(ours, (0, 1)).all() and np.isin(theirs, (0, 1)).all():
        better, worse = int((apart > 0).sum()), int((apart < 0).sum())
        return float(binomtest(better, better + worse).pvalue)
    if len(apart) < 2:
        return float("nan")
    if apart.std() <= _ROUNDING * np.abs(apart).max():  # all moved by the same amount: t is infinite
        return 0.0
    return float(ttest_rel(ours, theirs).pvalue)  # type: ignore[attr-defined]
