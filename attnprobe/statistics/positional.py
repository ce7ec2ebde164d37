"""Where a head looks, by position: at single offsets, how far, and how much at each offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import nan
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics.special import Mark, count_seen, mass_on
from attnprobe.statistics.statistic import (
    Columns,
    Family,
    Function,
    Statistic,
    add_mean_and_error,
    mean_over_queries,
    peak,
    sinks,
)
from attnprobe.statistics.tabulation import Tabulation, head_table
from attnprobe.sums.base import Measurement
from attnprobe.sums.clustered import Clustered
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.naming import REACH, REACH_IN_PATCHES, list_offsets
from attnprobe.table.table import Column, HeadTable

if TYPE_CHECKING:
    from attnprobe.attention.layout import Grid
    from attnprobe.statistics.statistic import AttentionBlock, Layout, Tensor


FAMILY = Family("positional", "positions heads look at", 1)


def at_offset(block: AttentionBlock, offset: int) -> Tensor:
    """Probability of the token at an offset o, p_{i,i+o}: -1 is the previous token, 0 itself, 1 the next.

    It is averaged over the queries that have such a token. In an image, the previous token is the patch to
    the left.

    Limits: 0 to 1; about 1/n for uniform attention to n keys. In causal attention, next is undefined.

    Source: Clark et al. (2019), section 3.1, and Voita et al. (2019). Clark's script divides by all n queries
    instead of the n - 1 that have a previous token.
    """
    return block.at_offset(offset)


def at_row(block: AttentionBlock, down: int) -> Tensor:
    """Probability of the patch above, or of the patch below, averaged over the patches that have one.

    Limits: 0 to 1; 1/n for uniform attention to n keys.

    Source: as for the previous token, with rows.
    """
    return block.at_step(down, 0)


def _define_place(name: str, place: str, order: int, function: Function, **options: Any) -> Statistic:
    title = f"mean attention to the {place}"
    return Statistic(name, "share", function, family=FAMILY, title=title, order=order, **options)


PREVIOUS = _define_place("previous", "previous token", 0, partial(at_offset, offset=-1), headline=True)
SELF = _define_place("self", "token itself", 1, partial(at_offset, offset=0))
NEXT = _define_place("next", "next token", 2, partial(at_offset, offset=1), headline=True)
ABOVE = _define_place("above", "patch above", 3, partial(at_row, down=-1), about="patches")
BELOW = _define_place("below", "patch below", 4, partial(at_row, down=1), about="patches")


Floats = NDArray[np.float64]

#: The largest offset that is counted, in tokens.
FURTHEST = 64
#: The largest offset that is counted in an image, in rows and in columns of patches.
FURTHEST_STEP = 8


def share_at_offsets(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of queries whose most attended key is at each offset from -64 to 64.

    The share is over the queries that have a key at that offset. An offset counts in a sequence only if at
    least half of the queries have it, so that a single query at the edge can't make a share of 1. It is
    undefined from decoder to encoder. Ties go to the first key. In an image, an offset is a number of rows
    and of columns, each from -8 to 8. The table gives the offset with the largest share, and that share.

    Limits: 0 to 1.

    Source: Voita et al. (2019), section 5.1; they call a head positional from a share of 0.9.
    """
    import torch

    batch, heads, length = peaks.shape
    if not layout.comparable:
        number = 2 * FURTHEST + 1 if layout.grid is None else (2 * FURTHEST_STEP + 1) ** 2
        return peaks.new_full((batch, heads, number), nan)
    if layout.grid is not None:
        return _share_at_steps(peaks, layout, layout.grid)
    asking = layout.queries.asking
    offsets = torch.arange(-FURTHEST, FURTHEST + 1, device=peaks.device)
    distance = peaks - torch.arange(length, device=peaks.device)
    counted = asking[:, None] & (distance.abs() <= FURTHEST)
    around = torch.nn.functional.pad(layout.keys.kept.to(peaks.dtype), (FURTHEST, FURTHEST))
    seen = around.unfold(1, len(offsets), 1)
    if layout.causal:
        mixed = layout.keys.mixed
        seen = seen * (offsets <= (0 if mixed is None else mixed.ahead[..., None]))
    return _share_at_places(distance + FURTHEST, counted, asking[:, None] & ~peaks.isnan(), seen)


