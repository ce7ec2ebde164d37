"""Products of the logits of heads, and rows weighted by how much each key carries."""

import numba
import numpy as np
import torch
from torch import Tensor

from attnprobe.kernels.rows import FAST, LANES, can_run_compiled, run_over_rows

#: Queries whose products are added up in one go; what threads share.
STRETCH = 16


def find_lowest_visible(kind: torch.dtype) -> float:
    """Find the score below which a key is masked: masks put the lowest number of the type, or -inf."""
    return torch.finfo(kind).min / 2


@numba.njit(inline="always", fastmath=FAST)
def _centre(x, least, out):  # noqa: ANN001, ANN202
    """Fill ``out`` with x less its mean over the keys that are seen, 0 for others; count those."""
    lowest = x[0]
    total = np.float32(0)
    for k in range(x.shape[0]):
        lowest = min(lowest, x[k])
        total += x[k]
    if lowest > least:
        mean = total / np.float32(x.shape[0])
        for k in range(x.shape[0]):
            out[k] = x[k] - mean
        return np.int32(x.shape[0])
    total = np.float32(0)
    seen = np.int32(0)
    for k in range(x.shape[0]):
        if x[k] > least:
            total += x[k]
            seen += np.int32(1)
    mean = total / np.float32(max(seen, 1))
    for k in range(x.shape[0]):
        out[k] = x[k] - mean if x[k] > least else np.float32(0)
    return seen


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _product_rows(scores, asks, sinks, least, stretch, start, stop, out):  # noqa: ANN001, ANN202
    _, heads, queries, keys = scores.shape
    width = -(-keys // LANES) * LANES
    rows = np.zeros((heads, width), np.float32)
    most = np.int64(0)
    for b in range(sinks.shape[0]):
        most = max(most, sinks[b].sum())
    ends = np.zeros((heads, most + 1), np.float32)
    places = np.zeros(most, np.int64)
    stretches = -(-queries // stretch)
    for row in range(start, stop):
        b, part = divmod(row, stretches)
        number = 0
        for k in range(keys):
            if sinks[b, k]:
                places[number] = k
                number += 1
        for q in range(part * stretch, min(queries, (part + 1) * stretch)):
            if not asks[b, q]:
                continue
            seen = np.int32(0)
            held = np.int32(0)
            for h in range(heads):
                x = scores[b, h, q]
                seen = _centre(x, least, rows[h])
                held = np.int32(0)
                rest = np.float32(0)
                for s in range(number):
                    value = rows[h, places[s]]
                    ends[h, s] = value
                    rest += value
                    held += np.int32(1) if x[places[s]] > least else np.int32(0)
                # Centred, the keys that are no sinks add up to the opposite of those that are.
                ends[h, number] = rest
            others = np.float32(1) / np.float32(max(seen - held, 1))
            for i in range(heads):
                for j in range(i, heads):
                    total = np.float32(0)
                    for k in range(width):
                        total += rows[i, k] * rows[j, k]
                    out[b, part, 0, i, j] += total
                    at_ends = np.float32(0)
                    for s in range(number):
                        at_ends += ends[i, s] * ends[j, s]
                    at_ends += ends[i, number] * ends[j, number] * others
                    out[b, part, 1, i, j] += at_ends


def _products_torch(scores: Tensor, asks: Tensor, sinks: Tensor) -> Tensor:
    seen = (scores > find_lowest_visible(scores.dtype)) & asks[:, None, :, None]
    x = scores.double().where(seen, 0.0)
    count = seen.sum(-1, keepdim=True)
    x = (x - x.sum(-1, keepdim=True) / count.clamp(min=1)).where(seen, 0.0)
    at_ends = x * sinks[:, None, None]
    others = (count - (seen & sinks[:, None, None]).sum(-1, keepdim=True)).clamp(min=1)
    rest = at_ends.sum(-1, keepdim=True) / others.double().sqrt()
    flat = x.flatten(2)
    held = torch.cat([at_ends, rest], -1).flatten(2)
    return torch.stack([side @ side.transpose(1, 2) for side in (flat, held)], 1)


def logit_products(scores: Tensor, asks: Tensor, sinks: Tensor) -> Tensor:
    """Multiply the centred logits of every two heads, over some queries and all keys that they see.

    With s_gqk the score of head g, less its mean over the keys that query q sees:

        C_gh = sum_q sum_k s_gqk s_hqk

    and N_gh, what C_gh is on average where the keys that are no sinks come in a random order, drawn anew for
    every head and query. With S the sinks that q sees and m the number of other keys that it sees:

        N_gh = sum_q ( sum_{k in S} s_gqk s_hqk + (sum_{k in S} s_gqk) (sum_{k in S} s_hqk) / m )

    since the logits of the other keys add up to the opposite of those of the sinks.

    Args:
        scores: (batch, head, query, key) what the softmax is taken of.
        asks: (batch, query) the queries that count.
        sinks: (batch, key) the keys that stay where they are.

    Returns:
        (batch, 2, head, head) C and N in float64. N is meant for two heads, not for one with itself.
    """
    batch, heads, queries, _ = scores.shape
    if not can_run_compiled(scores):
        return _products_torch(scores, asks, sinks)
    stretches = -(-queries // STRETCH)
    out = torch.zeros(batch, stretches, 2, heads, heads, dtype=torch.float64)
    inputs = (
        scores.contiguous().numpy(),
        asks.contiguous().numpy(),
        sinks.contiguous().numpy(),
        np.float32(find_lowest_visible(scores.dtype)),
        STRETCH,
    )
    run_over_rows(_product_rows, batch * stretches, *inputs, out=(out.numpy(),))
    upper = out.sum(1)
    return upper + upper.triu(1).transpose(2, 3)


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
    if not (can_run_compiled(p) and can_run_compiled(lengths)):
        return _weighted_torch(p, lengths.to(p.dtype))
    if room is None or room.numel() < p.numel():
        room = torch.empty(p.numel())
    out = room[: p.numel()].view(p.shape)
    carried = torch.empty(p.shape[:3])
    inputs = p.contiguous().numpy(), lengths.contiguous().numpy()
    run_over_rows(_weighted_rows, carried.numel(), *inputs, out=(out.numpy(), carried.numpy()))
    return out, carried
