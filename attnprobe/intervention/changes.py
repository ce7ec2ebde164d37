"""How the scores of examples change when heads are off: each mask against the untouched model."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.metrics.score import CLUSTER, Score
from attnprobe.intervention.task import TaskData, build_metric
from attnprobe.intervention.trials import AblationRun
from attnprobe.sums.clustered import Clustered

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScoreDeltas:
    """The scores under every mask, and how they differ from that of the untouched model.

    Where something drawn at random takes the place of heads, a mask has several draws. Its score is the mean
    of theirs, and what an example adds to it is the mean of what it adds in each; the spread of that over
    examples holds what the draws scatter by.

    Arrays are over masks; ``added`` (example, mask) is what each example adds to the score.
    """

    scores: Floats
    errors: Floats
    deltas: Floats
    delta_errors: Floats
    p: Floats
    added: Floats

    @classmethod
    def of(cls, score: Score, run: AblationRun) -> Self:
        """Score every mask over the same examples."""
        clusters = run.untouched.get(CLUSTER)
        scores = np.mean([[score.score(one) for one in draw] for draw in run.draws], 0)
        added = np.mean([[score.pseudovalues(one) for one in draw] for draw in run.draws], 0).T
        moved = Clustered.of(added - score.pseudovalues(run.untouched)[:, None], clusters)
        if len(run.draws) == 1:
            p = np.array([score.find_p(one, run.untouched) for one in run.masked])
        else:
            p = moved.estimate.p() if score.tested else np.full(len(scores), np.nan)
        errors = Clustered.of(added, clusters).standard_error
        deltas = scores - score.score(run.untouched)
        return cls(scores, errors, deltas, moved.standard_error, p, added)


@dataclass(frozen=True)
class AbsoluteEffects:
    """How much examples move where heads are off, whichever way.

        moved_h = mean over examples of |score without h - score with all heads|

    Effects of opposite signs on different examples cancel in the mean change of the score, and here they add
    up. It is no smaller than the size of that change. Of several draws, it is the mean.

    Errors are over examples, or over documents that have several.
    """

    means: Floats
    errors: Floats

    @classmethod
    def of(cls, score: Score | None, run: AblationRun) -> Self:
        """Compare each example with itself under every mask; NaN without a score for each example."""
        if score is None:
            nothing = np.full(len(run.draws[0]), np.nan)
            return cls(nothing, nothing)
        whole = score.pseudovalues(run.untouched)
        sizes = [[np.abs(score.pseudovalues(one) - whole) for one in draw] for draw in run.draws]
        mean = Clustered.of(np.mean(sizes, 0).T, run.untouched.get(CLUSTER))
        return cls(mean.average, mean.standard_error)


def find_example_score(data: TaskData, metric: Score) -> Score | None:
    """Find the score that each example has of its own: the metric if it is a mean, or else the loss.

    None where an example has none, as where text is generated and scored for the corpus as a whole.
    """
    if metric.is_mean:
        return metric
    return find_loss(data) if data.objective.resumable else None


def find_loss(data: TaskData) -> Score | None:
    """Find the loss that each example has of its own."""
    name = next((name for name in ("loss", "mse") if name in data.model.metrics), None)
    return None if name is None else build_metric(name, data, 0)
