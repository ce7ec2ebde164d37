"""Which heads are outliers, by their intervals and not by rank."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.resampling import half_width

Floats = NDArray[np.float64]

#: Below so many heads, quartiles say nothing.
FEWEST = 8
#: How far beyond the quartiles a head has to be, in interquartile ranges.
FENCE = 3.0


@dataclass(frozen=True)
class Outliers:
    """The outliers on one side.

    Attributes:
        heads: Their places, the furthest first.
        nearest: The value of the head that comes next, which is no outlier.
        above: Whether they are above the others.
    """

    heads: tuple[int, ...]
    nearest: float
    above: bool

    def is_passed(self, last: float) -> bool:
        """Tell whether a head that is none, for its wide interval, lies beyond the last one's value."""
        return self.nearest != last and (self.nearest > last) is self.above

    def limit(self, digits: int) -> float:
        """Compute the value that no other head is beyond, in so many digits, rounded so that this holds."""
        exact = Decimal(repr(self.nearest))  # not the binary fraction, which lies beside it
        if not exact:
            return 0.0
        last = Decimal(1).scaleb(exact.adjusted() - digits + 1)
        return float(exact.quantize(last, ROUND_CEILING if self.above else ROUND_FLOOR))


def find_outliers(values: Floats, errors: Floats | None = None) -> tuple[Outliers, ...]:
    """Find heads that are far from the others by more than their error.

    A head is an outlier if its whole interval lies beyond an outer fence of Tukey's,

        v - z s > Q3 + 3 (Q3 - Q1)    or    v + z s < Q1 - 3 (Q3 - Q1)

    with the quartiles of all heads, and z such that all intervals hold together with 95 % (Bonferroni). To be
    the highest of many is no feat, and with enough text every two heads differ.

    Args:
        values: One number a head; NaN for a head without one.
        errors: Their standard errors; None, or NaN for all, where there are none, and the numbers are taken
            as they are. A head without one among heads that have one has no interval, and is no outlier.

    Returns:
        Those above, then those below; nothing where no head is an outlier, or there are fewer than 8.

    References:
        Tukey (1977), Exploratory data analysis, chapter 2.

    >>> find_outliers(np.array([0.1, 0.12, 0.2, 0.15, 0.11, 0.85, 0.13, 0.1]))
    (Outliers(heads=(5,), nearest=0.2, above=True),)
    """
    there = np.flatnonzero(np.isfinite(values))
    if len(there) < FEWEST:
        return ()
    known, half = values[there], np.zeros(len(there))
    if errors is not None and not np.isnan(errors[there]).all():
        half = half_width(errors[there])
    first, third = np.quantile(known, [0.25, 0.75])
    beyond = FENCE * (third - first)
    found = []
    for above, out in ((True, known - half > third + beyond), (False, known + half < first - beyond)):
        if out.any():
            sign = 1 if above else -1
            order = np.flatnonzero(out)[np.argsort(-sign * known[out], kind="stable")]
            nearest = sign * (sign * known[~out]).max()
            found.append(Outliers(tuple(map(int, there[order])), float(nearest), above))
    return tuple(found)
