"""A measure over the steps of a training run: tables into one table, and what changed at a step."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attnprobe.errors import AttnprobeError
from attnprobe.findings.settling import FIRST, Step, list_kinds, list_measures, read_cells
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PRUNING_STEP, STEP
from attnprobe.table.table import Cell, Column

#: So many heads that changed most are named at a step.
CHANGED = 3
#: What names a head.
_PLACE = ("attention", "layer", "head")
#: What must be the same at all steps, and is chosen anew for each checkpoint where nobody names it.
_CHOSEN = {"objective": "--objective", "method": "--method", "metric": "--metric", "criterion": "--prune-by"}


def check_alike(first: Step, other: Step) -> None:
    """Refuse tables that do not belong to one run: other tokens, other heads, another task."""
    (one, ours), (two, theirs) = first, other
    texts = [step.provenance.get("corpus", {}).get("texts") for step in (ours, theirs)]
    if texts[0] != texts[1]:
        raise AttnprobeError(
            f"Step {two} has read other tokens than step {one}: its tokenizer is another, or the data have "
            "changed meanwhile."
        )
    for name, option in _CHOSEN.items():
        if name in ours.data and name in theirs.data and set(ours.data[name]) != set(theirs.data[name]):
            raise AttnprobeError(
                f"The {name} is {_list_values(ours, name)} at step {one} and {_list_values(theirs, name)} at "
                f"step {two}, which can't be compared; name one with {option}."
            )
    if [column.name for column in ours.columns] != [column.name for column in theirs.columns]:
        apart = {column.name for column in ours.columns} ^ {column.name for column in theirs.columns}
        raise AttnprobeError(
            f"Steps {one} and {two} have different columns ({', '.join(sorted(apart))}); name what both have "
            "with --measure."
        )
    if _name_rows(ours) != _name_rows(theirs):
        raise AttnprobeError(f"Steps {one} and {two} have different heads, which can't be compared.")


def stack_steps(steps: Sequence[Step], provenance: Mapping[str, Any]) -> HeadTable:
    """Stack the tables of all steps, with a column ``step`` behind model and dataset.

    Notes that all steps share are given once. Those of a pruning curve name their step.
    """
    first = steps[0][1]
    names = [column.name for column in first.columns]
    at = sum(name in FIRST for name in names)
    columns = [*first.columns[:at], Column(STEP, role="key"), *map(_rename_step, first.columns[at:])]
    data: dict[str, list[Cell]] = {column.name: [] for column in columns}
    for step, table in steps:
        data[STEP] += [step] * len(table)
        for name in names:
            data[PRUNING_STEP if name == STEP else name] += table.data[name]
    shared = [note for note in first.notes if all(note in table.notes for _, table in steps)]
    curves = [f"Step {step}: {one.notes[0]}" for step, one in steps if "criterion" in one.data and one.notes]
    notes = [*curves, *shared]
    return HeadTable(f"{first.title} at {len(steps)} steps of training", columns, data, notes, provenance)


def split_steps(table: HeadTable) -> list[Step]:
    """Split what ``stack_steps`` stacked; a table's own record and notes are those on record for its step."""
    if STEP not in table.data or not isinstance(table.provenance.get("steps"), list):
        raise AttnprobeError("the table has no steps of training on record, so no further step can be added")
    at = [column.name for column in table.columns].index(STEP)
    columns = [_rename_back(column) for place, column in enumerate(table.columns) if place != at]
    title, found = table.title.rpartition(" at ")[0], []
    for record in table.provenance["steps"]:
        rows = [row for row, step in enumerate(table.data[STEP]) if step == record["step"]]
        data = {
            _rename_back(column).name: [table.data[column.name][row] for row in rows]
            for place, column in enumerate(table.columns)
            if place != at
        }
        found.append((record["step"], HeadTable(title, columns, data, record["notes"], record)))
    return found


def summarise_step(table: HeadTable, before: HeadTable | None) -> dict[str, float]:
    """Sum up a step in a few numbers: of each headline measure its mean over heads, and what has changed.

    ``NAME`` is the mean over heads, ``NAME_change`` the largest absolute change of a head since the step
    before, and ``NAME/L1H3`` the value of each of the ``CHANGED`` heads that changed most.
    """
    found: dict[str, float] = {}
    for measure in list_measures(table):
        if not table.column(measure).headline:
            continue
        values = read_cells(table, measure)
        if np.isfinite(values).any():
            found[measure] = float(np.nanmean(values))
        if before is None:
            continue
        change = np.nan_to_num(np.abs(values - read_cells(before, measure)), nan=-1.0)
        order = [row for row in np.argsort(-change, kind="stable")[:CHANGED] if change[row] >= 0]
        if order:
            found[f"{measure}_change"] = float(change[order[0]])
        found |= {f"{measure}/{_name_head(table, row)}": float(values[row]) for row in order}
    return found


def _name_head(table: HeadTable, row: int) -> str:
    kinds = list_kinds(table)
    kind = f"{table.data['attention'][row]}." if len(kinds) > 1 else ""
    return f"{kind}L{table.data['layer'][row]}H{table.data['head'][row]}"


def _name_rows(table: HeadTable) -> list[tuple[Cell, ...]]:
    keys = [column.name for column in table.columns if column.role == "key" and column.name not in FIRST]
    keys = [key for key in keys if key in _PLACE] or keys
    return list(zip(*(table.data[key] for key in keys), strict=True))


def _list_values(table: HeadTable, name: str) -> str:
    return " and ".join(dict.fromkeys(map(str, table.data[name])))


def _rename_step(column: Column) -> Column:
    return replace(column, name=PRUNING_STEP) if column.name == STEP else column


def _rename_back(column: Column) -> Column:
    return replace(column, name=STEP) if column.name == PRUNING_STEP else column
