"""Comparing checkpoints that are measured one after the other: their importance, and where columns vary."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from attnprobe.api.checkpoints import named
from attnprobe.api.in_turn import InTurn, in_turn
from attnprobe.commands.call.record import describe_call
from attnprobe.commands.call.surveying import survey_texts
from attnprobe.commands.census import entropy
from attnprobe.commands.intervene import importance
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.request import Method, TaskOptions, check_method
from attnprobe.run.training import at_revisions, expanded, parsed_revisions
from attnprobe.survey.layers import check_layers, layers_of, of_layers
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from attnprobe.statistics.statistic import Statistic
    from attnprobe.statistics.tabulation import Tabulation

#: The measure that is every column of the census, and the one that is none of them.
CENSUS = "census"
IMPORTANCE = "importance"
#: What only attention weights have a use for.
_ATTENTION = ("weights", "frequencies")


def compared_importance(
    models: Any, texts: Any, labels: Any, method: Method, options: Any, *, revisions: Any, keep: bool
) -> HeadTable:
    """Compare the importance of heads of one number; the arguments are those of ``compare``."""
    checkpoints = checkpoints_of(models, revisions, options.get("revision"))
    if len(checkpoints) != 2:
        raise AttnprobeError(
            f"--measure importance compares two checkpoints, not {len(checkpoints)}; --spread takes more."
        )
    layers = layers_of(options.pop("layers", None))
    found = _importances(checkpoints, texts, labels, method, options, keep=keep)
    from attnprobe.findings.comparison.importance import importance_differences

    record = _record(found, method=method)
    table = importance_differences(
        found.tables, found.names, dataset=found.source.name, notes=found.notes, record=record
    )
    if layers is None:
        return table
    check_layers(layers, table.data["layer"], found.names[0])  # type: ignore[arg-type]
    return of_layers(table, layers)


def spread_of(
    models: Any,
    texts: Any,
    labels: Any,
    measure: str,
    method: Method,
    options: Any,
    *,
    revisions: Any,
    keep: bool,
) -> HeadTable:
    """Say where columns vary over checkpoints; the arguments are those of ``compare``."""
    checkpoints = checkpoints_of(models, revisions, options.get("revision"))
    if len(checkpoints) < 2:
        raise AttnprobeError(
            f"{checkpoints[0][0]} is the only checkpoint; --spread needs two of one shape, or more."
        )
    if measure == IMPORTANCE:
        found = _importances(checkpoints, texts, labels, method, options, keep=keep)
    else:
        of = partial(_columns, measure)
        files = [options.get("frequencies")]
        found = in_turn(
            checkpoints, texts, labels, options, measure=measure, of=of, task=False, files=files, keep=keep
        )
    from attnprobe.findings.comparison.spread import spread_table

    record = _record(found, **({"method": method} if measure == IMPORTANCE else {}))
    return spread_table(
        found.tables, found.names, dataset=found.source.name, notes=found.notes, record=record
    )


def checkpoints_of(models: Any, revisions: Any, revision: str | None) -> list[tuple[str, str | None]]:
    """Name the checkpoints, each with its revision; patterns stand for the folders that they match."""
    listed = [models] if isinstance(models, str) or not isinstance(models, Sequence) else list(models)
    names = parsed_revisions(revisions, revision)
    if names is None:
        return [(name, revision) for name in expanded(named(listed))]
    return [*at_revisions(named(listed), names)]


def _importances(
    checkpoints: Sequence[tuple[str, str | None]],
    texts: Any,
    labels: Any,
    method: Method,
    options: Mapping[str, Any],
    *,
    keep: bool,
) -> InTurn:
    options = {name: one for name, one in options.items() if name not in _ATTENTION}
    labelled = labels is not None or options.get("label_column") is not None
    task = TaskOptions(
        options.get("objective"), force_head=options.get("force_head", False), labels_named=labelled
    )
    check_method(method, task, content_only=options.get("content_only", False))
    return in_turn(
        checkpoints,
        texts,
        labels,
        options,
        measure=f"{IMPORTANCE} {method}",
        of=partial(_importance, method),
        task=method != "confidence",
        keep=keep,
    )


def _importance(method: Method, name: str, texts: Any, labels: Any, options: dict[str, Any]) -> HeadTable:
    taken = importance.command.keywords  # type: ignore[attr-defined]
    options = {key: value for key, value in options.items() if key in taken}
    return importance(name, texts, labels, method=method, **options)


def _columns(measure: str, name: str, texts: Any, labels: Any, options: dict[str, Any]) -> HeadTable:
    """Measure columns of the census, with their means over blocks of documents."""

    def asked() -> "tuple[Sequence[Statistic], Tabulation]":
        from attnprobe.findings.comparison.differences import ALONE
        from attnprobe.sums.resampling import Jackknife

        return [replace(one, sums=Jackknife) for one in chosen(measure)], ALONE

    taken = entropy.command.keywords  # type: ignore[attr-defined]
    options = {key: value for key, value in options.items() if key in taken}
    return survey_texts("compare", name, texts, asked, options, targets=labels)  # type: ignore[arg-type]


def chosen(measure: str) -> "list[Statistic]":
    """Resolve what is to be compared: all columns of the census, or some, or their families."""
    from attnprobe.statistics.registry import choose

    if measure == CENSUS:
        return choose(None)
    return choose([part.strip() for part in measure.split(",") if part.strip()])


def _record(found: InTurn, **more: Any) -> dict[str, Any]:
    return {"command": describe_call("compare"), **more, **found.record}
