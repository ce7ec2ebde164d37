"""What switching heads off does to the score, as a table."""

from collections.abc import Iterable, Mapping
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.findings.noise import block_record
from attnprobe.intervention.changes import (
    Changes,
    Moves,
    describe_moves,
    find_example_score,
    title_moves,
)
from attnprobe.intervention.effects import Effects
from attnprobe.intervention.metrics.score import Score
from attnprobe.intervention.replacing import Replacing, build_replacing
from attnprobe.intervention.request import DRAWS, ReplacedBy
from attnprobe.intervention.session import TaskSession
from attnprobe.intervention.task import Bench
from attnprobe.intervention.trials import Trials, cut_single_heads, keep_single_heads, run_trials
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.inference import Correction, adjust
from attnprobe.table.builder import TableBuilder
from attnprobe.table.head_table import HeadTable

Floats = NDArray[np.float64]
#: What corrections are called in a sentence.
CORRECTIONS: dict[Correction, str] = {"holm": "Holm", "bh": "Benjamini-Hochberg"}


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
    with session.open_task("ablate", question, scored=True) as bench:
        return tabulate_ablation(
            bench,
            session.build_metric(bench),
            session.source.name,
            keep_one=keep_one,
            correction=correction,
            facts=session.facts,
            replacing=build_replacing(replaced_by, bench, draws=draws, seed=session.task.seed),
        )


def tabulate_ablation(
    bench: Bench,
    metric: Score,
    dataset: str,
    *,
    facts: Mapping[str, Any],
    keep_one: bool = False,
    correction: Correction = "holm",
    replacing: Replacing | None = None,
) -> HeadTable:
    """Tabulate ablation over the examples of a bench."""
    standing = bench.subject.architecture.standing.ravel()
    by_example = find_example_score(bench, metric)
    trials = _ablate_all(bench, metric, by_example, replacing, keep_one=keep_one)
    documents, cuts, whole = bench.documents, trials.by_cut, trials.untouched
    changes = Changes.of(metric, cuts, whole)
    moves = Moves.of(by_example, cuts, whole)
    adjusted = adjust([found.p for found in changes.compared], correction)

    def fill(values: Iterable[float]) -> Floats:
        """Put NaN between the values of the heads that are there, for the others."""
        whole = np.full(len(standing), np.nan)
        whole[standing] = list(values)
        return whole

    layers, heads = bench.subject.shape
    rows = layers * heads
    labels = bench.labels(dataset, facts)
    grid = fill(changes.scores).reshape(layers, heads)
    labels = labels.with_record(_record_blocks(bench, changes.added, documents, grid))
    build = TableBuilder(labels, rows)
    build.key("objective", [bench.objective.name] * rows)
    build.key("metric", [metric.name] * rows)
    build.key("replaced_by", [replacing.name if replacing else "zero"] * rows)
    build.heads(heads)
    build.count("n", np.nan_to_num(fill([len(documents)] * len(cuts))))
    named = metric.name.replace("_", " ")
    left = f"{named} of the head alone in its layer" if keep_one else f"{named} without the head"
    baseline = (fill([measure(whole)] * len(cuts)) for measure in (metric.score, metric.standard_error))
    build.measure("baseline", metric.unit, *baseline, title=f"{named} of the whole")
    errors = fill(changes.errors)
    build.measure("score", metric.unit, grid, errors, headline=keep_one, title=left)
    deltas, spread = (fill(getattr(found, part) for found in changes.compared) for part in ("delta", "error"))
    build.measure("delta", metric.unit, deltas, spread, headline=True, title=f"change of {named}")
    build.test(fill(found.p for found in changes.compared), fill(adjusted), headline=not keep_one)
    unit, size = (by_example.unit, title_moves(by_example)) if by_example else ("", "")
    build.measure("moved", unit, fill(moves.means), fill(moves.errors), headline=True, title=size)
    title = "each head alone in its layer" if keep_one else "ablation of heads"
    tested = f"{'paired t' if metric.continuous else 'paired test'}, {CORRECTIONS[correction]}"
    effects = Effects(
        metric,
        metric.score(whole),
        deltas.reshape(grid.shape),
        spread.reshape(grid.shape),
        fill(adjusted).reshape(grid.shape),
        bench.subject.architecture.places,
        tested,
        "with a layer cut down to" if keep_one else "without",
    )
    notes = [
        effects.describe(),
        *describe_moves(metric, by_example),
    ]
    return build.table(title, notes)


def _ablate_all(
    bench: Bench, metric: Score, by_example: Score | None, replacing: Replacing | None, *, keep_one: bool
) -> Trials:
    """Switch each head off, or with ``keep_one`` all others of its layer, in all examples."""
    needs = dict.fromkeys((*metric.needs, *(by_example.needs if by_example else ())))
    subject = bench.subject
    every = (keep_single_heads if keep_one else cut_single_heads)(*subject.shape)
    cuts = compress(every, subject.architecture.standing.ravel())
    return run_trials(bench, [*cuts], [*needs], "ablating", replacing)


def _record_blocks(bench: Bench, added: Floats, documents: NDArray[np.int64], grid: Floats) -> dict[str, Any]:
    values = np.full((len(documents), *bench.subject.shape), np.nan)
    values[:, bench.subject.architecture.standing] = added
    blocks = Blocked.of(values, documents=documents)
    return block_record("score", bench.subject.architecture.places, blocks, grid)
