"""A budget of memory: what attnprobe may hold above the model's own forward pass, and what that buys.

Two things take memory: blocks of attention, which can be as small as a single query, and what is kept of
a batch until its sequences are summed up, which batches of fewer sequences make smaller. The second is
paid first; blocks get what is left.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock, build_uniform_block
from attnprobe.attention.layout import Grid
from attnprobe.attention.observed import Observed
from attnprobe.corpus.batch import Batch
from attnprobe.corpus.batches import BatchReader
from attnprobe.errors import AttnprobeError, out_of_memory
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.blocks import COPIES, COPIES_WITH_SCORES, count_query_bytes, limit_block_memory
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.options import CorpusOptions, parse_size
from attnprobe.run.passes import Workers
from attnprobe.statistics.statistic import Function, Statistic, Weights, evaluate, reduce_sequences

MEBIBYTE = 2**20
#: Compiled loops, buffers of the allocator: there whatever is measured, in bytes.
FIXED = 32 * MEBIBYTE
#: How often a number of a sequence is held at most, in bytes: as it comes, stacked, as float64, and
#: while its deviations are summed.
_HELD = 56
#: How often the queries' values are held while they are averaged, beside themselves.
_AVERAGING = 4
#: How often what is added up over the blocks of a layer is held, beside itself: as the next block gives it,
#: and as float64 while it is reduced.
_REDUCING = 8
#: Copies of a block that is weighted by norm, beside the block.
_WEIGHTED = 1
#: Whole maps of a batch that may be kept for it, in probabilities.
WHOLE_MAPS = 67_108_864
#: What is kept of a word for each head, where gold links are asked: its choices, and two right answers.
_LINKS = 32
#: States of a layer that a backward pass needs, in widths of the model: 9 for a BERT, 12 for a ModernBERT.
_BACKWARD = 16


@dataclass(frozen=True)
class Budget:
    """What may be held above the model's own forward pass, in bytes, and as the user spells it."""

    size: int
    text: str

    @classmethod
    def of(cls, options: CorpusOptions) -> "Budget | None":
        """Read the budget of the options; None for what is fastest."""
        return None if options.memory is None else cls(parse_size(options.memory), options.memory)

    def each(self, workers: int) -> "Budget":
        """Divide the budget among several batches in flight."""
        return replace(self, size=FIXED + max(0, self.size - FIXED) // workers)

    def most(self, price: "Price") -> Callable[[int], int]:
        """Limit the sequences of a length in a batch, to at least one: half of the budget is theirs."""
        return lambda length: price.sequences(length, (self.size - FIXED) // 2)

    def compute_rest_for_blocks(
        self, price: "Price", batches: BatchReader, heads: int, itemsize: int, copies: int = COPIES
    ) -> int:
        """Compute what the largest batch leaves to blocks of attention, in bytes."""
        lengths = batches.longer
        sizes = {(len(members), int(lengths[members[0]])) for members in batches.plan}
        kept = max((price.batch(*size) for size in sizes), default=0)
        longest = max((length for _, length in sizes), default=0)
        least = count_query_bytes(heads, longest, itemsize, copies)
        if FIXED + kept + least > self.size:
            needed = max(FIXED + price.batch(1, length) for _, length in sizes) + least
            raise AttnprobeError(
                f"--memory {self.text} is too little: a sequence of {longest:,} tokens needs at least "
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
        fixed: Whatever the batch.
    """

    sequence: int = 0
    token: int = 0
    pair: int = 0
    alone: int = 0
    fixed: int = 0

    def __add__(self, other: "Price") -> "Price":
        return Price(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def batch(self, sequences: int, length: int) -> int:
        each = self.sequence + self.token * length + self.pair * length**2
        return sequences * each + self.alone * length + self.fixed

    def sequences(self, length: int, size: int) -> int:
        """Compute the most sequences of a length that ``size`` pays for, at least one.

        >>> Price(sequence=100, token=10, alone=5).sequences(length=10, size=450)
        2
        """
        fixed = self.batch(0, length)
        return max(1, (size - fixed) // max(1, self.batch(1, length) - fixed))


def price_statistics(architecture: Architecture, statistics: Sequence[Statistic], itemsize: int) -> Price:
    """Estimate what statistics keep of a batch, by measuring two tokens.

    Values of all queries of a layer are kept until the layer is done, and what they are reduced to until the
    batch is done; where a statistic has to see whole maps, these are. ``itemsize`` is 4, or 8 in float64.
    """
    layers, heads, width = architecture.layers, architecture.heads, architecture.head_width
    every = layers * heads
    found: dict[tuple[Weights, str, Function], Tensor] = {}
    maps: dict[Weights, int] = {}
    numbers = queries = most = widest = alone = token_of_links = added = fixed = 0
    for statistic in statistics:
        if statistic.scope == "parameters":  # the same for all batches
            continue
        if statistic.scope == "links":  # what each word chooses, and whether that is right
            token_of_links = _LINKS * every
            continue
        block = _build_probe(architecture, every if statistic.scope == "model" else heads)
        if statistic.weights == "norm":
            block = block.by_norm(torch.ones(*block.probabilities.shape[:2], 2))
        key = statistic.weights, statistic.scope, statistic.function
        known = key in found
        values = found[key] if known else found.setdefault(key, evaluate(statistic, block))
        cells = reduce_sequences(statistic, values, block.layout, heads)
        numbers += cells.numel() * (1 if statistic.scope == "model" else layers)
        if statistic.scope == "query":
            queries += 0 if known else values.shape[1]
            most = max(most, values.shape[1])
            widest = max(widest, cells[0].numel() // max(1, cells.shape[1]))
        elif statistic.scope == "layer":
            added += 0 if known else values.numel()
        elif statistic.scope == "map":
            kept = itemsize * heads * (2 if "scores" in statistic.needs else 1)
            maps[statistic.weights] = max(maps.get(statistic.weights, 0), kept)
        elif statistic.scope == "model":
            maps[statistic.weights] = max(maps.get(statistic.weights, 0), itemsize * every)
            alone = max(alone, itemsize * _AVERAGING * cells.numel())
    token = token_of_links + itemsize * (queries + _AVERAGING * most + widest)
    needs = frozenset[str]().union(*(statistic.needs for statistic in statistics))
    token += itemsize * heads * width * len(needs & {"values", "outputs", "queries", "keys"})
    if any("projection" in statistic.reads for statistic in statistics):
        token += itemsize * heads * heads * width  # what heads contribute is as wide as the model
        fixed = itemsize * layers * (heads * width) ** 2  # products of projections, head by head
    if any(statistic.weights == "norm" for statistic in statistics):
        token += itemsize * heads * (width + 2)  # what keys carry, turned, and its length
    return Price(_HELD * numbers + _REDUCING * itemsize * added, token, sum(maps.values()), alone, fixed)


def count_copies(statistics: Sequence[Statistic]) -> int:
    """Count how often a block of attention is held while statistics are computed of it."""
    copies = COPIES_WITH_SCORES if any("scores" in statistic.needs for statistic in statistics) else COPIES
    return copies + (_WEIGHTED if any(statistic.weights == "norm" for statistic in statistics) else 0)


def limit_cells(architecture: Architecture, statistics: Sequence[Statistic]) -> int | None:
    """Limit the query-key cells of a batch where whole maps are kept of it; None where they are not."""
    kept = len({statistic.weights for statistic in statistics if statistic.scope == "model"})
    return limit_cells_of_maps(kept * architecture.layers * architecture.heads) if kept else None


def limit_cells_of_maps(maps: int) -> int:
    """Limit the query-key cells of a batch where so many whole maps are kept of it."""
    return max(1, WHOLE_MAPS // maps)


def _build_probe(architecture: Architecture, heads: int) -> AttentionBlock:
    """Build a block of two tokens that holds all that can be asked for."""
    block = build_uniform_block(2, heads=heads)
    if architecture.patches:  # offsets of patches have two axes
        block = replace(block, layout=replace(block.layout, grid=Grid(0, 1, 2)))
    width = architecture.head_width
    vectors = torch.ones(1, heads, 2, width)
    observed = Observed(
        scores=block.probabilities.log(),
        **dict.fromkeys(("values", "outputs", "queries", "keys"), vectors),
        projection=torch.ones(heads, width, heads * width),
    )
    return replace(block, observed=observed)


def price_gradients(checkpoint: Checkpoint, architecture: Architecture) -> Price:
    """Estimate what a backward pass, or one that is resumed at a layer, keeps of the forward pass."""
    width = architecture.heads * architecture.head_width
    return Price(token=_BACKWARD * width * architecture.layers * find_itemsize(checkpoint))


def find_itemsize(checkpoint: Checkpoint) -> int:
    """Find the bytes of a number that is measured: at least float32."""
    return torch.promote_types(checkpoint.body.dtype, torch.float32).itemsize


Found = TypeVar("Found")

_say: ContextVar[Callable[[str], None] | None] = ContextVar("attnprobe_halving", default=None)


@contextmanager
def report_halving(say: Callable[[str], None]) -> Iterator[None]:
    """Tell the user of every batch that is halved inside."""
    token = _say.set(say)
    try:
        yield
    finally:
        _say.reset(token)


class Halving:
    """Runs work on batches, and on their halves where the memory does not hold them whole.

    After a failure, batches with more tokens than a half of the failed one are halved before they are tried.
    Results do not depend on it, since sequences of a batch have nothing to do with each other.
    """

    def __init__(self) -> None:
        self._most: int | None = None

    def run(self, batch: Batch, work: Callable[[Batch], Found]) -> list[Found]:
        """Do the work, whole or in parts, and list the results in the order of the sequences.

        Work that runs out of memory is done again from the start on either half.
        """
        sequences, length = len(batch), batch.length
        if self._most is None or sequences == 1 or sequences * length <= self._most:
            try:
                return [work(batch)]
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                if sequences == 1:
                    raise AttnprobeError(
                        f"A single sequence of {length:,} tokens does not fit the memory; give a smaller "
                        "--max-length, a smaller --memory or --batch-tokens, or --dtype bfloat16."
                    ) from error
                # The error is let go of first: with its frames, it holds what the failed batch had.
            self._give_up(sequences, length)
        first, second = batch.halves()
        return [*self.run(first, work), *self.run(second, work)]

    def _give_up(self, sequences: int, length: int) -> None:
        self._most = -(-sequences // 2) * length
        if (say := _say.get()) is not None:
            say(
                f"batch of {sequences} sequences of {length:,} tokens does not fit the memory; going on "
                "with half of it."
            )
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


@contextmanager
def fit_to_memory(
    checkpoint: Checkpoint,
    architecture: Architecture,
    batches: BatchReader,
    budget: Budget | None,
    price: Price | None,
    workers: Workers,
    *,
    copies: int | None = None,
    say: Callable[[str], None],
) -> Iterator[Workers]:
    """Keep the passes over batches made inside within a budget of memory, if there is one.

    ``copies`` is how often a block of attention is held, if not as often as usual; ``say`` is told of batches
    that do not fit.

    Yields:
        The workers whose batches fit at the same time.
    """
    copies = copies or COPIES
    left, shared = None, workers
    while budget is not None and price is not None and left is None:
        try:
            left = budget.each(workers.number).compute_rest_for_blocks(
                price, batches, architecture.heads, find_itemsize(checkpoint), copies
            )
        except AttnprobeError:
            if workers.number == 1:
                raise
            workers = shared.for_batches(workers.number - 1)
    with limit_block_memory(left, copies), report_halving(say):
        yield workers
