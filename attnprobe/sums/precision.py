"""When enough was read: looks at what is known so far, and the rule that ends a run at one of them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

#: Documents at the first look; at each further one there are twice as many.
FIRST = 128
#: Confidence of an interval, each by itself.
CONFIDENCE = 0.95


def plan_looks(total: int | None = None) -> Iterator[int]:
    """Give how many documents are read at each look: 128, 256, 512, ..., and all, where that is known.

    >>> list(plan_looks(300))
    [128, 256, 300]
    """
    number = FIRST
    while total is None or number < total:
        yield number
        number *= 2
    if total:
        yield total


def half_widths(errors: ArrayLike, observations: ArrayLike) -> Floats:
    """Give half the width of the 95 % interval of means: t(.975, n - 1) s.

    Args:
        errors: Standard errors s.
        observations: How many independent observations n each is made of.

    Returns:
        The widths; infinite where there is no error, or n is below 2.

    References:
        Student (1908), The probable error of a mean.

    >>> half_widths([0.1, 0.1, float("nan")], [128, 2, 128]).round(4).tolist()
    [0.1979, 1.2706, inf]
    """
    from scipy.special import stdtrit  # takes a while to import

    degrees = np.asarray(observations, np.float64) - 1
    quantile = stdtrit(np.maximum(degrees, 1), (1 + CONFIDENCE) / 2)
    widths = quantile * np.asarray(errors, np.float64)
    return np.where((degrees >= 1) & np.isfinite(widths), widths, np.inf)


def shrink_error(read: int, total: int) -> float:
    """Give what errors of a mean are multiplied by where it is asked of the documents of one corpus alone.

    The root of 1 - n/N, for n documents that were drawn at random, without replacement, from N: what was read
    is known, and after all of them nothing is left to chance.

    Args:
        read: The number of documents read, n.
        total: The number of documents that there are, N.

    References:
        Cochran (1977), Sampling techniques, section 2.6.

    >>> shrink_error(75, 100), shrink_error(100, 100)
    (0.5, 0.0)
    """
    return math.sqrt(1 - read / total)


@dataclass(frozen=True)
class Widest:
    """The widest interval of a column.

    Attributes:
        half_width: Half of its width.
        target: What it is to be at most.
        row: The row that it is in; None where no row has a number.
    """

    half_width: float
    target: float
    row: int | None = None

    @property
    def reached(self) -> bool:
        return self.half_width <= self.target

    @property
    def factor(self) -> float:
        """How many times as many documents are needed, as errors fall with the root of their number."""
        return (self.half_width / self.target) ** 2


def find_widest(widths: Floats, target: float) -> Widest:
    """Find the widest of some intervals, the first of equals.

    >>> find_widest(np.array([0.01, 0.04]), 0.02)
    Widest(half_width=0.04, target=0.02, row=1)
    """
    if not len(widths):
        return Widest(0.0, target)
    row = int(np.argmax(widths))
    return Widest(float(widths[row]), target, row)


@dataclass(frozen=True)
class Look:
    """What is known after some documents: the widest interval of each column that is asked for.

    ``total`` is the number of documents of the corpus, where errors are about these alone.
    """

    documents: int
    widest: Mapping[str, Widest]
    total: int | None = None

    @property
    def reached(self) -> bool:
        return all(one.reached for one in self.widest.values())

    @property
    def worst(self) -> tuple[str, Widest]:
        """The column that is furthest from its target."""
        return max(self.widest.items(), key=lambda one: one[1].factor)

    @property
    def estimate(self) -> int | None:
        """How many documents are needed, if errors go on to fall; None where there is no error yet."""
        factor = self.worst[1].factor
        if not math.isfinite(factor):
            return None
        if self.total is None or not factor:
            return math.ceil(self.documents * factor)
        # An error falls with the root of 1/n - 1/N.
        rest = (1 / self.documents - 1 / self.total) / factor
        return min(self.total, math.ceil(1 / (rest + 1 / self.total)))


def is_enough(looks: Sequence[Look], *, strict: bool = False) -> bool:
    """Tell whether a run ends at the last of its looks: it is precise enough, or, strictly, the last two are.

    The rule looks at the largest of many errors, which is seldom too small; so each interval still covers the
    truth in .92 to .96 of runs (``tests/sums/test_precision.py`` simulates it).
    """
    needed = 2 if strict else 1
    return len(looks) >= needed and all(look.reached for look in looks[-needed:])


def round_up(number: int) -> str:
    """Write an estimate with two digits, rounded up.

    >>> round_up(193_111_105), round_up(161)
    ('200,000,000', '170')
    """
    step = 10 ** max(0, len(str(number)) - 2)
    return f"{-(-number // step) * step:,}"
