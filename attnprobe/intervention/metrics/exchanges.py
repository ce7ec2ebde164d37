"""Tests by random exchanges, fine enough for as many heads as are tried."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.significance import SIGNIFICANT

#: The smallest p that can be reached is so many times smaller than what the correction asks for.
FINER = 10
#: At least so many exchanges for what is far from chance, and never more than so many.
FEWEST, MOST = 9_999, 999_999
#: A test is over once so many exchanges gave a difference as large: it is not going to be significant.
ENOUGH = 400


@dataclass(frozen=True)
class Exchanges:
    """A Monte Carlo test, one of many.

    With g exchanges that give a difference as large among n, p = (g + 1) / (n + 1), which can't fall below
    1 / (n + 1). A correction over m tests multiplies it by up to m, so n is at least 10 m / 0.05. What is
    clearly no effect need not be drawn that often: a test ends with the exchange at which g reaches 400, and
    p = g / n there.

    Attributes:
        seed: Every test draws the same.
        most: The number of exchanges n.

    References:
        Phipson and Smyth (2010), Permutation p-values should never be zero.
        Besag and Clifford (1991), Sequential Monte Carlo p-values.

    >>> Exchanges.for_tests(1000, seed=0).most
    199999
    """

    seed: int
    most: int = FEWEST

    @classmethod
    def for_tests(cls, tests: int, seed: int) -> "Exchanges":
        """Be fine enough for a correction over so many tests."""
        return cls(seed, min(max(FEWEST, math.ceil(FINER * tests / SIGNIFICANT) - 1), MOST))

    def p(self, as_large: Callable[[np.random.Generator, int], NDArray[np.bool_]], at_once: int) -> float:
        """Test.

        Args:
            as_large: Draws some exchanges, and tells of each whether its difference is as large.
            at_once: The most exchanges that may be drawn at once.
        """
        draw, hits, drawn = np.random.default_rng(self.seed), 0, 0
        some = min(at_once, 2 * ENOUGH)
        while drawn < self.most:
            found = as_large(draw, min(some, self.most - drawn))
            if hits + found.sum() >= ENOUGH:
                last = int(np.flatnonzero(found.cumsum() == ENOUGH - hits)[0])
                return ENOUGH / (drawn + last + 1)
            hits, drawn = hits + int(found.sum()), drawn + len(found)
            some = min(at_once, 2 * some)
        return (hits + 1) / (drawn + 1)
