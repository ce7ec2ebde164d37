"""Whether several groups of documents have one number in common."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

#: Groups of fewer documents do not count: errors of so few are too rough for any p.
FEWEST_DOCUMENTS = 5
#: An error below this part of a number is rounding alone.
_ROUNDING = 1e-9


def compare_groups(values: ArrayLike, errors: ArrayLike, documents: ArrayLike) -> tuple[Floats, Floats]:
    """Test whether groups have one number in common, cell by cell.

    With x_g the number of group g, and w_g = 1 / se_g^2, Cochran's

        Q = sum_g w_g (x_g - m)^2,  m = sum_g w_g x_g / sum_g w_g

    is about G - 1 where groups differ by chance alone. As errors are estimated from n_g documents, p is that
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
        counts = np.isfinite(x) & (se > _ROUNDING * np.abs(x)) & (n >= FEWEST_DOCUMENTS)
        weight = np.where(counts, 1 / np.square(se), 0.0)
        share = weight / weight.sum(0)
        mean = np.where(counts, share * x, 0.0).sum(0)
        q = np.where(counts, weight * np.square(x - mean), 0.0).sum(0)
        groups = counts.sum(0)
        lost = np.where(counts, np.square(1 - share) / (n - 1), 0.0).sum(0)
        ratio = q / (groups - 1) / (1 + 2 * (groups - 2) / (np.square(groups) - 1) * lost)
        p = f.sf(ratio, groups - 1, (np.square(groups) - 1) / (3 * lost))
    return np.where(groups > 1, q, np.nan), np.where(groups > 1, p, np.nan)
