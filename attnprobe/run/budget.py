"""A budget of memory: what attnprobe may hold above the model's own forward pass, and what that buys.

Two things take memory: blocks of attention, which can be as small as a single query, and what is kept of
a batch until its sequences are summed up, which batches of fewer sequences make smaller. The second is
paid first; blocks get what is left.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from attnprobe.attention.block import uniform_block
from attnprobe.attention.layout import Grid
from attnprobe.corpus.batches.planning import BatchReader
from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.reading.blocks import query_bytes
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.statistics import Statistic

MEBIBYTE = 2**20
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([kmgt])(i?)b\s*", re.IGNORECASE)
#: Compiled loops, buffers of the allocator: there whatever is measured, in bytes.
FIXED = 32 * MEBIBYTE
#: How often a number of a sequence is held at most, in bytes: as it comes, stacked, as float64, and
#: while its deviations are summed.
_HELD = 56
#: How often the queries' values are held while they are averaged, beside themselves.
_AVERAGING = 4
#: States of a layer that a backward pass needs, in widths of the model: 9 for a BERT, 12 for a ModernBERT.
_BACKWARD = 16


@dataclass(frozen=True)
class Budget:
    """So much memory.

    Attributes:
        size: Bytes.
        said: As the user said it.
    """

    size: int
    said: str

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """Read a size with its unit.

        Raises:
            AttnprobeError: When it has none, or is nothing at all.

        >>> Budget.parse("1.5GiB").size, Budget.parse("2 MB").size
        (1610612736, 2000000)
        """
        found = _SIZE.fullmatch(text)
        size = 0
        if found is not None:
            number, unit, binary = found.groups()
            size = int(float(number) * (1024 if binary else 1000) ** (1 + "kmgt".index(unit.lower())))
        if not size:
            raise AttnprobeError(
                f"--memory must be a size with its unit, such as 256MiB or 2GB, not {text!r}."
            )
        return cls(size, text)

    def most(self, price: "Price") -> Callable[[int], int]:
        """Give the most sequences of a length in a batch, at least one: half of the budget is theirs."""
        return lambda length: price.sequences(length, (self.size - FIXED) // 2)

    def left_for_blocks(self, price: "Price", batches: BatchReader, heads: int, itemsize: int) -> int:
        """Give what the largest batch leaves to blocks of attention, in bytes.

        Raises:
            AttnprobeError: When it does not hold a single query of the longest sequence.
        """
        lengths = batches.longer
        sizes = {(len(members), int(lengths[members[0]])) for members in batches.plan}
        kept = max((price.batch(*size) for size in sizes), default=0)
        longest = max((length for _, length in sizes), default=0)
        least = query_bytes(heads, longest, itemsize)
        if FIXED + kept + least > self.size:
            needed = max(FIXED + price.batch(1, length) for _, length in sizes) + least
            raise AttnprobeError(
                f"--memory {self.said} is too little: a sequence of {longest:,} tokens needs at least "
                f"{-(-needed // MEBIBYTE)}MiB above the model's own forward pass; give so much, or a "
                "smaller --max-length."
            )
        return self.size - FIXED - kept


@dataclass(frozen=True)
class Price:
    """What is kept of a batch until it is done, in bytes.

    Attributes:
        sequence: For each sequence.
        token: For each token.
        pair: For each two tokens of a sequence.
        alone: For each token of one sequence of the batch, one sequence after the other.
    """

    sequence: int = 0
    token: int = 0
    pair: int = 0
    alone: int = 0

    def batch(self, sequences: int, length: int) -> int:
        """Give the price of a batch."""
        each = self.sequence + self.token * length + self.pair * length**2
        return sequences * each + self.alone * length

    def sequences(self, length: int, size: int) -> int:
        """Give the most sequences of a length that ``size`` pays for, at least one.

        >>> Price(sequence=100, token=10, alone=5).sequences(length=10, size=450)
        2
        """
        return max(1, (size - self.batch(0, length)) // max(1, self.batch(1, length) - self.batch(0, length)))


def price_of_statistics(
    architecture: Architecture, statistics: Sequence[Statistic], itemsize: int, *, all_pairs: bool = False
) -> Price:
    """Find out what statistics keep of a batch, by asking them about two tokens.

    Values of all queries of a layer are kept until the layer is done, and what they are reduced to until
    the batch is done; with ``all_pairs``, all maps are.

    Args:
        architecture: Its layers and heads.
        statistics: What is measured.
        itemsize: Bytes of a number: 4, or 8 in float64.
        all_pairs: Whether all heads of the model are compared.
    """
    layers, heads = architecture.layers, architecture.heads
    block = uniform_block(2, heads=heads)
    if architecture.grid is not None:  # offsets of patches have two axes
        block = replace(block, layout=replace(block.layout, grid=Grid(0, 1, 2)))
    values = {statistic.per_query: statistic.per_query(block) for statistic in statistics}
    reduced = [statistic.reduce(values[statistic.per_query], block.layout) for statistic in statistics]
    channels = [value.shape[1] for value in values.values()]
    widest = max((cells[0].numel() // max(1, cells.shape[1]) for cells in reduced), default=0)
    token = itemsize * (sum(channels) + _AVERAGING * max(channels, default=0) + widest)
    numbers = layers * sum(cells.numel() for cells in reduced)
    if not all_pairs:
        return Price(_HELD * numbers, token)
    every = layers * heads
    pairs = every * (every - 1) // 2
    return Price(_HELD * (numbers + pairs), token, every * itemsize, _AVERAGING * pairs * itemsize)


def price_of_gradients(checkpoint: Checkpoint, architecture: Architecture) -> Price:
    """Estimate what a backward pass, or one that is resumed at a layer, keeps of the forward pass."""
    width = architecture.heads * architecture.head_width
    return Price(token=_BACKWARD * width * architecture.layers * itemsize_of(checkpoint))


def itemsize_of(checkpoint: Checkpoint) -> int:
    """Give the bytes of a number that is measured: at least float32."""
    return torch.promote_types(checkpoint.body.dtype, torch.float32).itemsize
