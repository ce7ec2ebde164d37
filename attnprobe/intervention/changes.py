"""How the scores of examples change when heads are off: each cut against the untouched model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.metrics.score import CLUSTER, Comparison, Predictions, Score
from attnprobe.intervention.task import Bench, build_metric
from attnprobe.sums.clustered import Clustered

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Changes:
    """The scores under every cut, and how they differ from that of the untouched model.

    Where something drawn at random takes the place of heads, a cut has several draws. Its score is the mean
    of theirs, and what an example adds to it is the mean of what it adds in each; the spread of that over
    examples holds what the draws scatter by.

    Arrays are over cuts; ``added`` (example, cut) is what each example adds to the score.
    """

    scores: Floats
    errors: Floats
    compared: Sequence[Comparison]
    added: Floats

    @classmethod
    def of(
        cls,
        metric: Score,
        cuts: Sequence[Sequence[Predictions]],
        untouched: Predictions,
    ) -> Self:
        """Score every cut, each of the same number of draws, over the same examples."""
        own = metric.pseudovalues(untouched)
        added = np.stack([_average([metric.pseudovalues(draw) for draw in cut]) for cut in cuts], 1)
        scores = np.array([[metric.score(draw) for draw in cut] for cut in cuts], np.float64).mean(1)
        if len(cuts[0]) == 1:
            errors = np.array([metric.standard_error(cut) for (cut,) in cuts])
            compared = [metric.compare(cut, untouched) for (cut,) in cuts]
        else:
            clusters = untouched.get(CLUSTER)
            errors = Clustered.of(added, clusters).standard_error
            whole = metric.score(untouched)
            apart = [Clustered.of(column - own, clusters) for column in added.T]
            compared = [
                Comparison(float(score - whole), float(one.standard_error), float(one.estimate.p()))
                for score, one in zip(scores, apart, strict=True)
            ]
        return cls(scores, errors, compared, added)


def _average(values: Sequence[Floats]) -> Floats:
    return values[0] if len(values) == 1 else np.stack(values).mean(0)


@dataclass(frozen=True)
class Moves:
    """How much examples move where heads are off, whichever way.

        moved_h = mean over examples of |score without h - score with all heads|

    Effects of opposite signs on different examples cancel in the mean change of the score, and here they add
    up. It is no smaller than the size of that change. Of several draws, it is the mean.

    Errors are over examples, or over documents that have several.
    """

    means: Floats
    errors: Floats

    @classmethod
    def of(cls, score: Score | None, cuts: Sequence[Sequence[Predictions]], untouched: Predictions) -> Self:
        """Compare each example with itself under every cut; NaN without a score for each example."""
        if score is None:
            nothing = np.full(len(cuts), np.nan)
            return cls(nothing, nothing)
        own = score.pseudovalues(untouched)
        sizes = np.stack(
            [_average([np.abs(score.pseudovalues(draw) - own) for draw in cut]) for cut in cuts], 1
        )
        found = Clustered.of(sizes, untouched.get(CLUSTER))
        return cls(found.average, found.standard_error)


def find_example_score(bench: Bench, metric: Score) -> Score | None:
    """Find the score that each example has of its own: the metric if it is a mean, or else the loss.

    None where an example has none, as where text is generated and scored for the corpus as a whole.
    """
    if metric.is_mean:
        return metric
    if not bench.objective.resumable:
        return None
    name = next((name for name in ("loss", "mse") if name in bench.subject.metrics), None)
    found = None if name is None else build_metric(name, bench, 0)
    return found if found is not None and found.is_mean else None


def title_moves(score: Score) -> str:
    return f"size of the change of an example's {score.name.replace('_', ' ')}"


def describe_moves(metric: Score, by_example: Score | None) -> list[str]:
    """Say what ``moved`` is where it is not about the metric."""
    if by_example is None:
        return [f"{metric.name} is of all examples together, so moved is empty."]
    if by_example is metric:
        return []
    return [f"{metric.name} is of all examples together, so moved is the {title_moves(by_example)}."]
