"""Correction of p values for the number of heads that were tried."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Correction = Literal["holm", "bh"]
#: A p below this, adjusted for the number of tests, is called significant.
SIGNIFICANT = 0.05


def adjust(p: ArrayLike, correction: Correction = "holm") -> NDArray[np.float64]:
    """Adjust p values so that they can be read as if there had been one test.

    Holm's bounds the chance of a single false alarm among all heads, Benjamini and Hochberg's ("bh")
    the share of false alarms among the heads that are called significant. Undefined p values stay
    undefined and do not count.

    References:
        Holm (1979), A simple sequentially rejective multiple test procedure.
        Benjamini and Hochberg (1995), Controlling the false discovery rate.

    >>> adjust([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    raw = np.asarray(p, np.float64)
    adjusted = np.full_like(raw, np.nan)
    tried = np.isfinite(raw)
    if not tried.any():
        return adjusted
    if correction == "bh":
        from scipy.stats import false_discovery_control  # takes a second to import

        adjusted[tried] = false_discovery_control(raw[tried])
        return adjusted
    order = np.argsort(raw[tried], kind="stable")
    stepped = np.maximum.accumulate(raw[tried][order] * np.arange(tried.sum(), 0, -1))
    adjusted[np.flatnonzero(tried)[order]] = stepped.clip(max=1)
    return adjusted
