"""What a correlation over heads would be without the noise of the examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Place
from attnprobe.errors import AttnprobeError
from attnprobe.sums.base import pack, unpack
from attnprobe.sums.blocked import Blocks
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.inference import CONFIDENCE

Floats = NDArray[np.float64]
#: Under this name a record holds the sums of a column over blocks of documents.
RECORD = "blocks"
#: Under this name the sums keep the values of the column itself.
_VALUES = "values"
#: Relative difference that is rounding.
_ROUNDING = 1e-9
#: With fewer blocks of documents than this, nothing is drawn again.
LEAST = 8
#: How often it is drawn.
DRAWS = 4000


@dataclass(frozen=True)
class Sample:
    """A number for every head, and how it came about block of documents by block of documents.

    Attributes:
        count: (block,) examples.
        total: (block, head) their sum.
        block: (block,) which blocks these are; by default the first ones.
    """

    count: Floats
    total: Floats
    block: NDArray[np.int64] | None = None

    @property
    def centred(self) -> "Sample":
        """The sample less the mean over heads, which a correlation does not see."""
        return replace(self, total=self.total - self.total.mean(1, keepdims=True))

    @property
    def mean(self) -> Floats:
        """The mean of all examples (head,)."""
        return self.total.sum(0) / self.count.sum()

    def select_heads(self, order: Sequence[int]) -> "Sample":
        return replace(self, total=self.total[:, list(order)])

    def reindex(self, blocks: NDArray[np.int64]) -> "Sample":
        """Extend the sample to these blocks, among which are all of its own."""
        own = np.arange(len(self.count)) if self.block is None else self.block
        place = np.searchsorted(blocks, own)
        count, total = np.zeros(len(blocks)), np.zeros((len(blocks), self.total.shape[1]))
        count[place], total[place] = self.count, self.total
        return Sample(count, total, blocks)

    def move_to(self, mean: Floats) -> "Sample":
        """Shift the examples so that their mean is another."""
        return replace(self, total=self.total + self.count[:, None] * (mean - self.mean))


@dataclass(frozen=True)
class Disattenuated:
    """A correlation over heads without the noise of the examples.

    Attributes:
        pearson: The estimate; NaN where a side's heads differ by no more than its noise, or where there are
            fewer than three blocks of documents.
        low: Lower end of the 95 % interval; NaN where there are too few documents.
    """

    pearson: float
    low: float
    high: float


def disattenuate(
    inside: Sample, outside: Sample, draws: int = DRAWS, seed: int = 0, *, shared: bool = False
) -> Disattenuated:
    """Estimate the correlation over heads of the true values, which noise makes look smaller.

    The products of different blocks of documents are free of noise, since it is independent between them.
    With S_g the sum of block g over its n_g examples, less its mean over heads, T_g and m_g those of the
    other side, and S, N, T, M the sums over blocks,

        v_x = (|S|^2 - sum_g |S_g|^2) / (N^2 - sum_g n_g^2),    c = S . T / (N M),
        r = c / sqrt(v_x v_y)

    Where both sides read the same documents, their noise is alike, and c leaves out the products of a block
    with itself, too: c = (S . T - sum_g S_g . T_g) / (N M - sum_g n_g m_g).

    r is biased where an example makes all gradients large, which moves c and v_x together. The jackknife over
    the G blocks of a side (of both at once if they share their documents) takes this out, to the first order
    in 1 / G:

        r - (G - 1) (mean_g r_(g) - r),    r_(g) without block g

    The interval is a bootstrap over blocks of documents, the same blocks for both sides if they share them.
    Beforehand, x and y are moved as little as possible to where |x|^2 = v_x, |y|^2 = v_y and their
    correlation is the estimate; or the draws would scatter by their noise twice over. A draw in which v <= 0
    on a side is compatible with any correlation of its sign. Close to 1, the interval is too wide.

    Args:
        inside: In domain, at least 8 blocks for an interval.
        outside: Out of domain, the same heads.
        draws: How often documents are drawn.
        seed: Of the draws.
        shared: Whether a document of a number is the same one on both sides.

    References:
        Spearman (1904), The proof and measurement of association between two things.
        Efron and Tibshirani (1993), An introduction to the bootstrap, chapters 10 and 13.
    """
    one, other = (side.centred for side in align_samples(inside, outside, shared=shared))
    if shared and are_equal(one, other):
        return Disattenuated(1.0, 1.0, 1.0)
    once = [np.ones((1, len(side.count))) for side in (one, other)]
    found = _compute_moments(one, other, *once, shared=shared)
    pearson = float(np.clip(float(found.correlation[0]), -1, 1))
    if min(np.count_nonzero(side.count) for side in (one, other)) < LEAST:
        return Disattenuated(pearson, np.nan, np.nan)
    product, *signals = (float(moment[0, 0]) for moment in found.whole)
    if np.isfinite(pearson):
        product = pearson * np.sqrt(signals[0] * signals[1])
    one, other = map(Sample.move_to, (one, other), _stretch((one.mean, other.mean), signals, product))
    draw = np.random.default_rng(seed)
    here = _draw_blocks(len(one.count), draw, draws)
    there = here if shared else _draw_blocks(len(other.count), draw, draws)
    drawn = _compute_moments(one, other, here, there, shared=shared)
    again = np.where(np.isnan(drawn.correlation), np.sign(drawn.whole[0][:, 0]), drawn.correlation)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(again.clip(-1, 1), [tail, 1 - tail])
    return Disattenuated(pearson, float(low), float(high))


#: x . y, |x|^2 and |y|^2 without noise, each (draw, 1), or (draw, block) with each block left out.
_Three = tuple[Floats, Floats, Floats]


@dataclass(frozen=True)
class _Moments:
    """What a correlation is made of, draw by draw.

    Attributes:
        whole: Of all blocks.
        left: Without each block of a side, and how often each is drawn (draw, block).
    """

    whole: _Three
    left: Sequence[tuple[_Three, Floats]]

    @property
    def correlation(self) -> Floats:
        """The correlation without the bias of a ratio (draw,); NaN where a side has no more than noise."""
        whole = _divide(self.whole)
        found = whole[:, 0]
        for moments, weights in self.left:
            without = np.where(weights > 0, _divide(moments), 0.0)
            blocks = weights.sum(1)
            found = found - (blocks - 1) * ((weights * without).sum(1) / blocks - whole[:, 0])
        return found


def _compute_moments(one: Sample, other: Sample, here: Floats, there: Floats, *, shared: bool) -> _Moments:
    """Multiply different blocks, drawn as often as ``here`` and ``there`` say (draw, block)."""
    ours, without = _square(one, here)
    theirs, without_its = _square(other, there)
    gram = one.total @ other.total.T  # of the blocks: draws know no heads
    by_block, by_its = there @ gram.T, here @ gram  # S_g . T and S . T_g
    product = (by_block * here).sum(1, keepdims=True)
    n, m = _sum_drawn(one.count, here), _sum_drawn(other.count, there)
    with np.errstate(divide="ignore", invalid="ignore"):
        if not shared:
            fewer = (product - by_block) / ((n - one.count) * m)
            fewer_its = (product - by_its) / (n * (m - other.count))
            left = [((fewer, without, theirs), here), ((fewer_its, ours, without_its), there)]
            return _Moments((product / (n * m), ours, theirs), left)
        own, pairs = np.diag(gram), one.count * other.count
        product, number = product - _sum_drawn(own, here), n * m - _sum_drawn(pairs, here)
        below = number - one.count * m - n * other.count + 2 * pairs
        fewer = (product - by_block - by_its + 2 * own) / below
        return _Moments((product / number, ours, theirs), [((fewer, without, without_its), here)])


def _square(side: Sample, weights: Floats) -> tuple[Floats, Floats]:
    """Compute |x|^2 without noise, (draw, 1), and with each block left out once, (draw, block)."""
    gram = side.total @ side.total.T
    by_block = weights @ gram
    own, count = np.diag(gram), side.count
    n = _sum_drawn(count, weights)
    product = (by_block * weights).sum(1, keepdims=True) - _sum_drawn(own, weights)
    number = n**2 - _sum_drawn(count**2, weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = (product - 2 * by_block + 2 * own) / (number - 2 * n * count + 2 * count**2)
        return product / number, left


def _sum_drawn(values: Floats, weights: Floats) -> Floats:
    return (weights @ values)[:, None]


def _divide(moments: _Three) -> Floats:
    """Divide the product by the root of both; NaN where a side has no more than noise."""
    product, ours, theirs = moments
    possible = (ours > 0) & (theirs > 0)
    return np.where(possible, product / np.sqrt(np.where(possible, ours * theirs, 1.0)), np.nan)


def align_samples(inside: Sample, outside: Sample, *, shared: bool) -> tuple[Sample, Sample]:
    if not shared:
        return inside, outside
    own = [np.arange(len(side.count)) if side.block is None else side.block for side in (inside, outside)]
    blocks = np.union1d(*own)
    return inside.reindex(blocks), outside.reindex(blocks)


def are_equal(one: Sample, other: Sample) -> bool:
    """Tell whether both sides are the same numbers: then no noise is left, and no draw says otherwise."""
    if not np.array_equal(one.count, other.count):
        return False
    reach = _ROUNDING * np.abs(one.total).max()
    return np.allclose(one.total, other.total, rtol=_ROUNDING, atol=reach)


def _draw_blocks(blocks: int, draw: np.random.Generator, draws: int) -> Floats:
    return draw.multinomial(blocks, np.full(blocks, 1 / blocks), draws).astype(np.float64)


def _stretch(means: Sequence[Floats], signals: Sequence[float], product: float) -> list[Floats]:
    """Make means as long, and as far from one another, as they would be without noise.

    Of all linear maps of x and y that do so, the one that moves them least:
    A = M^-1/2 (M^1/2 T M^1/2)^1/2 M^-1/2, with M their inner products and T those that are wanted.
    """
    both = np.stack(means)
    lengths = np.sqrt(np.clip(signals, 0.0, None))
    reach = float(lengths[0] * lengths[1])
    crossed = float(np.clip(product, -reach, reach))
    wanted = np.array([[lengths[0] ** 2, crossed], [crossed, lengths[1] ** 2]])
    root, back = _take_roots(both @ both.T)
    turn = back @ _take_roots(root @ wanted @ root)[0] @ back
    return list(turn @ both)


def _take_roots(square: Floats) -> tuple[Floats, Floats]:
    """Compute the root of a symmetric matrix without negative eigenvalues, and the inverse of the root."""
    values, vectors = np.linalg.eigh(square)
    some = values > _ROUNDING * max(values.max(), 0.0)
    root = np.sqrt(np.where(some, values, 0.0))
    back = np.where(some, 1 / np.where(some, root, 1.0), 0.0)
    whole, inverse = (np.asarray((vectors * one) @ vectors.T) for one in (root, back))
    return whole, inverse


def block_record(column: str, places: Sequence[Place], blocks: Blocks, values: Floats) -> dict[str, Any]:
    """Make the record of the sums of a column over blocks (block, layer, head).

    The column's values (layer, head) go with them: a score need not be the mean of what its examples add to
    it, and a table that was written again without a record must not be taken for the one on record.
    """
    layers = [list(place.key) for place in places]
    sums = pack({**blocks.arrays(), _VALUES: values})
    return {RECORD: {"column": column, "layers": layers, "sums": sums}}


def read_sample(
    record: Mapping[str, Any], column: str, values: Mapping[tuple[Any, ...], float], name: str
) -> Sample | None:
    """Read the sums of a column over blocks from the record of a table; None where it has none.

    ``values`` has the number of each head in the table, which is named by the kind of attention if there are
    several, layer, head; ``name`` is what the user calls the table.

    Raises:
        AttnprobeError: When the record is damaged, or is that of another table.
    """
    kept = record.get(RECORD)
    if kept is None:
        return None
    try:
        if kept["column"] != column:
            return None
        arrays = unpack(kept["sums"])
        found, known = Blocks.from_arrays(arrays), arrays[_VALUES]
        layers = {tuple(layer): place for place, layer in enumerate(kept["layers"])}
        shape = BLOCKS, len(layers), *known.shape[1:]
        if found.count.shape != (BLOCKS,) or found.total.shape != shape or known.shape != shape[1:]:
            raise ValueError("its shape is wrong")
        at = [(layers[tuple(head[:-1])], head[-1]) for head in values]
        total = np.stack([found.total[:, layer, head] for layer, head in at], 1)
        recorded = np.array([known[layer, head] for layer, head in at], np.float64)
        if not (np.isfinite(found.count).all() and np.isfinite(total).all()):
            raise ValueError("it holds something that is no number")
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise AttnprobeError(
            f"The record of {name} can't be read: what it keeps of blocks of documents is damaged ({error}). "
            "Write the table again."
        ) from error
    if not _agree(np.array(list(values.values())), recorded):
        raise AttnprobeError(
            f"The record of {name} is that of another table: its {column} is not the table's. Delete the "
            "json beside the table, or write the table again with -o."
        )
    some = found.count > 0
    return Sample(found.count[some], total[some], np.flatnonzero(some))


def _agree(written: Floats, recorded: Floats) -> bool:
    """Tell whether numbers are the same but for the digits that ``--precision`` left."""
    finite = written[np.isfinite(written)]
    fitting = (digits for digits in range(1, 17) if all(float(f"{one:.{digits}g}") == one for one in finite))
    tolerance = max(_ROUNDING, 0.51 * 10.0 ** (1 - next(fitting, 17)))
    return np.allclose(written, recorded, rtol=tolerance, atol=0, equal_nan=True)
