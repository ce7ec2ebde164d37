"""Whether a head finds a token that was there before, or the one that came after it."""

from dataclasses import replace

import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.statistics.induction import FAMILY
from attnprobe.statistics.positional.neighbours import previous
from attnprobe.statistics.statistic import Statistic, mean_and_error
from attnprobe.sums.clustered import Clustered
from attnprobe.table.builder import TableBuilder


def earlier(block: AttentionBlock) -> Tensor:
    """Find the nearest token before each query that is the same token, (batch, query); -1 where none is.

    Special tokens are never the same. From decoder to encoder no token comes before another.

    >>> from attnprobe.attention.block import uniform_block
    >>> block = uniform_block(length=3)  # of one token, three times
    >>> earlier(block)
    tensor([[-1,  0,  1]])
    """
    rows = slice(block.offset, block.offset + block.probabilities.shape[2])
    asking, asked = block.layout.queries.order[:, rows], block.layout.keys.order
    if not block.layout.comparable:
        return torch.full_like(asking, -1)
    places = torch.arange(asked.shape[1], device=asked.device)
    same = (asking[:, :, None] == asked[:, None]) & (asking >= 0)[:, :, None]
    same &= places < places[rows, None]
    return torch.where(same, places, -1).amax(-1)


def _looked_at(block: AttentionBlock, places: Tensor, there: Tensor) -> Tensor:
    """Read the probability of one key for each query, (batch, head, query); NaN where there is none."""
    batch, heads, queries, _ = block.probabilities.shape
    known = places.clamp(min=0)
    there = there & block.layout.keys.kept.gather(1, known)
    found = block.probabilities.gather(3, known[:, None, :, None].expand(batch, heads, queries, 1))
    return found[..., 0].where(there[:, None], torch.nan)


def induction(block: AttentionBlock) -> Tensor:
    """Prefix matching: probability of the token that came after the query's token when it came before.

    With j the nearest place before query i at which the same token stands, p_{i,j+1}. It is averaged over
    the queries that have such a j. In u + r + r, where r are P different tokens and the same again, these
    are the P queries of the second r, j = i - P, and the score is p_{i,i-P+1}, less what the same queries
    give to the same places where other tokens stand in the second r. P is drawn for each sequence, so that
    no head scores by its distance.

    Limits: -1 to 1; 0 for attention that knows no content, as uniform attention or a fixed distance, and 1
    for a head that always looks there. From decoder to encoder it is undefined.

    Source: Olsson et al. (2022), In-context learning and induction heads: an induction head matches a prefix
    and copies. The head detector of TransformerLens (Nanda and Bloom 2022) has a fixed period and subtracts
    nothing.
    """
    before = earlier(block)
    return _looked_at(block, before + 1, before >= 0)


def duplicate(block: AttentionBlock) -> Tensor:
    """Probability of the query's own token where it came before.

    With j the nearest place before query i at which the same token stands, p_{i,j}. In u + r + r, where r
    are P different tokens and the same again, it is p_{i,i-P}, averaged over the P queries of the second r,
    less what they give to that place where other tokens stand in the second r.

    Limits: -1 to 1; 0 for attention that knows no content. From decoder to encoder it is undefined.

    Source: Wang et al. (2023), Interpretability in the wild, on duplicate token heads; the head detector of
    TransformerLens (Nanda and Bloom 2022) has a fixed period and subtracts nothing.
    """
    before = earlier(block)
    return _looked_at(block, before, before >= 0)


def previous_again(block: AttentionBlock) -> Tensor:
    """Probability of the token before, p_{i,i-1}, where the query's token came before: column ``previous``.

    It is averaged over the same queries as ``induction``: in u + r + r, those of the second r. In random
    tokens there is no phrase to follow, so that a high score is about places; nothing is subtracted.

    Limits: 0 to 1; about 1/n for uniform attention to n keys. From decoder to encoder it is undefined.

    Source: Olsson et al. (2022); the head detector of TransformerLens (Nanda and Bloom 2022).
    """
    return previous(block).where((earlier(block) >= 0)[:, None], torch.nan)


def as_previous(statistic: Statistic, found: Clustered, build: TableBuilder) -> None:
    """Append mean and error as ``previous``: the statistic of that name is about any text."""
    mean_and_error(replace(statistic, name=previous.__name__), found, build)


INDUCTION = Statistic(
    "induction", "share", induction, family=FAMILY,
    title="attention to what came after the same token", headline=True, beyond_baseline=True, version=2,
)  # fmt: skip
DUPLICATE = Statistic(
    "duplicate", "share", duplicate, family=FAMILY,
    title="attention to the same token before", headline=True, beyond_baseline=True, version=2, order=1,
)  # fmt: skip
PREVIOUS_AGAIN = Statistic(
    "previous_again", "share", previous_again, columns=as_previous, family=FAMILY,
    title="attention to the previous token, in a copy", headline=True, version=2, order=2,
)  # fmt: skip
