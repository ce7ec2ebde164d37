"""Interactions of heads as a table: one row a pair, or a head."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from attnprobe.corpus.sources.text import OpenSource
from attnprobe.intervention.interaction import Interactions, describe_interactions, find_interactions
from attnprobe.intervention.objectives.choosing import Loader
from attnprobe.intervention.request import TaskOptions, peek
from attnprobe.intervention.task import Bench, bind_task, choose_subject
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import open_run
from attnprobe.run.progress import Progress
from attnprobe.sums.groups import Clustered
from attnprobe.table.builder import TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

#: What a row is.
By = Literal["pair", "head"]


def run_interactions(
    load: Loader,
    source: OpenSource,
    options: CorpusOptions,
    task: TaskOptions,
    *,
    pairs: int,
    by: By,
    facts: Mapping[str, Any],
    resume: Path | None = None,
    workers: int | None = None,
    progress: Progress,
) -> HeadTable:
    """Find which heads interact, and tabulate the proposed pairs, or the heads of which they are.

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
        tabulate = {"pair": tabulate_pairs, "head": tabulate_heads}[by]
        return tabulate(bench, found, source.name, facts)


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
    build.count("n", np.full(rows, found.halves[1]))
    unit = _find_unit(bench)
    build.add(Column("proposed", unit, title="interaction by gradients, on the other half"), found.proposed)
    title = "loss without both, less those without each"
    build.measure("interaction", unit, found.means, found.errors, headline=True, title=title)
    build.add(Column("p", "probability", title="p"), found.p)
    build.add(Column("p_adjusted", "probability", headline=True, title="adjusted p"), found.adjusted)
    notes = describe_interactions(found, labels.places, unit)
    return build.table("interactions of heads", notes, "interactions")


def tabulate_heads(bench: Bench, found: Interactions, dataset: str, facts: Mapping[str, Any]) -> HeadTable:
    """Tabulate the heads, with the share of their effect that others replace."""
    labels, (layers, heads) = bench.labels(dataset, facts), bench.subject.shape
    every = [(layer, head) for layer in range(layers) for head in range(heads)]
    rows, unit = len(every), _find_unit(bench)
    build = TableBuilder(labels, rows)
    build.key("objective", [bench.objective.name] * rows)
    build.heads(heads)
    build.count("n", np.full(rows, found.halves[1]))
    effects, errors = np.full((2, rows), np.nan)
    for row, head in enumerate(every):
        if head in found.singles:
            clusters = np.where(np.bincount(found.documents)[found.documents] > 1, found.documents, -1)
            one = Clustered.of(found.singles[head], clusters)
            effects[row], errors[row] = float(one.average), float(one.standard_error)
    build.measure("delta", unit, effects, errors, title="change of the loss without the head alone")
    shares = np.array([found.measure_share(head) for head in every])
    title = "share of the head's effect that others replace"
    build.measure("replaced_share", "share", shares[:, 0], shares[:, 1], headline=True, title=title)
    partners = [_name_partners(found, head, labels.places) for head in every]
    build.add(Column("partners", role="text"), partners)
    notes = describe_interactions(found, labels.places, unit)
    notes.append("Heads that are in no tested pair have empty cells.")
    return build.table("heads that others replace", notes, "heads")


def _name_partners(found: Interactions, head: tuple[int, int], places: Any) -> str | None:
    named = []
    for number in found.list_partners(head):
        one, other = found.pairs[number]
        layer, partner = other if one == head else one
        named.append(places[layer].head(partner))
    return " ".join(named) or None


def _find_unit(bench: Bench) -> str:
    return "nats" if "loss" in bench.subject.metrics else ""
