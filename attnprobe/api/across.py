"""Correlating checkpoints: the heads of one, and those of each of several others, on the same examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.api.checkpoints import named
from attnprobe.api.in_turn import in_turn
from attnprobe.commands.intervene import ablate, importance
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.request import Measure
from attnprobe.run.training import expanded, is_pattern
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from attnprobe.findings.pair import Side


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
    models = [(name, None) for name in names]
    found = in_turn(models, texts, labels, options, measure=measure, of=partial(_table, measure))
    return Several(_sides(names, found.names, found.tables), found.record, found.notes)


def _table(measure: Measure, name: str, texts: Any, labels: Any, options: dict[str, Any]) -> HeadTable:
    """Measure a checkpoint as its own command does."""
    if measure == "ablation":
        return ablate(name, texts, labels, **options)
    options = {key: value for key, value in options.items() if key != "metric"}
    return importance(name, texts, labels, method=measure, **options)


def _sides(names: Sequence[str], labels: Sequence[str], tables: Sequence[HeadTable]) -> "list[Side]":
    from attnprobe.findings.pair import Side

    read = [Side.of_table(table, name) for name, table in zip(names, tables, strict=True)]
    return [replace(side, model=label) for side, label in zip(read, labels, strict=True)]
