"""What switching heads off does to the score, as a table."""

from collections.abc import Iterable, Mapping
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.sources.text import OpenSource
from attnprobe.findings.noise import block_record
from attnprobe.intervention.changes import Changes, Moves, describe_moves, find_example_score, title_moves
from attnprobe.intervention.effects import (
    CORRECTIONS,
    Effects,
    describe_ablation,
    describe_reliability,
    describe_survivors,
)
from attnprobe.intervention.metrics.mean import Mean
from attnprobe.intervention.metrics.metric import Metric
from attnprobe.intervention.objectives.choosing import Loader
from attnprobe.intervention.replacing import Replacing, build_replacing, describe_replacement
from attnprobe.intervention.request import DRAWS, ReplacedBy, TaskOptions, check_metric, peek
from attnprobe.intervention.task import Bench, bind_task, build_metric, choose_subject
from attnprobe.intervention.trials import cut_single_heads, keep_single_heads, run_trials
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import open_run
from attnprobe.run.progress import Progress
from attnprobe.sums.groups import Blocks
from attnprobe.sums.resampling import Correction, adjust
from attnprobe.table.builder import TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import HALVES, Column

Floats = NDArray[np.float64]


def run_ablation(
    load: Loader,
    source: OpenSource,
    options: CorpusOptions,
    task: TaskOptions,
    *,
    keep_one: bool,
    correction: Correction,
    replaced_by: ReplacedBy = "zero",
    draws: int = DRAWS,
    facts: Mapping[str, Any],
    resume: Path | None = None,
    workers: int | None = None,
    progress: Progress,
) -> HeadTable:
    """Switch heads off one at a time, or with ``keep_one`` all but one of a layer, and tabulate the scores.

    ``correction`` adjusts p for the number of heads, ``replaced_by`` takes the place of what the heads give,
    in so many ``draws`` if it is drawn; ``facts`` are added to the provenance.

    References:
        Michel, Levy and Neubig (2019), sections 3.2 and 3.3.
    """
    labelled, documents = peek(source.documents)
    subject = choose_subject(load, task, labelled=labelled, progress=progress, modality=source.kind)
    name = check_metric(task.metric, subject.objective, subject.metrics)
    more = {} if replaced_by == "zero" else {"--with": replaced_by}
    question = subject.question("ablate", metric=name, **{"--keep-one": keep_one, **more})
    with (
        open_run(subject.checkpoint, options, question, resume=resume, progress=progress) as run,
        bind_task(subject, documents, options, run=run, workers=workers, generate=name == "bleu") as bench,
    ):
        return tabulate_ablation(
            bench,
            build_metric(name, bench, task.seed),
            source.name,
            keep_one=keep_one,
            correction=correction,
            replacing=build_replacing(replaced_by, bench, draws=draws, seed=task.seed),
            facts=facts,
        )


def tabulate_ablation(
    bench: Bench,
    metric: Metric,
    dataset: str,
    *,
    facts: Mapping[str, Any],
    keep_one: bool = False,
    correction: Correction = "holm",
    replacing: Replacing | None = None,
) -> HeadTable:
    """Tabulate ablation over the examples of a bench.

    Heads of layers that share their weights are masked together: one pass, one row and one test.
    """
    units, ties = bench.subject.units.ravel(), bench.subject.ties
    every = (keep_single_heads if keep_one else cut_single_heads)(*bench.subject.shape)
    by_example = find_example_score(bench, metric)
    needs = dict.fromkeys((*metric.needs, *(by_example.needs if by_example else ())))
    tied = [cut[ties] for cut in compress(every, units)]
    trials = run_trials(bench, tied, [*needs], "ablating", replacing)
    documents, cuts = bench.documents, trials.by_cut
    changes = Changes.of(metric, cuts, trials.untouched, documents)
    moves = Moves.of(by_example, cuts, trials.untouched, documents)
    adjusted = adjust([found.p for found in changes.compared], correction)

    def fill(values: Iterable[float]) -> Floats:
        """Put NaN between the values of the heads that have a row, for the others."""
        whole = np.full(len(units), np.nan)
        whole[units] = list(values)
        return whole

    layers, heads = bench.subject.shape
    rows = layers * heads
    labels = bench.labels(dataset, facts)
    grid = fill(changes.scores).reshape(layers, heads)
    values = np.full((len(documents), layers, heads), np.nan)
    values[:, bench.subject.units] = changes.added
    blocks = Blocks.of(values, documents)
    build = TableBuilder(labels.with_record(block_record("score", labels.places, blocks, grid)), rows)
    build.key("objective", [bench.objective.name] * rows)
    build.key("metric", [metric.name] * rows)
    build.key("replaced_by", [replacing.name if replacing else "zero"] * rows)
    build.heads(heads)
    build.count("n", np.full(rows, len(documents)))
    named = metric.name.replace("_", " ")
    left = f"{named} of the head alone in its layer" if keep_one else f"{named} without the head"
    untouched = metric.score(trials.untouched), metric.standard_error(trials.untouched)
    baseline = (np.full(rows, number) for number in untouched)
    build.measure("baseline", metric.unit, *baseline, title=f"{named} of the whole")
    errors = fill(changes.errors)
    build.measure("score", metric.unit, grid, errors, headline=keep_one, title=left)
    deltas, spread = (fill(getattr(found, part) for found in changes.compared) for part in ("delta", "error"))
    build.measure("delta", metric.unit, deltas, spread, headline=True, title=f"change of {named}")
    build.add(Column("p", "probability", title="p"), fill(found.p for found in changes.compared))
    p_adjusted = Column("p_adjusted", "probability", headline=not keep_one, title="adjusted p")
    build.add(p_adjusted, fill(adjusted))
    _add_moves(build, by_example, fill(moves.means), fill(moves.errors))
    reliabilities = {"reliability": moves.reliability, "delta_reliability": changes.reliability}
    for column, value in reliabilities.items():
        build.add(Column(column, "correlation", title=_TITLES[column]), np.full(rows, value))
    for half, half_scores in zip(HALVES, changes.halves, strict=True):
        build.add(Column(f"score_{half}", metric.unit, role="half"), fill(half_scores))
    title = "each head alone in its layer" if keep_one else "ablation of heads"
    tested = f"{'paired t' if metric.continuous else 'paired test'}, {CORRECTIONS[correction]}"
    shape = grid.shape
    effects = Effects(
        metric, untouched[0], grid, deltas.reshape(shape), spread.reshape(shape),
        fill(adjusted).reshape(shape), bench.subject.architecture.places, tested,
    )  # fmt: skip
    notes = [*(describe_survivors if keep_one else describe_ablation)(effects)]
    notes += [*describe_moves(metric, by_example), *describe_replacement(replacing, changes.drawn)]
    return build.table(
        title, [*notes, *describe_reliability(moves.reliability, changes.reliability, metric.name)]
    )


_TITLES = {
    "reliability": "reliability of the order of heads by moved",
    "delta_reliability": "reliability of the order of heads by delta",
}


def _add_moves(build: TableBuilder, score: Mean | None, means: Floats, errors: Floats) -> None:
    unit, title = (score.unit, title_moves(score)) if score else ("", "")
    build.measure("moved", unit, means, errors, headline=True, title=title)
