"""Correlations of predicted numbers with right ones: Pearson's and Spearman's."""

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.metric import Additive, Comparison, Metric, Outcome
from attnprobe.sums.inference import PermutationTest

#: Ranks that are held at once.
_CELLS = 1_000_000
#: Share of a sum of squares that is rounding.
_ROUNDING = 1e-12

Matrix = NDArray[np.float64]


def build_correlation(
    name: str, values: Matrix, exchanges: PermutationTest, decimals: int | None = None
) -> Metric:
    """Build Pearson's or Spearman's correlation with some right numbers.

    Predictions are ranked to so many ``decimals``, where the others are rounding.

    Raises:
        AttnprobeError: When they are all alike.
    """
    if len(np.unique(values)) < 2:
        raise AttnprobeError(
            f"All examples that are scored have the same number, which leaves {name} undefined; take "
            "data with others, or --metric mse."
        )
    return pearson(exchanges) if name == "pearson" else Spearman(exchanges, decimals)


def pearson(exchanges: PermutationTest) -> Additive:
    """Score Pearson's correlation, from the moments of labels and predictions."""
    found = Additive("pearson", "", ("label", "prediction"), _moments, _correlation, exchanges)
    found.continuous = True
    return found


def _moments(outcome: Outcome) -> Matrix:
    """Compute 1, y, p, yy, pp, yp of each example, about the mean label, so that little cancels."""
    gold, said = _numbers(outcome)
    gold, said = gold - gold.mean(), said - gold.mean()
    return np.stack([np.ones_like(gold), gold, said, gold * gold, said * said, gold * said], -1)


def _correlation(sums: Matrix) -> Matrix:
    """Correlate (..., moment); NaN where labels or predictions are all alike."""
    count, gold, said, gold2, said2, product = np.moveaxis(sums, -1, 0)
    with np.errstate(all="ignore"):
        spread = gold2 - gold**2 / count, said2 - said**2 / count
        flat = (spread[0] <= _ROUNDING * gold2) | (spread[1] <= _ROUNDING * said2)
        found = (product - gold * said / count) / np.sqrt(spread[0] * spread[1])
    return np.where(flat, np.nan, found)


class Spearman(Metric):
    """Spearman's rank correlation; equals share the mean of their ranks.

    Standard errors come from the influence that each example has on the correlation, by the ranks that it
    moves too (the infinitesimal jackknife). Differences are tested by randomisation: with the predictions
    of some examples exchanged at random, how often is the difference as large?

    References:
        Croux and Dehon (2010), Influence functions of the Spearman and Kendall correlation measures.
    """

    title = "Correlations of predicted numbers with right ones: Pearson's and Spearman's"

    name = "spearman"
    unit = ""
    higher_is_better = True
    needs = ("label", "prediction")

    def __init__(self, exchanges: PermutationTest, decimals: int | None = None) -> None:
        self._exchanges, self._decimals = exchanges, decimals

    def score(self, outcome: Outcome) -> float:
        """Correlate ranks; NaN where labels or predictions are all alike."""
        gold, said = self._numbers(outcome)
        return float(_correlate_rows(_rank_rows(gold[None]), _rank_rows(said[None]))[0])

    def standard_error(self, outcome: Outcome) -> float:
        return _spread(_influence(*self._numbers(outcome)))

    def pseudovalues(self, outcome: Outcome) -> Matrix:
        """Add the influence of each example to the score, which is what leaving it out comes to."""
        return self.score(outcome) + _influence(*self._numbers(outcome))

    def compare(self, outcome: Outcome, untouched: Outcome) -> Comparison:
        """Take the error from influences on the difference, and p from random exchanges of predictions."""
        gold, ours = self._numbers(outcome)
        theirs = self._numbers(untouched)[1]
        delta = self.score(outcome) - self.score(untouched)
        error = _spread(_influence(gold, ours) - _influence(gold, theirs))
        return Comparison(delta, error, self._test_exchanges(gold, ours, theirs, delta))

    def _test_exchanges(self, gold: Matrix, ours: Matrix, theirs: Matrix, delta: float) -> float:
        if not np.isfinite(delta):
            return float("nan")
        if np.array_equal(ours, theirs):
            return 1.0
        ranks = _rank_rows(gold[None])

        def differences(draw: np.random.Generator, some: int) -> Matrix:
            exchanged = draw.integers(2, size=(some, len(gold)), dtype=np.int8).astype(bool)
            sides = np.where(exchanged, theirs, ours), np.where(exchanged, ours, theirs)
            first, second = (_correlate_rows(ranks, _rank_rows(side)) for side in sides)
            return first - second

        return self._exchanges.p_of(differences, delta, _CELLS // len(gold))

    def _numbers(self, outcome: Outcome) -> tuple[Matrix, Matrix]:
        gold, said = _numbers(outcome)
        return gold, said if self._decimals is None else said.round(self._decimals)


def _numbers(outcome: Outcome) -> tuple[Matrix, Matrix]:
    return outcome["label"].astype(np.float64), outcome["prediction"].astype(np.float64)


def _rank_rows(values: Matrix) -> Matrix:
    from scipy.stats import rankdata  # takes a second to import

    return rankdata(values, axis=-1)


def _correlate_rows(first: Matrix, second: Matrix) -> Matrix:
    first = first - first.mean(-1, keepdims=True)
    second = second - second.mean(-1, keepdims=True)
    below = np.sqrt(np.square(first).sum(-1) * np.square(second).sum(-1))
    above = (first * second).sum(-1)
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


def _influence(gold: Matrix, said: Matrix) -> Matrix:
    """Compute the influence of each example on Spearman's correlation.

    It is (E ab - 1/4) / sqrt((E aa - 1/4) (E bb - 1/4)), where a and b are the shares of examples below,
    equals counted half: an example counts by itself, and in the shares of all others.
    """
    a, b = ((_rank_rows(values[None])[0] - 0.5) / len(values) for values in (gold, said))

    def sum_above(values: Matrix, weights: Matrix) -> Matrix:
        """Sum the weights of the examples above each, equals counted half, over their number."""
        _, group = np.unique(values, return_inverse=True)
        together = np.bincount(group, weights)
        above = together.sum() - together.cumsum()
        return (above + together / 2)[group] / len(values)

    both = a * b + sum_above(gold, b) + sum_above(said, a) - 3 * (a * b).mean()
    own = [s * s + 2 * sum_above(v, s) - 3 * (s * s).mean() for s, v in ((a, gold), (b, said))]
    variances = [(share * share).mean() - 0.25 for share in (a, b)]
    if min(variances) <= _ROUNDING:
        return np.full(len(gold), np.nan)
    below = np.sqrt(variances[0] * variances[1])
    rho = ((a * b).mean() - 0.25) / below
    return both / below - rho / 2 * sum(part / one for part, one in zip(own, variances, strict=True))


def _spread(influence: Matrix) -> float:
    number = len(influence)
    if number < 2:
        return float("nan")
    return float(np.sqrt(np.square(influence).sum() / (number * (number - 1))))
