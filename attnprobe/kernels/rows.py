"""Everything about a single attention row that one pass over its keys can give."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numba
import numpy as np
import torch
from torch import Tensor

from attnprobe.kernels.compiled import FAST, LANES, bits_of, can_run_compiled, run_over_rows, x_log2_x


@dataclass(frozen=True)
class RowSummary:
    """What one pass over the keys of each row gives; each tensor is (batch, head, query).

    Attributes:
        entropy: -sum p ln p, in nats.
        maximum: The largest probability of the row.
        argmax: The first key that has it.
        distance: sum p |query - key|, in tokens.
        masses: (feature, batch, head, query), the probability on the keys of each feature.
    """

    entropy: Tensor
    maximum: Tensor
    argmax: Tensor
    distance: Tensor
    masses: Tensor


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _summary_rows(p, features, apart, offset, start, stop, out, argmax):  # noqa: ANN001, ANN202
    """Fill out[:, b, h, q] with entropy, maximum, distance, masses; p is (b, h, q, k)."""
    _, heads, queries, keys = p.shape
    count, width = features.shape[1], features.shape[2]
    middle = apart.shape[0] // 2
    padded = np.zeros(width, np.float32)
    for row in range(start, stop):
        bh, q = divmod(row, queries)
        b, h = divmod(bh, heads)
        if keys == width:
            x = p[b, h, q]
        else:
            padded[:keys] = p[b, h, q]
            x = padded

        entropy, distance = np.float32(0), np.float32(0)
        # Floats that are not negative sort like their bits, and an integer maximum vectorises.
        best = np.int32(0)
        ramp = apart[middle - offset - q :]
        for k in range(width):
            entropy -= x_log2_x(x[k])
            distance += x[k] * ramp[k]
            best = max(best, bits_of(x[k]))
        out[0, b, h, q] = max(entropy, np.float32(0)) * np.float32(math.log(2))

        where = np.int32(width - 1)
        for k in range(width):
            where = min(where, np.int32(k) if bits_of(x[k]) == best else np.int32(width - 1))
        # A row of NaN (nothing left to attend to) may be a negative one, and then the zeros won.
        lost = math.isnan(entropy)
        out[1, b, h, q] = entropy if lost else x[where]
        argmax[b, h, q] = 0 if lost else where

        out[2, b, h, q] = distance

        for f in range(count):
            mass = np.float32(0)
            indicator = features[b, f]
            for k in range(width):
                mass += x[k] * indicator[k]
            out[3 + f, b, h, q] = mass


@lru_cache(maxsize=8)
def _distances(longest: int) -> np.ndarray:
    """List |j| for j from -longest to longest."""
    return np.abs(np.arange(-longest, longest + 1)).astype(np.float32)


def _summary_torch(p: Tensor, features: Tensor, offset: int) -> RowSummary:
    """Compute the same with torch."""
    queries = torch.arange(offset, offset + p.shape[2], device=p.device)
    keys = torch.arange(p.shape[3], device=p.device)
    apart = (queries[:, None] - keys).abs().to(p.dtype)
    maximum, argmax = p.max(-1)
    return RowSummary(
        entropy=torch.special.entr(p).sum(-1).clamp_min(0),
        maximum=maximum,
        argmax=argmax,
        distance=torch.einsum("bhqk,qk->bhq", p, apart),
        masses=torch.einsum("bhqk,bfk->fbhq", p, features.to(p.dtype)),
    )


def summarise_rows(p: Tensor, features: Tensor, offset: int) -> RowSummary:
    """Summarise every attention row in one pass.

    Args:
        p: Attention rows (batch, head, query, key), each summing to 1 (or all NaN).
        features: Indicators of keys (batch, feature, key), 0 or 1.
        offset: The position in the sequence of the first query.

    Returns:
        A RowSummary; see there for formulas and units.
    """
    if not can_run_compiled(p):
        return _summary_torch(p, features, offset)
    batch, heads, queries, keys = p.shape
    width = -(-keys // LANES) * LANES
    padded = torch.zeros(batch, features.shape[1], width)
    padded[..., :keys] = features
    out = torch.empty(3 + features.shape[1], batch, heads, queries)
    argmax = torch.empty(batch, heads, queries, dtype=torch.int64)
    rows = batch * heads * queries
    apart = _distances(1 << max(width, offset + queries).bit_length())
    inputs = (p.contiguous().numpy(), padded.numpy(), apart, offset)
    run_over_rows(_summary_rows, rows, *inputs, out=(out.numpy(), argmax.numpy()))
    return RowSummary(out[0], out[1], argmax, out[2], out[3:])
