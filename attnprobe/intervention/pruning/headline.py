"""What a pruning curve says: what the score may lose, how many heads can go, whether it beats chance."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.metrics.metric import Metric
from attnprobe.intervention.pruning.differences import Differences, find_last_step
from attnprobe.sums.resampling import SIGNIFICANT

#: Shares of the heads at which the bound is said: chosen beforehand, so that none is picked for its luck.
QUOTED = (0.25, 0.5, 0.75)
#: Standard errors beyond which a difference without a test is more than noise.
_SHOWS = 1.96

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """The scores of an order and of random ones.

    Attributes:
        scores: (order, step), the order by criterion first.
        bounds: How much worse than the whole model the order by criterion may be, (step,).
        removed: How many heads are off at each step.
        majority: The share of the examples that have the most frequent label, where the score is the share of
            labels that are right.
        margin: The loss of score that is allowed, if one is.
    """

    metric: Metric
    scores: Floats
    bounds: Floats
    removed: Sequence[int]
    examples: int
    majority: float | None = None
    margin: float | None = None

    @property
    def better(self) -> int:
        """1 where a good model has a high score, else -1."""
        return 1 if self.metric.higher_is_better else -1

    @property
    def counted(self) -> str:
        return f"{self.examples:,} example{'' if self.examples == 1 else 's'}"


def describe_curve(curve: Curve, whole: Differences, chance: Differences) -> list[str]:
    """Say how much the score may lose, how many heads can go, and whether the order beats random ones."""
    if not np.isfinite(curve.scores[0]).all():
        return [f"{curve.metric.name} is undefined at some step."]
    sentences = [*_doubt_examples(curve, whole), *_bound_quoted_steps(curve), *_judge_margin(curve)]
    sentences += _find_first_loss(curve, whole)
    if curve.majority is not None and curve.majority < 1:
        name, majority = curve.metric.name, curve.majority
        sentences.append(f"Always naming the most frequent label has {name} {majority:.4g}.")
    return [*sentences, *_judge_random_orders(curve, chance)]


def _doubt_examples(curve: Curve, whole: Differences) -> Iterator[str]:
    """Say where the examples can't tell a model without any head from the whole one, or only just."""
    if curve.examples == 1:
        yield "One example can't say how many heads can go."
        return
    if curve.majority == 1:
        yield (
            f"All {curve.counted} have the same label, and so can't say how many heads can go: a model that "
            f"always names it has {curve.metric.name} 1."
        )
        return
    name, score, last = curve.metric.name, curve.scores[0], len(curve.removed) - 1
    loss, p, error = -curve.better * whole.delta[last], whole.p[last], whole.error[last]
    worse = loss > 0 and (p < SIGNIFICANT if np.isfinite(p) else loss > _SHOWS * error)
    if not worse:
        tested = f", p = {p:.2g}" if np.isfinite(p) else ""
        yield (
            f"These {curve.counted} can't say how many heads can go: they don't tell the model with all "
            f"{curve.removed[last]} heads removed, whose {name} is {score[last]:.4g}, from the whole one, "
            f"whose is {score[0]:.4g} (paired{tested})."
        )
        return
    quoted = _choose_steps(curve)[0]
    bound = curve.bounds[quoted]
    doubt = bound + curve.better * whole.delta[quoted]
    if quoted != last and not doubt < loss:
        said = f"may lose {round_bound(bound)}" if np.isfinite(bound) else "is not known"
        yield (
            f"{curve.counted} can hardly say how many heads can go: with {curve.removed[quoted]} of "
            f"{curve.removed[last]} heads removed {name} is {score[quoted]:.4g} and {said} (one-sided 95 %), "
            f"which is no less doubt than the whole loss without any head, {loss:.2g}."
        )


def _bound_quoted_steps(curve: Curve) -> Iterator[str]:
    """Bound the loss at some steps that don't depend on it."""
    name, removed = curve.metric.name, curve.removed
    known = [step for step in _choose_steps(curve) if np.isfinite(curve.bounds[step])]
    if not known:
        yield (
            f"How much worse {name} may be can't be bounded with {curve.counted}; the whole model's is "
            f"{curve.scores[0][0]:.4g}."
        )
        return
    first, *others = known
    more = "".join(f"; with {removed[step]}, {_describe_bound(curve, step)}" for step in others)
    yield (
        f"With {removed[first]} of {removed[-1]} heads removed, {name} is {_describe_bound(curve, first)} "
        f"than the whole model's {curve.scores[0][0]:.4g}{more} ({'each ' if others else ''}one-sided 95 %, "
        f"paired over {curve.counted})."
    )


