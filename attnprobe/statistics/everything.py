"""All that has one row a head, in one table."""

from collections.abc import Sequence
from dataclasses import replace

from attnprobe.statistics.mixing import CORRELATION, NORM, SHUFFLED, explained_notes
from attnprobe.statistics.rank import MAP_RANK, rank_notes
from attnprobe.statistics.registry import census_statistics, statistics_of
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation, head_table
from attnprobe.statistics.weighting import under
from attnprobe.sums.base import Measurement
from attnprobe.table.builder import Labels
from attnprobe.table.head_table import HeadTable


def every_statistic_of_heads() -> list[Statistic]:
    """List the census under both weightings, what heads carry, ranks but of whole maps, and mixing."""
    census = census_statistics()
    ranks = [statistic for statistic in statistics_of("rank") if statistic is not MAP_RANK]
    return [*census, *ranks, CORRELATION, SHUFFLED, NORM, *under(census, "norm"), *statistics_of("norm")]


def everything_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate heads, with the notes of each command whose columns are there."""
    table = head_table(title, measurement, statistics, labels)
    notes = [*rank_notes(table), *explained_notes(table), *table.notes]
    return replace(table, notes=notes)


EVERYTHING = Tabulation("head, everything", everything_table, "everything about heads")
