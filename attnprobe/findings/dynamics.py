"""Measures over the steps of a training run: tables into one, what changed at a step, how orders settle."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.table.kinds import PRUNING_STEP, STEP
from attnprobe.table.table import Cell, Column, HeadTable

Floats = NDArray[np.float64]
#: A table with the step of training it is of.
Step = tuple[int, HeadTable]
#: So many heads that changed most are named at a step.
CHANGED = 3
#: A rank correlation over fewer heads says nothing.
LEAST_HEADS = 3
#: Keys that stand before the step.
_FIRST = ("model", "dataset")
#: What names a head.
_PLACE = ("attention", "layer", "head")
#: What must be the same at all steps, and is chosen anew for each checkpoint where nobody names it.
_CHOSEN = {"objective": "--objective", "method": "--method", "metric": "--metric", "criterion": "--prune-by"}
#: Measures of how alike the order of heads is to that of another step, with their titles.
_RANK_TITLES = {
    "spearman_last": "Spearman's rho with the last step",
    "kendall_last": "Kendall's tau with the last step",
    "spearman_previous": "Spearman's rho with the step before",
    "kendall_previous": "Kendall's tau with the step before",
}


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
        unshared = {column.name for column in ours.columns} ^ {column.name for column in theirs.columns}
        raise AttnprobeError(
            f"Steps {one} and {two} have different columns ({', '.join(sorted(unshared))}); name what both "
            "have with --measure."
        )
    if _name_rows(ours) != _name_rows(theirs):
        raise AttnprobeError(f"Steps {one} and {two} have different heads, which can't be compared.")


def stack_steps(steps: Sequence[Step], provenance: Mapping[str, Any]) -> HeadTable:
    """Stack the tables of all steps, with a column ``step`` behind model and dataset.

    Notes that all steps share are given once.
    """
    first = steps[0][1]
    names = [column.name for column in first.columns]
    at = sum(name in _FIRST for name in names)
    measured = [_rename(column, STEP, PRUNING_STEP) for column in first.columns[at:]]
    columns = [*first.columns[:at], Column(STEP, role="key"), *measured]
    data: dict[str, list[Cell]] = {column.name: [] for column in columns}
    for step, table in steps:
        data[STEP] += [step] * len(table)
        for name in names:
            data[PRUNING_STEP if name == STEP else name] += table.data[name]
    notes = [note for note in first.notes if all(note in table.notes for _, table in steps)]
    return HeadTable(f"{first.title} at {len(steps)} steps of training", columns, data, notes, provenance)


def split_steps(table: HeadTable) -> list[Step]:
    """Split what ``stack_steps`` stacked; a table's own record and notes are those on record for its step."""
    if STEP not in table.data or not isinstance(table.provenance.get("steps"), list):
        raise AttnprobeError("the table has no steps of training on record, so no further step can be added")
    stacked = [column for column in table.columns if column.name != STEP]
    columns = [_rename(column, PRUNING_STEP, STEP) for column in stacked]
    title, steps = table.title.rpartition(" at ")[0], list[Step]()
    for record in table.provenance["steps"]:
        rows = [row for row, step in enumerate(table.data[STEP]) if step == record["step"]]
        data = {
            column.name: [table.data[old.name][row] for row in rows]
            for column, old in zip(columns, stacked, strict=True)
        }
        steps.append((record["step"], HeadTable(title, columns, data, record["notes"], record)))
    return steps


def summarise_step(table: HeadTable, before: HeadTable | None) -> dict[str, float]:
    """Sum up a step in a few numbers: of each headline measure its mean over heads, and what has changed.

    ``NAME`` is the mean over heads, ``NAME_change`` the largest absolute change of a head since the step
    before, and ``NAME/L1H3`` the value of each of the ``CHANGED`` heads that changed most.
    """
    summary: dict[str, float] = {}
    for measure in _list_measures(table):
        if not table.column(measure).headline:
            continue
        values = _read_cells(table, measure)
        if np.isfinite(values).any():
            summary[measure] = float(np.nanmean(values))
        if before is None:
            continue
        change = np.nan_to_num(np.abs(values - _read_cells(before, measure)), nan=-1.0)
        order = [row for row in np.argsort(-change, kind="stable")[:CHANGED] if change[row] >= 0]
        if order:
            summary[f"{measure}_change"] = float(change[order[0]])
        summary |= {f"{measure}/{_name_head(table, row)}": float(values[row]) for row in order}
    return summary


