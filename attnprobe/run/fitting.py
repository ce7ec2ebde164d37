"""Working in the memory there is: blocks within the budget, and batches halved where it still runs out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.reading.blocks import block_memory
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.budget import Budget, Price, itemsize_of
from attnprobe.run.halving import telling
from attnprobe.run.input.corpus import Corpus


@contextmanager
def fitted(
    checkpoint: Checkpoint,
    architecture: Architecture,
    corpus: Corpus,
    budget: Budget | None,
    price: Price | None,
    say: Callable[[str], None],
) -> Iterator[None]:
    """Keep the passes over a corpus made inside within a budget of memory, if there is one.

    Args:
        checkpoint: Which model runs.
        architecture: Its layers and heads.
        corpus: Batches that were planned for the budget.
        budget: The memory.
        price: What is kept of a batch.
        say: Is told of batches that do not fit.

    Raises:
        AttnprobeError: When the budget does not hold the longest sequence.
    """
    left = None
    if budget is not None and price is not None:
        left = budget.left_for_blocks(price, corpus.batches, architecture.heads, itemsize_of(checkpoint))
    with block_memory(left), telling(say):
        yield
