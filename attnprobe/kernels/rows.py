"""Loops over attention rows, compiled: spread over threads, with an x log2 x that can be vectorised."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.polynomial import Chebyshev, Polynomial
from torch import Tensor

#: Rows are filled up with zeros to a multiple of this many float32, a vector of AVX-512.
LANES = 16
#: LLVM may reorder sums and fuse multiply-adds, but must still honour NaN and infinity. Such a loop calls no
#: compiled function that is not always inlined, or the order of sums would depend on what lies in the cache.
FAST = {"reassoc", "contract", "arcp", "nsz"}

#: log2(1 + f) / f over one binade, lowest power first.
FITTED = Chebyshev.interpolate(
    lambda f: np.log1p(f) / (f * math.log(2)), 6, domain=[math.sqrt(0.5) - 1, math.sqrt(2) - 1]
).convert(kind=Polynomial)
C0, C1, C2, C3, C4, C5, C6 = map(np.float32, FITTED.coef)
#: The bits of sqrt(1/2), where a binade begins here.
BINADE = np.int32(0x3F3504F3)
MANTISSA = np.int32(23)


def _reinterpret(source: Any, target: Any, bits: ir.Type) -> Callable[[Any], Any]:
    """Make a function that reads the bits of one 32-bit type as another, at no cost."""

    def typed(_context, value):  # noqa: ANN001, ANN202 - numba's own protocol
        def generate(_context, builder, _signature, arguments):  # noqa: ANN001, ANN202
            return builder.bitcast(arguments[0], bits)

        return target(source), generate

    return intrinsic(typed)  # type: ignore[arg-type]


bits_of = _reinterpret(types.float32, types.int32, ir.IntType(32))
float_of = _reinterpret(types.int32, types.float32, ir.FloatType())


@numba.njit(inline="always")
def log2(x: np.float32) -> np.float32:
    """Compute log2 x for a float32 x > 0; finite at 0, so that 0 log2 0 = 0."""
    bits = bits_of(x)
    # numba widens integer arithmetic to 64 bits, which halves the vectors, unless told each time.
    exponent = np.int32(np.int32(bits - BINADE) >> MANTISSA)
    f = float_of(np.int32(bits - np.int32(exponent << MANTISSA))) - np.float32(1)
    g = ((((((C6 * f + C5) * f + C4) * f + C3) * f + C2) * f + C1) * f) + C0
    return np.float32(exponent) + f * g


#: Fewer rows than this are not worth handing to another thread.
WORTH_SHARING = 64


def can_run_compiled(p: Tensor) -> bool:
    """Tell whether the compiled loops take a tensor; torch computes the rest."""
    return p.device.type == "cpu" and p.dtype == torch.float32 and not p.requires_grad


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="attnprobe")


def run_over_rows(
    loop: Callable[..., None], rows: int, *inputs: np.ndarray | np.floating | int, out: tuple[np.ndarray, ...]
) -> None:
    """Call ``loop(*inputs, start, stop, *out)`` in threads, each for its part of ``rows`` and ``out``."""
    threads = min(torch.get_num_threads(), rows // WORTH_SHARING)
    if threads <= 1:
        loop(*inputs, 0, rows, *out)
        return
    cuts = pairwise(rows * i // threads for i in range(threads + 1))
    pool = _pool(torch.get_num_threads())
    for future in [pool.submit(loop, *inputs, start, stop, *out) for start, stop in cuts]:
        future.result()


@dataclass(frozen=True)
class RowSummary:
    """What one pass over the keys of each row gives; each tensor is (batch, head, query), of floats."""

    entropy: Tensor  # -sum p ln p, in nats
    maximum: Tensor
    argmax: Tensor  # the first key that has the maximum; NaN in a row of NaN
    distance: Tensor  # sum p |query - key|, in tokens
    masses: tuple[Tensor, ...]  # for each feature, the probability on its keys


class LazySummary:
    """A ``RowSummary`` in plain torch: each tensor is computed by itself, when it is read."""

    def __init__(self, p: Tensor, features: Tensor, offset: int) -> None:
        self._p, self._features, self._offset = p, features, offset

    @cached_property
    def entropy(self) -> Tensor:
        return torch.special.entr(self._p).sum(-1).clamp_min(0)

    @cached_property
    def maximum(self) -> Tensor:
        return self._p.amax(-1)

    @cached_property
    def argmax(self) -> Tensor:
        return self._p.argmax(-1).to(self._p.dtype).where(~self.maximum.isnan(), torch.nan)

    @cached_property
    def distance(self) -> Tensor:
        queries, keys = self._p.shape[2:]
        places = torch.arange(self._offset, self._offset + queries, device=self._p.device)
        distances = (places[:, None] - torch.arange(keys, device=self._p.device)).abs().to(self._p.dtype)
        return torch.einsum("bhqk,qk->bhq", self._p, distances)

    @cached_property
    def masses(self) -> tuple[Tensor, ...]:
        return torch.einsum("bhqk,bfk->fbhq", self._p, self._features.to(self._p.dtype)).unbind()


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _summary_rows(p, features, distances, offset, start, stop, out):  # noqa: ANN001, ANN202
    """Fill out[:, b, h, q] with entropy, maximum, argmax, distance, masses; p is (b, h, q, k)."""
    _, heads, queries, keys = p.shape
    count, width = features.shape[1], features.shape[2]
    middle = distances.shape[0] // 2
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
        ramp = distances[middle - offset - q :]
        for k in range(width):
            entropy -= x[k] * log2(x[k])
            distance += x[k] * ramp[k]
            best = max(best, bits_of(x[k]))
        out[0, b, h, q] = max(entropy, np.float32(0)) * np.float32(math.log(2))

        where = np.int32(width - 1)
        for k in range(width):
            where = min(where, np.int32(k) if bits_of(x[k]) == best else np.int32(width - 1))
        # A row of NaN (nothing left to attend to) may be a negative one, and then the zeros won.
        lost = math.isnan(entropy)
        out[1, b, h, q] = entropy if lost else x[where]
        out[2, b, h, q] = entropy if lost else np.float32(where)
        out[3, b, h, q] = distance
        for f in range(count):
            mass = np.float32(0)
            indicator = features[b, f]
            for k in range(width):
                mass += x[k] * indicator[k]
            out[4 + f, b, h, q] = mass


def summarise_rows(p: Tensor, features: Tensor, offset: int) -> RowSummary | LazySummary:
    """Summarise every row of ``p`` (batch, head, query, key), each summing to 1 or all NaN, in one pass.

    ``features`` are indicators of keys (batch, feature, key); ``offset`` is the position of the first query.
    """
    if not can_run_compiled(p):
        return LazySummary(p, features, offset)
    batch, heads, queries, keys = p.shape
    width = -(-keys // LANES) * LANES
    padded = (torch.constant_pad_nd(features, (0, width - keys)) if width > keys else features).contiguous()
    out = torch.empty(4 + features.shape[1], batch, heads, queries)
    longest = max(width, offset + queries)
    distances = np.abs(np.arange(-longest, longest + 1)).astype(np.float32)
    inputs = p.contiguous().numpy(), padded.numpy(), distances, offset
    run_over_rows(_summary_rows, batch * heads * queries, *inputs, out=(out.numpy(),))
    entropy, maximum, argmax, distance, *masses = out.unbind()
    return RowSummary(entropy, maximum, argmax, distance, tuple(masses))


#: Places before the cells of single offsets: the keys of two kinds, and what lies further before.
_BEFORE, _SINGLE = 2, 3


@numba.njit(inline="always")
def _add_up(row, marked, start, stop):  # noqa: ANN001, ANN202 - numba infers the types
    mass = np.float32(0)
    for k in range(start, stop):
        mass += row[k] * marked[k]
    return mass


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _offset_rows(p, marks, number, asks, sees, offset, reach, start, stop, out):  # noqa: ANN001, ANN202
    """Fill out[b, h] with the cells of ``add_up_offsets``; a row is a sequence and a head."""
    _, heads, queries, _ = p.shape
    for unit in range(start, stop):
        b, h = divmod(unit, heads)
        ordinary = marks[b, 0]
        sums = np.zeros((out.shape[2], 2), np.float64)
        for q in range(queries):
            row = p[b, h, q]
            if not asks[b, q] or math.isnan(row[0]):
                continue
            here, end = offset + q, sees[b, q] + 1
            for kind in range(1, marks.shape[1]):
                if number[b, kind, end]:
                    sums[kind - 1, 0] += _add_up(row, marks[b, kind], 0, end)
                    sums[kind - 1, 1] += 1
            if reach < 0:
                continue
            low, high = max(0, here - reach), min(end, here + reach + 1)
            if number[b, 0, low]:
                sums[_BEFORE, 0] += _add_up(row, ordinary, 0, low)
                sums[_BEFORE, 1] += 1
            for k in range(low, high):
                place = _SINGLE + k - here + reach
                sums[place, 0] += row[k] * ordinary[k]
                sums[place, 1] += ordinary[k]
            if number[b, 0, end] > number[b, 0, high]:
                sums[-1, 0] += _add_up(row, ordinary, high, end)
                sums[-1, 1] += 1
        out[b, h] = sums


def _offsets_torch(
    p: Tensor, marks: Tensor, asks: Tensor, sees: Tensor, offset: int, reach: int, out: Tensor
) -> None:
    """Fill ``out`` in torch with what ``add_up_offsets`` returns."""
    keys = torch.arange(p.shape[3], device=p.device)
    here = torch.arange(offset, offset + p.shape[2], device=p.device)
    there = asks[:, None] & ~p[..., 0].isnan()  # (batch, head, query)
    seen = (keys <= sees[..., None]).to(p.dtype)  # (batch, query, key)
    rows = p.where(there[..., None], 0)

    def fill(place: int, mask: Tensor) -> None:
        """Fill the cell of a place from the keys in a mask, (batch, query, key)."""
        out[:, :, place, 0] = torch.einsum("bhqk,bqk->bh", rows, mask)
        out[:, :, place, 1] = (there & (mask.sum(-1) > 0)[:, None]).sum(-1).to(p.dtype)

    for kind in range(1, marks.shape[1]):
        fill(kind - 1, seen * marks[:, None, kind])
    if reach < 0:
        return
    ordinary, ahead = seen * marks[:, None, 0], keys - here[:, None]
    fill(_BEFORE, ordinary * (ahead < -reach))
    fill(-1, ordinary * (ahead > reach))
    for single in range(-reach, reach + 1):
        # Of the block, only the diagonal is read.
        marked = ordinary.diagonal(offset + single, 1, 2)[:, None]
        first = max(0, -(offset + single))
        asking = there[..., first : first + marked.shape[2]]
        sums = rows.diagonal(offset + single, 2, 3) * marked, asking * marked
        out[:, :, _SINGLE + single + reach] = torch.stack(sums, -1).sum(2)


def add_up_offsets(p: Tensor, marks: Tensor, asks: Tensor, sees: Tensor, offset: int, reach: int) -> Tensor:
    """Add up what attention rows have on keys of some kinds, and at each offset from the query.

    ``p`` are attention rows (batch, head, query, key), those of NaN left out; ``marks`` (batch, kind, key)
    the keys of each kind, first those that offsets are about; ``asks`` (batch, query) the queries that count,
    ``sees`` (batch, query) the last key that each sees, and ``offset`` the position of the first. Single
    offsets go as far as ``reach``, -1 where the places of queries and keys do not compare.

    Returns:
        (batch, head, cell, 2): the sum, and how many queries see such a key. The cells are each of the
        other kinds, all that lies before the offset ``-reach``, each offset, and all that lies behind
        ``reach``; without offsets, the other kinds alone.
    """
    kinds = marks.shape[1] - 1
    assert reach < 0 or kinds == _BEFORE  # as the loop counts on
    cells = kinds if reach < 0 else kinds + 2 * reach + 3
    out = p.new_zeros(*p.shape[:2], cells, 2)
    marks = marks.to(p.dtype)
    if not can_run_compiled(p):
        _offsets_torch(p, marks, asks, sees, offset, reach, out)
        return out
    number = torch.nn.functional.pad(marks.cumsum(2), (1, 0)).int()  # of each kind before each key
    arrays = [part.contiguous().numpy() for part in (p, marks, number, asks, sees)]
    run_over_rows(_offset_rows, p.shape[0] * p.shape[1], *arrays, offset, reach, out=(out.numpy(),))
    return out
