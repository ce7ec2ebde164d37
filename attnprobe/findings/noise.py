"""Correlation over heads, corrected for the noise of the examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Place
from attnprobe.errors import DataError
from attnprobe.sums.base import pack, unpack
from attnprobe.sums.blocked import Blocked, jackknife
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.inference import Estimate

Floats = NDArray[np.float64]
#: The key of a record for the sums of a column over blocks of documents.
RECORD = "blocks"
#: The names of the arrays of these sums: counts, totals, and the values of the column.
_COUNT, _TOTAL, _VALUES = "count", "total", "values"
#: A relative difference up to this is rounding.
_ROUNDING = 1e-9
#: The jackknife needs this many blocks of documents.
_LEAST = 3
#: How many terms of ``_list_terms`` are not sums of heads.
_PRODUCTS = 8


@dataclass(frozen=True)
class Sample:
    """A number for every head, as sums over blocks of documents."""

    count: Floats  # (block,) examples
    total: Floats  # (block, head) their sum

    @property
    def reliability(self) -> float:
        """Split-half reliability: the expected correlation with as many new examples.

            2 r / (1 + r), with r the Pearson correlation over heads of the two halves; r if it is below 0

        References:
            Spearman (1910), Correlation calculated from faulty data; Brown (1910).
        """
        half = len(self.count) // 2
        sides = [(self.count[part], self.total[part]) for part in (slice(half), slice(half, None))]
        if not all(count.any() for count, _ in sides):
            return float("nan")
        first, second = (total.sum(0) / count.sum() for count, total in sides)
        if not (np.ptp(first) > 0 and np.ptp(second) > 0):
            return float("nan")
        r = float(np.corrcoef(first, second)[0, 1])
        return 2 * r / (1 + r) if r > 0 else r


@dataclass(frozen=True)
class Disattenuated:
    """A correlation over heads without the noise of the examples, and its 95 % interval.

    NaN where a side's heads differ by no more than its noise, or where there are too few documents.
    """

    pearson: float = np.nan
    low: float = np.nan
    high: float = np.nan


UNKNOWN = Disattenuated()


def disattenuate(inside: Sample, outside: Sample, *, shared: bool = False) -> Disattenuated:
    """Estimate the correlation over heads of the true values, which noise lowers.

    Products of different blocks of documents are unbiased, since noise is independent between blocks. With
    S_g the sum of block g over its n_g examples, less its mean over heads, T_g and m_g the same for the other
    side, and S, N, T, M the sums over blocks,

        v_x = (|S|^2 - sum_g |S_g|^2) / (N^2 - sum_g n_g^2),    c = S . T / (N M),
        r = c / sqrt(v_x v_y)

    If both sides read the same documents, their noise is correlated, and c too leaves out the products of a
    block with itself: c = (S . T - sum_g S_g . T_g) / (N M - sum_g n_g m_g).

    r is biased if an example makes all gradients large, which moves c and v_x together. The jackknife over
    the G blocks of a side (of both at once if they share their documents) removes this bias to the first
    order in 1 / G, and gives the standard error:

        r - (G - 1) (mean_g r_(g) - r),    SE^2 = (G - 1) / G sum_g (r_(g) - r)^2,    r_(g) without block g

    summed over the sides if their documents differ. The interval is from Student's t with G - 1 degrees of
    freedom, for the smaller G. If v is not above 0 on a side, with or without a block, the values are all
    noise, and the interval is -1 to 1. Close to 1, the interval is too wide.

    ``shared`` says whether documents with the same number are the same on both sides.

    References:
        Spearman (1904), The proof and measurement of association between two things.
        Tukey (1958), Bias and confidence in not quite large samples.
    """
    if shared and _are_equal(inside, outside):
        return Disattenuated(1.0, 1.0, 1.0)
    nothing = Sample(np.zeros_like(inside.count), np.zeros_like(inside.total))
    samples = [_list_terms(inside, outside)]
    if not shared:
        samples = [_list_terms(inside, nothing), _list_terms(nothing, outside)]
    total = np.sum(samples, (0, 1))
    estimates = [_leave_out_blocks(terms, total) for terms in samples]
    fewest = min(estimate.clusters for estimate in estimates)
    if fewest < _LEAST:
        return UNKNOWN
    r = _correlate(total)
    value = r + sum(estimate.value - r for estimate in estimates)
    error = np.sqrt(sum(np.square(estimate.error) for estimate in estimates))
    low, high = (float(end.clip(-1, 1)) for end in Estimate(value, error, fewest).interval())
    if np.isnan(low):
        low, high = -1.0, 1.0
    return Disattenuated(float(value.clip(-1, 1)), low, high)


def _leave_out_blocks(terms: Floats, total: Floats) -> Estimate:
    """Jackknife r over the blocks of one sample, ``terms``; ``total`` is the sum over all samples."""
    others, filled = total - terms.sum(0), np.any(terms, axis=1).astype(np.float64)
    return jackknife(lambda sums: _correlate(others + sums), terms, filled, unbiased=True)


def _list_terms(inside: Sample, outside: Sample) -> Floats:
    """List the terms of a correlation for each block: S, T, S.S, T.T, S.T, n, m, n n, m m, n m."""
    s, t = (side.total - side.total.mean(1, keepdims=True) for side in (inside, outside))
    n, m = inside.count, outside.count
    products = [(s * s).sum(1), (t * t).sum(1), (s * t).sum(1)]
    return np.column_stack([s, t, *products, n, m, n * n, m * m, n * m])


def _correlate(total: Floats) -> Floats:
    """Compute r from sums (..., term) of ``_list_terms``; NaN where a side is nothing but noise."""
    heads = (total.shape[-1] - _PRODUCTS) // 2
    s, t = total[..., :heads], total[..., heads : 2 * heads]
    ss, tt, st, n, m, nn, mm, nm = np.moveaxis(total[..., 2 * heads :], -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ours, theirs = ((s * s).sum(-1) - ss) / (n * n - nn), ((t * t).sum(-1) - tt) / (m * m - mm)
        r = ((s * t).sum(-1) - st) / (n * m - nm) / np.sqrt(ours * theirs)
    return np.where((ours > 0) & (theirs > 0), r, np.nan)


def _are_equal(inside: Sample, outside: Sample) -> bool:
    if not np.array_equal(inside.count, outside.count):
        return False
    return np.allclose(inside.total, outside.total, _ROUNDING, _ROUNDING * np.abs(inside.total).max())


def block_record(column: str, places: Sequence[Place], blocks: Blocked, values: Floats) -> dict[str, Any]:
    """Make the record of the sums of a column over blocks (block, layer, head), and of its values.

    The values show later whether the table is still the one that the record describes.
    """
    layers = [list(place.key) for place in places]
    count = blocks.counts.max((1, 2))
    totals = np.where(blocks.counts == count[:, None, None], blocks.totals, np.nan)
    sums = pack({_COUNT: count, _TOTAL: totals, _VALUES: values})
    return {RECORD: {"column": column, "layers": layers, "sums": sums}}


def read_sample(
    record: Mapping[str, Any], column: str, values: Mapping[tuple[Any, ...], float], name: str
) -> Sample | None:
    """Read the sums of a column over blocks from the record of a table; None where it has none.

    ``values`` has the number of each head in the table, and ``name`` is what the user calls it. Raises
    AttnprobeError when the record is damaged, or is that of another table.
    """
    kept = record.get(RECORD)
    if kept is None:
        return None
    try:
        if kept["column"] != column:
            return None
        arrays = unpack(kept["sums"])
        count, total, known = (arrays[name] for name in (_COUNT, _TOTAL, _VALUES))
        layers = {tuple(layer): place for place, layer in enumerate(kept["layers"])}
        shape = BLOCKS, len(layers), *known.shape[1:]
        if count.shape != (BLOCKS,) or total.shape != shape or known.shape != shape[1:]:
            raise ValueError("its shape is wrong")
        at = tuple(np.array([(layers[tuple(head[:-1])], head[-1]) for head in values]).T)
        total, recorded = total[:, *at], known[at].astype(np.float64)
        if not (np.isfinite(count).all() and np.isfinite(total).all()):
            raise ValueError("it holds something that is no number")
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise DataError(
            f"The record of {name} can't be read: what it keeps of blocks of documents is damaged ({error}). "
            "Write the table again."
        ) from error
    if not _agree(np.array([*values.values()]), recorded):
        raise DataError(
            f"The record of {name} is that of another table: its {column} is not the table's. Delete the "
            "json beside the table, or write the table again with -o."
        )
    return Sample(count, total)


def _agree(written: Floats, recorded: Floats) -> bool:
    """Tell whether numbers are the same, up to rounding by ``--precision``."""
    finite = written[np.isfinite(written)]
    fitting = (digits for digits in range(1, 17) if all(float(f"{x:.{digits}g}") == x for x in finite))
    tolerance = max(_ROUNDING, 0.51 * 10.0 ** (1 - next(fitting, 17)))
    return np.allclose(written, recorded, rtol=tolerance, atol=0, equal_nan=True)
