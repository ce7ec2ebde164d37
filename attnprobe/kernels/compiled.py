"""What the compiled loops share: rows spread over threads, and x log2 x that a compiler can vectorise."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
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

DEGREE = 6
#: Rows are filled up with zeros to a multiple of this many float32, a vector of AVX-512.
LANES = 16
#: LLVM may reorder sums and fuse multiply-adds, but must still honour NaN and infinity.
FAST = {"reassoc", "contract", "arcp", "nsz"}


def _fit(degree: int) -> tuple[np.float32, ...]:
    """Interpolate log2(1 + f) / f over one binade, lowest power first."""
    binade = [math.sqrt(0.5) - 1, math.sqrt(2) - 1]
    fitted = Chebyshev.interpolate(lambda f: np.log1p(f) / (f * math.log(2)), degree, domain=binade)
    return tuple(np.float32(c) for c in fitted.convert(kind=Polynomial).coef)


C0, C1, C2, C3, C4, C5, C6 = _fit(DEGREE)
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


@numba.njit(inline="always")
def x_log2_x(x: np.float32) -> np.float32:
    """Compute x log2 x for a float32 x >= 0; 0 at x = 0."""
    return x * log2(x)


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
    """Call ``loop(*inputs, start, stop, *out)`` so that all rows are covered once.

    The loop must release the interpreter lock and write only to its own rows, so the result
    does not depend on the number of threads.
    """
    threads = min(torch.get_num_threads(), rows // WORTH_SHARING)
    if threads <= 1:
        loop(*inputs, 0, rows, *out)
        return
    cuts = [rows * i // threads for i in range(threads + 1)]
    pool = _pool(torch.get_num_threads())
    futures = [pool.submit(loop, *inputs, a, b, *out) for a, b in pairwise(cuts)]
    for future in futures:
        future.result()
