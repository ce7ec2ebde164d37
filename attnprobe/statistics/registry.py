"""The statistics by name: those of this folder, and those of other packages."""

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import TypeVar

from attnprobe.errors import AttnprobeError, UsageError, first_line
from attnprobe.statistics.links import find_control
from attnprobe.statistics.mixing import CORRELATION, NORM, SHUFFLED
from attnprobe.statistics.rank import MAP_RANK
from attnprobe.statistics.statistic import BY_NORM, SUFFIX, Family, Statistic, apply_weights, weight_by_norm
from attnprobe.statistics.tabulation import Tabulation, head_table
from attnprobe.table.naming import join_names

Defined = TypeVar("Defined", Statistic, Tabulation)

#: The group of entry points under which a package names its statistics.
GROUP = "attnprobe.statistics"
#: Stands for all columns that the census has by default.
DEFAULT = "census"
EVERYTHING = Tabulation("head, everything", head_table, "everything about heads")


@cache
def all_statistics() -> dict[str, Statistic]:
    """Import every file of this folder and collect the statistics it defines, in column order."""
    every = sorted(_find_defined(Statistic), key=lambda each: (each.family.order, each.order, each.name))
    return {statistic.name: statistic for statistic in every}


@cache
def all_tabulations() -> dict[str, Tabulation]:
    """Collect the ways to put statistics into tables."""
    return {tabulation.name: tabulation for tabulation in _find_defined(Tabulation)}


def _find_defined(kind: type[Defined]) -> Iterator[Defined]:
    package = __name__.rpartition(".")[0]
    folder = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(folder, f"{package}."):
        for value in vars(importlib.import_module(module.name)).values():
            values = value if isinstance(value, tuple) else (value,)
            yield from (each for each in values if isinstance(each, kind))


def families() -> list[Family]:
    """List the families in the order of the census's columns."""
    return list(dict.fromkeys(statistic.family for statistic in all_statistics().values()))


def select_statistics(*names: str, controls: bool = False) -> list[Statistic]:
    """List the statistics of families, or instead their controls, which are over changed sequences."""
    every = [statistic for statistic in all_statistics().values() if statistic.family.name in names]
    return [statistic for statistic in every if bool(statistic.control) == controls]


def census_statistics(*names: str) -> list[Statistic]:
    """List the statistics of heads in some families; by default those that the census has of any text."""
    if not names:
        names = tuple(family.name for family in families() if family.by_default and not family.commands)
    return [statistic for statistic in select_statistics(*names) if statistic.rows == "head"]


def every_statistic_of_heads() -> list[Statistic]:
    """List the census by both weightings, the norms of what heads carry, mixing, and ranks except of maps."""
    census = census_statistics()
    ranks = [statistic for statistic in select_statistics("rank") if statistic is not MAP_RANK]
    mixing = [CORRELATION, SHUFFLED, NORM]
    return [*census, *ranks, *mixing, *apply_weights(census, "norm"), *select_statistics("norm")]


def write_title(statistics: Sequence[Statistic], fixed: str = "") -> str:
    """Choose the title of a table: that of its tabulation, else of the family or families that it shows."""
    # What heads carry adds nothing to the title of what it stands beside.
    shown = [statistic for statistic in statistics if statistic.weights == "attention" or statistic.of]
    titles = {statistic.family.title for statistic in shown or statistics}
    title = fixed or (titles.pop() if len(titles) == 1 else "census of heads")
    return f"{title}{BY_NORM}" if shown and all(statistic.of for statistic in shown) else title


