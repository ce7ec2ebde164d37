"""Statistics about attention that is weighted by what it carries, and their tables."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.base import Measurement
from attnprobe.table.joining import beside
from attnprobe.table.table import Table

#: What a person may ask for.
Weighting = Literal["attention", "norm", "both"]
#: How the name of a weighted statistic ends.
SUFFIX = "_norm"
#: How its unit and the title of its table do.
SAID = ", by norm"
#: What stands below a table.
MEANING = (
    "Columns that end in _norm are about attention weighted by what it carries: p_ij ||W_O,h v_j||, the "
    "length of what a key gives to the residual stream (Kobayashi et al. 2020), each row divided by its sum."
)

Tabled = TypeVar("Tabled", bound=Table)


def weighted(statistic: Statistic) -> Statistic:
    """Give the same statistic about rows that are weighted by norm, as ``NAME_norm``.

    Raises:
        AttnprobeError: When it reads what has no meaning for weighted rows.
    """
    if statistic.weights == "norm":
        return statistic
    return replace(
        statistic,
        name=f"{statistic.name}{SUFFIX}",
        unit=f"{statistic.unit}{SAID}",
        unit_in_patches=statistic.unit_in_patches and f"{statistic.unit_in_patches}{SAID}",
        title=f"{statistic.title}{SAID}",
        weights="norm",
        of=statistic,
    )


def under(statistics: Sequence[Statistic], weights: Weighting) -> list[Statistic]:
    """Give statistics about attention, about attention weighted by norm, or about both, each once."""
    by_norm = [] if weights == "attention" else [weighted(statistic) for statistic in statistics]
    return list(dict.fromkeys([*(statistics if weights != "norm" else ()), *by_norm]))


def plain(statistics: Sequence[Statistic], measurement: Measurement) -> tuple[list[Statistic], Measurement]:
    """Give what weighted statistics are of, and what was measured of them, by the plain names."""
    pairs = [(statistic.of, statistic.name) for statistic in statistics if statistic.of is not None]
    sums = {of.name: measurement.sums[name] for of, name in pairs if name in measurement.sums}
    return [of for of, _ in pairs], Measurement(sums, measurement.sequences, measurement.tokens)


def marked(table: Tabled, shared: Sequence[str]) -> Tabled:
    """Give the names, units, titles and notes of a table as those of weighted attention.

    Args:
        table: Of weighted statistics, by their plain names.
        shared: Notes that are not about what is weighted.
    """
    rename = {
        column.name: _renamed(column.name, table)
        for column in table.columns
        if column.role != "key" and column.name != "n"
    }
    columns = [
        replace(
            column,
            name=rename[column.name],
            unit=column.unit and f"{column.unit}{SAID}",
            title=column.title and f"{column.title}{SAID}",
        )
        if column.name in rename
        else column
        for column in table.columns
    ]
    data = {rename.get(name, name): cells for name, cells in table.data.items()}
    own = [f"By norm: {note}" for note in table.notes if note not in shared]
    rest = [note for note in table.notes if note in shared]
    return replace(table, columns=columns, data=data, notes=[MEANING, *own, *rest])


def _renamed(name: str, table: Table) -> str:
    """Give a column its suffix; an error or a number of its own stays behind the measure it belongs to."""
    base = next((name.removesuffix(end) for end in ("_se", "_n") if name.endswith(end)), name)
    return f"{base}{SUFFIX}{name[len(base) :]}" if base in table.data else f"{name}{SUFFIX}"


def together(tables: Sequence[Tabled]) -> Tabled:
    """Put tables of the same rows side by side: what names the rows, and ``n``, once; every note once."""
    first, *others = tables
    for other in others:
        first = beside(first, other)
    return first
