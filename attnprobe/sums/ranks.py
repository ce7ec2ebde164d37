"""Which ranks are told apart: for each cell an interval of ranks, and all of them hold together."""

from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.groups import fold_names, sum_by_key

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: How likely it is that all intervals of ranks hold.
CONFIDENCE = 0.95
#: A difference, or a variance, so small beside what it is taken from is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Pair:
    """Two cells of neighbouring ranks that are not separated.

    Attributes:
        rank: The rank of the first, from 1.
        cells: The first and the second.
        observations: How many would separate them, if their difference and its spread stay as they are; None
            where they are alike.
    """

    rank: int
    cells: tuple[int, int]
    observations: int | None


@dataclass(frozen=True)
class Ranks:
    """The order of cells by their means, the largest first, and how far it is known.

    Attributes:
        means: (cell,)
        low: (cell,) the best rank that a cell may have, from 1; NaN where a mean is.
        high: (cell,) the worst.
        separated: Pairs of cells that are told apart.
        pairs: All pairs that are compared.
        unseparated: The pair of neighbours that is next to be separated, the one nearest to the first rank;
            None where all are.
    """

    means: Floats
    low: Floats
    high: Floats
    separated: int
    pairs: int
    unseparated: Pair | None


def rank_cells(values: Floats, clusters: Ints | None = None, within: Ints | None = None) -> Ranks:
    """Rank cells by their means over the same examples, with intervals of ranks that hold together.

    Two cells i and j are separated where the 95 % interval of their difference, Bonferroni's over all m
    pairs, leaves out 0,

        |mean_i - mean_j| > t(1 - .025 / m, C - 1) SE_ij,
        SE_ij^2 = (C - 1) / C sum_c (d_ci - d_cj)^2,   d_ci = (T_ci - n_ci mean_i) / (N_i - n_ci)

    with the jackknife over documents c of ``Clustered``: what an example does to all cells alike is in no
    difference. With a cells that are separated from i and above it, and b below it, among H,

        low_i = 1 + a,  high_i = H - b.

    The true ranks of all cells lie within their intervals in 95 % of samples or more.

    Limits: a cell that was observed in the first examples alone is compared over all that either has. Rank 1
    to H where nothing is known, such as with one document.

    Args:
        values: (example, cell), NaN where a cell was not observed.
        clusters: What names the document of each example, -1 where it is a document of its own.
        within: (cell,) cells of different numbers are not compared, each number has ranks of its own.

    References:
        Mohamad, Goeman and van Zwet (2022), Simultaneous confidence intervals for ranks with application to
        ranking institutions: intervals of ranks from all pairwise comparisons, there by Tukey's test of
        independent means. Bonferroni's needs no independence.

    >>> found = rank_cells(np.array([[9.0, 0.1, 0.2], [9.1, 0.2, 0.1], [9.2, 0.0, 0.0], [9.0, 0.1, 0.1]]))
    >>> found.low.tolist(), found.high.tolist(), found.unseparated.cells
    ([1.0, 2.0, 2.0], [1.0, 3.0, 3.0], (1, 2))
    """
    from scipy.special import stdtrit  # takes a while to import

    _, count, total = _sum_by_document(values, clusters)
    examples, documents = count.sum(0), (count > 0).sum(0)
    cells = values.shape[1]
    within = np.zeros(cells, np.int64) if within is None else within
    with np.errstate(divide="ignore", invalid="ignore"):
        means = total.sum(0) / examples
        pulls = np.where(count > 0, (total - count * means) / (examples - count), 0.0)
        pulls = np.nan_to_num(pulls * np.sqrt((documents - 1) / documents), nan=0.0, posinf=0.0, neginf=0.0)
    known = np.isfinite(means)
    compared = (within[:, None] == within) & known[:, None] & known & ~np.eye(cells, dtype=bool)
    pairs = int(compared.sum()) // 2
    gram = pulls.T @ pulls
    own = np.diag(gram)
    variance = own[:, None] + own - 2 * gram
    variance[variance <= _ROUNDING * (own[:, None] + own)] = 0.0
    apart = means[:, None] - means
    apart[np.abs(apart) <= _ROUNDING * (np.abs(means)[:, None] + np.abs(means))] = 0.0
    least = np.minimum(documents[:, None], documents).astype(np.float64)
    quantile = stdtrit(np.maximum(least - 1, 1), 1 - (1 - CONFIDENCE) / (2 * max(1, pairs)))
    bound = np.where(least > 1, quantile * np.sqrt(variance), np.inf)
    above = compared & (apart > bound)  # the first is above the second
    peers = compared.sum(1) + 1
    low, high = 1.0 + above.sum(0), peers - above.sum(1)
    low, high = (np.where(known, one, np.nan) for one in (low, high))
    neighbours = _find_unseparated(
        apart, bound, above, within, known, np.minimum(examples[:, None], examples)
    )
    return Ranks(means, low, high, int(above.sum()), pairs, neighbours)


def _sum_by_document(values: Floats, clusters: Ints | None) -> tuple[Ints, Floats, Floats]:
    """Sum up examples by their documents: names, how many, and their sum, (document, cell)."""
    keys = np.full(len(values), -1) if clusters is None else clusters.copy()
    several = keys >= 0
    keys[several] = fold_names(keys[several])  # as errors have it
    keys[~several] = -1 - np.arange((~several).sum())
    _, keys = np.unique(keys, return_inverse=True)
    return sum_by_key(values, keys)


def _find_unseparated(
    apart: Floats,
    bound: Floats,
    above: NDArray[np.bool_],
    within: Ints,
    known: NDArray[np.bool_],
    examples: Floats,
) -> Pair | None:
    """Find the pair of neighbours next to be separated: of the first rank, then of the fewest examples."""
    found: list[tuple[int, float, int, int]] = []
    for group in np.unique(within):
        cells = np.flatnonzero((within == group) & known)
        # In the order of their means; of equals the first one first.
        cells = cells[np.argsort(-(apart[cells][:, cells] > 0).sum(1), kind="stable")]
        for rank, (one, other) in enumerate(pairwise(cells), 1):
            if above[one, other] or not np.isfinite(bound[one, other]):
                continue
            gap = apart[one, other]
            needed = examples[one, other] * (bound[one, other] / gap) ** 2 if gap > 0 else np.inf
            found.append((rank, float(needed), int(one), int(other)))
            break
    if not found:
        return None
    rank, needed, one, other = min(found)
    return Pair(rank, (one, other), ceil(needed) if np.isfinite(needed) else None)
