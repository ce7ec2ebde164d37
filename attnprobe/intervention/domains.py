"""Correlating two datasets of one model, from examples to the comparison."""

from pathlib import Path
from typing import Any

from attnprobe.corpus.sources.text import OpenSource
from attnprobe.findings.side import Side
from attnprobe.intervention.ablation import ablated
from attnprobe.intervention.asked import Measure, TaskOptions, check_metric, peek, shared_gold
from attnprobe.intervention.importance import TABLES
from attnprobe.intervention.metrics.choice import metric_of
from attnprobe.intervention.objectives.choosing import Loader
from attnprobe.intervention.task import bound, choose_subject
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.run.passes import running
from attnprobe.run.progress import Progress

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
    with running(subject.checkpoint, options, question, resume=resume, progress=progress) as run:
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
