"""What a head does where tokens come a second time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import nan
from typing import TYPE_CHECKING

from attnprobe.statistics.positional import PREVIOUS
from attnprobe.statistics.statistic import Family, Statistic, add_mean_and_error, mean_over_queries
from attnprobe.statistics.tabulation import Tabulation, head_table
from attnprobe.sums.base import Measurement
from attnprobe.sums.clustered import Clustered
from attnprobe.table.builder import Labels, TableBuilder, measure_columns
from attnprobe.table.table import HeadTable

if TYPE_CHECKING:
    from attnprobe.statistics.statistic import AttentionBlock, Layout, Tensor


FAMILY = Family("induction", "heads on random tokens, repeated", 6, commands=("induction",))


def copying(block: AttentionBlock) -> Tensor:
    """Whether a head raises the logit of the attended token more than those of other tokens.

    By attending to key j, head h raises the logit of token t by u_t . W_O,h v_j, with u_t the row of the
    unembedding after the final norm. The logits of the sequence's other tokens t are raised less or more than
    that of the key's token:

        s_j = share raised less - share raised more
        copying = mean over queries i of  sum_j p_ij s_j / sum_j p_ij,  over ordinary keys j

    Only the direct path to the logits counts: later layers, and the nonlinearity in the head of a masked
    language model, are left out, and norms count with their gains at a fixed scale.

    Limits: -1 to 1; 0 by chance, 1 if the attended token is always raised most, -1 if always least. Undefined
    in the encoder of an encoder-decoder model, and from decoder to encoder.

    Source: after Olsson et al. (2022), who sum the raised logits; Elhage et al. (2021) use eigenvalues of the
    same circuit.
    """
    import torch

    raising, order = block.observed.unembedding, block.layout.keys.order
    if raising is None:
        return block.probabilities.new_full(block.probabilities.shape[:3], nan)
    ordinary = (order >= 0) & block.layout.keys.kept
    same = order[:, :, None] == order[:, None]
    once = ordinary & ~same.tril(-1).any(-1)  # each token counts once, though it may come again
    others = ~same & once[:, None]
    by_head = torch.einsum("bkd,hwd->bhkw", raising, block.projection.to(raising.dtype))
    raised = block.values.to(raising.dtype) @ by_head.transpose(2, 3)
    ahead = (raised.diagonal(dim1=2, dim2=3)[..., None] - raised).sign()
    score = (ahead * others[:, None]).sum(-1) / others.sum(-1)[:, None]
    weights = block.probabilities * ordinary[:, None, None]
    mass = (weights @ score[..., None].to(weights.dtype))[..., 0]
    return mass / weights.sum(-1)


def of_ordinary(values: Tensor, layout: Layout) -> Tensor:
    """Average over the queries that are ordinary tokens."""
    return mean_over_queries(values, layout, layout.queries.order >= 0)


_define = partial(Statistic, family=FAMILY, headline=True)
COPYING = _define(
    "copying", "share of other tokens, net", copying, of_ordinary, order=3,
    needs={"values", "projection", "unembedding"}, title="logit of the token looked at, ahead of others",
)  # fmt: skip


def earlier(block: AttentionBlock) -> Tensor:
    """Find the nearest key before each query with the same ordinary token, (batch, query); -1 for none.

    From decoder to encoder, and wherever else places don't compare, there is none.
    """
    import torch

    asking, answering = block.layout.queries.order[:, block.span], block.layout.keys.order
    if not block.layout.comparable:
        return torch.full_like(asking, -1)
    places = torch.arange(answering.shape[1], device=answering.device)
    same = (asking[:, :, None] == answering[:, None]) & (asking >= 0)[:, :, None]
    same &= places < places[block.span, None]
    return torch.where(same, places, -1).amax(-1)


def _look_at(block: AttentionBlock, behind: int) -> Tensor:
    """Read p of the key ``behind`` places after that of ``earlier``, (batch, head, query); NaN for none."""
    before = earlier(block)
    place = (before + behind).clamp(min=0)
    there = (before >= 0) & block.layout.keys.kept.gather(1, place)
    place = place[:, None, :, None].expand(*block.probabilities.shape[:3], 1)
    return block.probabilities.gather(3, place)[..., 0].where(there[:, None], nan)


def induction(block: AttentionBlock) -> Tensor:
    """Prefix matching: attention to the token that followed the previous occurrence of the query's token.

    With j the nearest position before query i with the same token, it is p_{i,j+1}, averaged over the queries
    that have such a j. In u + r + r, with r of P tokens, these are the P queries of the second r, and the
    score is p_{i,i-P+1}, less the attention from the same positions to the same positions when the second r
    has other tokens. P is drawn for each sequence, so that no head scores by a fixed distance.

    Limits: -1 to 1; 0 for attention that ignores content, such as uniform attention or a fixed distance; 1
    for a head that always looks there. Undefined from decoder to encoder.

    Source: Olsson et al. (2022), In-context learning and induction heads. The head detector of
    TransformerLens (Nanda and Bloom 2022) has a fixed period and subtracts nothing.
    """
    return _look_at(block, 1)


def duplicate(block: AttentionBlock) -> Tensor:
    """Attention to the previous occurrence of the query's token.

    With j the nearest position before query i with the same token, it is p_{i,j}. In u + r + r, it is
    p_{i,i-P}, averaged over the P queries of the second r, less the same when the second r has other tokens.

    Limits: -1 to 1; 0 for attention that ignores content. Undefined from decoder to encoder.

    Source: Wang et al. (2023), Interpretability in the wild, on duplicate token heads; TransformerLens as for
    induction.
    """
    return _look_at(block, 0)


def previous_again(block: AttentionBlock) -> Tensor:
    """Attention to the token before, p_{i,i-1}, if the query's token occurred before: column ``previous``.

    It is averaged over the same queries as ``induction``, and nothing is subtracted. Random tokens form no
    phrases, so a high score is about position.

    Limits: 0 to 1; about 1/n for uniform attention to n keys. From decoder to encoder it is undefined.

    Source: Olsson et al. (2022); the head detector of TransformerLens (Nanda and Bloom 2022).
    """
    return block.at_offset(-1).where((earlier(block) >= 0)[:, None], nan)


def add_as_previous(statistic: Statistic, sums: Clustered, build: TableBuilder) -> None:
    add_mean_and_error(replace(statistic, name=PREVIOUS.name), sums, build)


INDUCTION = _define(
    "induction", "share", induction, title="attention to what came after the same token",
    beyond_baseline=True, version=2,
)  # fmt: skip
DUPLICATE = _define(
    "duplicate", "share", duplicate, title="attention to the same token before", beyond_baseline=True,
    version=2, order=1,
)  # fmt: skip
PREVIOUS_AGAIN = _define(
    "previous_again", "share", previous_again, columns=add_as_previous, version=2, order=2,
    title="mean attention to the previous token, in a copy",
)  # fmt: skip


def induction_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate heads; columns of copying, and all columns from decoder to encoder, may be empty."""
    table = head_table(title, measurement, statistics, labels)
    if COPYING.name in table.data:
        return table
    more = measure_columns(COPYING.name, COPYING.unit)
    data = {**table.data, **{column.name: [nan] * len(table) for column in more}}
    reason = labels.provenance.get("asked", {}).get("no copying")
    notes = [f"{COPYING.name} is empty: {reason}."] if reason else []
    return replace(table, columns=[*table.columns, *more], data=data, notes=[*notes, *table.notes])


REPEATED = Tabulation("head, on repeated tokens", induction_table, FAMILY.title)
