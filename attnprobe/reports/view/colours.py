"""From a probability to a colour: dark is much. Steps of attention are steps of its square root."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: From nothing to everything, red-green-blue; each step is darker than the last, in grey too.
RAMP = ((255, 255, 255), (198, 219, 239), (107, 174, 214), (33, 113, 181), (8, 48, 107))
#: Colours that a graphic tells apart.
LEVELS = 48


def levels(rows: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Give the level of each probability, from 0 to ``LEVELS``: by its square root, so that 0.01 shows."""
    return np.rint(np.sqrt(np.clip(rows, 0, 1)) * LEVELS).astype(np.int64)


def colour(level: int) -> str:
    """Spell the colour of a level.

    >>> colour(0), colour(LEVELS)
    ('#ffffff', '#08306b')
    """
    place = level / LEVELS * (len(RAMP) - 1)
    low = min(int(place), len(RAMP) - 2)
    mixed = (round(a + (b - a) * (place - low)) for a, b in zip(RAMP[low], RAMP[low + 1], strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)
