"""Paired differences of a number of heads between two checkpoints, with errors and p values."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics.norm import SUFFIX
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.inference import SIGNIFICANT, Estimate, adjust

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

#: Numbers that differ by less than this part of the larger one may differ by the rounding of float32 alone.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class HeadDifferences:
    """A statistic of heads in two models, row by row.

    Attributes:
        first: The means in the first model.
        second: The means of the partners in the second.
        estimate: The second less the first, with its standard error; rounding alone is 0.
        picked: What else a table says of each head of either model, such as the offset it looks at.
    """

    first: Floats
    second: Floats
    estimate: Estimate
    picked: Mapping[str, tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)

    @cached_property
    def p(self) -> Floats:
        return self.estimate.p()

    @cached_property
    def adjusted(self) -> Floats:
        """The p values, adjusted for the number of rows by Holm's method."""
        return adjust(self.p)

    @property
    def certain(self) -> NDArray[np.bool_]:
        """Whether the models differ significantly, row by row."""
        return self.adjusted < SIGNIFICANT

    @property
    def moved(self) -> tuple[int, int]:
        """How many rows are significantly higher, and how many lower, in the second model."""
        delta = self.estimate.value
        return int((self.certain & (delta > 0)).sum()), int((self.certain & (delta < 0)).sum())


def compare_statistic(
    statistic: Statistic, first: Any, second: Any, heads: Places, partners: Places
) -> HeadDifferences:
    """Compare a statistic of two models over the same texts, row by row; see ``compare_paired``.

    Args:
        statistic: The statistic.
        first: Its sums in the first model, ``Blocked`` of (layer, head, ...), or a ``Constant``.
        second: Its sums in the second model.
        heads: The head of each row, numbered through all layers.
        partners: Its partner in the second model, -1 for none.
    """
    if not isinstance(first, Blocked):
        a = first.average.ravel()[heads]
        b = np.where(partners >= 0, second.average.ravel()[partners], np.nan)
        return HeadDifferences(a, b, Estimate(b - a, np.full_like(a, np.nan), np.zeros(a.shape)))
    (first, ours), (second, theirs) = _pick_number(statistic, first), _pick_number(statistic, second)
    suffix = SUFFIX if statistic.of is not None else ""
    picked = {f"{name}{suffix}": (ours[name].ravel(), theirs[name].ravel()) for name in ours}
    there = Blocked(second.counts[:, partners] * (partners >= 0), second.totals[:, partners])
    return replace(compare_paired(first[heads,], there), picked=picked)


def compare_paired(first: Blocked, second: Blocked) -> HeadDifferences:
    """Compare numbers of heads of two models over the same texts, (block, row).

    With d = b - a the difference of the two means, and its standard error s by the jackknife over blocks of
    documents (``sums.blocked``), in which both models have the same documents,

        p = P(|T| >= |d| / s)

    with T of Student's t distribution. Of blocks with m_j texts each, it has as many degrees of freedom as
    there are blocks that count for one (Kish 1965), less one, in the model in which these are fewer:

        (sum_j m_j)^2 / sum_j m_j^2 - 1

    Where each text is a block of its own, this is the paired t test. Where a few documents have most of the
    windows, p is large rather than small by chance: at most 7 % of p are below .05 where nothing differs,
    whether the windows of a document are alike or not. A difference below 1e-6 of the means is rounding: its
    p is 1.

    References:
        Student (1908), The probable error of a mean.
        Kish (1965), Survey sampling, on the effective size of a sample of unequal weights.
    """
    counts = np.stack([first.counts, second.counts], -1)
    both = Blocked(counts, np.stack([first.totals, second.totals], -1))
    estimate = both.apply(lambda means: means[..., 1] - means[..., 0])
    a, b = first.average, second.average
    rounding = np.abs(estimate.value) <= _ROUNDING * np.maximum(np.abs(a), np.abs(b))
    clusters = np.minimum(first.estimate.clusters, second.estimate.clusters)
    return HeadDifferences(a, b, Estimate(np.where(rounding, 0.0, estimate.value), estimate.error, clusters))


def _pick_number(statistic: Statistic, sums: Blocked) -> tuple[Blocked, dict[str, NDArray[Any]]]:
    """Pick the sums of the one number that a table has of each head, (block, head), and say which it is."""
    counts, totals, picked = sums.counts, sums.totals, {}
    if statistic.pick is not None:
        places, picked = statistic.pick(sums.count, sums.average)
        counts, totals = (np.take_along_axis(side, places[None, ..., None], -1) for side in (counts, totals))
    blocks = len(counts)
    return Blocked(counts.reshape(blocks, -1), totals.reshape(blocks, -1)), picked
