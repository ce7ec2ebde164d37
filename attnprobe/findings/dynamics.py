"""Measures over a training run: tables of its steps in one, what changed, how orders of heads settle."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import DataError
from attnprobe.table.kinds import PRUNING_STEP, STEP
from attnprobe.table.table import Cell, Column, HeadTable, stack_rows

Floats = NDArray[np.float64]
#: A training step and its table.
Step = tuple[int, HeadTable]
#: How many heads, those that changed most, are named at a step.
CHANGED = 3
#: The fewest heads of a rank correlation.
LEAST_HEADS = 3
#: Keys that stand before the step.
_FIRST = ("model", "dataset")
#: The keys of a head.
_PLACE = ("attention", "layer", "head")
#: What must be the same at all steps, with the option that sets it; by default each checkpoint has its own.
_CHOSEN = {"objective": "--objective", "method": "--method", "metric": "--metric", "criterion": "--prune-by"}
#: The steps with which the order of heads at a step is compared.
_COMPARED = {"last": "the last step", "previous": "the step before"}


def check_alike(first: Step, other: Step) -> None:
    """Raise DataError if two tables are not of one run: they differ in tokens, heads or task."""
    (start, ours), (later, theirs) = first, other
    texts = [table.provenance.get("corpus", {}).get("texts") for table in (ours, theirs)]
    if texts[0] != texts[1]:
        raise DataError(
            f"Step {later} has read other tokens than step {start}: its tokenizer is another, or the data "
            "have changed meanwhile."
        )
    for name, option in _CHOSEN.items():
        sides = [" and ".join(dict.fromkeys(map(str, table.data.get(name, ())))) for table in (ours, theirs)]
        if all(sides) and sides[0] != sides[1]:
            raise DataError(
                f"The {name} is {sides[0]} at step {start} and {sides[1]} at step {later}, which can't be "
                f"compared; name one with {option}."
            )
    if list(ours.data) != list(theirs.data):
        unshared = ours.data.keys() ^ theirs.data.keys()
        raise DataError(
            f"Steps {start} and {later} have different columns ({', '.join(sorted(unshared))}); name what "
            "both have with --measure."
        )
    if _name_rows(ours) != _name_rows(theirs):
        raise DataError(f"Steps {start} and {later} have different heads, which can't be compared.")


def record_step(step: int, table: HeadTable, checkpoint: Cell, revision: str | None = None) -> dict[str, Any]:
    """Record a step as ``split_steps`` reads it: its checkpoint, and its table's notes and provenance."""
    named = {"step": step, "checkpoint": checkpoint, "revision": revision, "notes": list(table.notes)}
    return named | dict(table.provenance)


def stack_steps(steps: Sequence[Step], provenance: Mapping[str, Any]) -> HeadTable:
    """Stack the tables of all steps, with a column ``step`` behind model and dataset; common notes stay."""
    first = steps[0][1]
    notes = [note for note in first.notes if all(note in table.notes for _, table in steps)]
    renamed = [(step, _rename_column(table, STEP, PRUNING_STEP)) for step, table in steps]
    title = f"{first.title} at {len(steps)} steps of training"
    return replace(stack_rows(renamed, STEP, notes), title=title, provenance=provenance)


def split_steps(table: HeadTable) -> list[Step]:
    """Undo ``stack_steps``: each step on record, with its table, which has the record and notes of the step.

    Raises DataError if no steps are on record.
    """
    if STEP not in table.data or not isinstance(table.provenance.get("steps"), list):
        raise DataError("the table has no steps of training on record, so no further step can be added")
    title, steps = table.title.rpartition(" at ")[0], list[Step]()
    columns = [column for column in table.columns if column.name != STEP]
    for record in table.provenance["steps"]:
        rows = [row for row, step in enumerate(table.data[STEP]) if step == record["step"]]
        data = {column.name: [table.data[column.name][row] for row in rows] for column in columns}
        part = HeadTable(title, columns, data, record["notes"], record)
        steps.append((record["step"], _rename_column(part, PRUNING_STEP, STEP)))
    return steps


def summarise_step(table: HeadTable, before: HeadTable | None) -> dict[str, float]:
    """Summarise a step: for each headline measure its mean over heads, and its largest changes.

    ``NAME`` is the mean over heads, ``NAME_change`` the largest absolute change of a head since the step
    before, and ``NAME/L1H3`` the value of each of the ``CHANGED`` heads that changed most.
    """
    summary: dict[str, float] = {}
    for measure in _list_measures(table):
        if not table.column(measure).headline:
            continue
        values = _read_values(table, measure)
        if np.isfinite(values).any():
            summary[measure] = float(np.nanmean(values))
        if before is None:
            continue
        change = np.nan_to_num(np.abs(values - _read_values(before, measure)), nan=-1.0)
        order = [row for row in np.argsort(-change, kind="stable")[:CHANGED] if change[row] >= 0]
        if order:
            summary[f"{measure}_change"] = float(change[order[0]])
        summary |= {f"{measure}/{_name_head(table, row)}": float(values[row]) for row in order}
    return summary


