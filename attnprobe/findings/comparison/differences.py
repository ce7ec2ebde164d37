"""Paired differences of a statistic between two checkpoints, with errors and p values."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.weighting import SUFFIX
from attnprobe.sums.jackknife import Jackknife
from attnprobe.sums.significance import adjust

Floats = NDArray[np.float64]

#: Numbers that differ by less than this part of the larger one may differ by the rounding of float32 alone.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Rows:
    """What the rows of a table are about: each is a mean over some heads of the one and of the other model.

    Attributes:
        first: (row, head of the first model) weights that add up to 1, or are all 0 where there is none.
        second: (row, head of the second model) the same.
    """

    first: Floats
    second: Floats

    @classmethod
    def of_heads(cls, first: NDArray[np.intp], second: NDArray[np.intp], heads: tuple[int, int]) -> "Rows":
        """Compare single heads.

        Args:
            first: The head of each row.
            second: Its partner, or -1 where it has none.
            heads: How many heads either model has.
        """
        return cls(_picking(first, heads[0]), _picking(second, heads[1]))


@dataclass(frozen=True)
class Difference:
    """A statistic in two models, row by row.

    Attributes:
        first: Its mean in the first model.
        second: In the second.
        delta: Second less first.
        error: The standard error of that.
        p: That the two do not differ.
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


def difference(statistic: Statistic, first: Any, second: Any, rows: Rows) -> Difference:
    """Compare a statistic of two models over the same texts; see ``paired``.

    Args:
        statistic: What was measured.
        first: Its sum in the first model, a ``Jackknife`` of (layer, head, ...), or a ``Constant``.
        second: Its sum in the second.
        rows: What is compared with what.

    References:
        Kish (1965), Survey sampling, on the effective size of a sample of unequal weights.
    """
    if not isinstance(first, Jackknife):
        a, b = (_mixed(one.average.ravel(), weights) for one, weights in _sides(first, second, rows))
        nothing = np.full(len(a), np.nan)
        return Difference(a, b, b - a, nothing, nothing)
    (ours, mine), (theirs, its) = picked(statistic, first), picked(statistic, second)
    own = SUFFIX if statistic.of is not None else ""
    said = {f"{name}{own}": (mine[name].ravel(), its[name].ravel()) for name in mine}
    return replace(paired(ours, theirs, rows), said=said)


def paired(first: Jackknife, second: Jackknife, rows: Rows) -> Difference:
    """Compare numbers of heads of two models over the same texts.

    With d = b - a the difference of the two means, and its standard error s by the jackknife over blocks of
    documents (``sums.jackknife``), in which both models have the same documents,

        p = P(|T| >= |d| / s)

    with T of Student's t distribution. Of blocks with m_j texts each, it has as many degrees of freedom as
    there are blocks that count for one (Kish 1965), less one:

        (sum_j m_j)^2 / sum_j m_j^2 - 1

    Where each text is a block of its own, this is the paired t test. Where a few documents have most of the
    windows, p is large rather than small by chance: at most 7 % of p are below .05 where nothing differs,
    whether the windows of a document are alike or not. A difference below 1e-6 of the means is rounding: its
    p is 1.

    Args:
        first: The sums of the first model, of (head,).
        second: Those of the second.
        rows: What is compared with what.
    """
    number = first.counts.shape[1]
    both = Jackknife(*(np.concatenate(pair, 1) for pair in _fields(first, second)))
    a, b = (_mixed(one.average, weights) for one, weights in _sides(first, second, rows))

    def of(means: Floats) -> Floats:
        return _mixed(means[..., number:], rows.second) - _mixed(means[..., :number], rows.first)

    delta, error = both.made(of)
    delta = np.where(np.abs(delta) <= ROUNDING * np.maximum(np.abs(a), np.abs(b)), 0.0, delta)
    freedom = np.minimum(_freedom(first, rows.first), _freedom(second, rows.second))
    return Difference(a, b, delta, error, _chance(delta, error, freedom))


def _chance(delta: Floats, error: Floats, freedom: Floats) -> Floats:
    """Give the two-sided p of Student's t."""
    from scipy.special import stdtr  # takes a while to import

    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * stdtr(freedom, -np.abs(delta) / error)
    return np.where(np.isfinite(error) & (freedom > 0), np.where(delta == 0, 1.0, p), np.nan)


def _freedom(one: Jackknife, weights: Floats) -> Floats:
    """Count the blocks in which the heads of each row were seen, by what they weigh, less one."""
    squares = np.square(one.counts).sum(0)
    blocks = np.divide(np.square(one.count), squares, out=np.zeros(squares.shape), where=squares > 0)
    return np.where(weights > 0, blocks, 0).max(1, initial=0) - 1


def picked(statistic: Statistic, one: Jackknife) -> tuple[Jackknife, dict[str, NDArray[Any]]]:
    """Give the sums of the one number that a table has of each head, (block, head), and what was picked."""
    blocks = len(one.counts)
    if statistic.pick is None:
        return Jackknife(one.counts.reshape(blocks, -1), one.totals.reshape(blocks, -1)), {}
    places, said = statistic.pick(one.count, one.average)
    at = places[None, ..., None]
    counts, totals = (np.take_along_axis(side, at, -1) for side in (one.counts, one.totals))
    return Jackknife(counts.reshape(blocks, -1), totals.reshape(blocks, -1)), said


def _fields(first: Jackknife, second: Jackknife) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    return (first.counts, second.counts), (first.totals, second.totals)


def _sides(first: Any, second: Any, rows: Rows) -> tuple[tuple[Any, Floats], tuple[Any, Floats]]:
    return (first, rows.first), (second, rows.second)


def _mixed(means: Floats, weights: Floats) -> Floats:
    """Average the heads of each row that have a number, (..., row)."""
    known = ~np.isnan(means)
    total = np.where(known, means, 0.0) @ weights.T
    share = known.astype(np.float64) @ weights.T
    return np.divide(total, share, out=np.full(total.shape, np.nan), where=share > 0)


def _picking(heads: NDArray[np.intp], number: int) -> Floats:
    found = np.zeros((len(heads), number))
    there = np.flatnonzero(heads >= 0)
    found[there, heads[there]] = 1.0
    return found
