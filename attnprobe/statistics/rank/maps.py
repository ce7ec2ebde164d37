"""How many different rows a head's map is made of."""

import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.statistics.rank import FAMILY
from attnprobe.statistics.statistic import Statistic


def map_rank(block: AttentionBlock) -> Tensor:
    """Participation rank (tr G)^2 / tr G^2 of a head's map P, with G = P P^T over the queries that count.

    Limits: 1 where all queries look alike, the number of queries where no two look at the same key.

    Source: Bhojanapalli et al. (2020), Low-rank bottleneck in multi-head attention models, on which maps a
    head can draw; the participation ratio as for the rank of the logits.

    Returns:
        (batch, head)
    """
    rows, kept = block.probabilities, block.layout.queries.kept[:, None, :, None]
    # A head at a time: G is as large as the map.
    return torch.stack([_of_head(head, kept) for head in rows.split(1, 1)], 1)


def _of_head(rows: Tensor, kept: Tensor) -> Tensor:
    rows = rows.where(kept, 0.0).nan_to_num()[:, 0]  # a query whose keys all don't count has no row
    turned = rows.transpose(1, 2)
    few = rows @ turned if rows.shape[1] <= rows.shape[2] else turned @ rows  # the same trace either way
    once = torch.linalg.vector_norm(rows, dim=(1, 2), dtype=torch.float64).square()
    twice = torch.linalg.vector_norm(few, dim=(1, 2), dtype=torch.float64).square()
    return (once.square() / twice).to(rows.dtype)


MAP_RANK = Statistic(
    "map_rank", "ratio", map_rank, scope="map", family=FAMILY,
    title="rank of the map", headline=True, order=4,
)  # fmt: skip
