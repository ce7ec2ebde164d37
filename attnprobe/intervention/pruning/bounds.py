"""How much a score may have lost at a step, at most: one-sided bounds of paired differences."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.metrics.metric import CLUSTER, Metric, Outcome
from attnprobe.sums.clustered import Clustered

Floats = NDArray[np.float64]
#: How likely the truth is to lie within a bound.
CONFIDENCE = 0.95


def loss_bounds(metric: Metric, order: Sequence[Outcome], untouched: Outcome) -> Floats:
    """Bound how much worse each step of an order is than the whole model, (step,); NaN at the first.

    The bound is the upper end of a one-sided interval of 95 % for the loss of score, in the score's unit and
    positive where the score may be worse, over the paired differences d_i of examples (of their pseudovalues
    where the score is no mean). Student's t of rare differences is too short: what changes one answer
    in a hundred changes none of 50 in three samples of five. So it is taken with one more example that loses
    as much as any example changed,

        bound = mean(d) + t(.95, n - 1) s(d) / sqrt(n + 1)    over d_1, ..., d_n, max |d_i|

    and where documents have windows, one more document of the average number of windows. Right or wrong
    answers of which none was gained have Clopper and Pearson's exact bound of the share that was lost,
    1 - .05^(1/n) where none was. Other scores of answers, of which none changed, take that share of the
    largest change at any step. A score that every change of a model moves, such as loss, and that is the
    same to the last bit, has 0.

    Limits: NaN for one example that is not right or wrong, and where nothing says how large a change can be.
    What is too rare to be seen in any example, and has no largest size, as in a loss, is in no bound.

    References:
        Clopper and Pearson (1934), The use of confidence or fiducial limits.
        Agresti and Min (2005), Simple improved confidence intervals for comparing matched proportions: the
        added answers, there on both sides.
    """
    better = 1 if metric.higher_is_better else -1
    start, before = metric.score(untouched), metric.pseudovalues(untouched)
    lost = []
    for step in order[1:]:
        apart = better * (before - metric.pseudovalues(step))
        if metric.most is None:  # the pseudovalues of a score that is no mean add up to nearly its loss
            apart = apart + better * (start - metric.score(step)) - apart.mean()
        lost.append(apart)
    largest = metric.most or max((float(np.abs(apart).max()) for apart in lost), default=0.0) or np.nan
    cluster = order[0].get(CLUSTER)
    return np.array([np.nan, *(_bound(metric, apart, cluster, largest) for apart in lost)])


def steps_within(bounds: Floats, margin: float) -> int:
    """Give the last step whose bound, and every bound before it, is at most the margin; 0 for none.

    Steps are tested in the order of the curve until the first that fails, so that each can be tested at the
    full level: the chance that the step found loses more than the margin is at most 5 %.

    References:
        Maurer, Hothorn and Lehmacher (1995), Multiple comparisons in drug clinical trials and preclinical
        assays: a-priori ordered hypotheses.

    >>> steps_within(np.array([np.nan, 0.002, 0.008, 0.02, 0.005]), 0.01)
    2
    """
    failing = ~(bounds[1:] <= margin)
    return int(failing.argmax()) if failing.any() else len(failing)


def _bound(metric: Metric, lost: Floats, cluster: NDArray[np.int64] | None, largest: float) -> float:
    from scipy.stats import beta, t  # takes a second to import

    if not np.isfinite(lost).all():
        return float("nan")
    own = Clustered.of(lost, cluster)
    clusters = int(own.clusters)
    if not lost.any() and metric.continuous:
        return 0.0 if clusters > 1 else float("nan")
    if not lost.any():
        return largest * (1 - (1 - CONFIDENCE) ** (1 / clusters))
    if metric.most == 1 and not len(own.groups) and np.isin(lost, (0, 1)).all():
        worse = int(lost.sum())
        return float(beta.ppf(CONFIDENCE, worse + 1, len(lost) - worse)) if worse < len(lost) else 1.0
    if clusters < 2:
        return float("nan")
    if len(own.groups):
        assert cluster is not None  # where there are groups, they were named
        sums, sizes = own.groups.total, own.groups.count
        furthest = max(float(np.abs(sums / sizes).max()), float(np.abs(lost[cluster < 0]).max(initial=0)))
        size = max(1, round(len(lost) / clusters))
        added = np.full(size, cluster.max() + 1)
        own = Clustered.of(np.append(lost, np.full(size, furthest)), np.append(cluster, added))
    else:
        own = Clustered.of(np.append(lost, np.abs(lost).max()))
    found = float(own.average) + t.ppf(CONFIDENCE, clusters - 1) * float(own.standard_error)
    return float(found if metric.most is None else min(found, metric.most))
