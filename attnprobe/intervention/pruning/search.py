"""A step of an order that passes a margin, found by bisection: a few evaluations instead of a whole curve."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import floor, log2

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.metrics.metric import Metric, Outcome
from attnprobe.intervention.objectives.classification import Classification
from attnprobe.intervention.pruning.differences import bound_losses
from attnprobe.intervention.pruning.headline import describe_bound, round_bound
from attnprobe.intervention.pruning.ranking import mask_heads
from attnprobe.intervention.task import Bench
from attnprobe.intervention.trials import run_trials
from attnprobe.sums.groups import Clustered

Floats = NDArray[np.float64]
#: What is measured beside the metric, where an example has a class.
ACCURACY = "accuracy"
#: Standard errors by which an accuracy has to be above that of the most frequent class.
_SHOWS = 1.645


def bisect_steps(last: int, passes: Callable[[int], bool]) -> list[int]:
    """Try steps 1 to ``last`` by halving what is left, as often as it halves them to one or two.

    A step that passes is followed by later ones, one that fails by earlier ones: floor(log2(last + 1)) steps
    of all. Where losses do not grow from step to step, another step may pass that was not tried.

    Returns:
        The steps, as they were tried; the largest that passed, if any did, is the result.

    >>> bisect_steps(71, lambda step: step <= 21)
    [36, 18, 27, 22, 20, 21]
    """
    low, high, tried = 0, last + 1, []
    while high - low > 1 and len(tried) < max(1, floor(log2(last + 1))):
        tried.append((low + high) // 2)
        if passes(tried[-1]):
            low = tried[-1]
        else:
            high = tried[-1]
    return tried


@dataclass(frozen=True)
class Search:
    """Steps of an order that were tried.

    Attributes:
        metric: The score.
        margin: The loss of score that is allowed.
        steps: The whole model, 0, and the steps that were tried, ascending.
        removed: How many heads are off at each.
        tried: The place of each step among those that were tried, from 1; 0 for the whole model.
        untouched: What examples gave with all heads on.
        outcomes: What they gave at each step.
        bounds: How much worse than the whole model each step may be (one-sided 95 %); NaN at the first.
        last: How many steps there are, and how many heads.
        majority: The share of the most frequent class, where examples have classes.
    """

    metric: Metric
    margin: float
    steps: Sequence[int]
    removed: Sequence[int]
    tried: Sequence[int]
    untouched: Outcome
    outcomes: Sequence[Outcome]
    bounds: Floats
    last: tuple[int, int]
    majority: float | None

    @property
    def found(self) -> int:
        """The place in ``steps`` of the largest step that passes; 0 for none."""
        passing = np.flatnonzero(self.bounds <= self.margin)
        return int(passing[-1]) if len(passing) else 0

    @property
    def accuracies(self) -> tuple[Floats, Floats] | None:
        """The share of right answers at each step, and its error, where examples have classes."""
        if self.majority is None:
            return None
        values = np.stack([outcome[ACCURACY].astype(np.float64) for outcome in self.outcomes], 1)
        found = Clustered.of(values, self.untouched["cluster"])
        return found.average, found.standard_error


def search_steps(
    bench: Bench, metric: Metric, order: NDArray[np.int64], gone: Sequence[int], margin: float
) -> Search:
    """Bisect the steps of an order for one whose loss of score is within a margin.

    A step passes where the one-sided 95 % bound of ``bound_losses`` is at most the margin, over examples that
    did not set the order. The last step, at which no head is left, is not tried.

    Args:
        bench: The examples.
        metric: The score.
        order: The heads, in the order in which they go.
        gone: How many are off at each step, from none to all.
        margin: The loss of score that is allowed.
    """
    subject, objective = bench.subject, bench.objective
    classed = isinstance(objective, Classification)
    also = (ACCURACY,) if classed and ACCURACY not in metric.needs else ()
    needs = [*metric.needs, *also]
    known: dict[int, Outcome] = {}

    def bound(steps: Sequence[int]) -> Floats:
        return bound_losses(metric, [known[0], *(known[step] for step in steps)], known[0])

    def passes(step: int) -> bool:
        cut = mask_heads(subject.shape, order, gone[step], subject.ties)
        name = f"pruning, {gone[step]} heads off"
        trials = run_trials(bench, [cut], needs, name, untouched=known.get(0))
        known[0], known[step] = trials.untouched, trials.cuts[0]
        return bool(bound(list(known)[1:])[-1] <= margin)

    tried = bisect_steps(len(gone) - 2, passes) if len(gone) > 2 else []
    if not tried:
        passes(len(gone) - 1)
        tried = [len(gone) - 1]
    steps = [0, *sorted(tried)]
    majority = None
    if isinstance(objective, Classification):
        classes = objective.classes[bench.corpus.batches.members]
        majority = float(np.bincount(classes).max()) / len(classes)
    return Search(
        metric,
        margin,
        steps,
        [gone[step] for step in steps],
        [0, *(tried.index(step) + 1 for step in steps[1:])],
        known[0],
        [known[step] for step in steps],
        bound(steps[1:]),
        (len(gone) - 1, gone[-1]),
        majority,
    )


def describe_search(search: Search, examples: int) -> Iterator[str]:
    """Name a step that passes, say what is not known of it, and how it does beside the majority class."""
    name, bounds, removed = search.metric.name, search.bounds, search.removed
    steps, heads = search.last
    number = len(search.steps) - 1
    how = (
        f"{number} of {steps} steps {'was' if number == 1 else 'were'} tried, by bisection; one-sided 95 %, "
        f"paired over {examples:,} examples"
    )
    if not (found := search.found):
        least = 1 + int(np.argmin(np.nan_to_num(bounds[1:], nan=np.inf)))
        size = f"is {round_bound(bounds[least])}" if np.isfinite(bounds[least]) else "is not known"
        yield (
            f"None of the steps that were tried lies within a margin of {search.margin:g} ({how}): with "
            f"{removed[least]} of {heads} heads removed, the bound of how much worse {name} may be {size}."
        )
        return
    whole = search.metric.score(search.untouched)
    bound = describe_bound(bounds[found], higher_is_better=search.metric.higher_is_better)
    yield (
        f"A step that passes a margin of {search.margin:g}: {removed[found]} of {heads} heads can go, and "
        f"{name} is {bound} than the whole model's {whole:.4g} ({how}). It need not be the largest that "
        "passes: losses go up and down along an order."
    )
    if search.accuracies is None or search.majority is None:
        return
    values, errors = search.accuracies
    yield (
        f"With these heads removed, accuracy is {values[found]:.4g}, and {values[0]:.4g} with all heads. "
        f"Always naming the most frequent label has {search.majority:.4g}."
    )
    if values[0] > search.majority and values[found] <= search.majority + _SHOWS * errors[found]:
        yield (
            "The step passes, and the model has collapsed: its accuracy is not above that of always naming "
            "the most frequent label."
        )
