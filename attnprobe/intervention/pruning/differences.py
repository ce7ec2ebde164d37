"""The steps of a pruning curve compared with random orders, and bounds of what they lose."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.metrics.score import CLUSTER, Predictions, Score
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.inference import Estimate, adjust, half_width

Floats = NDArray[np.float64]
#: The weight of the document that is added to a sample: half the square of the normal quantile of 95 %.
_ADDED = 1.353


def compare_with_random(
    metric: Score, order: Sequence[Predictions], orders: Sequence[Sequence[Predictions]]
) -> Floats:
    """Compare the inner steps of an order with the mean of K random orders; all orders share both ends.

    The null hypothesis is that the order is one more random order, so the spread between orders is part of
    the error,

        SE^2 = s_K^2 (1 + 1/K) + SE_n^2,    p of Student's t with K - 1 degrees of freedom

    with s_K the standard deviation of the scores of the random orders, and SE_n the error of the difference s
    - mean_r s_r over documents, from the differences of the examples' pseudovalues. With r the number of
    random orders that are at least as good, or at least as bad, whichever is smaller, p is at least 2 (r + 1)
    / (K + 1). Holm adjusts p over the inner steps. Difference, error, p and adjusted p are (4, step).

    Limits: all are NaN without random orders; p is NaN with fewer than two, or without an error. If the
    scores of random orders are far from normal, such as when some collapse, up to 8 % of p are below .05 for
    a random order with K = 5.
    """
    differences = np.full((4, len(order)), np.nan)
    for place in range(1, len(order) - 1 if orders else 0):
        others = [other[place] for other in orders]
        differences[:3, place] = _compare_with_mean(metric, order[place], others)
    differences[3] = adjust(differences[2])
    return differences


def _compare_with_mean(
    metric: Score, step: Predictions, others: Sequence[Predictions]
) -> tuple[float, float, float]:
    """Compare a step with the same step of random orders: difference of the score, its error, and p."""
    score, scores, number = metric.score(step), np.array([*map(metric.score, others)]), len(others)
    added = metric.pseudovalues(step) - np.mean([metric.pseudovalues(other) for other in others], 0)
    delta = float(score - scores.mean())
    error = float(Clustered.of(added, step.get(CLUSTER)).standard_error)
    if number < 2:
        return delta, error, np.nan
    error = float(np.sqrt(scores.var(ddof=1) * (1 + 1 / number) + error**2))
    if not error > 0:
        return delta, error, np.nan
    as_far = min(int((scores >= score).sum()), int((scores <= score).sum()))
    least = min(1.0, 2 * (as_far + 1) / (number + 1)) if as_far else 0.0
    p = float(Estimate(np.array(delta), np.array(error), np.array(number)).p())
    return delta, error, max(least, p)


def rank_among(metric: Score, scores: Floats) -> Floats:
    """Rank the first of several orders (order, step) at each step, 1 for the best score.

    In a tie, the first order ranks last, so rank 1 is better than every other order. The two ends, which all
    orders share, and steps with an undefined score have no rank.
    """
    ranks = np.full(scores.shape[1], np.nan)
    if len(scores) > 1:
        better = scores if metric.higher_is_better else -scores
        inner = better[:, 1:-1]
        ranks[1:-1] = np.where(np.isfinite(inner).all(0), (inner >= inner[0]).sum(0), np.nan)
    return ranks


def bound_losses(
    metric: Score, order: Sequence[Predictions], whole: Predictions, documents: NDArray[np.int64]
) -> Floats:
    """Bound the loss of each step of an order against the whole model, (step,); NaN at the first.

    The bound is the upper end of a one-sided 95 % interval for the loss of score (positive if the score may
    be worse), over the paired differences of examples, or of their pseudovalues if the score is no mean.
    Student's t is too narrow for rare differences, so a = 1.353 documents of mean length are added that lose
    as much as any document changed. With documents c of n_c examples that lose T_c together, weights w_c of 1
    and a, and N = sum_c w_c n_c,

        bound = m + t(.95, C - 1) SE,    m = sum_c w_c T_c / N
        SE^2 = (1 - 1 / sum_c w_c)  sum_c w_c ((T_c - n_c m) / (N - n_c))^2

    the jackknife's error over documents. a is half the square of the normal quantile of 95 %, as in Wilson's
    interval. If no answer changed, the added answers are wrong, which bounds the lost share by about 3.3 / n;
    for other scores of answers, they lose the largest change at any step. A continuous score, such as loss,
    that is the same to the last bit has a bound of 0.

    Limits: NaN for one document, unless the score is a share, and if the size of a change is unknown. No
    bound covers losses of unlimited size that are too rare to occur in the examples.

    References:
        Wilson (1927), Probable inference, the law of succession, and statistical inference.
        Agresti and Min (2005), Simple improved confidence intervals for comparing matched proportions.
    """
    sign = 1 if metric.higher_is_better else -1
    score, added = metric.score(whole), metric.pseudovalues(whole)
    lost = []
    for step in order[1:]:
        losses = sign * (added - metric.pseudovalues(step))
        if metric.most is None:  # the pseudovalues of a score that is no mean add up to nearly its loss
            losses = losses + sign * (score - metric.score(step)) - losses.mean()
        lost.append(losses)
    largest = metric.most or max((float(np.abs(losses).max()) for losses in lost), default=0.0) or np.nan
    return np.array([np.nan, *(_bound_loss(metric, losses, documents, largest) for losses in lost)])


def _bound_loss(metric: Score, lost: Floats, documents: NDArray[np.int64], largest: float) -> float:
    """Bound the loss of one step from what each example lost, at most the largest there can be."""
    if not np.isfinite(lost).all():
        return np.nan
    _, place = np.unique(documents, return_inverse=True)
    sizes, totals = np.bincount(place).astype(np.float64), np.bincount(place, lost)
    number, size = len(sizes), len(lost) / len(sizes)
    if metric.continuous and not lost.any():
        return 0.0 if number > 1 else np.nan
    furthest = np.abs(totals / sizes).max() if lost.any() else largest
    weights = np.append(np.ones(number), _ADDED)
    sizes, totals = np.append(sizes, size), np.append(totals, size * furthest)
    mean = weights @ totals / (weights @ sizes)
    pulls = (totals - sizes * mean) / (weights @ sizes - sizes)
    error = np.sqrt((1 - 1 / weights.sum()) * (weights @ np.square(pulls)))
    bound = mean + float(half_width(error, number, 1, one_sided=True))
    if metric.most is not None:
        return float(np.fmin(bound, metric.most))
    return float(bound) if np.isfinite(bound) else np.nan