def tabulate_orders(steps: Sequence[Step], provenance: Mapping[str, Any]) -> HeadTable:
    """Tabulate how alike the order of heads is to that of the last step and of the step before.

    One row for each measure, kind of attention and step. Spearman's rank correlation and Kendall's tau-b are
    over the heads whose value is defined at both steps; ``heads_last`` and ``heads_previous`` are how many
    these are. They are undefined below 3 heads, and where all heads have one value.

    References:
        Michel, Levy and Neubig (2019), section 6.
    """
    first = steps[0][1]
    kinds = "attention" in first.data
    rows: list[dict[str, Cell]] = []
    for measure, kind in product(_list_measures(first), _list_kinds(first)):
        values = [_read_values(table, measure, kind) for _, table in steps]
        nothing = np.full_like(values[0], np.nan)
        for (step, table), here, before in zip(steps, values, [nothing, *values], strict=False):
            row: dict[str, Cell] = {name: table.data[name][0] for name in _FIRST}
            row |= {STEP: step, "measure": measure} | ({"attention": kind} if kinds else {})
            for name, other in (("last", values[-1]), ("previous", before)):
                heads, spearman, kendall = correlate_ranks(here, other)
                row |= {f"heads_{name}": heads, f"spearman_{name}": spearman, f"kendall_{name}": kendall}
            rows.append(row)
    columns = [_make_column(name) for name in rows[0]]
    data = {name: [row[name] for row in rows] for name in rows[0]}
    return HeadTable("how the order of heads settles", columns, data, [], provenance)


def correlate_ranks(values: Floats, others: Floats) -> tuple[int, float, float]:
    """Count the heads that are defined in both, and compute Spearman's rho and Kendall's tau-b over them."""
    from scipy.stats import kendalltau, spearmanr  # takes a second to import

    there = np.isfinite(values) & np.isfinite(others)
    values, others, heads = values[there], others[there], int(there.sum())
    if heads < LEAST_HEADS or not np.ptp(values) or not np.ptp(others):
        return heads, np.nan, np.nan
    spearman: Any = spearmanr(values, others)
    kendall: Any = kendalltau(values, others)
    return heads, float(spearman.statistic), float(kendall.statistic)


def _list_measures(table: HeadTable) -> list[str]:
    """Name the columns that put heads into an order; none where rows are not heads."""
    if not {"layer", "head"} <= table.data.keys():
        return []
    names = [column.name for column in table.columns if column.role == "measure"]
    return [name for name in names if not any(isinstance(cell, str) for cell in table.data[name])]


def _read_values(table: HeadTable, measure: str, kind: Cell) -> Floats:
    kinds = table.data.get("attention", [None] * len(table))
    return _read_cells(table, measure)[[kind_here == kind for kind_here in kinds]]


def _read_cells(table: HeadTable, measure: str) -> Floats:
    return np.array(table.data[measure], np.float64)


def _list_kinds(table: HeadTable) -> list[Cell]:
    return list(dict.fromkeys(table.data.get("attention", [None])))


def _make_column(name: str) -> Column:
    if name.startswith("heads_"):
        return Column(name, "heads", role="count")
    if name.startswith(("spearman_", "kendall_")):
        headline = name in {"spearman_last", "spearman_previous"}
        return Column(name, "correlation", headline=headline, title=_RANK_TITLES[name])
    return Column(name, role="key")


def _name_head(table: HeadTable, row: int) -> str:
    kinds = _list_kinds(table)
    kind = f"{table.data['attention'][row]}." if len(kinds) > 1 else ""
    return f"{kind}L{table.data['layer'][row]}H{table.data['head'][row]}"


def _name_rows(table: HeadTable) -> list[tuple[Cell, ...]]:
    keys = [column.name for column in table.columns if column.role == "key" and column.name not in _FIRST]
    keys = [key for key in keys if key in _PLACE] or keys
    return list(zip(*(table.data[key] for key in keys), strict=True))


def _list_values(table: HeadTable, name: str) -> str:
    return " and ".join(dict.fromkeys(map(str, table.data[name])))


def _rename(column: Column, name: str, new: str) -> Column:
    return replace(column, name=new) if column.name == name else column
