"""From a statistic's sum to its columns: the usual way."""

from typing import TYPE_CHECKING, Any

from attnprobe.table.builder import TableBuilder

if TYPE_CHECKING:
    from attnprobe.statistics.statistic import Statistic


def mean_and_error(statistic: "Statistic", found: Any, build: TableBuilder) -> None:
    """Append the mean and, beside it, its standard error.

    A statistic that is undefined for many sequences has its own number of them beside it, as ``NAME_n``.

    Args:
        statistic: Names the columns.
        found: Its sum, cells (layer, head).
        build: The table, one row a head.
    """
    build.measure(
        statistic.name,
        statistic.unit_of(patches=build.patches),
        found.average.ravel(),
        found.standard_error.ravel(),
        headline=statistic.headline,
        title=statistic.title,
    )
    if statistic.own_count:
        build.count(f"{statistic.name}_n", found.count.ravel())
