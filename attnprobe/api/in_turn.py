"""Checkpoints that are measured over the same texts one after the other, each by a function of its own."""

import gc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from attnprobe.api.checkpoints import readable, setting_of
from attnprobe.api.turns import Measured, Turn, dropped, taken
from attnprobe.commands.call.call import begun, called, check_model, loader_of, peeked, task_of
from attnprobe.commands.call.texts import check_standard_input
from attnprobe.corpus.sources.document import Gold
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.request import TaskOptions, peek
from attnprobe.run.again import again
from attnprobe.run.finished import Finished
from attnprobe.run.versions import made_with
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from attnprobe.model.loading.revisions import Glance

#: What any checkpoint can be asked: no trained head is needed.
_ANY = "representation"
#: Sums that only a table itself has a use for.
_SUMS = "blocks"


@dataclass(frozen=True)
class InTurn:
    """Checkpoints that were measured over the same texts.

    Attributes:
        names: What tables call them.
        tables: Of each.
        notes: What a reader has to know of how they were measured.
        source: What they read.
        record: What goes into the provenance.
    """

    names: Sequence[str]
    tables: Sequence[HeadTable]
    notes: Sequence[str]
    source: OpenSource
    record: Mapping[str, Any]


def in_turn(
    models: Sequence[tuple[str, str | None]],
    texts: Any,
    labels: Any,
    options: Mapping[str, Any],
    *,
    measure: str,
    of: Measured,
    task: bool = True,
    files: Iterable[Any] = (),
    keep: bool = True,
) -> InTurn:
    """Measure checkpoints over the same texts, one after the other; each is freed before the next.

    Args:
        models: Of each checkpoint, its name and its revision, if it has one of its own.
        texts: As for ``importance``.
        labels: As for ``importance``.
        options: Those of the function that measures.
        measure: What is measured, for a state.
        of: Measures a checkpoint.
        task: Whether checkpoints are asked for something, which then has to be the same for all.
        files: What else is read.
        keep: Keep in the hub's cache what was downloaded for this.
    """
    check_standard_input(*(one for one in (texts,) if isinstance(one, str)))
    labelled = labels is not None or options.get("label_column") is not None
    with called(options) as call:
        asked = task_of(options, labels_named=labelled)
        for name in dict.fromkeys(name for name, _ in models):
            check_model(name, None, options)
        texts, labels = again(texts), again(labels)
        texts, source = readable(texts, labels, options, find_labels=task)
        source = peeked(source, asked) if task else begun(source)
        call.progress.stage("looking at the checkpoints", None)
        from attnprobe.model.loading.revisions import Downloads, glances_of

        downloads = None if keep else Downloads({name for name, _ in models}, call.load.cache_dir)
        glances = glances_of(models, call.load)
        if source.kind == "text":
            _check_shapes(glances)
        notes: list[str] = []
        if task:
            kind, _ = peek(source.documents)
            objective, notes = _objective(glances, asked, kind, source.kind)
            options = {**options, "objective": objective}
        key = {}
        if call.resume is not None:
            texts, source = readable(texts, labels, options, find_labels=task)  # which was begun
            key = {"measure": measure, **setting_of(options, [source], files, call)}
        if source.kind == "text":
            notes = [*notes, *_tokenizers(glances)]
        turns = [Turn(place, one, one.said, one.said) for place, one in enumerate(glances, start=1)]
        finished = Finished(call.resume, key, "checkpoint")
        with dropped(downloads, glances), finished.guarded():
            tables = taken(
                turns, finished, of, texts, labels, options, call,
                check=_check_task if task else None, downloads=downloads,
            )  # fmt: skip
    record = {
        "dataset": source.described,
        "measure": measure,
        "checkpoints": [
            {"checkpoint": glance.name, "notes": table.notes}
            | {part: said for part, said in table.provenance.items() if part != _SUMS}
            for glance, table in zip(glances, tables, strict=True)
        ],
        **made_with(),
    }
    return InTurn(labels_of(glances), tables, notes, source, record)


