"""How the order of heads changes over a training run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import STEP
from attnprobe.table.table import Cell, Column

Floats = NDArray[np.float64]
#: The table of the orders of heads begins with these.
ORDER_TITLE = "how the order of heads settles"
#: A rank correlation over fewer heads says nothing.
LEAST_HEADS = 3
#: Keys that stand before the step.
FIRST = ("model", "dataset")
_TITLES = {
    "spearman_last": "Spearman's rho with the last step",
    "kendall_last": "Kendall's tau with the last step",
    "spearman_previous": "Spearman's rho with the step before",
    "kendall_previous": "Kendall's tau with the step before",
}
#: A table with the step of training it is of.
Step = tuple[int, HeadTable]


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
        for kind in list_kinds(first):
            values = [_read_values(table, measure, kind) for _, table in steps]
            for place, (step, table) in enumerate(steps):
                row: dict[str, Cell] = {
                    **{name: table.data[name][0] for name in FIRST},
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
    return HeadTable(ORDER_TITLE, columns, data, [], provenance, "settling")


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


def _read_values(table: HeadTable, measure: str, kind: Cell) -> NDArray[np.float64]:
    cells = read_cells(table, measure)
    rows = [row for row, one in enumerate(table.data.get("attention", [None] * len(cells))) if one == kind]
    return cells[rows]


def read_cells(table: HeadTable, measure: str) -> NDArray[np.float64]:
    return np.array([np.nan if cell is None else float(cell) for cell in table.data[measure]])


def list_kinds(table: HeadTable) -> list[Cell]:
    return list(dict.fromkeys(table.data.get("attention", [None])))


def _make_column(name: str) -> Column:
    if name.startswith("heads_"):
        return Column(name, "heads", role="count")
    if name.startswith(("spearman_", "kendall_")):
        headline = name in {"spearman_last", "spearman_previous"}
        return Column(name, "correlation", headline=headline, title=_TITLES[name])
    return Column(name, role="key")
