"""Whether a number of layers rises or falls with depth."""

from collections.abc import Iterator
from itertools import permutations
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: A trend is spoken of below this p.
LEVEL = 0.05
#: Up to so many layers, all their orders are counted.
_FEW = 8


def trend(name: str, values: NDArray[Any]) -> Iterator[str]:
    """Say whether a layer's number rises or falls with depth (Spearman)."""
    layers = len(values)
    if layers < 3:
        yield f"Trend of {name} over depth: undefined for {layers} layer{'s' * (layers != 1)}."
        return
    if not np.isfinite(values).all():
        yield f"Trend of {name} over depth: undefined, since it is missing for some layers."
        return
    if np.ptp(values) == 0:
        yield f"Trend of {name} over depth: undefined, since it is the same in every layer."
        return
    rho, p = _spearman(values)
    direction = "rises" if rho > 0 else "falls"
    trend = f"{name} {direction} with the layer" if p < LEVEL else f"not significant for {name}"
    yield f"Trend over depth: {trend} (Spearman rho = {rho:.2f}, p = {p:.2g}, {layers} layers)."


def _spearman(values: NDArray[Any]) -> tuple[float, float]:
    """Correlate ranks with depth, and give the two-sided p.

    Student's t is far off for a few layers: three in perfect order would have p = 0, and a third of all
    orders are perfect. So all orders are counted where they are few; where they are many, p is at least what
    one perfect order in either direction has.
    """
    from scipy.stats import rankdata, spearmanr  # takes a second to import

    layers = len(values)
    depth = np.arange(layers)
    found = spearmanr(depth, values)
    rho, p = float(found.statistic), float(found.pvalue)  # type: ignore[attr-defined]
    if layers > _FEW:
        return rho, max(p, 2 / factorial(layers))
    ranks = rankdata(values) - (layers + 1) / 2
    every = np.abs(np.array(list(permutations(ranks))) @ depth)
    return rho, float((every >= abs(ranks @ depth) - 1e-9).mean())
