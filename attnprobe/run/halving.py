"""Going on with half of a batch where the whole does not fit the memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch

from attnprobe.corpus.batches.batch import Batch
from attnprobe.errors import AttnprobeError, out_of_memory

Found = TypeVar("Found")

_voice: ContextVar[Callable[[str], None] | None] = ContextVar("attnprobe_halving", default=None)


@contextmanager
def telling(say: Callable[[str], None]) -> Iterator[None]:
    """Let the user know of every batch that is halved inside."""
    token = _voice.set(say)
    try:
        yield
    finally:
        _voice.reset(token)


class Halving:
    """Runs work on batches, and on their halves where the memory does not hold them whole.

    What fitted is remembered in tokens: a batch with more of them than a half that was left after a
    failure is halved before it is tried. Nothing else depends on it, since sequences of a batch have
    nothing to do with each other.
    """

    def __init__(self) -> None:
        """Take every batch whole, until one does not fit."""
        self._most: int | None = None

    def run(self, batch: Batch, work: Callable[[Batch], Found]) -> list[Found]:
        """Do the work, whole or in parts.

        Args:
            batch: The sequences.
            work: May run out of memory; it is then done again from the start on either half.

        Returns:
            What it gave for each part, in the order of the sequences.

        Raises:
            AttnprobeError: When a single sequence does not fit.
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
        if (say := _voice.get()) is not None:
            say(
                f"batch of {sequences} sequences of {length:,} tokens does not fit the memory; going on "
                "with half of it."
            )
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
