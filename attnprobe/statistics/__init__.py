"""What is measured: one small file a statistic, in a folder for each family; found by discovery."""

from attnprobe.statistics.registry import all_statistics, census_statistics, choose, statistics_of
from attnprobe.statistics.statistic import Statistic, statistic

__all__ = [
    "Statistic",
    "all_statistics",
    "census_statistics",
    "choose",
    "statistic",
    "statistics_of",
]
