"""What a pruning curve says: how many heads can go, and whether the order beats random ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attnprobe.intervention.metrics.metric import Metric
from attnprobe.intervention.pruning.differences import Differences
from attnprobe.sums.resampling import SIGNIFICANT


@dataclass(frozen=True)
class Curve:
    """The scores of an order.

    Attributes:
        name: What orders the heads.
        score: That of the whole model.
        whole: The steps against the whole model.
        chance: The steps against ``orders`` random orders.
        removed: How many heads are off at each step.
    """

    metric: Metric
    name: str
    score: float
    whole: Differences
    chance: Differences
    removed: Sequence[int]
    orders: int

    def describe(self) -> Iterator[str]:
        """Count the steps at which the score is significantly worse, and those that beat random orders."""
        better = 1 if self.metric.higher_is_better else -1
        worse = (self.whole.adjusted < SIGNIFICANT) & (better * self.whole.delta < 0)
        start = f"With all heads, {self.metric.name} is {self.score:.4g}"
        tested = f"(paired, Holm, p < {SIGNIFICANT})"
        if worse.any():
            first = self.removed[int(worse.argmax())]
            yield (
                f"{start}; by {self.name}, it is significantly worse at {int(worse.sum())} of "
                f"{len(worse) - 1} steps, first with {first} of {self.removed[-1]} heads removed {tested}."
            )
        else:
            yield f"{start}; by {self.name}, it is significantly worse at no step {tested}."
        inner = np.isfinite(self.chance.adjusted)
        if not inner.any():
            return
        significant, ahead = self.chance.adjusted < SIGNIFICANT, better * self.chance.delta > 0
        yield (
            f"Against {self.orders} random orders, {self.name} is significantly better at "
            f"{int((significant & ahead).sum())} of {int(inner.sum())} steps, and significantly worse at "
            f"{int((significant & ~ahead).sum())} (t, Holm, p < {SIGNIFICANT})."
        )


def describe_margin(
    metric: Metric, margin: float, removed: Sequence[int], bounds: Sequence[float], within: int, heads: int
) -> str:
    """Say how many heads can go within a margin; ``within`` is 0 where none can.

    ``bounds`` of how much worse the score may be are at each number of ``removed`` heads.
    """
    if within:
        bound = bounds[list(removed).index(within)]
        return (
            f"Within a margin of {margin:g}, {within} of {heads} heads can go: {metric.name} may be worse by "
            f"{max(bound, 0.0):.2g} at most (one-sided 95 %)."
        )
    first = next((at for at, number in enumerate(removed) if number), 0)
    bound = bounds[first]
    size = f"may be worse by {bound:.2g}" if np.isfinite(bound) else "has no bound"
    return (
        f"No head can go within a margin of {margin:g}: with {removed[first]} of {heads} removed, "
        f"{metric.name} {size} (one-sided 95 %)."
    )
