"""Every interval and every p of the program: Student's t, sign flips, permutations, adjusted p values."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.sums.documents import BLOCKS

Floats = NDArray[np.float64]
Correction = Literal["holm", "bh"]

#: Confidence of the intervals of all heads together.
CONFIDENCE = 0.95
#: A p below this, adjusted for the number of tests, is called significant.
SIGNIFICANT = 0.05
#: An error below this part of a number is rounding alone.
_ROUNDING = 1e-10
#: Student's t of so many degrees of freedom is normal, and of so few has no quantile to speak of.
_NORMAL, _FEWEST_FREEDOM = 1e9, 0.01


@dataclass(frozen=True)
class Estimate:
    """Numbers with their standard errors, cell by cell.

    Attributes:
        value: (...) the numbers.
        error: (...) their standard errors; NaN below two clusters.
        clusters: How many clusters, such as documents, each error is of, (...) or one number for all.
    """

    value: Floats
    error: Floats
    clusters: Floats

    @property
    def freedom(self) -> Floats:
        """Degrees of freedom of the errors."""
        return np.asarray(self.clusters, np.float64) - 1

    def interval(self, together: int | None = 1) -> tuple[Floats, Floats]:
        """Give the intervals of 95 %, each by itself, or of so many ``together``; see ``half_width``."""
        half = half_width(self.error, self.clusters, together)
        return self.value - half, self.value + half

    def p(self, *, one_sided: bool = False) -> Floats:
        """Test that each number is 0, or not above 0: p = P(|T| >= |x| / se) by Student's t.

        If the error is 0 (all differences are equal), p is 1 for a number of 0, and 0 otherwise. With fewer
        than two clusters, p is NaN.

        References:
            Student (1908), The probable error of a mean.
        """
        from scipy.special import stdtr  # takes a while to import

        with np.errstate(divide="ignore", invalid="ignore"):
            t = self.value / self.error
            p = stdtr(self.freedom, -t) if one_sided else 2 * stdtr(self.freedom, -np.abs(t))
            sure = self.error <= _ROUNDING * np.abs(self.value)
            differs = self.value > 0 if one_sided else self.value != 0
        p = np.where(sure, np.where(differs, 0.0, 1.0), p)
        return np.where((self.freedom > 0) & np.isfinite(self.error) & np.isfinite(self.value), p, np.nan)


def half_width(
    errors: ArrayLike, documents: ArrayLike, together: int | None = None, *, one_sided: bool = False
) -> Floats:
    """Give half the width of each of m intervals that hold together: t(1 - .025 / m, n - 1) s.

    Args:
        errors: Standard errors s over documents, of m numbers.
        documents: How many documents n each is made of; infinite where nobody knows.
        together: The number m, that of all errors by default; 1 for intervals that hold each by itself.
        one_sided: Whether the other side has no end: t(1 - .05 / m, n - 1) s.

    Returns:
        The widths; infinite below two documents, NaN where there is no error.

    References:
        Student (1908), The probable error of a mean; Dunn (1961), Multiple comparisons among means.

    >>> half_width([0.01, 0.01], [5, 128]).round(4).tolist()
    [0.035, 0.0227]
    """
    from scipy.special import stdtrit  # takes a while to import

    errors, degrees = np.asarray(errors, np.float64), np.asarray(documents, np.float64) - 1
    tests = errors.size if together is None else together
    tail = (1 - CONFIDENCE) / (1 if one_sided else 2) / max(1, tests)
    quantile = stdtrit(degrees.clip(_FEWEST_FREEDOM, _NORMAL), 1 - tail)
    with np.errstate(invalid="ignore"):  # an error of 0 over one document has no interval
        return np.where(degrees > 0, quantile, np.inf) * errors


#: Groups of fewer documents are not compared: errors of so few are too rough for any p.
FEWEST_DOCUMENTS = 5


def compare_groups(values: ArrayLike, errors: ArrayLike, documents: ArrayLike) -> tuple[Floats, Floats]:
    """Test whether groups share one value, cell by cell.

    With x_g the number of group g, and w_g = 1 / se_g^2, Cochran's

        Q = sum_g w_g (x_g - m)^2,  m = sum_g w_g x_g / sum_g w_g

    is about G - 1 if groups differ by chance alone. Since errors are estimated from n_g documents, p is that
    of Welch's F,

        F = Q / (G - 1) / (1 + 2 (G - 2) / (G^2 - 1) L),  L = sum_g (1 - w_g / sum w)^2 / (n_g - 1)

    with G - 1 and (G^2 - 1) / (3 L) degrees of freedom. Groups of fewer than 5 documents, and those without
    an error or with one of 0, do not count.

    Args:
        values: (group, ...).
        errors: Their standard errors (group, ...).
        documents: How many documents each error is of (group, ...) or (group,).

    Returns:
        Q and p (...); NaN below two groups that count.

    References:
        Cochran (1954), The combination of estimates from different experiments; Welch (1951), On the
        comparison of several mean values: an alternative approach.

    >>> q, p = compare_groups([1.0, 3.0], [1.0, 1.0], [31, 31])
    >>> q.round(6).item(), p.round(4).item()
    (2.0, 0.1625)
    """
    from scipy.stats import f  # takes a second to import

    x, se = np.asarray(values, np.float64), np.asarray(errors, np.float64)
    n = np.asarray(documents, np.float64)
    n = np.broadcast_to(n.reshape(*n.shape, *(1,) * (x.ndim - n.ndim)), x.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        counts = np.isfinite(x) & (se > 10 * _ROUNDING * np.abs(x)) & (n >= FEWEST_DOCUMENTS)
        weight = np.where(counts, 1 / np.square(se), 0.0)
        share = weight / weight.sum(0)
        mean = np.where(counts, share * x, 0.0).sum(0)
        q = np.where(counts, weight * np.square(x - mean), 0.0).sum(0)
        groups = counts.sum(0)
        lost = np.where(counts, np.square(1 - share) / (n - 1), 0.0).sum(0)
        ratio = q / (groups - 1) / (1 + 2 * (groups - 2) / (np.square(groups) - 1) * lost)
        p = f.sf(ratio, groups - 1, (np.square(groups) - 1) / (3 * lost))
    return np.where(groups > 1, q, np.nan), np.where(groups > 1, p, np.nan)


def adjust(p: ArrayLike, correction: Correction = "holm") -> Floats:
    """Adjust p values for the number of tests.

    Holm's method bounds the chance of any false alarm, Benjamini and Hochberg's ("bh") the share of false
    alarms among significant results. Undefined p values stay undefined and do not count.

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


