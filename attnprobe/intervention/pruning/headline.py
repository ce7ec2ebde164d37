"""What a pruning curve says: how many heads can go, and whether the order beats chance."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.metrics.metric import Metric
from attnprobe.intervention.pruning.differences import Differences
from attnprobe.sums.significance import SIGNIFICANT

#: Standard errors beyond which a difference would show in a single test.
SHOWS = 1.96


@dataclass(frozen=True)
class Curve:
    """The scores of an order and of random ones.

    Attributes:
        metric: What they are scored by.
        scores: (order, step), the order by criterion first.
        errors: Of the order by criterion, (step,).
        removed: How many heads are off at each step.
        examples: How many examples are scored.
    """

    metric: Metric
    scores: NDArray[np.float64]
    errors: NDArray[np.float64]
    removed: Sequence[int]
    examples: int

    @property
    def better(self) -> int:
        """1 where a good model has a high score, else -1."""
        return 1 if self.metric.higher_is_better else -1


def notes(curve: Curve, whole: Differences, chance: Differences) -> list[str]:
    """Say how many heads can go, and whether the order by criterion beats random ones."""
    return [*_how_many(curve, whole), *_beats_chance(curve, chance)]


def _how_many(curve: Curve, whole: Differences) -> Iterator[str]:
    """Name the first step that is significantly worse than the whole model, and what would not show."""
    name, removed, score = curve.metric.name, curve.removed, curve.scores[0]
    before = f"the whole model's {score[0]:.4g}"
    if not np.isfinite(score).all():
        yield f"{name} is undefined at some step."
        return
    if not np.isfinite(whole.adjusted[1:]).all():
        middle = len(removed) // 2
        yield (
            f"{name} can't be tested against {before}; with {removed[middle]} of {removed[-1]} heads removed "
            f"it is {score[middle]:.4g}."
        )
        return
    worse = (whole.adjusted < SIGNIFICANT) & (curve.better * whole.delta < 0)
    first = int(worse.argmax()) if worse.any() else len(removed)
    kept = first - 1
    if kept:
        yield (
            f"With up to {removed[kept]} of {removed[-1]} heads removed, {name} is not significantly worse "
            f"than {before} (paired over {curve.examples:,} examples, adjusted p < {SIGNIFICANT})."
        )
        hidden = SHOWS * whole.error[kept]
        if hidden > 0:
            yield (
                f"That does not prove that nothing changes: with n = {curve.examples:,}, a difference below "
                f"{hidden:.2g} would not show there."
            )
    if first < len(removed):
        step = "" if kept else ", the first step"
        yield (
            f"With {removed[first]} heads removed{step}, {name} is worse by {abs(whole.delta[first]):.2g} "
            f"(standard error {whole.error[first]:.1g}, adjusted p = {whole.adjusted[first]:.2g})."
        )


def _beats_chance(curve: Curve, chance: Differences) -> Iterator[str]:
    """Count the steps at which the order by criterion is better, or worse, than random ones."""
    random = curve.scores[1:]
    if not len(random) or len(curve.removed) < 3 or not np.isfinite(curve.scores).all():
        return
    inner = slice(1, -1)  # without the ends, which all orders share
    sure = chance.adjusted < SIGNIFICANT
    ahead = curve.better * chance.delta > 0
    best = (curve.better * random).max(0)
    beyond = int((curve.better * curve.scores[0] > best)[inner].sum())
    orders = "the random order" if len(random) == 1 else f"the mean of {len(random)} random orders"
    between = len(curve.removed) - 2
    steps = "1 step" if between == 1 else f"{between} steps"
    yield (
        f"Of the {steps} between no head and all heads removed, the order by criterion is significantly "
        f"better than {orders} at {int((sure & ahead).sum())}, significantly worse at "
        f"{int((sure & ~ahead).sum())}, and "
        f"better than every random order at {beyond}."
    )
