"""Every two heads: Jensen-Shannon divergence, of one model or two, and products of their logits."""

import math

import numba
import numpy as np
import torch
from torch import Tensor

from attnprobe.kernels.rows import FAST, LANES, can_run_compiled, log2, run_over_rows


@numba.njit(inline="always", fastmath=FAST)
def _halves(p, b, q, rows, terms):  # noqa: ANN001, ANN202 - numba infers the types
    """Fill rows[h, k] with p / 2 for each probability p of a query, and terms[h, k] with half of p log2 p.

    The sum of two halves is their mean; zeros fill each row up to whole vectors, without a scalar loop.
    """
    for h in range(p.shape[1]):
        for k in range(p.shape[3]):
            x = np.float32(0.5) * p[b, h, q, k]
            rows[h, k] = x
            terms[h, k] = x * log2(x + x)


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _divergence_rows(p, r, same, numbered, start, stop, out):  # noqa: ANN001, ANN202
    """Fill out[b, q, pair] with divergences of heads of p from those of r: all, its equal, or later ones."""
    _, heads, queries, keys = p.shape
    others = r.shape[1]
    width = -(-keys // LANES) * LANES
    rows, terms = np.zeros((heads, width), np.float32), np.zeros((heads, width), np.float32)
    other_rows, other_terms = rows, terms
    if not same:
        other_rows, other_terms = np.zeros((others, width), np.float32), np.zeros((others, width), np.float32)
    for row in range(start, stop):
        b, q = divmod(row, queries)
        _halves(p, b, q, rows, terms)
        if not same:
            _halves(r, b, q, other_rows, other_terms)
        pair = 0
        for g in range(heads):
            for h in range(g if numbered else g + 1 if same else 0, g + 1 if numbered else others):
                # Key by key the difference is small, and so is what float32 loses of it.
                total = np.float32(0)
                for k in range(width):
                    middle = rows[g, k] + other_rows[h, k]
                    total += (terms[g, k] + other_terms[h, k]) - middle * log2(middle)
                out[b, q, pair] = max(total, np.float32(0)) * np.float32(math.log(2))
                pair += 1


def _diverge_heads(p: Tensor, r: Tensor, *, numbered: bool = False) -> Tensor:
    """Compute divergences (batch, pair, query): of all heads of p and r, of equal ones, or within r is p."""
    same, (batch, heads, queries, _), others = r is p, p.shape, r.shape[1]
    if can_run_compiled(p) and can_run_compiled(r):
        pairs = heads if numbered else heads * (heads - 1) // 2 if same else heads * others
        out = torch.empty(batch, queries, pairs)
        inputs = p.contiguous().numpy(), r.contiguous().numpy(), same, numbered
        run_over_rows(_divergence_rows, batch * queries, *inputs, out=(out.numpy(),))
        return out.transpose(1, 2)
    ours, theirs = (torch.special.entr(rows).sum(-1) / 2 for rows in (p, r))
    half_p, half_r = p / 2, r / 2
    parts = [p.new_empty(batch, 0, queries)]
    for g in range(heads):
        those = slice(g, g + 1) if numbered else slice(g + 1 if same else 0, None)
        middle = half_p[:, g : g + 1] + half_r[:, those]
        torch.special.entr(middle, out=middle)  # in place: what a GPU waits for is memory
        parts.append(middle.sum(-1) - ours[:, g : g + 1] - theirs[:, those])
    return torch.cat(parts, 1).clamp_min(0)


def pairwise_divergence(p: Tensor) -> Tensor:
    """Compute the Jensen-Shannon divergence of every pair of heads, for every query.

    JSD(a, b) = H((p_a + p_b) / 2) - (H(p_a) + H(p_b)) / 2, in nats, from 0 to ln 2, of attention rows (batch,
    head, query, key), each summing to 1: (batch, pair, query), the pairs in the order of
    ``itertools.combinations(range(heads), 2)``.

    References:
        Lin, J. (1991). Divergence measures based on the Shannon entropy. Clark et al. (2019),
        section 6, applies it to heads.

    >>> pairwise_divergence(torch.eye(2).view(1, 2, 1, 2))
    tensor([[[0.6931]]])
    """
    return _diverge_heads(p, p)


#: Divergences below this, in nats, are rounding: equal rows give exactly 0.
ROUNDING = 1e-7


def bound_rounding(dtype: torch.dtype) -> float:
    """Bound the divergence, in nats, that rounding alone may put between two heads that attend alike.

    Sums over keys are in float32 whatever the model computes in, and logits of a size of 4 that rounding
    moves by d = 4 eps move the divergence by d^2 / 8, to second order.
    """
    return max(8 * torch.finfo(torch.float32).eps, 2 * torch.finfo(dtype).eps ** 2)


def divergence_between(p: Tensor, r: Tensor, *, numbered: bool = False) -> Tensor:
    """Compute the Jensen-Shannon divergence of heads of one model from heads of another, for every query.

    Both attend to the same keys, (batch, head, query, key). What float32 can't tell from 0 is 0.

    Returns:
        (batch, head * other heads + other head, query); if ``numbered``, of heads of the same number alone,
        (batch, head, query).
    """
    values = _diverge_heads(p, r, numbered=numbered)
    return values.masked_fill_(values < ROUNDING, 0)


def find_lowest_visible(kind: torch.dtype) -> float:
    """Find the score below which a key is masked: masks put the lowest number of the type, or -inf."""
    return torch.finfo(kind).min / 2


@numba.njit(inline="always", fastmath=FAST)
def _centre(x, least, out):  # noqa: ANN001, ANN202
    """Fill ``out`` with x less its mean over the keys above ``least``, 0 for others; give their number."""
    lowest, total = x[0], np.float32(0)
    for k in range(x.shape[0]):
        lowest = min(lowest, x[k])
        total += x[k]
    if lowest > least:
        mean = total / np.float32(x.shape[0])
        for k in range(x.shape[0]):
            out[k] = x[k] - mean
        return np.int32(x.shape[0])
    total, seen = np.float32(0), np.int32(0)
    for k in range(x.shape[0]):
        if x[k] > least:
            total += x[k]
            seen += np.int32(1)
    mean = total / np.float32(max(seen, 1))
    for k in range(x.shape[0]):
        out[k] = x[k] - mean if x[k] > least else np.float32(0)
    return seen


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _product_rows(scores, asks, sinks, least, start, stop, out):  # noqa: ANN001, ANN202
    """Add C and N of ``logit_products`` to out[b, 0] and out[b, 1], for i <= j; rows are sequences b."""
    _, heads, queries, keys = scores.shape
    width = -(-keys // LANES) * LANES
    rows = np.zeros((heads, width), np.float32)
    most = np.int64(0)
    for b in range(sinks.shape[0]):
        most = max(most, sinks[b].sum())
    ends = np.zeros((heads, most + 1), np.float32)
    places = np.zeros(most, np.int64)
    for b in range(start, stop):
        number = 0
        for k in range(keys):
            if sinks[b, k]:
                places[number] = k
                number += 1
        for q in range(queries):
            if not asks[b, q]:
                continue
            seen = held = np.int32(0)
            for h in range(heads):
                x = scores[b, h, q]
                seen = _centre(x, least, rows[h])
                held, rest = np.int32(0), np.float32(0)
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
                    out[b, 0, i, j] += total
                    at_ends = np.float32(0)
                    for s in range(number):
                        at_ends += ends[i, s] * ends[j, s]
                    at_ends += ends[i, number] * ends[j, number] * others
                    out[b, 1, i, j] += at_ends


def _products_torch(scores: Tensor, asks: Tensor, sinks: Tensor) -> Tensor:
    """Compute in torch what ``logit_products`` returns."""
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
    every head and query. With S the sinks that q sees and m the number of other keys that it sees, whose
    logits add up to the opposite of those of the sinks:

        N_gh = sum_q ( sum_{k in S} s_gqk s_hqk + (sum_{k in S} s_gqk) (sum_{k in S} s_hqk) / m )

    ``scores`` (batch, head, query, key) are what the softmax is taken of, ``asks`` (batch, query) the queries
    that count, ``sinks`` (batch, key) the keys that stay. C and N come as (batch, 2, head, head) in float64;
    N is meant for two heads, not for one with itself.
    """
    batch, heads = scores.shape[:2]
    if not can_run_compiled(scores):
        return _products_torch(scores, asks, sinks)
    out = torch.zeros(batch, 2, heads, heads, dtype=torch.float64)
    arrays = [part.contiguous().numpy() for part in (scores, asks, sinks)]
    least = np.float32(find_lowest_visible(scores.dtype))
    run_over_rows(_product_rows, batch, *arrays, least, out=(out.numpy(),))
    return out + out.triu(1).transpose(2, 3)
