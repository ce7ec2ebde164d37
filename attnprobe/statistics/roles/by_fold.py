"""Columns of the census that roles are read off, kept by folds of documents as well."""

from dataclasses import replace

from attnprobe.statistics.positional import control, offset
from attnprobe.statistics.rare import mass
from attnprobe.statistics.roles import FAMILY
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.folds import ByFold

#: How their names end, which would otherwise be those of the columns.
SUFFIX = "_by_fold"


def _kept(column: Statistic, order: int) -> Statistic:
    return replace(column, name=f"{column.name}{SUFFIX}", sums=ByFold, family=FAMILY, order=order)


def as_column(statistic: Statistic) -> Statistic:
    """Give a statistic by the name of its column."""
    return replace(statistic, name=statistic.name.removesuffix(SUFFIX))


OFFSET_BY_FOLD = _kept(offset.OFFSET, 7)
OFFSET_SHUFFLED_BY_FOLD = _kept(control.OFFSET_SHUFFLED, 8)
RARE_LIFT_BY_FOLD = _kept(mass.LIFT, 9)
