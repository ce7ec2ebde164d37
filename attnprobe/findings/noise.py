"""What a correlation over heads would be without the noise of the examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Place
from attnprobe.errors import AttnprobeError
from attnprobe.run.packing import packed, unpacked
from attnprobe.sums.blocks import BLOCKS, Blocks

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
#: Confidence of the interval.
CONFIDENCE = 0.95


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
        """The same less the mean over heads, which a correlation does not see."""
        return replace(self, total=self.total - self.total.mean(1, keepdims=True))

    @property
    def mean(self) -> Floats:
        """The mean of all examples (head,)."""
        return self.total.sum(0) / self.count.sum()

    def of_heads(self, order: Sequence[int]) -> "Sample":
        """Give some heads, in an order."""
        return replace(self, total=self.total[:, list(order)])

    def over(self, blocks: NDArray[np.int64]) -> "Sample":
        """Give the same over these blocks, among which are all of its own."""
        own = np.arange(len(self.count)) if self.block is None else self.block
        place = np.searchsorted(blocks, own)
        count, total = np.zeros(len(blocks)), np.zeros((len(blocks), self.total.shape[1]))
        count[place], total[place] = self.count, self.total
        return Sample(count, total, blocks)

    def moved(self, mean: Floats) -> "Sample":
        """Give the same with another mean of all examples."""
        return replace(self, total=self.total + self.count[:, None] * (mean - self.mean))


@dataclass(frozen=True)
class Disattenuated:
    """A correlation over heads without the noise of the examples.

    Attributes:
        pearson: The estimate, NaN where a side's heads differ by no more than its noise.
        low: Lower end of the 95 % interval; NaN where there are too few documents.
        high: Upper end.
    """

    pearson: float
    low: float
    high: float


def disattenuated(
    inside: Sample, outside: Sample, draws: int = DRAWS, seed: int = 0, *, shared: bool = False
) -> Disattenuated:
    """Estimate the correlation over heads of the true values, which noise makes look smaller.

    With x and y the means of all examples, less their means over heads, |x|^2 is too large by the noise of a
    mean. That is known from how the blocks of documents scatter:

        v_x = |x|^2 - G / (G - 1) sum_g |S_g - n_g x|^2 / N^2,    r = c / sqrt(v_x v_y)

    for G blocks, of which block g has n_g of the N examples and their sum S_g. With independent examples on
    both sides, c = x . y has no bias. Where both sides read the same documents, their noise is alike, and
    x . y is too large or too small by the covariance of the means, which the same blocks tell:

        c = x . y - G / (G - 1) sum_g (S_g - n_g x) . (T_g - m_g y) / (N M)

    with T_g, m_g and M those of the other side. It has no bias either if only some of the documents are the
    same, or none. The interval is a bootstrap: documents are drawn again, block by block, the same blocks for
    both sides if they share them, and v and c taken anew. Since x and y are noisy themselves, they are moved
    beforehand to where |x|^2 = v_x and |y|^2 = v_y, or the draws would scatter by their noise twice over; of
    sides that share documents, to where also x . y = c, as little as that can be done. A draw with v <= 0 on
    a side is compatible with any correlation of its sign.

    Args:
        inside: In domain, at least 8 blocks for an interval.
        outside: Out of domain, the same heads.
        draws: How often documents are drawn.
        seed: Of the draws.
        shared: Whether a document of a number is the same one on both sides.

    References:
        Spearman (1904), The proof and measurement of association between two things.
        Efron and Tibshirani (1993), An introduction to the bootstrap, chapter 13.
    """
    sides = [side.centred for side in _aligned(inside, outside, shared=shared)]
    if shared and _are_one(*sides):
        return Disattenuated(1.0, 1.0, 1.0)
    means = [side.mean for side in sides]
    signals = [float(_inner(side, side, _once(side))[0]) for side in sides]
    one, other = sides
    product = float(_inner(one, other, _once(one))[0]) if shared else float(means[0] @ means[1])
    if min(np.count_nonzero(side.count) for side in sides) < LEAST:
        return Disattenuated(_ratio(product, *signals), np.nan, np.nan)
    there = _turned(means, signals, product) if shared else _shrunk(means, signals)
    one, other = sides = [side.moved(mean) for side, mean in zip(sides, there, strict=True)]
    draw = np.random.default_rng(seed)
    weights = [_drawn(len(side.count), draw, draws) for side in sides[: 1 if shared else 2]]
    weights = weights * 2 if shared else weights
    ours, theirs = (_inner(side, side, some) for side, some in zip(sides, weights, strict=True))
    crossed = _inner(one, other, weights[0]) if shared else _products(sides, weights)
    ours, theirs, crossed = (
        found + (wanted - found.mean())
        for found, wanted in zip((ours, theirs, crossed), (*signals, product), strict=True)
    )
    possible = (ours > 0) & (theirs > 0)
    length = np.sqrt(np.where(possible, ours * theirs, 1.0))
    found = np.where(possible, crossed / length, np.sign(crossed)).clip(-1, 1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    return Disattenuated(_ratio(product, *signals), float(low), float(high))


def _ratio(product: float, ours: float, theirs: float) -> float:
    return float(np.clip(product / np.sqrt(ours * theirs), -1, 1)) if min(ours, theirs) > 0 else np.nan


def _aligned(inside: Sample, outside: Sample, *, shared: bool) -> tuple[Sample, Sample]:
    """Put what both sides have of a block in one row, if they share blocks."""
    if not shared:
        return inside, outside
    own = [np.arange(len(side.count)) if side.block is None else side.block for side in (inside, outside)]
    blocks = np.union1d(*own)
    return inside.over(blocks), outside.over(blocks)


def _are_one(one: Sample, other: Sample) -> bool:
    """Tell whether both sides are the same numbers: then no noise is left, and no draw says otherwise."""
    same = np.array_equal(one.count, other.count)
    return same and np.allclose(
        one.total, other.total, rtol=_ROUNDING, atol=_ROUNDING * np.abs(one.total).max()
    )


def _once(side: Sample) -> Floats:
    """Take every block once."""
    return np.ones((1, len(side.count)))


def _inner(one: Sample, other: Sample, weights: Floats) -> Floats:
    """Give x . y without what the noise of shared blocks adds to it, (draw,).

    Args:
        one: A side, less its mean over heads.
        other: The same side, or one that reads the same documents.
        weights: How often each block is drawn (draw, block).
    """
    blocks = len(one.count)
    if blocks < 2:
        return np.full(len(weights), np.nan)
    gram = one.total @ other.total.T  # of the blocks: draws know no heads
    n, m = ((weights @ side.count)[:, None] for side in (one, other))
    here, there = weights @ gram / n, weights @ gram.T / m  # x . T_g and S_g . y
    product = (here * weights).sum(1, keepdims=True) / m
    apart = np.diag(gram) - one.count * here - other.count * there + one.count * other.count * product
    noise = blocks / (blocks - 1) * (weights * apart).sum(1) / (n * m)[:, 0]
    return product[:, 0] - noise


def _products(sides: Sequence[Sample], weights: Sequence[Floats]) -> Floats:
    """Give x . y of each draw (draw,), of sides that were drawn each for itself."""
    drawn = [
        some @ side.total / (some @ side.count)[:, None] for side, some in zip(sides, weights, strict=True)
    ]
    return np.einsum("dh,dh->d", *drawn)


def _drawn(blocks: int, draw: np.random.Generator, draws: int) -> Floats:
    """Draw blocks with replacement; say how often each is drawn (draw, block)."""
    return draw.multinomial(blocks, np.full(blocks, 1 / blocks), draws).astype(np.float64)


def _shrunk(means: Sequence[Floats], signals: Sequence[float]) -> list[Floats]:
    """Make means as long as they would be without noise."""
    return [
        mean * np.sqrt(max(signal, 0.0) / (mean @ mean)) for mean, signal in zip(means, signals, strict=True)
    ]


def _turned(means: Sequence[Floats], signals: Sequence[float], product: float) -> list[Floats]:
    """Make means as long, and as far from one another, as they would be without noise.

    Of all linear maps of x and y that do so, the one that moves them least:
    A = M^-1/2 (M^1/2 T M^1/2)^1/2 M^-1/2, with M their inner products and T those that are wanted.
    """
    both = np.stack(means)
    lengths = np.sqrt(np.clip(signals, 0.0, None))
    reach = float(lengths[0] * lengths[1])
    crossed = float(np.clip(product, -reach, reach))
    wanted = np.array([[lengths[0] ** 2, crossed], [crossed, lengths[1] ** 2]])
    root, back = _powers(both @ both.T)
    turn = back @ _powers(root @ wanted @ root)[0] @ back
    return list(turn @ both)


def _powers(square: Floats) -> tuple[Floats, Floats]:
    """Give the root of a symmetric matrix without negative eigenvalues, and the inverse of the root."""
    values, vectors = np.linalg.eigh(square)
    some = values > _ROUNDING * max(values.max(), 0.0)
    root = np.sqrt(np.where(some, values, 0.0))
    back = np.where(some, 1 / np.where(some, root, 1.0), 0.0)
    whole, inverse = (np.asarray((vectors * one) @ vectors.T) for one in (root, back))
    return whole, inverse


def record_of(column: str, places: Sequence[Place], blocks: Blocks, values: Floats) -> dict[str, Any]:
    """Put the sums of a column over blocks (block, layer, head) on record.

    The column's values (layer, head) go with them: a score need not be the mean of what its examples add to
    it, and a table that was written again without a record must not be taken for the one on record.
    """
    layers = [list(place.key) for place in places]
    sums = packed({**blocks.arrays(), _VALUES: values})
    return {RECORD: {"column": column, "layers": layers, "sums": sums}}


def sample_of(
    record: Mapping[str, Any], column: str, values: Mapping[tuple[Any, ...], float], name: str
) -> Sample | None:
    """Read the sums of a column over blocks from the record of a table; None where it has none.

    Args:
        record: The provenance of the table.
        column: Which number.
        values: The number of each head in the table. What names a head: the kind of attention if there are
            several, layer, head.
        name: What the user calls the table.

    Raises:
        AttnprobeError: When the record is damaged, or is that of another table.
    """
    kept = record.get(RECORD)
    if kept is None:
        return None
    try:
        if kept["column"] != column:
            return None
        arrays = unpacked(kept["sums"])
        found, known = Blocks.from_arrays(arrays), arrays[_VALUES]
        layers = {tuple(layer): place for place, layer in enumerate(kept["layers"])}
        if found.count.shape != (BLOCKS,) or found.total.shape[:2] != (BLOCKS, len(layers)):
            raise ValueError("its shape is wrong")
        if known.shape != found.total.shape[1:]:
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
    if not _same(np.array(list(values.values())), recorded):
        raise AttnprobeError(
            f"The record of {name} is that of another table: its {column} is not the table's. Delete the "
            "json beside the table, or write the table again with -o."
        )
    some = found.count > 0
    return Sample(found.count[some], total[some], np.flatnonzero(some))


def _same(written: Floats, recorded: Floats) -> bool:
    """Tell whether numbers are the same but for the digits that ``--precision`` left."""
    finite = written[np.isfinite(written)]
    digits = next(
        (digits for digits in range(1, 17) if all(float(f"{one:.{digits}g}") == one for one in finite)), 17
    )
    return np.allclose(
        written, recorded, rtol=max(_ROUNDING, 0.51 * 10.0 ** (1 - digits)), atol=0, equal_nan=True
    )
