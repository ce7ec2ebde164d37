"""Jensen-Shannon divergence between heads, query by query: of one model, or of two."""

import math
from collections.abc import Iterable

import numba
import numpy as np
import torch
from torch import Tensor

from attnprobe.kernels.rows import FAST, LANES, can_run_compiled, log2, run_over_rows


@numba.njit(inline="always", fastmath=FAST)
def _halves(p, b, q, rows, terms):  # noqa: ANN001, ANN202 - numba infers the types
    """Put half of each probability of a query side by side, and beside it what it adds to the entropy."""
    _, heads, _, keys = p.shape
    half = np.float32(0.5)
    for h in range(heads):
        # Half a probability: the sum of two is then their mean, without a product in the hot loop.
        for k in range(keys):
            x = half * p[b, h, q, k]
            rows[h, k] = x
            terms[h, k] = x * log2(x + x)


@numba.njit(inline="always", fastmath=FAST)
def _apart(rows, terms, i, other_rows, other_terms, j, width):  # noqa: ANN001, ANN202
    # Key by key the difference is small, and so is what float32 loses of it.
    total = np.float32(0)
    for k in range(width):
        middle = rows[i, k] + other_rows[j, k]
        total += (terms[i, k] + other_terms[j, k]) - middle * log2(middle)
    return max(total, np.float32(0)) * np.float32(math.log(2))


# The heads of one query lie far apart in p; side by side they fit the first cache. Zeros fill each row up to
# whole vectors: they add nothing, and no row ends in a slow scalar loop.


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _divergence_rows(p, start, stop, out):  # noqa: ANN001, ANN202
    """Fill out[b, q, pair] for the rows ``start <= b * Q + q < stop``; p is (b, h, q, k)."""
    _, heads, queries, keys = p.shape
    width = -(-keys // LANES) * LANES
    rows = np.zeros((heads, width), np.float32)
    terms = np.zeros((heads, width), np.float32)
    for row in range(start, stop):
        b, q = divmod(row, queries)
        _halves(p, b, q, rows, terms)
        pair = 0
        for i in range(heads):
            for j in range(i + 1, heads):
                out[b, q, pair] = _apart(rows, terms, i, rows, terms, j, width)
                pair += 1


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _between_rows(p, r, numbered, start, stop, out):  # noqa: ANN001, ANN202
    """Fill out[b, q, ...] between heads of p (b, g, q, k) and of r (b, h, q, k): of one number, or all."""
    _, heads, queries, keys = p.shape
    others = r.shape[1]
    width = -(-keys // LANES) * LANES
    rows, terms = np.zeros((heads, width), np.float32), np.zeros((heads, width), np.float32)
    other_rows, other_terms = np.zeros((others, width), np.float32), np.zeros((others, width), np.float32)
    for row in range(start, stop):
        b, q = divmod(row, queries)
        _halves(p, b, q, rows, terms)
        _halves(r, b, q, other_rows, other_terms)
        for g in range(heads):
            if numbered:
                out[b, q, g] = _apart(rows, terms, g, other_rows, other_terms, g, width)
            else:
                for h in range(others):
                    pair = g * others + h
                    out[b, q, pair] = _apart(rows, terms, g, other_rows, other_terms, h, width)


def _divergence_torch(p: Tensor, r: Tensor, others: Iterable[slice]) -> Tensor:
    ours = torch.special.xlogy(p, p).sum(-1)
    theirs = ours if r is p else torch.special.xlogy(r, r).sum(-1)
    found = [p.new_empty(p.shape[0], 0, p.shape[2])]
    for head, some in enumerate(others):
        middle = 0.5 * (p[:, head : head + 1] + r[:, some])
        ends = 0.5 * (ours[:, head : head + 1] + theirs[:, some])
        found.append(ends - torch.special.xlogy(middle, middle).sum(-1))
    return torch.cat(found, 1)


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
    if not can_run_compiled(p):
        return _divergence_torch(p, p, (slice(head + 1, None) for head in range(heads))).clamp_min(0)
    out = torch.empty(batch, queries, heads * (heads - 1) // 2)
    run_over_rows(_divergence_rows, batch * queries, p.contiguous().numpy(), out=(out.numpy(),))
    return out.transpose(1, 2)


#: Divergences below this, in nats, are rounding: equal rows give exactly 0.
ROUNDING = 1e-7


def bound_rounding(dtype: torch.dtype) -> float:
    """Bound the divergence, in nats, that rounding alone may put between two heads that attend alike.

        max(8 eps(float32), 2 eps(dtype)^2)

    Sums over keys are in float32, whatever the model computes in. Where rounding moves the logits of a row by
    d at most, its divergence is at most d^2 / 8, to second order; d is 4 eps for logits of a size of 4.
    """
    return max(8 * torch.finfo(torch.float32).eps, 2 * torch.finfo(dtype).eps ** 2)


def divergence_between(p: Tensor, r: Tensor, *, numbered: bool = False) -> Tensor:
    """Compute the Jensen-Shannon divergence of heads of one model from heads of another, for every query.

    The formula is that of ``pairwise_divergence``; both models attend to the same keys. What float32 can't
    tell from 0 is 0.

    Args:
        p: Attention rows of the one (batch, head, query, key).
        r: Of the other (batch, other head, query, key).
        numbered: Compare heads of the same number only; both then have as many.

    Returns:
        Divergences (batch, head * other heads + other head, query); if ``numbered``, (batch, head, query).

    >>> divergence_between(torch.eye(2).view(1, 2, 1, 2), torch.eye(2).view(1, 2, 1, 2))
    tensor([[[0.0000],
             [0.6931],
             [0.6931],
             [0.0000]]])
    """
    batch, heads, queries, _ = p.shape
    if not (can_run_compiled(p) and can_run_compiled(r)):
        others = (slice(head, head + 1) if numbered else slice(None) for head in range(heads))
        found = _divergence_torch(p, r, others)
        return found.masked_fill(found < ROUNDING, 0)
    out = torch.empty(batch, queries, heads if numbered else heads * r.shape[1])
    inputs = p.contiguous().numpy(), r.contiguous().numpy(), numbered
    run_over_rows(_between_rows, batch * queries, *inputs, out=(out.numpy(),))
    return out.masked_fill_(out < ROUNDING, 0).transpose(1, 2)
