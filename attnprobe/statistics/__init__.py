"""What is measured: a file for each family of statistics. Discovery finds them."""

from attnprobe.statistics.registry import all_statistics, census_statistics, choose, select_statistics
from attnprobe.statistics.statistic import Statistic, statistic

__all__ = ["Statistic", "all_statistics", "census_statistics", "choose", "select_statistics", "statistic"]