def tabulate_orders(steps: Sequence[Step], provenance: Mapping[str, Any]) -> HeadTable:
    """Tabulate the rank correlation of heads with the last step and with the step before.

    One row for each measure, kind of attention and step. Spearman's rank correlation and Kendall's tau-b are
    over the heads whose value is defined at both steps; ``heads_last`` and ``heads_previous`` count these.
    Undefined below 3 heads, or if all heads have one value.

    References:
        Michel, Levy and Neubig (2019), section 6.
    """
    first = steps[0][1]
    kinds = list(dict.fromkeys(first.data.get("attention", [None])))
    rows: list[dict[str, Cell]] = []
    for measure, kind in product(_list_measures(first), kinds):
        values = [_read_values(table, measure, kind) for _, table in steps]
        nothing = np.full_like(values[0], np.nan)
        for (step, table), here, before in zip(steps, values, [nothing, *values], strict=False):
            row: dict[str, Cell] = {name: table.data[name][0] for name in _FIRST}
            row |= {STEP: step, "measure": measure} | ({} if kind is None else {"attention": kind})
            for name, other in zip(_COMPARED, (values[-1], before), strict=True):
                heads, spearman, kendall = correlate_ranks(here, other)
                row |= {f"heads_{name}": heads, f"spearman_{name}": spearman, f"kendall_{name}": kendall}
            rows.append(row)
    columns = [Column(name, role="key") for name in rows[0] if not name.endswith(tuple(_COMPARED))]
    for name, step_of in _COMPARED.items():
        columns += [
            Column(f"heads_{name}", "heads", role="count"),
            Column(f"spearman_{name}", "correlation", headline=True, title=f"Spearman's rho with {step_of}"),
            Column(f"kendall_{name}", "correlation", title=f"Kendall's tau with {step_of}"),
        ]
    data = {name: [row[name] for row in rows] for name in rows[0]}
    return HeadTable("how the order of heads settles", columns, data, [], provenance)


def correlate_ranks(values: Floats, others: Floats) -> tuple[int, float, float]:
    """Count the heads defined in both; compute Spearman's rho and Kendall's tau-b over them, NaN below 3."""
    from scipy.stats import kendalltau, spearmanr  # takes a second to import

    there = np.isfinite(values) & np.isfinite(others)
    values, others, heads = values[there], others[there], int(there.sum())
    if heads < LEAST_HEADS or not np.ptp(values) or not np.ptp(others):
        return heads, np.nan, np.nan
    spearman: Any = spearmanr(values, others)
    kendall: Any = kendalltau(values, others)
    return heads, float(spearman.statistic), float(kendall.statistic)


def _list_measures(table: HeadTable) -> list[str]:
    """Name the numeric measures of a table; none if its rows are not heads."""
    if not {"layer", "head"} <= table.data.keys():
        return []
    names = [column.name for column in table.columns if column.role == "measure"]
    return [name for name in names if not any(isinstance(cell, str) for cell in table.data[name])]


def _read_values(table: HeadTable, measure: str, kind: Cell = None) -> Floats:
    """Read the cells of a measure, of all heads or of one kind of attention."""
    cells = np.array(table.data[measure], np.float64)
    return cells if kind is None else cells[[other == kind for other in table.data["attention"]]]


def _name_head(table: HeadTable, row: int) -> str:
    kinds = table.data.get("attention", [""])
    kind = f"{kinds[row]}." if len(set(kinds)) > 1 else ""
    return f"{kind}L{table.data['layer'][row]}H{table.data['head'][row]}"


def _name_rows(table: HeadTable) -> list[tuple[Cell, ...]]:
    """List what names each row: its head, or else all its keys."""
    keys = [column.name for column in table.columns if column.role == "key" and column.name not in _FIRST]
    keys = [key for key in keys if key in _PLACE] or keys
    return list(zip(*(table.data[key] for key in keys), strict=True))


def _rename_column(table: HeadTable, old: str, new: str) -> HeadTable:
    columns = [replace(column, name=new) if column.name == old else column for column in table.columns]
    data = dict(zip((column.name for column in columns), table.data.values(), strict=True))
    return replace(table, columns=columns, data=data)
