"""The table of ablation: the score under each mask of heads against that of the untouched model."""

from dataclasses import dataclass, replace
from itertools import compress
from typing import Self

import numpy as np
from numpy.typing import NDArray

from attnprobe.findings.noise import block_record
from attnprobe.intervention.metrics.score import CLUSTER, Score
from attnprobe.intervention.replacing import Replacing, build_replacing
from attnprobe.intervention.request import ReplacedBy
from attnprobe.intervention.task import TaskData, TaskSession, build_metric
from attnprobe.intervention.trials import AblationRun, keep_each_head, mask_each_head, run_trials
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.inference import Correction, Estimate, adjust
from attnprobe.table.builder import TableBuilder
from attnprobe.table.table import HeadTable

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScoreDeltas:
    """Scores under every mask, and their differences from the score of the whole model, (mask,).

    Errors and p are those of ``Score``, paired over the same examples. p is two-sided, for the null
    hypothesis that the heads do not matter; NaN if there is no sensible null hypothesis.

    If heads are replaced at random, a mask has several draws. Its score is the mean over draws, and so is the
    contribution of each example, ``added`` (example, mask), whose spread includes that of the draws.
    """

    scores: Estimate
    deltas: Estimate
    p: Floats
    added: Floats

    @classmethod
    def of(cls, score: Score, run: AblationRun) -> Self:
        """Score every mask over the same examples."""
        clusters, untouched = run.untouched.get(CLUSTER), score.score(run.untouched)
        scores = np.mean([[score.score(mask) for mask in draw] for draw in run.draws], 0)
        added = np.mean([[score.pseudovalues(mask) for mask in draw] for draw in run.draws], 0).T
        alone = Clustered.of(added, clusters).estimate
        moved = Clustered.of(added - score.pseudovalues(run.untouched)[:, None], clusters).estimate
        if len(run.draws) == 1:
            p = np.array([score.find_p(mask, run.untouched) for mask in run.masked])
        else:
            p = moved.p() if score.tested else np.full(len(scores), np.nan)
        # Unless the score is a mean, pseudovalues have another mean.
        return cls(replace(alone, value=scores), replace(moved, value=scores - untouched), p, added)


def measure_moves(score: Score, run: AblationRun) -> Estimate:
    """Measure how much the score of an example changes without heads, in either direction, (mask,).

        moved_h = mean over examples of |score without h - score with all heads|

    Opposite effects on different examples cancel in the mean change of the score, but not here, so ``moved``
    is at least as large. Over several draws, it is the mean. Errors are over documents.
    """
    whole = score.pseudovalues(run.untouched)
    sizes = [[np.abs(score.pseudovalues(mask) - whole) for mask in draw] for draw in run.draws]
    return Clustered.of(np.mean(sizes, 0).T, run.untouched.get(CLUSTER)).estimate


def find_example_score(data: TaskData, metric: Score) -> Score | None:
    """Find what scores each example: a mean itself, else the loss; None without, or if text is generated."""
    if metric.is_mean:
        return metric
    return find_loss(data) if data.objective.resumable else None


def find_loss(data: TaskData) -> Score | None:
    """Build the metric that is the mean loss (``loss`` or ``mse``); None if the task has neither."""
    name = next((name for name in ("loss", "mse") if name in data.model.metrics), None)
    return None if name is None else build_metric(name, data, 0)


def run_ablation(
    session: TaskSession, *, keep_one: bool, correction: Correction, replaced_by: ReplacedBy, draws: int
) -> HeadTable:
    """Switch heads off one at a time, or with ``keep_one`` all but one of a layer, and tabulate the scores.

    References:
        Michel, Levy and Neubig (2019), sections 3.2 and 3.3.
    """
    question: dict[str, object] = {"--keep-one": keep_one}
    if replaced_by != "zero":
        question["--with"] = replaced_by
    with session.open_task("ablate", question, scored=True) as data:
        metric = session.build_metric(data)
        replacing = build_replacing(replaced_by, data, draws=draws, seed=session.task.seed)
        return tabulate_ablation(data, metric, replacing, keep_one=keep_one, correction=correction)


def tabulate_ablation(
    data: TaskData,
    metric: Score,
    replacing: Replacing | None = None,
    *,
    keep_one: bool = False,
    correction: Correction = "holm",
) -> HeadTable:
    """Tabulate ablation over the examples of a task."""
    shape, kept = data.model.shape, data.model.architecture.kept
    by_example = find_example_score(data, metric)
    masks = compress((keep_each_head if keep_one else mask_each_head)(*shape), kept.ravel())
    needs = dict.fromkeys((*metric.needs, *(by_example.needs if by_example else ())))
    run = run_trials(data, [*masks], [*needs], "ablating", replacing)
    scored = ScoreDeltas.of(metric, run)

    def place(values: Floats) -> Floats:
        """Place the values (..., mask) at the heads (..., layer, head), NaN where there is none."""
        placed = np.full((*values.shape[:-1], *shape), np.nan)
        placed[..., kept] = values
        return placed

    labels, rows, name = data.labels(), kept.size, metric.name.replace("_", " ")
    blocks = Blocked.of(place(scored.added), documents=data.documents)
    scores = place(scored.scores.value)
    build = TableBuilder(labels.with_record(block_record("score", labels.places, blocks, scores)), rows)
    build.key("objective", [data.objective.name] * rows)
    build.key("metric", [metric.name] * rows)
    build.key("replaced_by", [replacing.name if replacing else "zero"] * rows)
    build.heads(shape[1])
    build.count("n", np.full(rows, len(data.documents)))

    def add(column: str, unit: str, estimate: Estimate, title: str, *, headline: bool = True) -> None:
        value, error = place(estimate.value), place(estimate.error)
        build.measure(column, unit, value, error, headline=headline, title=title)

    whole = metric.score(run.untouched), metric.standard_error(run.untouched)
    whole = (np.full(shape, number) for number in whole)
    build.measure("baseline", metric.unit, *whole, title=f"{name} of the whole")
    title = f"{name} of the head alone in its layer" if keep_one else f"{name} without the head"
    add("score", metric.unit, scored.scores, title, headline=keep_one)
    add("delta", metric.unit, scored.deltas, f"change of {name}")
    build.test(place(scored.p), place(adjust(scored.p, correction)), headline=not keep_one)
    note = f"{metric.name} is of all examples together, so moved is empty."
    if by_example is None:
        nothing = np.full(kept.sum(), np.nan)
        add("moved", "", Estimate(nothing, nothing, nothing), "")
    else:
        title = f"size of the change of an example's {by_example.name.replace('_', ' ')}"
        add("moved", by_example.unit, measure_moves(by_example, run), title)
        note = note.replace("empty", f"the {title}")
    title = "each head alone in its layer" if keep_one else "ablation of heads"
    return build.table(title, [] if by_example is metric else [note])