#: Differences are rounded to such a part of their sum, unless they are whole numbers of a smaller one.
_GRID = 1 << 16
#: Smaller probabilities are lost in the rounding of a Fourier transform.
_LEAST = 1e-15


def sign_flip(differences: ArrayLike, *, one_sided: bool = True) -> float:
    """Compute p of the sign-flip test over documents: the sum of differences is not above 0.

    p = P(sum of s_c d_c >= sum of d_c) over all equally likely signs s_c = 1 or -1. Two-sided, it is twice
    that of the side on which the sum lies. With C documents, the least p is 2^-C.

    If all |d| are equal, such as for answers that turned right or wrong, the sum is binomial, and this is
    McNemar's exact test. Otherwise its distribution is the inverse Fourier transform of the product of cos(w
    d_c). Whole numbers with a sum of |d| up to 65,536 are exact; others are rounded to that sum's 65,536th
    part, and sums that may be equal before rounding count as equal. A p below 1e-15 is given as 1e-15.

    References:
        Fisher (1935), The design of experiments, section 21; McNemar (1947).
        Canay, Romano and Shaikh (2017), Randomization tests under an approximate symmetry assumption.

    >>> round(sign_flip([3, 1, 2]), 6), round(sign_flip([3, 1, 2], one_sided=False), 6)
    (0.125, 0.25)
    """
    d = np.asarray(differences, np.float64)
    d = d[d != 0]
    if not len(d):
        return 1.0
    if not one_sided:
        return min(1.0, 2 * sign_flip(d if d.sum() > 0 else -d))
    if (np.abs(d) == abs(d[0])).all():
        from scipy.special import bdtrc  # takes a while to import

        positive = int((d > 0).sum())
        return float(bdtrc(positive - 1, len(d), 0.5)) if positive else 1.0
    total, rounding = np.abs(d).sum(), 0
    if total > _GRID or (d != np.rint(d)).any():
        d, rounding = np.rint(d * (_GRID / total)), min(len(d), BLOCKS)
    sizes, times = np.unique(np.abs(d), return_counts=True)
    length = 1 << int(2 * (sizes @ times)).bit_length()
    frequencies = 2 * np.pi / length * np.arange(length // 2 + 1)
    characteristic = np.ones(len(frequencies))
    for size, number in zip(sizes, times, strict=True):
        characteristic *= np.cos(size * frequencies) ** number
    share = np.fft.fftshift(np.fft.irfft(characteristic, length))  # of the sums from -length / 2 on
    reached = max(0, length // 2 + int(d.sum()) - rounding)
    return min(1.0, max(_LEAST, float(share[reached:].sum())))


#: The smallest p that can be reached is so many times smaller than what the correction asks for.
FINER = 10
#: At least so many permutations for what is far from chance, and never more than so many.
FEWEST, MOST = 9_999, 999_999
#: A test is over once so many permutations gave a difference as large: it is not going to be significant.
ENOUGH = 400


@dataclass(frozen=True)
class PermutationTest:
    """A Monte Carlo test, one of many.

    With g of n permutations that give a difference as large, p = (g + 1) / (n + 1). A correction over m tests
    multiplies it by up to m, so n is at least 10 m / 0.05. A test ends when g reaches 400, with p = g / n
    there.

    References:
        Phipson and Smyth (2010), Permutation p-values should never be zero.
        Besag and Clifford (1991), Sequential Monte Carlo p-values.

    >>> PermutationTest.for_tests(1000, seed=0).most
    199999
    """

    seed: int
    most: int = FEWEST

    @classmethod
    def for_tests(cls, tests: int, seed: int) -> "PermutationTest":
        """Be fine enough for a correction over so many tests."""
        return cls(seed, min(max(FEWEST, math.ceil(FINER * tests / SIGNIFICANT) - 1), MOST))

    def p_of(
        self,
        differences: Callable[[np.random.Generator, int], Floats],
        delta: float,
        at_once: int,
        rounding: float = 1e-12,
        *,
        one_sided: bool = False,
    ) -> float:
        """Compute p of ``delta``, two-sided or above 0; ``differences(random, n)`` draws n by chance.

        Differences as close as ``rounding`` are equal: sums of other orders round otherwise.
        """
        draw, hits, drawn = np.random.default_rng(self.seed), 0, 0
        at_once = max(1, at_once)
        number = min(at_once, 2 * ENOUGH)
        while drawn < self.most:
            permuted = differences(draw, min(number, self.most - drawn))
            large = permuted >= delta - rounding if one_sided else np.abs(permuted) >= abs(delta) - rounding
            if hits + large.sum() >= ENOUGH:
                last = int(np.flatnonzero(large.cumsum() == ENOUGH - hits)[0])
                return ENOUGH / (drawn + last + 1)
            hits, drawn = hits + int(large.sum()), drawn + len(large)
            number = min(at_once, 2 * number)
        return (hits + 1) / (drawn + 1)
