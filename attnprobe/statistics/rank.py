"""Ranks of heads: of their weights, their logits and their maps."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from attnprobe.statistics.mixing import at_least_float32
from attnprobe.statistics.statistic import Family, Statistic, add_mean_and_error
from attnprobe.statistics.tabulation import Tabulation, head_table
from attnprobe.sums.clustered import Clustered
from attnprobe.table.builder import TableBuilder

if TYPE_CHECKING:
    from attnprobe.attention.kinds import HeadParameters
    from attnprobe.statistics.statistic import AttentionBlock, Layout, Tensor


FAMILY = Family("rank", "rank of heads", 9, commands=("rank",))


def participation_rank(left: Tensor, right: Tensor) -> Tensor:
    """Participation rank (sum s^2)^2 / sum s^4 of X Y^T, from X^T X and Y^T Y; NaN where X Y^T is 0.

    The squares of its singular values s are the eigenvalues of X^T X Y^T Y: their sum is the trace of that,
    and the sum of their squares the trace of its square. r equal singular values give r.
    """
    import torch

    product = left @ right
    once = product.diagonal(dim1=-2, dim2=-1).sum(-1, dtype=torch.float64)
    twice = (product * product.transpose(-2, -1)).sum((-2, -1), dtype=torch.float64)
    return once.square() / twice


def qk_rank(weights: HeadParameters) -> Tensor:
    """Participation rank (sum s^2)^2 / sum s^4 of W_Q,h W_K,h^T, s its singular values.

    It depends on the weights alone, without biases, rotary positions or text.

    Limits: 1 to the width of the head. Undefined where it is 0.

    Source: as for the rank of the logits; Bhojanapalli et al. (2020) on W_Q W_K^T.
    """
    return participation_rank(*_squares(weights))


def qk_top_half(weights: HeadParameters) -> Tensor:
    """Share of sum s^2 in the upper half of the singular values s of W_Q,h W_K,h^T: the largest ceil(w/2).

    A head of half the width w could keep this share of W_Q,h W_K,h^T.

    Limits: 0.5 (all equal, w even) to 1. Undefined if W_Q,h W_K,h^T is 0.

    Source: Eckart and Young (1936), The approximation of one matrix by another of lower rank.
    """
    import torch

    queries, keys = _squares(weights)
    values, vectors = torch.linalg.eigh(queries)
    root = vectors * values.clamp_min(0).sqrt()[:, None]
    squares = torch.linalg.eigvalsh(root.transpose(1, 2) @ keys @ root).clamp_min(0)  # s^2, ascending
    width = squares.shape[1]
    return squares[:, width // 2 :].sum(1) / squares.sum(1)


def _squares(weights: HeadParameters) -> tuple[Tensor, Tensor]:
    """Multiply W_Q,h by itself and W_K,h by itself over the model width, (head, width, width)."""
    queries, keys = weights.queries.double(), weights.keys.double()
    return queries @ queries.transpose(1, 2), keys @ keys.transpose(1, 2)


_define = partial(Statistic, family=FAMILY)
QK_RANK = _define(
    "qk_rank", "ratio", qk_rank, scope="parameters", title="rank of the query-key weights", order=2
)
QK_TOP_HALF = _define(
    "qk_top_half", "share", qk_top_half, scope="parameters", headline=True, order=3,
    title="share of the query-key weights in half the width",
)  # fmt: skip


def multiply_sides(block: AttentionBlock) -> Tensor:
    """Compute Q^T Q of these queries and, in the first block, K^T K of all keys, for the rank of the logits.

    The mean of the keys is subtracted, since it adds one constant to a whole row, which a softmax ignores.
    Keys that a causal model hides from a query count too.
    """
    # Of heads side by side, a copy costs less than products of what lies apart.
    rows = (
        at_least_float32(block.queries).contiguous() * block.layout.queries.asking[:, None, block.span, None]
    )
    squares = rows.new_zeros(*rows.shape[:2], 2, rows.shape[3], rows.shape[3])
    squares[:, :, 0] = rows.transpose(2, 3) @ rows
    if block.offset == 0:
        keys, side = at_least_float32(block.keys).contiguous(), block.layout.keys
        # Keys that are all alike become 0 exactly, whatever their mean is rounded to.
        first = side.kept.byte().argmax(1)[:, None, None, None].expand(-1, keys.shape[1], 1, keys.shape[3])
        kept = side.kept[:, None, :, None].to(keys.dtype)
        keys = (keys - keys.gather(2, first)) * kept
        keys = (keys - keys.sum(2, keepdim=True) / kept.sum(2, keepdim=True).clamp_min(1)) * kept
        squares[:, :, 1] = keys.transpose(2, 3) @ keys
    return squares


def logit_rank(squares: Tensor, layout: Layout) -> Tensor:
    """Participation rank (sum s^2)^2 / sum s^4 of the row-centred logits Q (K - mean K)^T of a sequence.

    It is the number of directions that the logits use, each weighted by its size. Position biases, soft caps
    and masks are not in it. ``logit_rank_share`` divides it by its maximum, min(d_k, queries, keys - 1), with
    d_k the width of the head.

    Limits: 1 to min(d_k, queries, keys - 1), the share up to 1. Undefined for a single key, or if no query
    prefers any key.

    Source: Bhojanapalli et al. (2020), Low-rank bottleneck in multi-head attention models, on rank and width;
    Gao and Ganguli (2015), On simplicity and complexity in the brave new world of large-scale neuroscience.
    """
    import torch

    # Dividing each by its size changes no rank, and keeps squares of large numbers within single precision.
    size = squares.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    rank = participation_rank(*(squares / size.where(size > 0, 1.0)).unbind(2))
    sides = layout.queries.asking.sum(1), layout.keys.kept.sum(1) - 1
    largest = torch.minimum(*sides).clamp_max(squares.shape[-1])[:, None].to(rank)
    rank = rank.where(largest > 0, nan)
    return torch.stack([rank, rank / largest], -1).to(squares.dtype)


def longer(squares: Tensor, layout: Layout) -> Tensor:
    """Share of sequences with more counted keys than the head has dimensions, n > d_k.

    Only then can the width d_k (``head_width``) limit the maps of a head, since logits have at most that
    rank.

    Limits: 0 to 1. Undefined if no key counts.

    Source: Bhojanapalli et al. (2020), theorem 1.
    """
    import torch

    width = squares.new_full((), squares.shape[-1])
    count = layout.keys.kept.sum(1)
    more = (count > squares.shape[-1]).to(squares.dtype).where(count > 0, nan)
    return torch.stack([width.expand_as(more), more], -1)[:, None].expand(-1, squares.shape[1], -1)


def _add_width_and_longer(statistic: Statistic, sums: Clustered, build: TableBuilder) -> None:
    # NaN stands for removed heads, without rows.
    build.count("head_width", np.nan_to_num(sums.average[..., 0]))
    add_mean_and_error(statistic, sums[..., 1], build)


def _add_rank_and_share(statistic: Statistic, sums: Clustered, build: TableBuilder) -> None:
    add_mean_and_error(statistic, sums[..., 0], build)
    name, title = f"{statistic.name}_share", "share of the width that the logits use"
    share = replace(statistic, name=name, unit="share", title=title, headline=True)
    add_mean_and_error(share, sums[..., 1], build)


_define_of_logits = partial(_define, function=multiply_sides, scope="layer", needs=("queries", "keys"))
LONGER = _define_of_logits(
    "longer", "share", reduce=longer, columns=_add_width_and_longer,
    title="sequences longer than the head is wide",
)  # fmt: skip
LOGIT_RANK = _define_of_logits(
    "logit_rank", "ratio", reduce=logit_rank, columns=_add_rank_and_share, title="rank of the logits", order=1
)


def map_rank(block: AttentionBlock) -> Tensor:
    """Participation rank (tr G)^2 / tr G^2 of a head's map P, with G = P P^T over the queries that count.

    Limits: 1 if all queries attend alike, the number of queries if no two attend to the same key.

    Source: as for the rank of the logits; Bhojanapalli et al. (2020) on which maps a head can represent.
    """
    import torch

    ranks = []
    for head in block.probabilities.unbind(1):  # one at a time: G is as large as the map
        # A query whose keys all don't count has no row.
        rows = head.where(block.layout.queries.asking[..., None], 0.0).nan_to_num()
        turned = rows.transpose(1, 2)
        few = rows @ turned if rows.shape[1] <= rows.shape[2] else turned @ rows  # the same trace either way
        once, twice = (
            torch.linalg.vector_norm(part, dim=(1, 2), dtype=torch.float64) for part in (rows, few)
        )
        ranks.append(((once.square() / twice) ** 2).to(rows.dtype))
    return torch.stack(ranks, 1)


MAP_RANK = _define(
    "map_rank", "ratio", map_rank, scope="map", title="rank of the map", headline=True, order=4
)
RANK = Tabulation("head, with ranks", head_table, FAMILY.title)
