"""The ordinary tokens of a sequence in a random order, so that only their places are left of a text."""

import hashlib

import numpy as np
from numpy.typing import NDArray


def shuffled(
    ids: NDArray[np.int32], fixed: NDArray[np.bool_], parts: NDArray[np.integer], seed: int
) -> NDArray[np.int32]:
    """Put the tokens of a sequence in a random order, each part within itself.

    The order is drawn from the seed and the tokens alone. So it is the same in whatever batch, process, job
    or resumed run the sequence is read.

    Args:
        ids: The tokens (position,).
        fixed: Which of them stay where they are (position,).
        parts: The number of the part that each belongs to (position,); tokens stay in theirs.
        seed: Another one gives another order.

    >>> ids, fixed = np.array([2, 7, 8, 9, 3], np.int32), np.array([True, False, False, False, True])
    >>> found = shuffled(ids, fixed, np.zeros(5, int), seed=42)
    >>> found[[0, 4]].tolist(), sorted(found[1:4].tolist())
    ([2, 3], [7, 8, 9])
    """
    digest = hashlib.sha256(f"{seed}|".encode() + ids.tobytes()).digest()
    random = np.random.default_rng(int.from_bytes(digest, "little"))
    found = ids.copy()
    for part in np.unique(parts):
        places = np.flatnonzero(~fixed & (parts == part))
        found[places] = ids[random.permutation(places)]
    return found
