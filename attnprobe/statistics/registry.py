"""What a statistic is, and how the files of this folder are found."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.statistics.reduction import mean_over_queries

#: (batch, head or pair, query) from a block; NaN where the value is undefined for a query.
PerQuery = Callable[[AttentionBlock], Tensor]
#: (batch, head or pair, query) of whole sequences to (batch, head or pair, ...) per sequence.
Reduce = Callable[[Tensor, Layout], Tensor]


@dataclass(frozen=True)
class Statistic:
    """One number about every head, or every pair of heads.

    Both functions are pure. The engine calls ``per_query`` on blocks of queries, puts the blocks
    of a sequence side by side, calls ``reduce`` on them, and takes the moments of what that
    returns over the sequences.

    Attributes:
        name: The name of the column.
        unit: "nats", "share", "tokens" or "ratio".
        family: The command whose table it belongs to.
        per_query: The value of every query. Statistics that share the function share its cost.
        reduce: From the queries of a sequence to the sequence; by default the mean.
        own_count: Whether sequences for which it is undefined are the rule, not the exception,
            so that the table gives its own number of sequences beside it.
        headline: Whether a terminal shows it among many.
        order: Place within the family.
        of: Whether it is asked of everything, or of images only.
    """

    name: str
    unit: str
    family: str
    per_query: PerQuery
    reduce: Reduce = mean_over_queries
    over: Literal["head", "pair", "layer", "offset"] = "head"
    own_count: bool = False
    headline: bool = False
    order: int = 0
    of: Literal["everything", "images"] = "everything"


#: The families in the order of the census's columns.
FAMILIES = ("entropy", "positional", "special", "rare", "distance")


@cache
def all_statistics() -> dict[str, Statistic]:
    """Import every file of this folder and collect the statistics it defines, in column order."""
    package = __name__.rpartition(".")[0]
    folder = importlib.import_module(package).__path__
    found: list[Statistic] = []
    for module in pkgutil.walk_packages(folder, f"{package}."):
        contents = vars(importlib.import_module(module.name))
        found += [value for value in contents.values() if isinstance(value, Statistic)]
    found.sort(key=lambda s: (FAMILIES.index(s.family), s.order, s.name))
    return {statistic.name: statistic for statistic in found}


def statistics_of(*families: str, images: bool = False) -> list[Statistic]:
    """List the statistics of some families, in column order, with those of images only or without."""
    return [
        statistic
        for statistic in all_statistics().values()
        if statistic.family in families and (images or statistic.of == "everything")
    ]
