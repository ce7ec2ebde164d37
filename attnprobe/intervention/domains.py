"""Correlating two datasets of one model, from examples to the comparison."""

from typing import Any, Literal

from attnprobe.corpus.sources.text import OpenSource
from attnprobe.findings.correlation import Side
from attnprobe.intervention.ablation import ablated
from attnprobe.intervention.importance import gradient_table
from attnprobe.intervention.metrics.choice import check_metric, metric_of
from attnprobe.intervention.task import OBJECTIVES, Loader, TaskOptions, bound, choose_subject, peek
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.survey.survey import Progress

Measure = Literal["gradient", "ablation"]


def measured_sides(
    load: Loader,
    sources: tuple[OpenSource, OpenSource],
    options: CorpusOptions,
    task: TaskOptions,
    *,
    measure: Measure,
    progress: Progress,
) -> tuple[tuple[Side, Side], dict[str, Any]]:
    """Measure the importance of every head on two datasets, with the same checkpoint and task.

    Args:
        load: Loads the checkpoint.
        sources: In domain, out of domain.
        options: How the examples become sequences.
        task: What the model is asked to do.
        measure: Gradient importance, or the score without the head, as Michel et al. have it.
        progress: Who is told how far it is.

    Returns:
        Both sides, and what goes into the provenance.
    """
    peeked = [peek(source.documents) for source in sources]
    labelled = all(found for found, _ in peeked)
    if any(found for found, _ in peeked) and not labelled:
        bare = next(source.name for source, (found, _) in zip(sources, peeked, strict=True) if not found)
        progress.say(f"{bare} has no labels, so those of the other side are not used either.")
    subject = choose_subject(load, task, labelled=labelled, progress=progress, modality=sources[0].kind)
    name = check_metric(task.metric, OBJECTIVES[subject.objective]) if measure == "ablation" else ""
    sides, records = [], []
    for source, (_, documents) in zip(sources, peeked, strict=True):
        with bound(subject, documents, options, progress=progress, generate=name == "bleu") as bench:
            if measure == "gradient":
                table = gradient_table(bench, source.name, facts={}, progress=progress)
            else:
                metric = metric_of(name, bench, task.seed)
                table = ablated(bench, metric, source.name, facts={}, progress=progress)
        sides.append(Side.of(table.to_pandas(), source.name))
        records.append(bench.record)
    shared = {key: value for key, value in records[0].items() if key != "corpus"}
    return (sides[0], sides[1]), shared | {"corpora": [record["corpus"] for record in records]}
