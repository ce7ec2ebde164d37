"""How much a head carries to the residual stream, and statistics of attention that is weighted by that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from attnprobe.statistics.special import where_present
from attnprobe.statistics.statistic import Family, Reduce, Statistic
from attnprobe.sums.base import Measurement
from attnprobe.table.table import Column, HeadTable

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
#: What stands below a table.
MEANING = (
    "Columns that end in _norm are about attention weighted by what it carries: p_ij ||W_O,h v_j||, the "
    "length of what a key gives to the residual stream (Kobayashi et al. 2020), each row divided by its sum."
)

#: What stands below a table that has rows of both.
_STACKED = (
    "Rows with the weights norm are about attention weighted by what it carries: p_ij ||W_O,h v_j||, the "
    "length of what a key gives to the residual stream (Kobayashi et al. 2020), each row of a map divided by "
    "its sum."
)

Tabled = TypeVar("Tabled", bound=HeadTable)


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
    """Give what weighted statistics are of, and what was measured of them, by the plain names."""
    pairs = [(statistic.of, statistic.name) for statistic in statistics if statistic.of is not None]
    sums = {of.name: measurement.sums[name] for of, name in pairs if name in measurement.sums}
    return [of for of, _ in pairs], Measurement(sums, measurement.sequences, measurement.tokens)


def mark_by_norm(table: Tabled, shared: Sequence[str]) -> Tabled:
    """Name the columns and notes of a table of plain names as those of weighted attention.

    Notes that are ``shared`` are not about what is weighted.
    """
    names = {column.name: _name_by_norm(column.name, table) for column in table.columns}
    names |= {column.name: column.name for column in table.columns if column.role == "key"} | {"n": "n"}
    columns = [
        column
        if names[column.name] == column.name
        else replace(
            column,
            name=names[column.name],
            unit=column.unit and f"{column.unit}{SAID}",
            title=column.title and f"{column.title}{SAID}",
        )
        for column in table.columns
    ]
    data = {names.get(name, name): cells for name, cells in table.data.items()}
    of_weighted = [f"By norm: {note}" for note in table.notes if note not in shared]
    rest = [note for note in table.notes if note in shared]
    return replace(table, columns=columns, data=data, notes=[MEANING, *of_weighted, *rest])


def stack_by_norm(as_it_is: Sequence[Tabled], table: Tabled, shared: Sequence[str]) -> Tabled:
    """Put the rows of a table of weighted attention below those of attention as it is, if there are any.

    A column ``weights`` tells them apart. Notes that are ``shared`` are not about what is weighted,
    and those that say the same of both are said once.
    """
    marked: list[Tabled] = []
    for name, one in [*(("attention", one) for one in as_it_is), ("norm", table)]:
        place = next((at for at, column in enumerate(one.columns) if column.name == "dataset"), -1) + 1
        columns = [*one.columns[:place], Column("weights", role="key"), *one.columns[place:]]
        data = {**one.data, "weights": [name] * len(one)}
        marked.append(replace(one, columns=columns, data={each.name: data[each.name] for each in columns}))
    first, last = marked[0], marked[-1]
    notes = [note for one in as_it_is for note in one.notes if note not in shared]
    of_weighted = [f"By norm: {note}" for note in last.notes if note not in {*shared, *notes}]
    whole = first
    if as_it_is:
        every = list(dict.fromkeys([*first.columns, *last.columns]))
        cells = {
            one.name: [cell for part in marked for cell in part.data.get(one.name, [None] * len(part))]
            for one in every
        }
        whole = replace(first, columns=every, data=cells)
    return replace(whole, notes=[_STACKED, *notes, *of_weighted, *shared])


def _name_by_norm(name: str, table: HeadTable) -> str:
    """Give a column its suffix; an error or a number of its own stays behind the measure it belongs to."""
    base = next((name.removesuffix(end) for end in ("_se", "_n") if name.endswith(end)), name)
    return f"{base}{SUFFIX}{name[len(base) :]}" if base in table.data else f"{name}{SUFFIX}"
