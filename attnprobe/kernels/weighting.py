"""Rows of attention weighted by how much each key carries, and made to sum to 1 again."""

import numba
import numpy as np
import torch
from torch import Tensor

from attnprobe.kernels.logarithm import FAST
from attnprobe.kernels.parallel import compiled_for, over_rows

#: A row that carries less than this carries nothing: the smallest float32 of full precision.
NOTHING = float(np.finfo(np.float32).tiny)


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _weighted_rows(p, lengths, start, stop, out, carried):  # noqa: ANN001, ANN202 - numba infers the types
    """Fill out[b, h, q, k] and carried[b, h, q] for the rows ``start <= (b * H + h) * Q + q < stop``."""
    _, heads, queries, keys = p.shape
    least = np.float32(NOTHING)
    for row in range(start, stop):
        bh, q = divmod(row, queries)
        b, h = divmod(bh, heads)
        rows, each, found = p[b, h, q], lengths[b, h], out[b, h, q]
        total = np.float32(0)
        for k in range(keys):
            weight = rows[k] * each[k]
            found[k] = weight
            total += weight
        if total >= least:
            # One rounding more than a quotient, and a row of one key must not come to more than 1.
            scale = np.float32(1) / total
            for k in range(keys):
                found[k] = min(found[k] * scale, np.float32(1))
            carried[b, h, q] = total
        else:
            carried[b, h, q] = np.float32(0) if total < least else total  # a row of NaN stays one
            for k in range(keys):
                found[k] = np.float32(np.nan)


def _weighted_torch(p: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the same with torch."""
    rows = p * lengths[:, :, None]
    carried = rows.sum(-1)
    carried = torch.where(carried < NOTHING, 0, carried)
    return rows.div_(carried.where(carried > 0, torch.nan)[..., None]).clamp_(max=1), carried


def weigh_rows(p: Tensor, lengths: Tensor, room: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Weight every row by the lengths of its keys, and divide it by its sum.

    w_ij = p_ij l_j / c_i, with c_i = sum_j p_ij l_j. The rows of a head that carries nothing, of which
    c_i is 0, are NaN.

    Args:
        p: Attention rows (batch, head, query, key).
        lengths: What each key carries (batch, head, key), 0 or more.
        room: Memory for the compiled loop to write the rows to, if it is large enough.

    Returns:
        The rows (batch, head, query, key) and c_i (batch, head, query).

    >>> rows, carried = weigh_rows(torch.tensor([[[[0.5, 0.5]]]]), torch.tensor([[[1.0, 3.0]]]))
    >>> rows.tolist(), carried.tolist()
    ([[[[0.25, 0.75]]]], [[[2.0]]])
    """
    if not (compiled_for(p) and compiled_for(lengths)):
        return _weighted_torch(p, lengths.to(p.dtype))
    if room is None or room.numel() < p.numel():
        room = torch.empty(p.numel())
    out = room[: p.numel()].view(p.shape)
    carried = torch.empty(p.shape[:3])
    inputs = p.contiguous().numpy(), lengths.contiguous().numpy()
    over_rows(_weighted_rows, carried.numel(), *inputs, out=(out.numpy(), carried.numpy()))
    return out, carried