def _share_at_steps(peaks: Tensor, layout: Layout, grid: Grid) -> Tensor:
    import torch

    steps = 2 * FURTHEST_STEP + 1
    patches = slice(grid.first, grid.first + len(grid))
    peaks, kept = peaks[..., patches], layout.keys.kept[:, patches]
    # A step to a token that is no patch is NaN, and hits nothing.
    distance = layout.places[peaks.nan_to_num(0).long()] - layout.places[patches]
    here = kept[:, None] & ~peaks.isnan()
    counted = here & (distance.abs() <= FURTHEST_STEP).all(-1)
    places = (distance + FURTHEST_STEP) @ distance.new_tensor([steps, 1])
    around = kept.to(peaks.dtype).view(-1, grid.rows, grid.columns)
    around = torch.nn.functional.pad(around, (FURTHEST_STEP,) * 4)
    seen = around.unfold(1, steps, 1).unfold(2, steps, 1).reshape(-1, len(grid), steps**2)
    return _share_at_places(places, counted, here, seen)


def _share_at_places(places: Tensor, counted: Tensor, here: Tensor, seen: Tensor) -> Tensor:
    """Give the share of queries whose peak lies at each place, of those with a peak that see a key there."""
    here, number = here.to(seen.dtype), seen.shape[2]
    hits = here.new_zeros(*here.shape[:2], number + 1)
    hits.scatter_add_(2, places.where(counted, number).long(), here.new_ones(()).expand_as(here))
    possible = here @ seen
    usable = (possible > 0) & (2 * possible >= here.sum(2, keepdim=True))
    return (hits[..., :-1] / possible).where(usable, nan)


def add_best_offset(statistic: Statistic, sums: Clustered, build: TableBuilder) -> None:
    """Append the offset with the largest share of argmaxes, and that share with its error."""
    best, offset_columns = largest_share(sums.count, sums.average)
    for name, cells in offset_columns.items():
        build.add(Column(name, "tokens" if name == "offset" else "patches", role="count"), cells.ravel())
    add_mean_and_error(statistic, _read_places(sums, best), build)


def _read_places(sums: Clustered, places: NDArray[np.intp]) -> Clustered:
    rows, columns = np.ogrid[: len(places), : places.shape[1]]
    return sums[rows, columns, places]


def largest_share(count: Floats, average: Floats) -> tuple[NDArray[np.intp], dict[str, NDArray[Any]]]:
    """Choose the offset with the largest share of argmaxes, (layer, head, offset), and give its columns.

    Only offsets that exist in at least half of the sequences compete, so that one long sequence can't win
    with an offset of its own. Of equals, the nearest wins, then the earlier one.
    """
    shares = np.where(2 * count >= count.max(-1, keepdims=True), average, -1.0)
    if count.shape[-1] == 2 * FURTHEST + 1:
        steps = {"offset": np.arange(-FURTHEST, FURTHEST + 1)}
    else:
        side = np.arange(-FURTHEST_STEP, FURTHEST_STEP + 1)
        steps = {"offset_rows": np.repeat(side, len(side)), "offset_columns": np.tile(side, len(side))}
    nearest_first = np.argsort(np.square(list(steps.values())).sum(0), kind="stable")
    best = nearest_first[shares[..., nearest_first].argmax(-1)]
    defined = count.max(-1) > 0
    return best, {name: np.where(defined, places[best], np.array(None)) for name, places in steps.items()}


OFFSET = Statistic(
    "offset_share", "share of queries with such a key", peak, share_at_offsets, columns=add_best_offset,
    pick=largest_share, family=FAMILY, title="queries that look most at one offset", order=5,
)  # fmt: skip


def attention_distance(block: AttentionBlock) -> Tensor:
    """Mean distance of every row, sum_j p_j |i - j|, in tokens.

    In an image it is the distance between patches, in patches, over the attention to patches.

    Limits: 0 if every token attends to itself; at most n - 1; about n / 3 for uniform attention, so it grows
    with the length of the text.

    Source: Vig and Belinkov (2019), section 4.4; of images, Dosovitskiy et al. (2021), section 4.5.
    """
    return block.distance


