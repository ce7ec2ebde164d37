"""What a correlation over heads would be without the noise of the examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """

    count: Floats
    total: Floats

    @property
    def centred(self) -> "Sample":
        """The same less the mean over heads, which a correlation does not see."""
        return Sample(self.count, self.total - self.total.mean(1, keepdims=True))


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


def disattenuated(inside: Sample, outside: Sample, draws: int = DRAWS, seed: int = 0) -> Disattenuated:
    """Estimate the correlation over heads of the true values, which noise makes look smaller.

    With x and y the means of all examples, less their means over heads, and independent examples on both
    sides, x . y has no bias, but |x|^2 is too large by the noise of a mean. That is known from how the blocks
    of documents scatter:

        v = |x|^2 - G / (G - 1) sum_g |S_g - n_g x|^2 / N^2,    r = x . y / sqrt(v_x v_y)

    for G blocks, of which block g has n_g of the N examples and their sum S_g. The interval is a bootstrap:
    documents are drawn again, block by block, and v and x . y taken anew. Since x is noisy itself, it is
    shrunk to the length sqrt(v) beforehand, or the draws would scatter by their noise twice over. A draw with
    v <= 0 on a side is compatible with any correlation of its sign.

    Args:
        inside: In domain, at least 8 blocks for an interval.
        outside: Out of domain, the same heads.
        draws: How often documents are drawn.
        seed: Of the draws.

    References:
        Spearman (1904), The proof and measurement of association between two things.
        Efron and Tibshirani (1993), An introduction to the bootstrap, chapter 13.
    """
    sides = [side.centred for side in (inside, outside)]
    means = [side.total.sum(0) / side.count.sum() for side in sides]
    signals = [_signal(side, mean) for side, mean in zip(sides, means, strict=True)]
    product = float(means[0] @ means[1])
    if min(len(side.count) for side in sides) < LEAST:
        return Disattenuated(_ratio(product, *signals), np.nan, np.nan)
    draw = np.random.default_rng(seed)
    drawn = [_drawn(*parts, draw, draws) for parts in zip(sides, means, signals, strict=True)]
    (ours, mean), (theirs, other) = drawn
    crossed = np.einsum("dh,dh->d", mean, other)
    crossed += product - crossed.mean()
    possible = (ours > 0) & (theirs > 0)
    length = np.sqrt(np.where(possible, ours * theirs, 1.0))
    found = np.where(possible, crossed / length, np.sign(crossed)).clip(-1, 1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    return Disattenuated(_ratio(product, *signals), float(low), float(high))


def _ratio(product: float, ours: float, theirs: float) -> float:
    return float(np.clip(product / np.sqrt(ours * theirs), -1, 1)) if min(ours, theirs) > 0 else np.nan


def _signal(side: Sample, mean: Floats) -> float:
    """Give |x|^2 without what noise adds to it."""
    blocks = len(side.count)
    if blocks < 2:
        return np.nan
    residuals = side.total - side.count[:, None] * mean
    noise = blocks / (blocks - 1) * np.square(residuals).sum() / side.count.sum() ** 2
    return float(mean @ mean - noise)


def _drawn(
    side: Sample, mean: Floats, signal: float, draw: np.random.Generator, draws: int
) -> tuple[Floats, Floats]:
    """Draw blocks with replacement; give |x|^2 without noise (draw,) and x (draw, head), of x shrunk."""
    blocks = len(side.count)
    shrunk = np.sqrt(max(signal, 0.0) / (mean @ mean))
    total = side.total + (shrunk - 1) * side.count[:, None] * mean
    weights = draw.multinomial(blocks, np.full(blocks, 1 / blocks), draws).astype(np.float64)
    number = (weights @ side.count)[:, None]
    gram = total @ total.T
    pulled = weights @ gram
    square = (pulled * weights).sum(1, keepdims=True) / number**2
    # |S_g - n_g x|^2, from the Gram matrix of the blocks instead of from the heads.
    apart = np.diag(gram) - 2 * side.count * pulled / number + np.square(side.count) * square
    noise = blocks / (blocks - 1) * (weights * apart).sum(1) / number[:, 0] ** 2
    found = square[:, 0] - noise
    return found + (signal - found.mean()), weights @ total / number


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
    return Sample(found.count[some], total[some])


def _same(written: Floats, recorded: Floats) -> bool:
    """Tell whether numbers are the same but for the digits that ``--precision`` left."""
    finite = written[np.isfinite(written)]
    digits = next(
        (digits for digits in range(1, 17) if all(float(f"{one:.{digits}g}") == one for one in finite)), 17
    )
    return np.allclose(
        written, recorded, rtol=max(_ROUNDING, 0.51 * 10.0 ** (1 - digits)), atol=0, equal_nan=True
    )
