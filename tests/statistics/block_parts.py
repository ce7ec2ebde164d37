"""Parts of a block drawn by hand: some queries, sequences or heads of it, or all of it in float64."""

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.kinds import Observed
from attnprobe.attention.layout import Layout
from attnprobe.attention.tokens import TokenFeatures

#: Parts of what is observed beside probabilities that go with queries, and that go with the model.
OF_QUERIES, OF_MODEL = {"scores", "outputs", "queries"}, {"projection"}

#: Parts of speech of words that are drawn, in turn.
DRAWN_PARTS = ("DET", "NOUN", "VERB")


def _observed(whole: AttentionBlock, change: Callable[[str, Tensor], Tensor]) -> Observed:
    """Change everything that was observed beside probabilities."""
    there = {name: part for name, part in vars(whole.observed).items() if part is not None}
    return replace(whole.observed, **{name: change(name, part) for name, part in there.items()})


def build_uniform_block(length: int, *, heads: int = 1) -> AttentionBlock:
    """Build attention that prefers nothing, to tokens of which nothing is special."""
    no, rank = torch.zeros(1, length, dtype=torch.bool), torch.zeros(1, length, dtype=torch.long)
    tokens = TokenFeatures(no, no, no, ~no, no.float(), ~no, rank, rank)
    return AttentionBlock(torch.full((1, heads, length, length), 1 / length), Layout.of(tokens))


def of_queries(whole: AttentionBlock, start: int, stop: int) -> AttentionBlock:
    """Take some queries of whole sequences."""
    observed = _observed(whole, lambda name, part: part[:, :, start:stop] if name in OF_QUERIES else part)
    return AttentionBlock(whole.probabilities[:, :, start:stop], whole.layout, start, observed)


def of_sequences(whole: AttentionBlock, start: int, stop: int) -> AttentionBlock:
    """Take some sequences of a batch."""
    observed = _observed(whole, lambda name, part: part if name in OF_MODEL else part[start:stop])
    return AttentionBlock(whole.probabilities[start:stop], whole.layout.rows(start, stop), 0, observed)


def of_heads(whole: AttentionBlock, order: list[int]) -> AttentionBlock:
    """Take heads in another order."""
    kept = {"unembedding"}  # which tokens have, and heads don't
    observed = _observed(
        whole,
        lambda name, part: part if name in kept else part[order] if name in OF_MODEL else part[:, order],
    )
    return AttentionBlock(whole.probabilities[:, order], whole.layout, 0, observed)


def in_double(whole: AttentionBlock) -> AttentionBlock:
    """Give the same in float64."""
    observed = _observed(whole, lambda _, part: part.double())
    return AttentionBlock(whole.probabilities.double(), whole.layout, 0, observed)


def in_every_way(**values: Sequence[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Repeat a test for all combinations of some values, within one test; a failure says for which.

    What takes a millisecond costs several as a test of its own.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def repeated(*given: Any, **fixtures: Any) -> None:
            for way in itertools.product(*values.values()):
                chosen = dict(zip(values, way, strict=True))
                try:
                    test(*given, **fixtures, **chosen)
                except Exception as error:
                    error.add_note(f"with {chosen}")
                    raise

        signature = inspect.signature(test)
        parameters = [one for name, one in signature.parameters.items() if name not in values]
        repeated.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return repeated

    return decorate
