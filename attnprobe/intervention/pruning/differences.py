"""Each step of a pruning curve against the whole model, and against random orders, pair by pair."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.metrics.score import CLUSTER, Comparison, Predictions, Score
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.inference import CONFIDENCE, Estimate, adjust, half_width

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
        delta, error, p = np.array([(step.delta, step.error, step.p) for step in steps], np.float64).T
        return cls(delta, error, p, adjust(p))


def compare_with_whole(metric: Score, order: Sequence[Predictions], untouched: Predictions) -> Differences:
    """Compare every step after the first, at which no head is off, with the whole model.

    The difference is the score minus that of the whole model; its standard error and p are paired over the
    same examples, as in ``ablate``. The adjusted p is Holm's, over the steps of an order.
    """
    return Differences.of([_NOTHING, *(metric.compare(step, untouched) for step in order[1:])])


def compare_with_random(
    metric: Score, order: Sequence[Predictions], orders: Sequence[Sequence[Predictions]]
) -> Differences:
    """Compare the inner steps of an order with the mean of K random orders; all share both ends.

    The null hypothesis is that the order is one more random order, so the spread between orders is part of
    the error,

        SE^2 = s_K^2 (1 + 1/K) + SE_n^2,    p of Student's t with K - 1 degrees of freedom

    with s_K the standard deviation of the scores of the random orders, and SE_n the error of the difference s
    - mean_r s_r over examples, from the differences of their pseudovalues. Where r random orders are as good,
    or r as bad, p is at least 2 (r + 1) / (K + 1), whichever is less. Holm adjusts p over the inner steps.

    Limits: p is NaN with fewer than two random orders, or without any error. Orders that spread far from
    normally, such as some that collapse, give p below .05 in up to 8 % of draws of a random order for K = 5.
    """
    if not orders:
        return Differences.of([_NOTHING] * len(order))
    steps = list(zip(order, *orders, strict=True))[1:-1]
    inner = [_compare_with_mean(metric, step, others) for step, *others in steps]
    ends = [_NOTHING] * (len(order) - len(inner) - 1)
    return Differences.of([_NOTHING, *inner, *ends])


def rank_among(metric: Score, scores: Floats) -> Floats:
    """Rank the first of some orders (order, step) among all of them, step by step, 1 for the best score.

    Of equal scores the first order's counts as the worst, so that a rank of 1 is better than every other. The
    ends, which all orders share, have none, and neither has a step at which a score is undefined.
    """
    better = 1 if metric.higher_is_better else -1
    ranks = np.full(scores.shape[1], np.nan)
    if len(scores) > 1:
        found = np.where(np.isfinite(scores).all(0), (better * scores >= better * scores[0]).sum(0), np.nan)
        ranks[1:-1] = found[1:-1]
    return ranks


def _compare_with_mean(metric: Score, step: Predictions, others: Sequence[Predictions]) -> Comparison:
    scores = np.array([metric.score(other) for other in others])
    delta, number = float(metric.score(step) - scores.mean()), len(scores)
    apart = metric.pseudovalues(step) - np.mean([metric.pseudovalues(other) for other in others], 0)
    noise = float(Clustered.of(apart, step.get(CLUSTER)).standard_error)
    if number < 2:
        return Comparison(delta, noise, np.nan)
    error = float(np.sqrt(scores.var(ddof=1) * (1 + 1 / number) + noise**2))
    if not error > 0:
        return Comparison(delta, error, np.nan)
    beyond = min(int((scores >= metric.score(step)).sum()), int((scores <= metric.score(step)).sum()))
    least = min(1.0, 2 * (beyond + 1) / (number + 1)) if beyond else 0.0
    student = Estimate(*map(np.asarray, (delta, error, number)))
    return Comparison(delta, error, max(least, float(student.p())))


def bound_losses(metric: Score, order: Sequence[Predictions], untouched: Predictions) -> Floats:
    """Bound how much worse each step of an order is than the whole model, (step,); NaN at the first.

    The bound is the upper end of a one-sided interval of 95 % for the loss of score, positive where the score
    may be worse, over the paired differences d_i of examples (of their pseudovalues where the score is no
    mean). Student's t of rare differences is too short, so it is taken with one more example that loses as
    much as any example changed,

        bound = mean(d) + t(.95, n - 1) s(d) / sqrt(n + 1)    over d_1, ..., d_n, max |d_i|

    or with one more document, where documents have windows. Right or wrong answers of which none was gained
    have Clopper and Pearson's exact bound of the share that was lost, 1 - .05^(1/n) where none was. Other
    scores of answers, of which none changed, take that share of the largest change at any step. A score that
    every change of a model moves, such as loss, and that is the same to the last bit, has 0.

    Limits: NaN for one example that is not right or wrong, and where nothing says how large a change can be.
    What is too rare to be seen in any example, and has no largest size, as in a loss, is in no bound.

    References:
        Clopper and Pearson (1934), The use of confidence or fiducial limits.
        Agresti and Min (2005), Simple improved confidence intervals for comparing matched proportions.
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
    return np.array([np.nan, *(_bound_loss(metric, apart, cluster, largest) for apart in lost)])


def _bound_loss(metric: Score, lost: Floats, cluster: NDArray[np.int64] | None, largest: float) -> float:
    from scipy.stats import beta  # takes a second to import

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
    found = float(own.average) + float(half_width(own.standard_error, clusters, one_sided=True))
    return float(found if metric.most is None else min(found, metric.most))
