"""Correlating checkpoints: the heads of one, and those of each of several others, on the same examples."""

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.api.ablate import ablate
from attnprobe.api.calls import Call, called, check_model, loader_of, peeked, task_of
from attnprobe.api.checkpoints import named, readable, setting_of, settled
from attnprobe.api.importance import importance
from attnprobe.api.texts import check_standard_input
from attnprobe.corpus.sources.document import Gold
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.asked import Measure, TaskOptions, peek
from attnprobe.run.again import again
from attnprobe.run.finished import Finished
from attnprobe.run.relay import Relay
from attnprobe.run.training import expanded, is_pattern
from attnprobe.run.versions import made_with
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from attnprobe.findings.side import Side
    from attnprobe.model.loading.revisions import Glance

#: What any checkpoint can be asked: no trained head is needed.
_ANY = "representation"
#: Sums that only a table itself has a use for.
_SUMS = "blocks"


@dataclass(frozen=True)
class Several:
    """The heads of several checkpoints, measured on the same examples.

    Attributes:
        sides: Of each checkpoint.
        record: What goes into the provenance.
        notes: What a reader has to know of how they were measured.
    """

    sides: "Sequence[Side]"
    record: Mapping[str, Any]
    notes: Sequence[str]


def names_of(model: Any) -> list[str]:
    """Name the checkpoints; a pattern stands for the folders that it matches, but for the first checkpoint.

    Raises:
        AttnprobeError: When there is none of a pattern, or less than two in all.
    """
    first, *rest = named(model)
    names = expanded([first])
    known = {Path(name).resolve() for name in names if Path(name).is_dir()}
    for one in rest:
        found = expanded([one])
        names += [name for name in found if not (is_pattern(one) and Path(name).resolve() in known)]
    if len(names) < 2:
        raise AttnprobeError(
            f"{names[0]} is the only checkpoint; name another one to compare it with, or the data of both "
            "sides: --in-domain DATA --out-domain DATA."
        )
    return names


def measured(
    names: Sequence[str], texts: Any, labels: Any, measure: Measure, options: dict[str, Any]
) -> Several:
    """Measure checkpoints on the same examples, one after the other; each is freed before the next.

    Args:
        names: Of the checkpoints.
        texts: As for ``importance``.
        labels: As for ``importance``.
        measure: What their heads are compared by.
        options: As for ``ablate``.
    """
    check_standard_input(*(one for one in (texts,) if isinstance(one, str)))
    labelled = labels is not None or options.get("label_column") is not None
    with called(options) as call:
        task = task_of(options, labels_named=labelled)
        for name in dict.fromkeys(names):
            check_model(name, None, options)
        texts, labels = again(texts), again(labels)
        texts, source = readable(texts, labels, options, find_labels=True)
        source = peeked(source, task)
        kind, _ = peek(source.documents)
        call.progress.stage("looking at the checkpoints", None)
        from attnprobe.model.loading.revisions import glances_of

        glances = glances_of(((name, None) for name in names), call.load)
        if source.kind == "text":
            _check_shapes(glances)
        objective, notes = _objective(glances, task, kind, source.kind, call)
        options = {**options, "objective": objective}
        key = {}
        if call.resume is not None:
            texts, source = readable(texts, labels, options, find_labels=True)  # which was begun
            key = {"measure": measure, **setting_of(options, [source], [], call)}
        finished = Finished(call.resume, key, "checkpoint")
        with finished.guarded():
            tables = _tables(glances, finished, measure, texts, labels, options, call)
    if source.kind == "text":
        notes += _tokenizers(glances)
    return Several(_sides(names, _labels(glances), tables), _record(names, tables, measure, source), notes)


def _tables(
    glances: "Sequence[Glance]",
    finished: Finished,
    measure: Measure,
    texts: Any,
    labels: Any,
    options: Mapping[str, Any],
    call: Call,
) -> list[HeadTable]:
    """Take up the checkpoints that are done, and measure the others."""
    kept = call.resume is not None
    identities = {place: glance.identity if kept else "" for place, glance in enumerate(glances, start=1)}
    done = finished.taken_up(identities)
    if done:
        call.progress.say(f"going on from {call.resume}: {len(done)} of {len(glances)} checkpoints are done.")
    found: list[HeadTable] = []
    relay = Relay(call.progress)
    for place, glance in enumerate(glances, start=1):
        table = done.get(place)
        if table is None:
            more = {"progress": relay, "resume": finished.beside(place), "threads": None}
            try:
                with relay.at(f"{glance.said} ({place} of {len(glances)})"):
                    table = settled(_table(glance.name, measure, texts, labels, {**options, **more}))
                if found:
                    _check_task(glances[0], found[0], glance, table)
            except AttnprobeError as error:
                raise _named_in(error, glance.said, kept=kept, done=len(found)) from error
            finished.keep(place, identities[place], table)
            gc.collect()  # before the next one is loaded; hooks may lead from a model back to itself
        else:
            finished.tidy(place)
        found.append(table)
    return found


