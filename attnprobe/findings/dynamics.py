"""A measure over the steps of a training run: tables into one table, and when the order of heads settles."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PRUNING_STEP, STEP
from attnprobe.table.table import Cell, Column

#: The table of the orders of heads begins with these.
ORDER_TITLE = "how the order of heads settles"
#: From this rank correlation with the last step on, an order is called settled.
SETTLED = 0.9
#: A rank correlation over fewer heads says nothing.
LEAST_HEADS = 3
#: The notes name the order by so many columns at most.
NAMED = 4
#: So many heads that changed most are named at a step.
CHANGED = 3
#: What names a head.
_PLACE = ("attention", "layer", "head")
#: Keys that stand before the step.
_FIRST = ("model", "dataset")
_TITLES = {
    "spearman_last": "Spearman's rho with the last step",
    "kendall_last": "Kendall's tau with the last step",
    "spearman_previous": "Spearman's rho with the step before",
    "kendall_previous": "Kendall's tau with the step before",
}
#: What must be the same at all steps, and is chosen anew for each checkpoint where nobody names it.
_CHOSEN = {"objective": "--objective", "method": "--method", "metric": "--metric", "criterion": "--prune-by"}

#: A table with the step of training it is of.
Step = tuple[int, HeadTable]


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
    at = sum(name in _FIRST for name in names)
    columns = [*first.columns[:at], Column(STEP, role="key"), *map(_rename_step, first.columns[at:])]
    data: dict[str, list[Cell]] = {column.name: [] for column in columns}
    for step, table in steps:
        data[STEP] += [step] * len(table)
        for name in names:
            data[PRUNING_STEP if name == STEP else name] += table.data[name]
    shared = [note for note in first.notes if all(note in table.notes for _, table in steps)]
    curves = [f"Step {step}: {one.notes[0]}" for step, one in steps if "criterion" in one.data and one.notes]
    notes = [*_describe_settling(steps), *curves, *shared]
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
        values = _read_cells(table, measure)
        if np.isfinite(values).any():
            found[measure] = float(np.nanmean(values))
        if before is None:
            continue
        change = np.nan_to_num(np.abs(values - _read_cells(before, measure)), nan=-1.0)
        order = [row for row in np.argsort(-change, kind="stable")[:CHANGED] if change[row] >= 0]
        if order:
            found[f"{measure}_change"] = float(change[order[0]])
        found |= {f"{measure}/{_name_head(table, row)}": float(values[row]) for row in order}
    return found


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
    for measure in list_measures(first):
        for kind in _list_kinds(first):
            values = [_read_values(table, measure, kind) for _, table in steps]
            for place, (step, table) in enumerate(steps):
                row: dict[str, Cell] = {
                    **{name: table.data[name][0] for name in _FIRST},
                    STEP: step,
                    "measure": measure,
                    **({"attention": kind} if kinds else {}),
                }
                before = values[place - 1] if place else np.full_like(values[0], np.nan)
                for name, other in (("last", values[-1]), ("previous", before)):
                    heads, spearman, kendall = correlate_ranks(values[place], other)
                    row |= {f"heads_{name}": heads, f"spearman_{name}": spearman, f"kendall_{name}": kendall}
                rows.append(row)
    columns = [_make_column(name) for name in rows[0]]
    data = {name: [row[name] for row in rows] for name in rows[0]}
    return HeadTable(ORDER_TITLE, columns, data, [*_describe_settling(steps)], provenance, "settling")


def correlate_ranks(one: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[int, float, float]:
    """Count the heads that are defined in both, and compute Spearman's rho and Kendall's tau-b over them."""
    from scipy.stats import kendalltau, spearmanr  # takes a second to import

    there = np.isfinite(one) & np.isfinite(other)
    one, other, heads = one[there], other[there], int(there.sum())
    if heads < LEAST_HEADS or not np.ptp(one) or not np.ptp(other):
        return heads, float("nan"), float("nan")
    spearman: Any = spearmanr(one, other)
    kendall: Any = kendalltau(one, other)
    return heads, float(spearman.statistic), float(kendall.statistic)


def list_measures(table: HeadTable) -> list[str]:
    """Name the columns that put heads into an order; none where rows are not heads."""
    if not {"layer", "head"} <= table.data.keys():
        return []
    names = [column.name for column in table.columns if column.role == "measure"]
    return [name for name in names if not any(isinstance(cell, str) for cell in table.data[name])]


def find_settled_step(steps: Sequence[int], spearman: Sequence[float]) -> int | None:
    """Find the first step from which on each is correlated with the last one by ``SETTLED`` or more.

    >>> find_settled_step([0, 100, 200, 300], [0.3, 0.95, 0.92, 1.0])
    100
    """
    found = None
    for step, correlation in reversed(list(zip(steps[:-1], spearman[:-1], strict=True))):
        if not correlation >= SETTLED:
            break
        found = step
    return found


def _describe_settling(steps: Sequence[Step]) -> Iterator[str]:
    """Say from which step on the order of heads is that of the last one, measure by measure."""
    if len(steps) < 2:
        return
    first = steps[0][1]
    measures = list_measures(first)
    if len(measures) > NAMED:
        measures = [name for name in measures if first.column(name).headline][:NAMED]
    for measure in measures:
        for kind in _list_kinds(first):
            values = [_read_values(table, measure, kind) for _, table in steps]
            found = [correlate_ranks(one, values[-1])[1] for one in values]
            name = f"{measure} of {kind}" if kind else measure
            yield _describe_order([step for step, _ in steps], found, name)


def _describe_order(steps: Sequence[int], spearman: Sequence[float], measure: str) -> str:
    if not np.isfinite(spearman[-2]):
        return f"By {measure}, the order of heads at the last two steps can't be compared."
    settled = find_settled_step(steps, spearman)
    if settled is None:
        return (
            f"By {measure}, the order of heads is not settled before the last step: Spearman with it is "
            f"{_round_down(spearman[-2])} at step {steps[-2]}, the one before."
        )
    least = min(spearman[list(steps).index(settled) : -1])
    part = f", after {100 * settled / steps[-1]:.0f} % of the steps" if steps[0] < settled else ""
    return (
        f"By {measure}, the order of heads is settled from step {settled} on{part}: Spearman with the last "
        f"step is {_round_down(least)} or more."
    )


def _round_down(value: float) -> str:
    """Write a correlation rounded down, so that what is below a threshold never looks as if it reached it."""
    return f"{np.floor(100 * value + 1e-9) / 100:.2f}"


def _read_values(table: HeadTable, measure: str, kind: Cell) -> NDArray[np.float64]:
    cells = _read_cells(table, measure)
    rows = [row for row, one in enumerate(table.data.get("attention", [None] * len(cells))) if one == kind]
    return cells[rows]


def _read_cells(table: HeadTable, measure: str) -> NDArray[np.float64]:
    return np.array([np.nan if cell is None else float(cell) for cell in table.data[measure]])


def _name_head(table: HeadTable, row: int) -> str:
    """Name a head in a word, L1H3; with its kind of attention where there are several."""
    kinds = _list_kinds(table)
    kind = f"{table.data['attention'][row]}." if len(kinds) > 1 else ""
    return f"{kind}L{table.data['layer'][row]}H{table.data['head'][row]}"


def _list_kinds(table: HeadTable) -> list[Cell]:
    return list(dict.fromkeys(table.data.get("attention", [None])))


def _name_rows(table: HeadTable) -> list[tuple[Cell, ...]]:
    """Name the rows, the checkpoint aside."""
    keys = [column.name for column in table.columns if column.role == "key" and column.name not in _FIRST]
    keys = [key for key in keys if key in _PLACE] or keys
    return list(zip(*(table.data[key] for key in keys), strict=True))


def _list_values(table: HeadTable, name: str) -> str:
    return " and ".join(dict.fromkeys(map(str, table.data[name])))


def _rename_step(column: Column) -> Column:
    return replace(column, name=PRUNING_STEP) if column.name == STEP else column


def _rename_back(column: Column) -> Column:
    return replace(column, name=STEP) if column.name == PRUNING_STEP else column


def _make_column(name: str) -> Column:
    if name.startswith("heads_"):
        return Column(name, "heads", role="count")
    if name.startswith(("spearman_", "kendall_")):
        return Column(name, "correlation", headline=name.startswith("spearman"), title=_TITLES[name])
    return Column(name, role="key")
