"""What switching heads off does to the score, as a table."""

from collections.abc import Iterable, Mapping
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.sources.text import OpenSource
from attnprobe.findings.noise import record_of
from attnprobe.intervention.asked import TaskOptions, check_metric, peek
from attnprobe.intervention.effects import CORRECTIONS, Effects, with_one, without_one
from attnprobe.intervention.metrics.choice import metric_of
from attnprobe.intervention.metrics.metric import Metric, some
from attnprobe.intervention.objectives.choosing import Loader
from attnprobe.intervention.task import Bench, bound, choose_subject
from attnprobe.intervention.trials import Trials, run_trials, single_heads, single_survivors
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.run.passes import running
from attnprobe.run.progress import Progress
from attnprobe.sums.blocks import Blocks, in_second_half
from attnprobe.sums.significance import Correction, adjust
from attnprobe.table.builder import TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import HALVES, Column


def ablation_table(
    load: Loader,
    source: OpenSource,
    options: CorpusOptions,
    task: TaskOptions,
    *,
    keep_one: bool,
    correction: Correction,
    facts: Mapping[str, Any],
    resume: Path | None = None,
    workers: int | None = None,
    progress: Progress,
) -> HeadTable:
    """Switch heads off one at a time, or all but one of a layer, and tabulate the scores.

    Args:
        load: Loads the checkpoint.
        source: The examples.
        options: How they become sequences.
        task: What the model is asked to do, and how it is scored.
        keep_one: Whether all other heads of the layer are off instead of the head itself.
        correction: How p values are adjusted for the number of heads.
        facts: What the caller adds to the provenance.
        resume: A file that keeps the state of the run, so that it can go on after it was stopped.
        workers: How many batches are in flight.
        progress: Who is told how far it is.

    References:
        Michel, Levy and Neubig (2019), sections 3.2 and 3.3.
    """
    labelled, documents = peek(source.documents)
    subject = choose_subject(load, task, labelled=labelled, progress=progress, modality=source.kind)
    name = check_metric(task.metric, subject.objective, subject.metrics)
    question = subject.question("ablate", metric=name, **{"--keep-one": keep_one})
    with (
        running(subject.checkpoint, options, question, resume=resume, progress=progress) as run,
        bound(subject, documents, options, run=run, workers=workers, generate=name == "bleu") as bench,
    ):
        metric = metric_of(name, bench, task.seed)
        return ablated(bench, metric, source.name, keep_one=keep_one, correction=correction, facts=facts)


def ablated(
    bench: Bench,
    metric: Metric,
    dataset: str,
    *,
    facts: Mapping[str, Any],
    keep_one: bool = False,
    correction: Correction = "holm",
) -> HeadTable:
    """Tabulate ablation over the examples of a bench.

    Heads of layers that share their weights are masked together: one pass, one row and one test.
    """
    units, ties = bench.subject.units.ravel(), bench.subject.ties
    every = (single_survivors if keep_one else single_heads)(*bench.subject.shape)
    trials = run_trials(bench, [cut[ties] for cut in compress(every, units)], metric.needs)
    scores = [metric.score(cut) for cut in trials.cuts]
    compared = [metric.compare(cut, trials.untouched) for cut in trials.cuts]
    adjusted = adjust([found.p for found in compared], correction)

    def of_all(values: Iterable[float]) -> NDArray[np.float64]:
        """Give values of the heads that have a row, and NaN for the others."""
        whole = np.full(len(units), np.nan)
        whole[units] = list(values)
        return whole

    layers, heads = bench.subject.shape
    rows = layers * heads
    labels = bench.labels(dataset, facts)
    grid = of_all(scores).reshape(layers, heads)
    kept = record_of("score", labels.places, _blocks(bench, metric, trials), grid)
    build = TableBuilder(labels.with_record(kept), rows)
    build.key("objective", [bench.objective.name] * rows)
    build.key("metric", [metric.name] * rows)
    build.heads(heads)
    build.count("n", np.full(rows, len(bench.corpus.batches.members)))
    named = metric.name.replace("_", " ")
    left = f"{named} of the head alone in its layer" if keep_one else f"{named} without the head"
    untouched = metric.score(trials.untouched), metric.standard_error(trials.untouched)
    build.measure(
        "baseline",
        metric.unit,
        *(np.full(rows, number) for number in untouched),
        title=f"{named} of the whole",
    )
    errors = np.array([metric.standard_error(cut) for cut in trials.cuts])
    build.measure("score", metric.unit, of_all(scores), of_all(errors), headline=keep_one, title=left)
    deltas, spread = (of_all(getattr(found, part) for found in compared) for part in ("delta", "error"))
    build.measure("delta", metric.unit, deltas, spread, headline=True, title=f"change of {named}")
    build.add(Column("p", "probability", title="p"), of_all(found.p for found in compared))
    build.add(
        Column("p_adjusted", "probability", headline=not keep_one, title="adjusted p"), of_all(adjusted)
    )
    for second, half in enumerate(HALVES):
        scored = _half_scores(bench, metric, trials, second=bool(second))
        build.add(Column(f"score_{half}", metric.unit, role="half"), of_all(scored))
    title = "each head alone in its layer" if keep_one else "ablation of heads"
    tested = f"{'paired t' if metric.continuous else 'paired test'}, {CORRECTIONS[correction]}"
    shape = grid.shape
    effects = Effects(
        metric, untouched[0], grid, deltas.reshape(shape), spread.reshape(shape),
        of_all(adjusted).reshape(shape), bench.subject.architecture.places, tested,
    )  # fmt: skip
    return build.table(title, [*(with_one if keep_one else without_one)(effects)])


def _blocks(bench: Bench, metric: Metric, trials: Trials) -> Blocks:
    """Sum up what every example adds to the score without each head, block of documents by block."""
    batches = bench.corpus.batches
    values = np.full((len(batches.members), *bench.subject.shape), np.nan)
    values[:, bench.subject.units] = np.stack([metric.pseudovalues(cut) for cut in trials.cuts], 1)
    return Blocks.of(values, batches.documents[batches.members])


def _half_scores(bench: Bench, metric: Metric, trials: Trials, *, second: bool) -> list[float]:
    """Score every cut over one half of the examples; a single example has no other half."""
    batches = bench.corpus.batches
    members = in_second_half(batches.documents[batches.members]) == second
    if not members.any():
        return [float("nan")] * len(trials.cuts)
    return [metric.score(some(cut, members)) for cut in trials.cuts]
