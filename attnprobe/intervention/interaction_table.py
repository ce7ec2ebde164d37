"""Interactions of heads as a table: one row a pair."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from attnprobe.corpus.sources.text import OpenSource
from attnprobe.intervention.interaction import Interactions, find_interactions
from attnprobe.intervention.objectives.choosing import Loader
from attnprobe.intervention.request import TaskOptions, peek
from attnprobe.intervention.task import Bench, bind_task, choose_subject
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import open_run
from attnprobe.run.progress import Progress
from attnprobe.table.builder import TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column


def run_interactions(
    load: Loader,
    source: OpenSource,
    options: CorpusOptions,
    task: TaskOptions,
    *,
    pairs: int,
    facts: Mapping[str, Any],
    resume: Path | None = None,
    workers: int | None = None,
    progress: Progress,
) -> HeadTable:
    """Find which heads interact, and tabulate the proposed pairs.

    ``pairs`` of them are tested; ``facts`` are added to the provenance.
    """
    labelled, documents = peek(source.documents)
    subject = choose_subject(load, task, labelled=labelled, progress=progress, modality=source.kind)
    question = subject.question("interact", **{"--pairs": pairs})
    with (
        open_run(subject.checkpoint, options, question, resume=resume, progress=progress) as run,
        bind_task(subject, documents, options, run=run, workers=workers) as bench,
    ):
        found = find_interactions(bench, pairs)
        return tabulate_pairs(bench, found, source.name, facts)


def tabulate_pairs(bench: Bench, found: Interactions, dataset: str, facts: Mapping[str, Any]) -> HeadTable:
    """Tabulate the pairs, the strongest proposal first."""
    labels, rows = bench.labels(dataset, facts), len(found.pairs)
    build = TableBuilder(labels, rows)
    build.key("objective", [bench.objective.name] * rows)
    for side, name in enumerate("ab"):
        places = [labels.places[pair[side][0]] for pair in found.pairs]
        if any(place.kind is not None for place in places):
            build.key(f"attention_{name}", [str(place.kind) for place in places])
        build.key(f"layer_{name}", [place.layer for place in places])
        build.add(Column(f"head_{name}", role="key"), [pair[side][1] for pair in found.pairs])
    build.count("n", np.full(rows, found.examples))
    unit = _find_unit(bench)
    build.add(Column("proposed", unit, title="interaction by gradients, on the other half"), found.proposed)
    title = "loss without both, less those without each"
    build.measure("interaction", unit, found.means, found.errors, headline=True, title=title)
    build.add(Column("p", "probability", title="p"), found.p)
    build.add(Column("p_adjusted", "probability", headline=True, title="adjusted p"), found.adjusted)
    return build.table("interactions of heads", kind="interactions")


def _find_unit(bench: Bench) -> str:
    return "nats" if "loss" in bench.subject.metrics else ""