def mean_if_comparable(values: Tensor, layout: Layout) -> Tensor:
    """Average over queries; undefined from decoder to encoder, whose positions are not comparable."""
    mean = mean_over_queries(values, layout)
    return mean if layout.comparable else mean * nan


def ratio_to_uniform(values: Tensor, layout: Layout) -> Tensor:
    """Divide by the value of uniform attention in the same sequence: 1 is no preference, below 1 nearer."""
    mean = mean_if_comparable(values, layout)
    if not layout.comparable:
        return mean
    uniform = mean_over_queries(layout.uniform_distance[:, None].to(values.dtype), layout)
    return (mean / uniform).where(uniform > 0, nan)


DISTANCE = Statistic(
    "attention_distance", "tokens", attention_distance, mean_if_comparable, family=FAMILY,
    title="mean distance of attention", order=6,
)  # fmt: skip
RATIO = Statistic(
    "attention_distance_ratio", "ratio", attention_distance, ratio_to_uniform, family=FAMILY,
    title="distance over that of uniform attention", order=7,
)  # fmt: skip


def add_same_offset(statistic: Statistic, sums: Clustered, build: TableBuilder) -> None:
    """Append the share at the ``offset`` of the head in the text as it is, not at the best offset here."""
    layers, heads, _ = sums.count.shape
    offsets = np.array(build.data.get("offset", [None] * (layers * heads)), np.float64)
    places = np.nan_to_num(offsets).astype(int).reshape(layers, heads) + FURTHEST
    at, known = _read_places(sums, places), np.where(np.isnan(offsets), np.nan, 1.0)
    average, error = at.average.ravel() * known, at.standard_error.ravel() * known
    build.measure(statistic.name, statistic.unit, average, error, title=statistic.title)


def _shuffled(measured: Statistic, order: int, columns: Columns = add_mean_and_error) -> Statistic:
    return replace(
        measured, name=f"{measured.name}_shuffled", title=f"{measured.title}, tokens shuffled",
        columns=columns, headline=False, control="shuffled", order=order,
    )  # fmt: skip


PREVIOUS_SHUFFLED, NEXT_SHUFFLED = _shuffled(PREVIOUS, 8), _shuffled(NEXT, 9)
OFFSET_SHUFFLED = _shuffled(OFFSET, 10, add_same_offset)


