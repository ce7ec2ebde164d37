"""Working in the memory there is: blocks within the budget, and batches halved where it still runs out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.reading.blocks import COPIES, block_memory
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.budget import Budget, Price, itemsize_of
from attnprobe.run.halving import telling
from attnprobe.run.input.corpus import Corpus
from attnprobe.run.workers import Workers


@contextmanager
def fitted(
    checkpoint: Checkpoint,
    architecture: Architecture,
    corpus: Corpus,
    budget: Budget | None,
    price: Price | None,
    workers: Workers,
    *,
    copies: int | None = None,
    say: Callable[[str], None],
) -> Iterator[Workers]:
    """Keep the passes over a corpus made inside within a budget of memory, if there is one.

    Args:
        checkpoint: Which model runs.
        architecture: Its layers and heads.
        corpus: Batches that were planned for the budget.
        budget: The memory.
        price: What is kept of a batch.
        workers: How many batches are to be in flight.
        copies: How often a block of attention is held, if not as often as usual.
        say: Is told of batches that do not fit.

    Yields:
        The workers whose batches fit at the same time.

    Raises:
        AttnprobeError: When the budget does not hold the longest sequence.
    """
    copies = copies or COPIES
    left, shared = None, workers
    while budget is not None and price is not None and left is None:
        try:
            left = budget.each(workers.number).left_for_blocks(
                price, corpus.batches, architecture.heads, itemsize_of(checkpoint), copies
            )
        except AttnprobeError:
            if workers.number == 1:
                raise
            workers = shared.for_batches(workers.number - 1)
    with block_memory(left, copies), telling(say):
        yield workers
