"""Share the rows of a compiled loop among as many threads as torch uses."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

#: Fewer rows than this are not worth handing to another thread.
WORTH_SHARING = 64


def compiled_for(p: Tensor) -> bool:
    """Tell whether the compiled loops can take this tensor; torch serves the rest."""
    return p.device.type == "cpu" and p.dtype == torch.float32 and not p.requires_grad


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="attnprobe")


def over_rows(
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
