"""Whether a number of layers rises or falls with depth."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def trend(name: str, values: NDArray[Any]) -> Iterator[str]:
    """Say whether a layer's number rises or falls with depth (Spearman)."""
    if len(values) < 3 or not np.isfinite(values).all() or np.ptp(values) == 0:
        yield f"Trend of {name} over depth: undefined for {len(values)} layers."
        return
    from scipy.stats import spearmanr  # takes a second to import

    found = spearmanr(np.arange(len(values)), values)
    rho, p = float(found.statistic), float(found.pvalue)  # type: ignore[attr-defined]
    direction = "rises" if rho > 0 else "falls"
    yield (
        f"Trend over depth: {name} {direction} with the layer, Spearman rho = {rho:.2f}, p = {p:.2g} "
        f"({len(values)} layers)."
    )
