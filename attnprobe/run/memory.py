"""What fits into memory: whole maps that are kept of a batch, and batches that are halved."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch

from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError, out_of_memory
from attnprobe.model.check.architecture import Architecture
from attnprobe.statistics.statistic import Statistic

#: Whole maps of a batch that may be kept for it, in probabilities.
WHOLE_MAPS = 67_108_864


def limit_cells(architecture: Architecture, statistics: Sequence[Statistic]) -> int | None:
    """Limit the query-key cells of a batch where whole maps are kept of it; None where they are not."""
    kept = len({statistic.weights for statistic in statistics if statistic.scope == "model"})
    return limit_cells_of_maps(kept * architecture.layers * architecture.heads) if kept else None


def limit_cells_of_maps(maps: int) -> int:
    """Limit the query-key cells of a batch where so many whole maps are kept of it."""
    return max(1, WHOLE_MAPS // maps)


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
                        "--max-length, a smaller --batch-tokens, or --dtype bfloat16."
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