def find_statistic(name: str, custom: Iterable[Statistic] = ()) -> Statistic:
    """Find a statistic by its name, here, in another package, or among ``custom`` ones; weighted ones too.

    Raises KeyError where there is none, and UsageError where it can't be imported.
    """
    known = all_statistics() | {statistic.name: statistic for statistic in custom}
    if name in known:
        return known[name]
    if (control := find_control(name)) is not None:
        return control
    for entry in entry_points(group=GROUP, name=name):
        try:
            statistic = entry.load()
        except Exception as error:  # another package's module may raise anything
            raise UsageError(
                f"The statistic {name!r} ({entry.value}) can't be imported: {first_line(error)}."
            ) from error
        if isinstance(statistic, Statistic) and statistic.name == name:
            return statistic
        raise UsageError(f"{entry.value}, which {GROUP} calls {name!r}, is no statistic of that name.")
    if name.endswith(SUFFIX):
        plain = find_statistic(name.removesuffix(SUFFIX), known.values())
        if plain.weights == "attention":
            return weight_by_norm(plain)
    raise KeyError(name)


def choose(wanted: Iterable[str | Statistic] | None) -> list[Statistic]:
    """List the statistics of a census by names of columns and families, and a user's own, in column order.

    None is what the census has by default, and ``"entropy_norm"`` entropy of attention weighted by norm.
    Unknown names are refused.
    """
    if wanted is None:
        return census_statistics()
    if isinstance(wanted, str):
        raise UsageError(f"statistics must be a list of names, such as [{wanted!r}].")
    every = census_statistics(*(family.name for family in families() if not family.commands))
    chosen: dict[str, Statistic] = {}
    for name in wanted:
        for statistic in _find_meant(name, every):
            if chosen.setdefault(statistic.name, statistic) != statistic:
                raise UsageError(f"Two statistics are called {statistic.name!r}; give one a name=....")
    if not chosen:
        raise _make_unknown_error("(empty list)", every)
    inside = [statistic for statistic in every if chosen.get(statistic.name) == statistic]
    return [*inside, *(statistic for statistic in chosen.values() if statistic not in inside)]


def _find_meant(name: str | Statistic, every: Sequence[Statistic]) -> list[Statistic]:
    """Find the statistics that a name stands for in a census, or refuse it; a statistic is its own."""
    statistic = name
    if isinstance(name, str):
        if name == DEFAULT:
            return census_statistics()
        # "entropy" is both a column and a family; the column wins.
        meant = [statistic for statistic in every if statistic.name == name]
        if meant := meant or [statistic for statistic in every if statistic.family.name == name]:
            return meant
        for family in families():
            if family.commands and name in {family.name, *family.commands}:
                raise _make_elsewhere_error(name, family)
        try:
            statistic = find_statistic(name)
        except KeyError:
            raise _make_unknown_error(name, every) from None
    if not isinstance(statistic, Statistic):
        raise UsageError(
            f"statistics must be names, or functions decorated with attnprobe.statistic, not {name!r}."
        )
    if statistic.family.commands:
        raise _make_elsewhere_error(statistic.name, statistic.family)
    if statistic.control:
        raise _make_unknown_error(statistic.name, every)
    if statistic.rows != "head":
        raise UsageError(f"The statistic {statistic.name!r} is not one number a head; see `distance`.")
    if all_statistics().get(statistic.name, statistic) != statistic:
        raise UsageError(f"{statistic.name!r} is the name of a column already; choose another name.")
    return [statistic]


def _make_elsewhere_error(name: str, family: Family) -> AttnprobeError:
    commands = join_names([f"attnprobe {command}" for command in family.commands])
    return AttnprobeError(f"The census has no {name!r}; it is measured by {commands}.")


def _make_unknown_error(name: str, every: Sequence[Statistic]) -> AttnprobeError:
    families = list(dict.fromkeys(statistic.family.name for statistic in every))
    others = sorted(entry_points(group=GROUP).names)
    known = {*families, *others, *(statistic.name for statistic in every)}
    if alike := get_close_matches(name, sorted(known)):
        return AttnprobeError(f"There is no statistic {name!r}. Did you mean {', '.join(alike)}?")
    listed = f"families {', '.join(families)}, from their columns"
    if others:
        listed += f", or of other packages {', '.join(others)}"
    return AttnprobeError(f"There is no statistic {name!r}; choose from {listed}.")
