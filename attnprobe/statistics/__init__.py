"""What is measured: one small file per statistic, found by discovery."""

from attnprobe.statistics.registry import Statistic, all_statistics, statistics_of

__all__ = ["Statistic", "all_statistics", "statistics_of"]