def _check_shapes(glances: "Sequence[Glance]") -> None:
    """Refuse checkpoints of other shapes than the first, as far as their configurations tell."""
    from attnprobe.findings.pair import shapes_of, unlike

    first, *others = glances
    for one in others:
        ours, theirs = first.shapes, one.shapes
        if ours and theirs and not set(ours.values()) & set(theirs.values()):
            raise AttnprobeError(unlike((first.said, shapes_of(ours)), (one.said, shapes_of(theirs))))


def _objective(
    glances: "Sequence[Glance]", task: TaskOptions, labelled: Gold, modality: str
) -> tuple[str | None, list[str]]:
    """Settle the objective that all are asked: that of each if it is one, or else one that needs no head.

    Only what says that it was saved from other classes is loaded for it.
    """
    if len({glance.stated for glance in glances}) == 1 and glances[0].stated:
        return task.objective, []
    from attnprobe.intervention.objectives.choosing import objective_of

    asked = replace(task, labels_named=task.labels_named and task.objective is not None)
    labels = dict(zip((glance.said for glance in glances), labels_of(glances), strict=True))
    named = {glance.said: glance for glance in glances}
    found: dict[str, str] = {}
    for name, label in labels.items():
        glance = named[name]
        load = loader_of(glance.name, None, glance.options)
        found[label] = objective_of(load, asked, labelled=labelled, modality=modality)
        gc.collect()
    if len(set(found.values())) == 1:
        return task.objective, []
    said = _listed(found)
    if task.labels_named or task.metric is not None:
        option = "--label-column" if task.labels_named else "--metric"
        raise AttnprobeError(
            f"{said}, which can't be compared; leave out {option}, and all are asked for {_ANY}, or name "
            "what all of them can be asked with --objective."
        )
    return _ANY, [
        f"{said}, which can't be compared: all were asked for {_ANY}, which needs no trained head. What "
        "their trained heads add is left out; --objective asks for something else."
    ]


def labels_of(glances: "Sequence[Glance]") -> list[str]:
    """Name checkpoints as tables do; those whose folders have one name, as the user does; with revisions."""
    apart = {glance.options.revision for glance in glances}
    apart = apart if len(apart) > 1 else set()
    several = {
        one.label
        for one, other in combinations(glances, 2)
        if one.label == other.label and one.name != other.name
    }
    return [
        (glance.name if glance.label in several else glance.label)
        + (f"@{revision}" if (revision := glance.options.revision) in apart else "")
        for glance in glances
    ]


def _listed(found: Mapping[str, str]) -> str:
    """Say what would be asked of each checkpoint, those of one objective together."""
    by_objective: dict[str, list[str]] = {}
    for name, objective in found.items():
        by_objective.setdefault(objective, []).append(name)
    parts = [f"{objective} of {some_of(names)}" for objective, names in by_objective.items()]
    return f"By what they were trained for, the objective is {' and '.join(parts)}"


def some_of(names: Sequence[str]) -> str:
    """Name checkpoints; of many, the first, and how many more."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _check_task(first: Turn, ours: HeadTable, other: Turn, theirs: HeadTable) -> None:
    """Refuse numbers of different tasks, such as of a checkpoint that lacks the head that it names."""
    one, two = (str(table.data["objective"][0]) for table in (ours, theirs))
    if one != two:
        raise AttnprobeError(
            f"The objective is {one} of {first.said} and {two} of {other.said}, which can't be compared; "
            f"name one that both can be asked, such as --objective {_ANY}."
        )


def _tokenizers(glances: "Sequence[Glance]") -> list[str]:
    """Say whose tokens are others than those of the first checkpoint."""
    first, *others = labels_of(glances)
    apart = [label for label, one in zip(others, glances[1:], strict=True) if not one.spells_as(glances[0])]
    if not apart:
        return []
    return [
        f"{first} and {some_of(apart)} have different tokenizers: each read the same examples in tokens "
        "of its own."
    ]
