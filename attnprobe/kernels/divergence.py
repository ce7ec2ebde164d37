"""Jensen-Shannon divergence between every two heads, query by query."""

import math

import numba
import numpy as np
import torch
from torch import Tensor

from attnprobe.kernels.logarithm import FAST, LANES, log2
from attnprobe.kernels.parallel import compiled_for, over_rows


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _divergence_rows(p, start, stop, out):  # noqa: ANN001, ANN202 - numba infers the types
    """Fill out[b, q, pair] for the rows ``start <= b * Q + q < stop``; p is (b, h, q, k)."""
    _, heads, queries, keys = p.shape
    half = np.float32(0.5)
    # The heads of one query lie far apart in p; side by side they fit the first cache. Zeros fill
    # each row up to whole vectors: they add nothing, and no row ends in a slow scalar loop.
    width = -(-keys // LANES) * LANES
    rows = np.zeros((heads, width), np.float32)
    terms = np.zeros((heads, width), np.float32)
    for row in range(start, stop):
        b, q = divmod(row, queries)
        for h in range(heads):
            # Half a probability: the sum of two is then their mean, without a product in the hot loop.
            for k in range(keys):
                x = half * p[b, h, q, k]
                rows[h, k] = x
                terms[h, k] = x * log2(x + x)
        pair = 0
        for i in range(heads):
            for j in range(i + 1, heads):
                # Key by key the difference is small, and so is what float32 loses of it.
                total = np.float32(0)
                for k in range(width):
                    middle = rows[i, k] + rows[j, k]
                    total += (terms[i, k] + terms[j, k]) - middle * log2(middle)
                out[b, q, pair] = max(total, np.float32(0)) * np.float32(math.log(2))
                pair += 1


def _divergence_torch(p: Tensor) -> Tensor:
    """Compute the same with torch, one head against all later ones at a time."""
    negentropy = torch.special.xlogy(p, p).sum(-1)
    pairs = []
    for i in range(p.shape[1] - 1):
        middle = 0.5 * (p[:, i : i + 1] + p[:, i + 1 :])
        ends = 0.5 * (negentropy[:, i : i + 1] + negentropy[:, i + 1 :])
        pairs.append(ends - torch.special.xlogy(middle, middle).sum(-1))
    return torch.cat(pairs, 1).clamp_min(0) if pairs else p.new_empty(p.shape[0], 0, p.shape[2])


def pairwise_divergence(p: Tensor) -> Tensor:
    """Compute the Jensen-Shannon divergence of every pair of heads, for every query.

    JSD(a, b) = H((p_a + p_b) / 2) - (H(p_a) + H(p_b)) / 2, in nats, from 0 to ln 2. Pairs run
    in the order of ``itertools.combinations(range(heads), 2)``.

    Args:
        p: Attention rows (batch, head, query, key), each row summing to 1.

    Returns:
        Divergences (batch, pair, query).

    References:
        Lin, J. (1991). Divergence measures based on the Shannon entropy. Clark et al. (2019),
        section 6, applies it to heads.

    >>> pairwise_divergence(torch.eye(2).view(1, 2, 1, 2))
    tensor([[[0.6931]]])
    """
    batch, heads, queries, _ = p.shape
    if not compiled_for(p):
        return _divergence_torch(p)
    out = torch.empty(batch, queries, heads * (heads - 1) // 2)
    over_rows(_divergence_rows, batch * queries, p.contiguous().numpy(), out=(out.numpy(),))
    return out.transpose(1, 2)
