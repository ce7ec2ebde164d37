"""How much a head carries to the residual stream, and statistics of attention that is weighted by that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from attnprobe.statistics.special import where_present
from attnprobe.statistics.statistic import Family, Reduce, Statistic
from attnprobe.sums.base import Measurement
from attnprobe.table.table import HeadTable, stack_rows

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock


FAMILY = Family("norm", "what heads carry, by length", 5)


def total(block: AttentionBlock) -> Tensor:
    """Length of what a head carries from all keys, sum_j p_ij ||W_O,h v_j||.

    It is in units of the residual stream, and so compares within a layer better than between layers. Values
    count with their bias; the bias of the output projection belongs to no key. Vectors from several keys may
    cancel, so what the head adds to the stream is at most as long. In a model whose heads can also attend to
    nothing (gpt-oss), the rows are over tokens alone.

    Limits: 0 for a head that gives nothing; no upper limit.

    Source: Kobayashi et al. (2020), Attention is not only a weight, section 3.
    """
    return block.carried


def part(block: AttentionBlock, feature: str) -> Tensor:
    """Length of what a head carries from all keys of a kind, the sum of p_ij ||W_O,h v_j|| over them.

    Limits: 0 to the length from all keys; those of the four kinds add up to it.

    Source: Kobayashi et al. (2020), section 4.
    """
    return (block.carried * block.mass(feature)).where(block.carried != 0, 0)


def _from(feature: str, title: str, order: int, reduce: Reduce | None = None) -> Statistic:
    return Statistic(
        f"norm_{feature}", "length", partial(part, feature=feature), reduce, family=FAMILY,
        title=f"what heads carry from {title}", weights="norm", order=order,
    )  # fmt: skip


TOTAL = Statistic(
    "norm_total", "length", total, family=FAMILY, title="what heads carry", weights="norm", headline=True
)
FIRST = _from("first", "the leading special token", 1, partial(where_present, feature="first"))
SEPARATOR = _from("separator", "separators", 2, partial(where_present, feature="separator"))
PUNCTUATION = _from("punctuation", "punctuation", 3)
OTHER = _from("other", "all other tokens", 4)


#: What a person may ask for.
Weighting = Literal["attention", "norm", "both"]
#: How the name of a weighted statistic ends.
SUFFIX = "_norm"
#: How its unit and the title of its table do.
SAID = ", by norm"
_MEANING = (
    "are about attention weighted by what it carries: p_ij ||W_O,h v_j||, the length of what a key gives to "
    "the residual stream (Kobayashi et al. 2020), each row of a map divided by its sum."
)


def weight_by_norm(statistic: Statistic) -> Statistic:
    """Give the same statistic about rows that are weighted by norm, as ``NAME_norm``; refuse others."""
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


def apply_weights(statistics: Sequence[Statistic], weights: Weighting) -> list[Statistic]:
    """Give statistics about attention, about attention weighted by norm, or about both, each once."""
    by_norm = [] if weights == "attention" else [weight_by_norm(statistic) for statistic in statistics]
    return list(dict.fromkeys([*(statistics if weights != "norm" else ()), *by_norm]))


def strip_norm(
    statistics: Sequence[Statistic], measurement: Measurement
) -> tuple[list[Statistic], Measurement]:
    """Give the statistics that weighted ones are made of, with the sums of the weighted under their names."""
    pairs = [(statistic.of, statistic.name) for statistic in statistics if statistic.of is not None]
    sums = {of.name: measurement.sums[name] for of, name in pairs if name in measurement.sums}
    return [of for of, _ in pairs], Measurement(sums, measurement.sequences, measurement.tokens)


def mark_by_norm(table: HeadTable, shared: Sequence[str]) -> HeadTable:
    """Add the suffix to the measures of a table of weighted attention, and mark its notes.

    Notes that are ``shared`` stand below every table of the same model and text.
    """
    columns, data = [], {}
    for column in table.columns:
        name, unit, title = column.name, column.unit, column.title
        if column.role != "key" and name != "n":
            name = _name_by_norm(name, table)
            unit, title = unit and f"{unit}{SAID}", title and f"{title}{SAID}"
        columns.append(replace(column, name=name, unit=unit, title=title))
        data[name] = table.data[column.name]
    notes = [note if note in shared else f"By norm: {note}" for note in table.notes]
    notes.sort(key=set(shared).__contains__)
    return replace(table, columns=columns, data=data, notes=[f"Columns that end in _norm {_MEANING}", *notes])


def stack_by_norm(as_it_is: HeadTable | None, table: HeadTable, shared: Sequence[str]) -> HeadTable:
    """Put the rows of a table of weighted attention below those of attention as it is, if there are any.

    A column ``weights`` tells them apart. Of notes that are the same, one stands there.
    """
    notes = [] if as_it_is is None else [note for note in as_it_is.notes if note not in shared]
    by_norm = [f"By norm: {note}" for note in table.notes if note not in {*shared, *notes}]
    notes = [f"Rows with the weights norm {_MEANING}", *notes, *by_norm, *shared]
    parts = {"norm": table} if as_it_is is None else {"attention": as_it_is, "norm": table}
    return stack_rows(parts, "weights", notes)


def _name_by_norm(name: str, table: HeadTable) -> str:
    """Add the suffix to the name of a column, before the ending of an error or of a count."""
    base = next((name.removesuffix(end) for end in ("_se", "_n") if name.endswith(end)), name)
    return f"{base}{SUFFIX}{name[len(base) :]}" if base in table.data else f"{name}{SUFFIX}"
