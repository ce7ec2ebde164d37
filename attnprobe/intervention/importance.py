"""The importance of every head as a table."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from attnprobe.corpus.batches.text import BatchReader
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.findings.noise import block_record
from attnprobe.findings.pair import Side
from attnprobe.intervention.ablation import ablated
from attnprobe.intervention.gradient import Importance, gradient_importance
from attnprobe.intervention.metrics.choice import metric_of
from attnprobe.intervention.objectives.choosing import Loader
from attnprobe.intervention.relevance import relevance_table
from attnprobe.intervention.request import Measure, Method, TaskOptions, check_metric, peek, shared_gold
from attnprobe.intervention.task import Bench, bound, choose_subject
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.run.memory import find_itemsize, price_statistics
from attnprobe.run.passes import Run, open_run
from attnprobe.run.preparation import examine_part, prepare_corpus
from attnprobe.run.progress import Progress
from attnprobe.run.record import record_provenance
from attnprobe.run.workers import Workers
from attnprobe.statistics import all_statistics
from attnprobe.survey.measure import open_meter
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import HALVES, Column

#: The ``objective`` column of a method that needs none.
NO_OBJECTIVE = "none"
UNITS = {"gradient": "|dL/dxi|", "confidence": "share"}


def importance_table(
    load: Loader,
    source: OpenSource,
    options: CorpusOptions,
    task: TaskOptions,
    *,
    method: Method,
    facts: Mapping[str, Any],
    resume: Path | None = None,
    workers: int | None = None,
    progress: Progress,
) -> HeadTable:
    """Measure how much every head matters, and tabulate it, one row a head.

    Args:
        load: Loads the checkpoint.
        source: The examples.
        options: How they become sequences.
        task: What the model is asked to do.
        method: ``gradient``, the mean over examples of the absolute derivative of the loss by the
            head's gate; ``lrp``, the relevance of the head for what is predicted; or ``confidence``, the mean
            of a head's largest attention weight.
        facts: What the caller adds to the provenance.
        resume: A file that keeps the state of the run, so that it can go on after it was stopped.
        workers: How many batches are in flight.
        progress: Who is told how far it is.

    References:
        Michel, Levy and Neubig (2019), section 4.1; Voita et al. (2019), section 4.

    Raises:
        AttnprobeError: For one that has neither the task nor, for ``lrp``, rules that keep all relevance.
    """
    if method == "confidence":
        return _confidence_table(
            load, source, options, facts=facts, resume=resume, workers=workers, progress=progress
        )
    labelled, documents = peek(source.documents)
    subject = choose_subject(load, task, labelled=labelled, progress=progress, modality=source.kind)
    if method == "lrp":
        subject = subject.explaining
    question = subject.question("importance", **{"--method": method})
    with (
        open_run(subject.checkpoint, options, question, resume=resume, progress=progress) as run,
        bound(subject, documents, options, run=run, workers=workers) as bench,
    ):
        return TABLES[method](bench, source.name, facts=facts)


def gradient_table(bench: Bench, dataset: str, *, facts: Mapping[str, Any]) -> HeadTable:
    """Tabulate gradient importance over the examples of a bench."""
    found = gradient_importance(bench, ties=bench.subject.ties)
    return _tabulated(found, bench.objective.name, "gradient", bench.labels(dataset, facts))


#: Tables of the methods that need a task.
TABLES = {"gradient": gradient_table, "lrp": relevance_table}


def attention_importance(
    checkpoint: Checkpoint,
    architecture: Architecture,
    batches: BatchReader,
    name: str,
    run: Run,
    workers: Workers,
) -> Importance:
    """Measure a statistic of attention, such as confidence, over the sequences of a corpus."""
    statistic = all_statistics()[name]
    with open_meter(checkpoint, architecture, [statistic]) as measure:
        return run.total(
            name,
            batches,
            lambda batch: Importance.of(np.asarray(measure.values(batch)[name], np.float64), batch),
            Importance.from_arrays,
            workers=workers,
            thread_context=measure.thread_context,
        )


def _confidence_table(
    load: Loader,
    source: OpenSource,
    options: CorpusOptions,
    *,
    facts: Mapping[str, Any],
    resume: Path | None,
    workers: int | None,
    progress: Progress,
) -> HeadTable:
    loaded = load((), False, source.kind)
    checkpoint, documents, architecture = examine_part(loaded, source.documents, progress)
    statistics = [all_statistics()["confidence"]]
    question = {"command": "importance", "--method": "confidence"}
    with (
        prepare_corpus(
            checkpoint,
            architecture,
            documents,
            options,
            price=lambda: price_statistics(architecture, statistics, find_itemsize(checkpoint)),
            workers=workers,
            progress=progress,
        ) as ready,
        open_run(checkpoint, options, question, resume=resume, progress=progress) as run,
    ):
        found = attention_importance(
            checkpoint, architecture, ready.corpus.batches, "confidence", run, ready.workers
        )
        record = record_provenance(checkpoint, architecture, ready.corpus, options, ready.workers) | dict(
            facts
        )
    labels = Labels(checkpoint.name, source.name, record, architecture.places, removed=architecture.removed)
    return _tabulated(found, NO_OBJECTIVE, "confidence", labels)


def _tabulated(found: Importance, objective: str, method: Method, labels: Labels) -> HeadTable:
    layers, heads = found.heads.count.shape
    labels = labels.with_record(block_record("importance", labels.places, found.blocks, found.heads.average))
    build = TableBuilder(labels, layers * heads)
    build.key("objective", [objective] * layers * heads)
    build.key("method", [method] * layers * heads)
    build.heads(heads)
    build.count("n", found.heads.count.ravel())
    average, error = found.heads.average.ravel(), found.heads.standard_error.ravel()
    build.measure("importance", UNITS[method], average, error, headline=True, title="importance")
    unit, spread = found.normalized
    build.measure(
        "importance_normalized",
        "share of norm",
        unit.ravel(),
        spread.ravel(),
        headline=True,
        title="importance within the layer",
    )
    for half, name in zip(found.blocks.halves, HALVES, strict=True):
        build.add(Column(f"importance_{name}", UNITS[method], role="half"), half.ravel())
    return build.table("importance of heads", _notes(found, labels), "heads")


def _notes(found: Importance, labels: Labels) -> list[str]:
    """Name the heads at both ends."""
    (unit, error), places = found.normalized, labels.places
    if unit.shape[-1] < 2:
        return []
    there = np.ones(unit.shape, bool)
    for head in labels.absent:
        there[head] = False
    if not np.isfinite(unit[there]).all():
        return ["A layer's heads have no importance at all, so that it can't be normalised."]
    most, least = (
        tuple(map(int, np.unravel_index(place, unit.shape)))
        for place in (
            int(np.where(there, unit, -np.inf).argmax()),
            int(np.where(there, unit, np.inf).argmin()),
        )
    )
    return [
        f"Within its layer, importance is highest for head {most[1]} of {places[most[0]]} ({unit[most]:.2f} "
        f"of the layer's norm, standard error {error[most]:.1g}), and lowest for head {least[1]} of "
        f"{places[least[0]]} ({unit[least]:.2f}, standard error {error[least]:.1g})."
    ]


#: What the two sides are called.
DOMAINS = ("in domain", "out of domain")


def measured_sides(
    load: Loader,
    sources: tuple[OpenSource, OpenSource],
    options: CorpusOptions,
    task: TaskOptions,
    *,
    measure: Measure,
    resume: Path | None = None,
    workers: int | None = None,
    progress: Progress,
) -> tuple[tuple[Side, Side], dict[str, Any]]:
    """Measure the importance of every head on two datasets, with the same checkpoint and task.

    Args:
        load: Loads the checkpoint.
        sources: In domain, out of domain.
        options: How the examples become sequences.
        task: What the model is asked to do.
        measure: Gradient importance, relevance, or the score without the head, as Michel et al. have it.
        resume: A file that keeps the state of the run, so that it can go on after it was stopped.
        workers: How many batches are in flight.
        progress: Who is told how far it is.

    Returns:
        Both sides, and what goes into the provenance.
    """
    peeked = [peek(source.documents) for source in sources]
    labelled = shared_gold([found for found, _ in peeked])
    if any(found for found, _ in peeked) and not labelled:
        bare = next(source.name for source, (found, _) in zip(sources, peeked, strict=True) if not found)
        progress.say(f"{bare} has no labels, so those of the other side are not used either.")
    subject = choose_subject(load, task, labelled=labelled, progress=progress, modality=sources[0].kind)
    if measure == "lrp":
        subject = subject.explaining
    by_metric = measure == "ablation"
    name = check_metric(task.metric, subject.objective, subject.metrics) if by_metric else ""
    sides, records = [], []
    question = subject.question("correlate", measure=measure, metric=name)
    with open_run(subject.checkpoint, options, question, resume=resume, progress=progress) as run:
        for source, (_, documents), domain in zip(sources, peeked, DOMAINS, strict=True):
            examples = bound(
                subject, documents, options, run=run, workers=workers, generate=name == "bleu", name=domain
            )
            with examples as bench:
                if not by_metric:
                    table = TABLES[measure](bench, source.name, facts={})
                else:
                    table = ablated(bench, metric_of(name, bench, task.seed), source.name, facts={})
            sides.append(Side.of_table(table, source.name))
            records.append(bench.record)
    shared = {key: value for key, value in records[0].items() if key != "corpus"}
    return (sides[0], sides[1]), shared | {"corpora": [record["corpus"] for record in records]}