def controlled_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate heads with their controls; a terminal shows the offsets."""
    table, shown = head_table(title, measurement, statistics, labels), {OFFSET.name, OFFSET_SHUFFLED.name}
    return replace(table, columns=[replace(each, headline=each.name in shown) for each in table.columns])


CONTROLLED = Tabulation("head, controlled", controlled_table, "positions heads look at, with controls")


BY_OFFSET = Family("profile", "attention by offset", 12, by_default=False)

_LEADING, _SEPARATORS = attrgetter("keys.first"), attrgetter("keys.separator")
#: What a terminal shows among many: sinks, the neighbours and the token itself.
_HEADLINES = {"first", "-1", "0", "1", "-1_0", "0_-1"}


def add_up_places(block: AttentionBlock) -> Tensor:
    """Mean attention to each offset o: sum_i p_{i,i+o} / m_o over the m_o queries i that see such a key.

    ``profile_-10`` to ``profile_10`` are for offsets in tokens to ordinary keys: no special token, and not
    the first token of a text, which attracts attention whatever it means. ``profile_before`` and
    ``profile_after`` are the attention to ordinary tokens further away, ``profile_first`` to the first token,
    ``profile_special`` to other special tokens. In an image, ``profile_-1_2`` is for the patch one row above
    and two columns to the right, up to 3 rows and columns away; ``profile_beyond`` is for patches further
    away, and ``profile_first`` for a leading token such as [CLS].

    Limits: 0 to 1; 1/n at each offset for uniform attention to n keys. Undefined if no query has such a key,
    and from decoder to encoder. Keys outside a sliding window count with 0.

    Source: the mean at -1, 0 and 1 is that of Clark et al. (2019), section 3.1, without the keys that Xiao et
    al. (2024) call sinks; Vig and Belinkov (2019) draw attention by distance.
    """
    import torch

    from attnprobe.kernels.rows import add_up_offsets

    layout = block.layout
    if layout.grid is not None:
        return _add_up_steps(block)
    asks, sees = layout.queries.asking[:, block.span], layout.once(find_sight)[:, block.span]
    reach, marks = REACH if layout.comparable else -1, layout.once(mark_kinds)
    places = add_up_offsets(block.probabilities, marks, asks, sees, block.offset, reach)
    return places if layout.comparable else torch.nn.functional.pad(places, (0, 0, 0, 2 * REACH + 3))


def mark_kinds(layout: Layout) -> Tensor:
    """Mark the keys of a text that count, (batch, 3, key): ordinary ones, the first, other special ones."""
    import torch

    ordinary = ~sinks(layout)
    first = torch.zeros_like(ordinary)
    first[:, 0] = True
    return torch.stack([ordinary, first, ~(ordinary | first)], 1) & layout.keys.kept[:, None]


def find_sight(layout: Layout) -> Tensor:
    """Find the last key that each query of a text sees, (batch, query)."""
    import torch

    if layout.causal and layout.keys.mixed is not None:
        return layout.keys.mixed.sees
    place = torch.arange(layout.queries.length, device=layout.keys.kept.device)
    last = place if layout.causal else torch.full_like(place, layout.keys.length - 1)
    return last.expand(layout.queries.batch, -1).contiguous()


def mark_distant(layout: Layout) -> Tensor:
    """Mark the patches of an image that are further than 3 rows or columns from each other."""
    steps = (layout.places[:, None] - layout.places).abs()
    distant = (steps > REACH_IN_PATCHES).any(-1) & ~steps.isnan().any(-1)
    return distant.expand(layout.keys.batch, -1, -1)


def _add_up_steps(block: AttentionBlock) -> Tensor:
    """Add up attention in an image: to leading tokens, other special ones, each step, and patches beyond."""
    import torch

    layout, steps = block.layout, range(-REACH_IN_PATCHES, REACH_IN_PATCHES + 1)
    asks = layout.queries.asking[:, None, block.span] & ~block.probabilities[..., 0].isnan()

    def add_up_marked(mark: Mark) -> Tensor:
        sees = count_seen(layout, mark).expand(-1, layout.queries.length)[:, None, block.span] > 0
        return add_up(mass_on(block, mark).where(sees, torch.nan))

    def add_up(values: Tensor) -> Tensor:
        values = values.where(asks, torch.nan)
        return torch.stack([values.nansum(-1), (~values.isnan()).sum(-1).to(values.dtype)], -1)

    parts = [add_up_marked(_LEADING), add_up_marked(_SEPARATORS)]
    parts += [add_up(block.at_step(down, right)) for down in steps for right in steps]
    beyond = add_up_marked(mark_distant) if layout.comparable else torch.zeros_like(parts[0])
    return torch.stack([*parts, beyond], 2)


def average_places(places: Tensor, layout: Layout) -> Tensor:
    """Divide the attention at each offset by the number of queries that see such a key; NaN for none."""
    total, queries = places.unbind(-1)
    return (total / queries).where(queries > 0, nan)


def add_profile(statistic: Statistic, sums: Clustered, build: TableBuilder) -> None:
    """Append a column for each offset, and for what lies beside and beyond, each with its error."""
    patches = sums.count.shape[-1] != 2 * REACH + 5
    average, error = sums.average, sums.standard_error
    for place, (name, title) in enumerate(list_offsets(patches=patches)):
        cells, headline = (average[..., place], error[..., place]), name in _HEADLINES
        build.measure(f"{statistic.name}_{name}", "share", *cells, headline=headline, title=title)


PROFILE = Statistic(
    "profile", "share", add_up_places, average_places, scope="layer", columns=add_profile,
    family=BY_OFFSET, title="attention by offset",
)  # fmt: skip
