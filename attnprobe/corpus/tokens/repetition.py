"""Sequences without what comes twice in them, so that only places are left of a repetition."""

import hashlib

import numpy as np
from numpy.typing import NDArray


def without_repetition(
    ids: NDArray[np.integer], special: NDArray[np.bool_], ordinary: NDArray[np.int64]
) -> NDArray[np.integer]:
    """Put another token in the place of each that came before in a sequence; each is a different one.

    They are drawn from the tokens alone. So they are the same in whatever batch, process or resumed run the
    sequence is read.

    Args:
        ids: The tokens (position,).
        special: Which of them stay what they are (position,).
        ordinary: What may be drawn.

    >>> found = without_repetition(np.array([1, 7, 8, 7, 8, 2]), np.arange(6) % 5 == 0, np.arange(7, 11))
    >>> found[[0, 1, 2, 5]].tolist(), sorted(found[3:5].tolist())
    ([1, 7, 8, 2], [9, 10])
    """
    first = np.zeros(len(ids), bool)
    first[np.unique(ids, return_index=True)[1]] = True
    again = np.flatnonzero(~first & ~special)
    seed = int.from_bytes(hashlib.sha256(ids.astype(np.int64).tobytes()).digest(), "little")
    others = np.setdiff1d(ordinary, ids)
    found = ids.copy()
    found[again] = np.random.default_rng(seed).choice(others, len(again), replace=False)
    return found