def _table(name: str, measure: Measure, texts: Any, labels: Any, options: dict[str, Any]) -> HeadTable:
    """Measure a checkpoint as its own command does."""
    if measure == "ablation":
        return ablate(name, texts, labels, **options)
    options = {key: value for key, value in options.items() if key != "metric"}
    return importance(name, texts, labels, method=measure, **options)


def _check_shapes(glances: "Sequence[Glance]") -> None:
    """Refuse checkpoints of other shapes than the first, as far as their configurations tell."""
    from attnprobe.findings.pair import shapes_of, unlike

    first, *others = glances
    for one in others:
        ours, theirs = first.shapes, one.shapes
        if ours and theirs and not set(ours.values()) & set(theirs.values()):
            raise AttnprobeError(unlike((first.said, shapes_of(ours)), (one.said, shapes_of(theirs))))


def _objective(
    glances: "Sequence[Glance]", task: TaskOptions, labelled: Gold, modality: str, call: Call
) -> tuple[str | None, list[str]]:
    """Settle the objective that all are asked: that of each if it is one, or else one that needs no head.

    Only what says that it was saved from other classes is loaded for it.
    """
    if len({glance.stated for glance in glances}) == 1 and glances[0].stated:
        return task.objective, []
    from attnprobe.intervention.task import objective_of

    asked = replace(task, labels_named=task.labels_named and task.objective is not None)
    labels = dict(zip((glance.name for glance in glances), _labels(glances), strict=True))
    found: dict[str, str] = {}
    for name, label in labels.items():
        load = loader_of(name, None, call.load)
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


def _labels(glances: "Sequence[Glance]") -> list[str]:
    """Name checkpoints as the tables do; those whose folders have one name, as the user does."""
    several = {
        one.label
        for one, other in combinations(glances, 2)
        if one.label == other.label and one.name != other.name
    }
    return [glance.said if glance.label in several else glance.label for glance in glances]


def _listed(found: Mapping[str, str]) -> str:
    """Say what would be asked of each checkpoint, those of one objective together."""
    by_objective: dict[str, list[str]] = {}
    for name, objective in found.items():
        by_objective.setdefault(objective, []).append(name)
    parts = [f"{objective} of {_some(names)}" for objective, names in by_objective.items()]
    return f"By what they were trained for, the objective is {' and '.join(parts)}"


def _some(names: Sequence[str]) -> str:
    """Name checkpoints; of many, the first, and how many more."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _check_task(first: "Glance", ours: HeadTable, other: "Glance", theirs: HeadTable) -> None:
    """Refuse numbers of different tasks, such as of a checkpoint that lacks the head that it names."""
    one, two = (str(table.data["objective"][0]) for table in (ours, theirs))
    if one != two:
        raise AttnprobeError(
            f"The objective is {one} of {first.said} and {two} of {other.said}, which can't be compared; "
            f"name one that both can be asked, such as --objective {_ANY}."
        )


def _tokenizers(glances: "Sequence[Glance]") -> list[str]:
    """Say whose tokens are others than those of the first checkpoint."""
    first, *others = _labels(glances)
    apart = [label for label, one in zip(others, glances[1:], strict=True) if not one.spells_as(glances[0])]
    if not apart:
        return []
    return [
        f"{first} and {_some(apart)} have different tokenizers: each read the same examples in tokens "
        "of its own."
    ]


def _sides(names: Sequence[str], labels: Sequence[str], tables: Sequence[HeadTable]) -> "list[Side]":
    from attnprobe.findings.side import Side

    read = [Side.of_table(table, name) for name, table in zip(names, tables, strict=True)]
    return [replace(side, model=label) for side, label in zip(read, labels, strict=True)]


def _record(
    names: Sequence[str], tables: Sequence[HeadTable], measure: Measure, source: OpenSource
) -> dict[str, Any]:
    """Put every checkpoint on record."""
    return {
        "dataset": source.described,
        "measure": measure,
        "checkpoints": [
            {"checkpoint": name, "notes": table.notes}
            | {part: said for part, said in table.provenance.items() if part != _SUMS}
            for name, table in zip(names, tables, strict=True)
        ],
        **made_with(),
    }


def _named_in(error: AttnprobeError, name: str, *, kept: bool, done: int) -> AttnprobeError:
    """Name the checkpoint with which something went wrong, and say what becomes of those before it."""
    said = str(error).rstrip(".")
    said = said if name in said else f"{name}: {said}"
    more = ""
    if done:
        those = "1 checkpoint is" if done == 1 else f"{done} checkpoints are"
        more = f" The {those} kept." if kept else " With --resume FILE, those before it would be kept."
    raised = AttnprobeError(f"{said}.{more}")
    raised.exit_code = error.exit_code
    return raised
