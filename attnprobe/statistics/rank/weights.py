"""How much of its width a head's weights use: of W_Q W_K^T, whatever the text."""

import torch
from torch import Tensor

from attnprobe.attention.parameters import HeadParameters
from attnprobe.statistics.rank import FAMILY
from attnprobe.statistics.rank.participation import participation_rank
from attnprobe.statistics.statistic import Statistic


def qk_rank(weights: HeadParameters) -> Tensor:
    """Participation rank (sum s^2)^2 / sum s^4 of W_Q,h W_K,h^T, s its singular values.

    Of the weights alone: biases, rotations of queries and keys by their position and the text are not in it.

    Limits: 1 to the width of the head. Undefined where it is 0.

    Source: Bhojanapalli et al. (2020), Low-rank bottleneck in multi-head attention models, on W_Q W_K^T; the
    participation ratio as for the rank of the logits.

    Returns:
        (head,)
    """
    return participation_rank(*_squares(weights))


def qk_top_half(weights: HeadParameters) -> Tensor:
    """Share of sum s^2 in the upper half of the singular values s of W_Q,h W_K,h^T: the largest ceil(w/2).

    A head of half the width could keep so much of W_Q,h W_K,h^T, w the width.

    Limits: 0.5 (all alike, w even) to 1. Undefined where W_Q,h W_K,h^T is 0.

    Source: Eckart and Young (1936), The approximation of one matrix by another of lower rank.

    Returns:
        (head,)
    """
    queries, keys = _squares(weights)
    values, vectors = torch.linalg.eigh(queries)
    root = vectors * values.clamp_min(0).sqrt()[:, None]
    found = torch.linalg.eigvalsh(root.transpose(1, 2) @ keys @ root).clamp_min(0)  # s^2, ascending
    width = found.shape[1]
    return found[:, width // 2 :].sum(1) / found.sum(1)


def _squares(weights: HeadParameters) -> tuple[Tensor, Tensor]:
    """Multiply W_Q,h by itself and W_K,h by itself over the model width, (head, width, width) in float64."""
    queries, keys = weights.queries.double(), weights.keys.double()
    return queries @ queries.transpose(1, 2), keys @ keys.transpose(1, 2)


QK_RANK = Statistic(
    "qk_rank", "ratio", qk_rank, scope="parameters", family=FAMILY,
    title="rank of the query-key weights", order=2,
)  # fmt: skip
QK_TOP_HALF = Statistic(
    "qk_top_half", "share", qk_top_half, scope="parameters", family=FAMILY,
    title="share of the query-key weights in half the width", headline=True, order=3,
)  # fmt: skip
