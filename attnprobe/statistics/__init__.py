"""What is measured: one small file for each statistic, in a folder for each family. Discovery finds them."""

from attnprobe.statistics.registry import all_statistics, census_statistics, choose, statistics_of
from attnprobe.statistics.statistic import Statistic, statistic

__all__ = ["Statistic", "all_statistics", "census_statistics", "choose", "statistic", "statistics_of"]
