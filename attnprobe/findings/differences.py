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

#: Numbers that differ by less than this part of the larger one may differ by the rounding of float32 alone.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Rows:
    """The rows of a table: each is a mean over some heads of the one and of the other model.

    Attributes:
        first: (row, head of the first model) weights that add up to 1, or are all 0 where there is none.
        second: (row, head of the second model) the same.
    """

    first: Floats
    second: Floats

    @classmethod
    def of_heads(cls, first: NDArray[np.intp], second: NDArray[np.intp], heads: tuple[int, int]) -> "Rows":
        """Compare the head of each row with its partner, -1 for none, of models with so many heads."""
        return cls(*(_one_hot(one, number) for one, number in zip((first, second), heads, strict=True)))


@dataclass(frozen=True)
class Difference:
    """A statistic in two models, row by row.

    Attributes:
        said: What else a table says of each head of either model, such as the offset it looks at.
    """

    first: Floats
    second: Floats
    delta: Floats
    error: Floats
    p: Floats
    said: Mapping[str, tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)

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
        return int((self.certain & (self.delta > 0)).sum()), int((self.certain & (self.delta < 0)).sum())


def compare_statistic(statistic: Statistic, first: Any, second: Any, rows: Rows) -> Difference:
    """Compare a statistic of two models over the same texts; see ``compare_paired``.

    Its sums are a ``Blocked`` of (layer, head, ...), or a ``Constant``.

    References:
        Kish (1965), Survey sampling, on the effective size of a sample of unequal weights.
    """
    if not isinstance(first, Blocked):
        a = _average_heads(first.average.ravel(), rows.first)
        b = _average_heads(second.average.ravel(), rows.second)
        nothing = np.full(len(a), np.nan)
        return Difference(a, b, b - a, nothing, nothing)
    (ours, mine), (theirs, its) = pick_number(statistic, first), pick_number(statistic, second)
    own = SUFFIX if statistic.of is not None else ""
    said = {f"{name}{own}": (mine[name].ravel(), its[name].ravel()) for name in mine}
    return replace(compare_paired(ours, theirs, rows), said=said)


def compare_paired(first: Blocked, second: Blocked, rows: Rows) -> Difference:
    """Compare numbers of heads of two models over the same texts.

    With d = b - a the difference of the two means, and its standard error s by the jackknife over blocks of
    documents (``sums.blocked``), in which both models have the same documents,

        p = P(|T| >= |d| / s)

    with T of Student's t distribution. Of blocks with m_j texts each, it has as many degrees of freedom as
    there are blocks that count for one (Kish 1965), less one:

        (sum_j m_j)^2 / sum_j m_j^2 - 1

    Where each text is a block of its own, this is the paired t test. Where a few documents have most of the
    windows, p is large rather than small by chance: at most 7 % of p are below .05 where nothing differs,
    whether the windows of a document are alike or not. A difference below 1e-6 of the means is rounding: its
    p is 1.
    """
    number = first.counts.shape[1]
    counts = np.concatenate([first.counts, second.counts], 1)
    both = Blocked(counts, np.concatenate([first.totals, second.totals], 1))
    a, b = _average_heads(first.average, rows.first), _average_heads(second.average, rows.second)

    def subtract(means: Floats) -> Floats:
        mine, its = means[..., :number], means[..., number:]
        return _average_heads(its, rows.second) - _average_heads(mine, rows.first)

    estimate = both.apply(subtract)
    rounding = np.abs(estimate.value) <= ROUNDING * np.maximum(np.abs(a), np.abs(b))
    delta = np.where(rounding, 0.0, estimate.value)
    clusters = np.minimum(_count_blocks(first, rows.first), _count_blocks(second, rows.second))
    return Difference(a, b, delta, estimate.error, Estimate(delta, estimate.error, clusters).p())


def _count_blocks(side: Blocked, weights: Floats) -> Floats:
    """Count the blocks in which the heads of each row were seen, by what they weigh."""
    return np.where(weights > 0, side.estimate.clusters, 0).max(1, initial=0)


def pick_number(statistic: Statistic, one: Blocked) -> tuple[Blocked, dict[str, NDArray[Any]]]:
    """Pick the sums of the one number that a table has of each head, (block, head), and say which it is."""
    blocks = len(one.counts)
    if statistic.pick is None:
        return Blocked(one.counts.reshape(blocks, -1), one.totals.reshape(blocks, -1)), {}
    places, said = statistic.pick(one.count, one.average)
    at = places[None, ..., None]
    counts, totals = (np.take_along_axis(side, at, -1) for side in (one.counts, one.totals))
    return Blocked(counts.reshape(blocks, -1), totals.reshape(blocks, -1)), said


def _average_heads(means: Floats, weights: Floats) -> Floats:
    """Average the heads of each row that have a number, (..., row)."""
    known = ~np.isnan(means)
    total = np.where(known, means, 0.0) @ weights.T
    share = known.astype(np.float64) @ weights.T
    return np.divide(total, share, out=np.full(total.shape, np.nan), where=share > 0)


def _one_hot(heads: NDArray[np.intp], number: int) -> Floats:
    return np.eye(number + 1)[heads, :-1]  # of -1, the last row, which is 0
