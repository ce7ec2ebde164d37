"""Attention made by hand, and the way from a block to the number of a sequence."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from attnprobe.attention import AttentionBlock, TokenFeatures
from attnprobe.statistics import Statistic

Marks = tuple[int, ...]


def make_features(
    length: int, *, batch: int = 1, first: Marks = (), separator: Marks = (), punctuation: Marks = (),
    rare: Marks = (), rank: list[int] | None = None, content_only: bool = False,
) -> TokenFeatures:  # fmt: skip
    """Mark tokens by their position; the same in every sequence of the batch."""

    def marked(places: Marks) -> Tensor:
        marks = torch.zeros(batch, length, dtype=torch.bool)
        marks[:, list(places)] = True
        return marks

    special = marked((*first, *separator))
    ranks = torch.tensor([rank or list(range(length))] * batch).masked_fill(special, -1)
    return TokenFeatures(
        first=marked(first),
        separator=marked(separator),
        punctuation=marked(punctuation),
        other=~(special | marked(punctuation)),
        rare=marked(rare),
        kept=~special if content_only else torch.ones_like(special),
        rank=ranks,
    )


@pytest.fixture(scope="session")
def features() -> Callable[..., TokenFeatures]:
    """Mark tokens by their position."""
    return make_features


@pytest.fixture(scope="session")
def block() -> Callable[..., AttentionBlock]:
    """Make a block (batch 1) of heads from rows (query, key) that need not sum to 1."""

    def make(*heads: Tensor, **marks: object) -> AttentionBlock:
        rows = torch.stack([head.float() / head.float().sum(-1, keepdim=True) for head in heads])[None]
        return AttentionBlock(rows, make_features(rows.shape[-1], **marks))

    return make


@pytest.fixture(scope="session")
def number() -> Callable[[Statistic, AttentionBlock], Tensor]:
    """Take a statistic all the way to the sequences, as the engine does: (batch, head, ...)."""

    def ask(statistic: Statistic, whole: AttentionBlock) -> Tensor:
        return statistic.reduce(statistic.per_query(whole.restricted()), whole.tokens)

    return ask


@pytest.fixture(scope="session")
def drawn() -> Callable[..., AttentionBlock]:
    """Draw a block of whole sequences with every feature in each sequence, all different."""

    def draw(
        batch: int = 3, heads: int = 4, length: int = 11, *, content_only: bool = False, seed: int = 0
    ) -> AttentionBlock:
        generator = torch.Generator().manual_seed(seed)
        scores = 2 * torch.randn(batch, heads, length, length, generator=generator)
        no = torch.zeros(batch, length, dtype=torch.bool)
        first, separator, punctuation, rare = no.clone(), no.clone(), no.clone(), no.clone()
        first[:, 0] = separator[:, -1] = True
        for sequence in range(batch):
            inside = torch.randperm(length - 2, generator=generator) + 1
            punctuation[sequence, inside[:2]] = True
            rare[sequence, inside[2:4]] = True
            separator[sequence, inside[4]] = sequence % 2 == 0
        special = first | separator
        rank = torch.randint(900, (batch, length), generator=generator).masked_fill(special, -1)
        rank[:, 3] = torch.where(special[:, 3], -1, 950)
        tokens = TokenFeatures(
            first, separator, punctuation, ~(special | punctuation), rare & ~special,
            ~special if content_only else ~no, rank,
        )  # fmt: skip
        return AttentionBlock(scores.softmax(-1), tokens)

    return draw
