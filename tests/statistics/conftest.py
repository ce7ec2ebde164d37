"""Attention made by hand, and the way from a block to the number of a sequence."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from block_parts import DRAWN_PARTS, of_queries
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.kinds import Observed
from attnprobe.attention.layout import Layout
from attnprobe.attention.tokens import Modalities, TokenAnnotation, TokenFeatures, TokenLink, TokenSpan
from attnprobe.statistics import Statistic

Marks = tuple[int, ...]
#: Numbers that a head gives to a token.
WIDTH = 5


def make_features(
    length: int, *, batch: int = 1, first: Marks = (), separator: Marks = (), punctuation: Marks = (),
    rare: Marks = (), rank: list[int] | None = None, order: list[int] | None = None,
    content_only: bool = False,
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
        rare=marked(rare).float(),
        kept=~special if content_only else torch.ones_like(special),
        rank=ranks,
        order=ranks if order is None else torch.tensor([order] * batch),
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
        return AttentionBlock(rows, Layout.of(make_features(rows.shape[-1], **marks)))

    return make


@pytest.fixture(scope="session")
def shown() -> Callable[[Statistic, AttentionBlock], AttentionBlock]:
    """Give a statistic what the engine would: what counts, weighted where it asks for that."""
    return as_shown


def as_shown(statistic: Statistic, block: AttentionBlock) -> AttentionBlock:
    """Weight by lengths that grow with the position of a key, so that heads and sequences are alike."""
    block = block.restricted()
    if statistic.weights == "attention":
        return block
    batch, heads, _, keys = block.probabilities.shape
    return block.by_norm(torch.linspace(0.5, 2, keys).expand(batch, heads, keys))


@pytest.fixture(scope="session")
def number() -> Callable[[Statistic, AttentionBlock], Tensor]:
    """Take a statistic all the way to the sequences, as the engine does: (batch, head, ...)."""

    def ask(statistic: Statistic, whole: AttentionBlock) -> Tensor:
        return statistic.reduce_sequences(statistic.evaluate(as_shown(statistic, whole)), whole.layout)

    return ask


@pytest.fixture(scope="session")
def pieced() -> Callable[[Statistic, AttentionBlock, tuple[int, ...]], Tensor]:
    """Ask about whole sequences block by block, cut before some queries, as the engine does."""

    def ask(statistic: Statistic, whole: AttentionBlock, cuts: tuple[int, ...]) -> Tensor:
        pieces = [
            as_shown(statistic, of_queries(whole, start, stop))
            for start, stop in pairwise((0, *cuts, whole.layout.queries.length))
        ]
        if statistic.scope in {"map", "model"}:  # has to see whole maps
            together = torch.cat([piece.probabilities for piece in pieces], 2)
            return statistic.evaluate(AttentionBlock(together, whole.layout))
        parts = [statistic.evaluate(piece) for piece in pieces]
        return torch.cat(parts, 2) if statistic.scope == "query" else torch.stack(parts).sum(0)

    return ask


def draw_features(
    generator: torch.Generator, batch: int, length: int, *, content_only: bool
) -> TokenFeatures:
    """Draw tokens with every feature in each sequence, all different."""
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
    rank[:, 5:] = rank[:, :-5].where(~special[:, 5:] & ~special[:, :-5], rank[:, 5:])  # tokens come again
    image = no.clone()  # some of the ordinary tokens, with others before and behind them
    for sequence in range(batch):
        image[sequence, (~special[sequence]).nonzero().ravel()[[2, 4]]] = True
    mixed = Modalities(image, ~no, torch.arange(length).expand(batch, length).contiguous())
    return TokenFeatures(
        first, separator, punctuation, ~(special | punctuation), (rare & ~special).float(),
        ~special if content_only else ~no, rank, rank, mixed=mixed,
    )  # fmt: skip


def draw_annotation(generator: torch.Generator, length: int) -> TokenAnnotation:
    """Draw words of one token or two between the first and the last, and a tree; one is punctuation."""

    def draw(most: int) -> int:
        return int(torch.randint(most, (1,), generator=generator))

    starts = [1]
    while starts[-1] < length - 2:
        starts.append(starts[-1] + 1 + (draw(4) == 0))
    words = [TokenSpan(*ends) for ends in pairwise([*starts[:-1], length - 1])]
    mark = draw(len(words) - 3) + 3
    heads = {word: draw(word if word < mark else 3) for word in range(1, len(words))}
    return TokenAnnotation(
        tuple(words),
        tuple(
            TokenLink(words[word], words[head], "punct" if word == mark else "obj")
            for word, head in heads.items()
        ),
        parts_of_speech=tuple(DRAWN_PARTS[place % len(DRAWN_PARTS)] for place in range(len(words))),
    )


@pytest.fixture(scope="session")
def drawn() -> Callable[..., AttentionBlock]:
    """Draw a block of whole sequences of some kind of attention."""

    def draw(
        batch: int = 3,
        heads: int = 4,
        length: int = 11,
        *,
        content_only: bool = False,
        kind: str = "encoder",
        seed: int = 0,
    ) -> AttentionBlock:
        generator = torch.Generator().manual_seed(seed)
        queries = length + 2 if kind == "cross" else length
        asking, evaluate = (
            torch.randn(batch, heads, number, WIDTH, generator=generator) for number in (queries, length)
        )
        scores = 2 * asking @ evaluate.transpose(2, 3) / WIDTH**0.5
        tokens = draw_features(generator, batch, length, content_only=content_only)
        layout = Layout.of(tokens, causal=kind == "decoder")
        if kind == "cross":
            layout = Layout(draw_features(generator, batch, queries, content_only=content_only), tokens)
        if kind == "decoder":
            ahead = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(ahead, -torch.inf)
        layout = replace(layout, annotations=tuple(draw_annotation(generator, length) for _ in range(batch)))
        values = torch.randn(batch, heads, length, WIDTH, generator=generator)
        projection = torch.randn(heads, WIDTH, heads * WIDTH, generator=generator)
        rows = scores.softmax(-1)
        observed = Observed(
            scores=scores,
            values=values,
            outputs=rows @ values,
            queries=asking,
            keys=evaluate,
            projection=projection,
            unembedding=None
            if kind == "cross"
            else torch.randn(batch, length, heads * WIDTH, generator=generator),
        )
        return AttentionBlock(rows, layout, 0, observed)

    return draw
