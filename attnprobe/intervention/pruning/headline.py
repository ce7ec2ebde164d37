"""What a pruning curve says: how many heads can go."""

from collections.abc import Sequence

import numpy as np

from attnprobe.intervention.metrics.score import Score
from attnprobe.intervention.pruning.differences import Differences
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.numbers import format_number


def describe_curve(metric: Score, name: str, score: float, whole: Differences, removed: Sequence[int]) -> str:
    """Count the steps at which the score is significantly worse than that of the whole model.

    ``name`` says what orders the heads, and ``removed`` how many are off at each step.
    """
    better = 1 if metric.higher_is_better else -1
    worse = (whole.adjusted < SIGNIFICANT) & (better * whole.delta < 0)
    first = (
        f", first with {removed[int(worse.argmax())]} of {removed[-1]} heads removed" if worse.any() else ""
    )
    return (
        f"With all heads, {metric.name} is {format_number(score)}; by {name}, it is significantly worse at "
        f"{int(worse.sum())} of {len(worse) - 1} steps{first} (paired, Holm, p < {SIGNIFICANT})."
    )


def describe_margin(
    metric: Score, margin: float, removed: Sequence[int], bounds: Sequence[float], within: int, heads: int
) -> str:
    """Say how many heads can go within a margin; ``within`` is 0 where none can.

    ``bounds`` of how much worse the score may be are at each number of ``removed`` heads.
    """
    if within:
        bound = bounds[list(removed).index(within)]
        return (
            f"Within a margin of {margin:g}, {within} of {heads} heads can go: {metric.name} may be worse by "
            f"{format_number(max(bound, 0.0), digits=2)} at most (one-sided 95 %)."
        )
    first = next((at for at, number in enumerate(removed) if number), 0)
    bound = bounds[first]
    size = f"may be worse by {format_number(bound, digits=2)}" if np.isfinite(bound) else "has no bound"
    return (
        f"No head can go within a margin of {margin:g}: with {removed[first]} of {heads} removed, "
        f"{metric.name} {size} (one-sided 95 %)."
    )
