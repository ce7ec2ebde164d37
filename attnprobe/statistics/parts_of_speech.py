"""Attention to words of each part of speech, where a treebank says what words are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from attnprobe.statistics.roles import FAMILY
from attnprobe.statistics.statistic import Statistic, mean_and_error
from attnprobe.sums.groups import Clustered
from attnprobe.table.builder import TableBuilder

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock
    from attnprobe.attention.layout import Layout


#: The parts of speech of Universal Dependencies, without punctuation, which is a delimiter.
PARTS = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "SCONJ",
    "SYM", "VERB", "X",
)  # fmt: skip


def mark_parts(layout: Layout) -> Tensor:
    """Mark the tokens of the keys' words of each part of speech, boolean (part, batch, key)."""
    import torch

    found = torch.zeros(len(PARTS), *layout.keys.kept.shape, dtype=torch.bool)
    numbers = {part: number for number, part in enumerate(PARTS)}
    for sequence, said in enumerate(layout.annotations):
        if said is None:
            continue
        words, parts = (said.words, said.parts_of_speech) if said.keys is None else (
            said.keys, said.key_parts_of_speech
        )  # fmt: skip
        for word, part in zip(words, parts, strict=False):
            if part in numbers:
                found[numbers[part], sequence, word.start : word.stop] = True
    return found.to(layout.keys.kept.device) & layout.keys.kept


def _count_parts(layout: Layout) -> tuple[Tensor, Tensor]:
    """Give the marks as (batch, key, part), and what uniform attention gives each, (batch, query, part)."""
    import torch

    marks = layout.once(mark_parts)
    seen = torch.stack([layout.seen(one) for one in marks], -1) / layout.visible[..., None]
    return marks.permute(1, 2, 0), seen.expand(-1, layout.queries.length, -1)


def part_of_speech_excess(block: AttentionBlock) -> Tensor:
    """Attention to words of a part of speech, beyond uniform: (m - s/n) / (1 - s/n), averaged over queries.

    m = sum of p_j over the s of n keys in sight that are tokens of such a word, by a treebank. A query counts
    where it sees some of them, and others. A table names the parts of speech that a head attends to.

    Limits: 0 for uniform attention, 1 where all of it is on such words, below 0 where they get less than from
    uniform attention.

    Source: Vig and Belinkov (2019), who give the share of all attention that a part of speech
    gets.

    Returns:
        (batch, head, part, 2): the sum over the queries, and how many count.
    """
    import torch

    layout, here = block.layout, slice(block.offset, block.offset + block.probabilities.shape[2])
    marks, uniform = layout.once(_count_parts)
    uniform = uniform[:, None, here].to(block.probabilities.dtype)
    mass = block.probabilities @ marks[:, None].to(block.probabilities.dtype)
    there = (uniform > 0) & (uniform < 1) & layout.queries.asking[:, None, here, None] & ~mass.isnan()
    beyond = ((mass - uniform) / (1 - uniform)).where(there, 0)
    return torch.stack([beyond.sum(2), there.to(mass.dtype).sum(2)], -1)


def average_parts(found: Tensor, _: Layout) -> Tensor:
    """Divide by the queries that count: (batch, head, part), NaN where none does."""
    return found[..., 0] / found[..., 1]


def _columns_of_parts(statistic: Statistic, found: Clustered, build: TableBuilder) -> None:
    """Append a column for each part of speech."""
    for number, part in enumerate(PARTS):
        mean_and_error(replace(statistic, name=name_column(part)), found[..., number], build)


def name_column(part: str) -> str:
    """Name the column of a part of speech.

    >>> name_column("DET")
    'part_of_speech_excess_det'
    """
    return f"{part_of_speech_excess.__name__}_{part.lower()}"


PART_OF_SPEECH = Statistic(
    "part_of_speech_excess", "share", part_of_speech_excess, average_parts, scope="layer",
    columns=_columns_of_parts, family=FAMILY, title="attention to a part of speech, beyond uniform", order=16,
)  # fmt: skip