def _judge_margin(curve: Curve) -> Iterator[str]:
    """Name the last step whose bound lies within the margin, if there is a margin."""
    if curve.margin is None:
        return
    name, bounds, removed = curve.metric.name, curve.bounds, curve.removed
    last = find_last_step(bounds, curve.margin)
    how = (
        "one-sided 95 %, steps tried in their order until the first that fails, so that no correction is owed"
    )
    if last:
        yield (
            f"Within a margin of {curve.margin:g}, {removed[last]} of {removed[-1]} heads can go: {name} is "
            f"{_describe_bound(curve, last)} ({how})."
        )
    else:
        bound = f"is {round_bound(bounds[1])}" if np.isfinite(bounds[1]) else "is not known"
        yield (
            f"Not even the first step, {removed[1]} of {removed[-1]} heads, lies within a margin of "
            f"{curve.margin:g}: the bound of how much worse {name} may be {bound} (one-sided 95 %)."
        )


def _find_first_loss(curve: Curve, whole: Differences) -> Iterator[str]:
    """Name the first step that is significantly worse than the whole model, over all steps."""
    worse = (whole.adjusted < SIGNIFICANT) & (curve.better * whole.delta < 0)
    if worse.any():
        first = int(worse.argmax())
        yield (
            f"The first step at which {curve.metric.name} is significantly worse is that with "
            f"{curve.removed[first]} heads removed: by {abs(whole.delta[first]):.2g} (standard error "
            f"{whole.error[first]:.1g}, paired, Holm, p = {whole.adjusted[first]:.2g})."
        )


def _judge_random_orders(curve: Curve, chance: Differences) -> Iterator[str]:
    """Count the steps at which the order by criterion is better, or worse, than random ones."""
    random = curve.scores[1:]
    if not len(random) or len(curve.removed) < 3 or not np.isfinite(curve.scores).all():
        return
    inner = slice(1, -1)  # without the ends, which all orders share
    beyond = int((curve.better * curve.scores[0] > (curve.better * random).max(0))[inner].sum())
    between = len(curve.removed) - 2
    steps = "1 step" if between == 1 else f"the {between} steps"
    where = f"of {steps} between no head and all heads removed"
    if len(random) == 1:
        yield (
            f"The order by criterion is better than the one random order at {beyond} {where}; one order has "
            "no spread to test against."
        )
        return
    significant = chance.adjusted < SIGNIFICANT
    ahead = curve.better * chance.delta > 0
    yield (
        f"Against {len(random)} random orders, whose spread is part of the error, the order by criterion is "
        f"significantly better at {int((significant & ahead).sum())} {where}, and significantly worse at "
        f"{int((significant & ~ahead).sum())} (t, Holm, p < {SIGNIFICANT}). It is better than every one of "
        f"them at {beyond} of these; one more random order would be at about one step in {len(random) + 1}."
    )


def _choose_steps(curve: Curve) -> list[int]:
    """Choose the steps whose bound is quoted, by the share of heads; the last where there is no other."""
    inner = np.arange(1, len(curve.removed) - 1)
    if not len(inner):
        return [len(curve.removed) - 1]
    shares = np.array(curve.removed)[inner] / curve.removed[-1]
    return sorted({int(inner[np.abs(shares - share).argmin()]) for share in QUOTED})


def _describe_bound(curve: Curve, step: int) -> str:
    return describe_bound(curve.bounds[step], higher_is_better=curve.metric.higher_is_better)


def describe_bound(bound: float, *, higher_is_better: bool) -> str:
    """Say how far and which way a bound points: a loss of score where it is not below 0.

    >>> describe_bound(0.0201, higher_is_better=False)
    'at most 0.021 higher'
    """
    size = f"at most {round_bound(bound)}" if bound >= 0 else f"at least {round_bound(-bound, up=False)}"
    return f"{size} {'lower' if (bound >= 0) == higher_is_better else 'higher'}"


def round_bound(value: float, *, up: bool = True) -> str:
    """Write two digits of a number that isn't negative, rounded so that a bound stays one.

    >>> round_bound(0.02101), round_bound(0.00347, up=False), round_bound(0.0)
    ('0.022', '0.0034', '0')
    """
    if value == 0:
        return "0"
    unit = 10.0 ** (floor(log10(abs(value))) - 1)
    return f"{(ceil if up else floor)(round(value / unit, 6)) * unit:.2g}"
