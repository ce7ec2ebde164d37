"""How much a head looks at each offset from the query: what the picture ``atlas`` draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnprobe.statistics.statistic import Family, Statistic, sinks
from attnprobe.sums.clustered import Clustered
from attnprobe.table.builder import TableBuilder
from attnprobe.table.naming import REACH, REACH_IN_PATCHES, list_offsets

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock
    from attnprobe.attention.layout import Layout

FAMILY = Family("profile", "attention by offset", 12, by_default=False)

#: What a terminal shows among many: sinks, the neighbours and the token itself.
_HEADLINES = {"first", "-1", "0", "1", "-1_0", "0_-1"}


def add_up_places(block: AttentionBlock) -> Tensor:
    """Mean attention to each offset o: sum_i p_{i,i+o} / m_o over the m_o queries i that see such a key.

    The columns ``profile_-10`` to ``profile_10`` are of offsets in tokens, where the key is an ordinary
    token: no special token, and not the first of a text, which attracts attention whatever it means.
    ``profile_before`` and ``profile_after`` are all that goes to such tokens further away, averaged over the
    queries that see some there; ``profile_first`` is what goes to the first token, ``profile_special`` what
    goes to other special tokens. Of an image, ``profile_-1_2`` is of the patch one row above and two columns
    to the right, up to 3 rows and columns away; ``profile_beyond`` is what goes to patches further away, and
    ``profile_first`` is about a leading token such as [CLS].

    Limits: 0 to 1; 1/n at each offset for uniform attention to n keys; 1 at -1 for a head that looks at the
    previous token alone. Offsets are undefined where no query has such a key: after the query in causal
    attention, and all of them from decoder to encoder, where places do not compare. Keys outside of a sliding
    window are seen with 0.

    Source: the mean at -1, 0 and 1 is that of Clark et al. (2019), section 3.1, without the keys that Xiao et
    al. (2024) call sinks; Vig and Belinkov (2019) draw attention by distance.

    >>> from attnprobe.attention.block import build_uniform_block
    >>> found = add_up_places(build_uniform_block(length=4))[0, 0]
    >>> found[3 + REACH - 1]  # the last two tokens have an ordinary one before them
    tensor([0.5000, 2.0000])
    """
    import torch

    from attnprobe.kernels.offsets import add_up_offsets

    layout = block.layout
    here = slice(block.offset, block.offset + block.probabilities.shape[2])
    if layout.grid is not None:
        return _add_up_steps(block, here)
    marks, sees = layout.once(mark_keys), layout.once(find_sight)
    asks = layout.queries.asking[:, here]
    reach = REACH if layout.comparable else -1
    places = add_up_offsets(block.probabilities, marks, asks, sees[:, here], block.offset, reach)
    if layout.comparable:
        return places
    return torch.nn.functional.pad(places, (0, 0, 0, 2 * REACH + 3))


def mark_keys(layout: Layout) -> Tensor:
    """Mark the keys that count, (batch, 3, key): ordinary ones, the first of a text, other special ones.

    Of an image, special ones are leading, or others.
    """
    import torch

    kept, special = layout.keys.kept, layout.keys.special
    first = layout.keys.first if layout.grid is not None else torch.zeros_like(kept)
    if layout.grid is None:
        first[:, 0] = True
    return torch.stack([~sinks(layout), first, special & ~first], 1) & kept[:, None]


def find_sight(layout: Layout) -> Tensor:
    """Find the last key that each query of a text sees, (batch, query)."""
    import torch

    shape = layout.queries.batch, layout.queries.length
    if not layout.causal:
        return torch.full(shape, layout.keys.length - 1, device=layout.keys.kept.device)
    if layout.keys.mixed is not None:
        return layout.keys.mixed.sees
    return torch.arange(shape[1], device=layout.keys.kept.device).expand(shape).contiguous()


def _add_up_steps(block: AttentionBlock, here: slice) -> Tensor:
    """Add up the same in an image: leading tokens, other special ones, each step row by row, and beyond."""
    import torch

    layout, p = block.layout, block.probabilities
    side = range(-REACH_IN_PATCHES, REACH_IN_PATCHES + 1)
    out = p.new_zeros(*p.shape[:2], len(side) ** 2 + 3, 2)
    there = layout.queries.asking[:, None, here] & ~p[..., 0].isnan()
    rows, marks = p.where(there[..., None], 0), layout.once(mark_keys)

    def see(marked: Tensor) -> Tensor:
        """Give which of the marked keys each query sees, (batch, query, key)."""
        pairs = marked[:, None].expand(-1, layout.queries.length, -1)
        return layout.hide(pairs)[:, here]

    for kind in (1, 2):
        seen = see(marks[:, kind])
        out[:, :, kind - 1, 0] = torch.einsum("bhqk,bqk->bh", rows, seen.to(p.dtype))
        out[:, :, kind - 1, 1] = (there & seen.any(-1)[:, None]).sum(-1).to(p.dtype)
    if not layout.comparable:
        return out
    near = torch.zeros_like(rows[..., 0]), torch.zeros_like(rows[..., 0])  # what is seen, and how many
    for place, (down, right) in enumerate((down, right) for down in side for right in side):
        probability = block.at_step(down, right).where(there, torch.nan)
        known = ~probability.isnan()
        probability = probability.nan_to_num(0)
        near = near[0] + probability, near[1] + known
        out[:, :, place + 2, 0], out[:, :, place + 2, 1] = probability.sum(-1), known.sum(-1).to(p.dtype)
    patches = ~layout.places[:, 0].isnan()
    seen = see(marks[:, 0] & patches) & patches[None, here, None]
    masses = torch.einsum("bhqk,bqk->bhq", rows, seen.to(p.dtype)) - near[0]
    beyond = there & (seen.sum(-1)[:, None] > near[1])
    out[:, :, -1, 0] = masses.clamp_min(0).where(beyond, 0).sum(-1)
    out[:, :, -1, 1] = beyond.sum(-1).to(p.dtype)
    return out


def average_places(places: Tensor, layout: Layout) -> Tensor:
    """Divide what was found by the queries that could find it; undefined where none could.

    Returns:
        (batch, head, cell), in the order of the columns.
    """
    import torch

    total, queries = places.unbind(-1)
    return (total / queries).where(queries > 0, torch.nan)


def tabulate_places(statistic: Statistic, sums: Clustered, build: TableBuilder) -> None:
    """Append a column for each offset, and for what lies beside and beyond, each with its error."""
    patches = sums.count.shape[-1] != 2 * REACH + 5
    average, error = sums.average, sums.standard_error
    for place, (name, title) in enumerate(list_offsets(patches=patches)):
        build.measure(
            f"{statistic.name}_{name}",
            statistic.unit,
            average[..., place],
            error[..., place],
            headline=name in _HEADLINES,
            title=title,
        )


PROFILE = Statistic(
    "profile", "share", add_up_places, average_places, scope="layer", columns=tabulate_places,
    family=FAMILY, title="attention by offset",
)  # fmt: skip
