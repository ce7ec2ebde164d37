"""What switching heads off does to the score, as a table."""

from collections.abc import Mapping
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.findings.noise import block_record
from attnprobe.intervention.changes import AbsoluteEffects, ScoreDeltas, find_example_score
from attnprobe.intervention.metrics.score import Score
from attnprobe.intervention.replacing import Replacing, build_replacing
from attnprobe.intervention.request import DRAWS, ReplacedBy
from attnprobe.intervention.session import TaskSession
from attnprobe.intervention.task import TaskData
from attnprobe.intervention.trials import cut_single_heads, keep_single_heads, run_trials
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.inference import Correction, adjust
from attnprobe.table.builder import TableBuilder
from attnprobe.table.table import HeadTable

Floats = NDArray[np.float64]


def run_ablation(
    session: TaskSession,
    *,
    keep_one: bool,
    correction: Correction,
    replaced_by: ReplacedBy = "zero",
    draws: int = DRAWS,
) -> HeadTable:
    """Switch heads off one at a time, or with ``keep_one`` all but one of a layer, and tabulate the scores.

    ``correction`` adjusts p for the number of heads, ``replaced_by`` takes the place of what the heads give,
    in so many ``draws`` if it is drawn.

    References:
        Michel, Levy and Neubig (2019), sections 3.2 and 3.3.
    """
    question: dict[str, object] = {"--keep-one": keep_one}
    if replaced_by != "zero":
        question["--with"] = replaced_by
    with session.open_task("ablate", question, scored=True) as data:
        return tabulate_ablation(
            data,
            session.build_metric(data),
            session.source.name,
            keep_one=keep_one,
            correction=correction,
            facts=session.facts,
            replacing=build_replacing(replaced_by, data, draws=draws, seed=session.task.seed),
        )


def tabulate_ablation(
    data: TaskData,
    metric: Score,
    dataset: str,
    *,
    facts: Mapping[str, Any],
    keep_one: bool = False,
    correction: Correction = "holm",
    replacing: Replacing | None = None,
) -> HeadTable:
    """Tabulate ablation over the examples of a task."""
    shape, kept = data.model.shape, data.model.architecture.standing
    by_example = find_example_score(data, metric)
    masks = (keep_single_heads if keep_one else cut_single_heads)(*shape)
    needs = dict.fromkeys((*metric.needs, *(by_example.needs if by_example else ())))
    run = run_trials(data, [*compress(masks, kept.ravel())], [*needs], "ablating", replacing)
    scored, moved = ScoreDeltas.of(metric, run), AbsoluteEffects.of(by_example, run)

    def place(values: Floats) -> Floats:
        """Place the values (..., mask) at the heads (..., layer, head), NaN where there is none."""
        placed = np.full((*values.shape[:-1], *shape), np.nan)
        placed[..., kept] = values
        return placed

    scores, deltas, errors = place(scored.scores), place(scored.deltas), place(scored.delta_errors)
    adjusted = place(adjust(scored.p, correction))
    blocks = Blocked.of(place(scored.added), documents=data.documents)
    labels = data.labels(dataset, facts)
    labels = labels.with_record(block_record("score", labels.places, blocks, scores))
    baseline, error = (
        np.full(shape, measure(run.untouched)) for measure in (metric.score, metric.standard_error)
    )
    name, rows = metric.name.replace("_", " "), kept.size
    build = TableBuilder(labels, rows)
    build.key("objective", [data.objective.name] * rows)
    build.key("metric", [metric.name] * rows)
    build.key("replaced_by", [replacing.name if replacing else "zero"] * rows)
    build.heads(shape[1])
    build.count("n", np.full(rows, len(data.documents)))
    build.measure("baseline", metric.unit, baseline, error, title=f"{name} of the whole")
    title = f"{name} of the head alone in its layer" if keep_one else f"{name} without the head"
    build.measure("score", metric.unit, scores, place(scored.errors), headline=keep_one, title=title)
    build.measure("delta", metric.unit, deltas, errors, headline=True, title=f"change of {name}")
    build.test(place(scored.p), adjusted, headline=not keep_one)
    unit, title = (by_example.unit, _title_moved(by_example)) if by_example else ("", "")
    build.measure("moved", unit, place(moved.means), place(moved.errors), headline=True, title=title)
    notes = []
    if by_example is not metric:
        size = f"the {_title_moved(by_example)}" if by_example else "empty"
        notes.append(f"{metric.name} is of all examples together, so moved is {size}.")
    return build.table("each head alone in its layer" if keep_one else "ablation of heads", notes)


def _title_moved(score: Score) -> str:
    return f"size of the change of an example's {score.name.replace('_', ' ')}"
