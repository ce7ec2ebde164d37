"""Passes over a corpus: shared among processes and threads, resumed after a kill, summed up in order.

Torch and the compiled loops let go of Python's lock while they compute, so threads share the work of one
process. With as many workers as threads, each batch is computed by a single thread, and results are taken in
the order of the batches: they are the same, bit for bit, on however many cores. A batch that does not fit the
memory is halved.
"""

import json
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from threading import local
from typing import Any, TypeVar

import torch

from attnprobe.corpus.batch import Batch, BatchReader
from attnprobe.errors import AttnprobeWarning, DataError, UsageError, out_of_memory
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.options import CorpusOptions, record_versions
from attnprobe.run.process_group import ProcessGroup, Ranks
from attnprobe.run.progress import Progress, SilentProgress
from attnprobe.run.state import State, open_state
from attnprobe.sums.base import Arrays

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Batch], Any]
Restore = Callable[[Arrays], Any]
ThreadContext = Callable[[], AbstractContextManager[object]]

#: More batches in flight than this take memory and give little: further cores share each batch.
MOST = 8


@dataclass(frozen=True)
class Workers:
    """How the cores of a machine are shared out: the batches in flight, and the threads of torch for each."""

    number: int = 1
    threads: int = 1

    @classmethod
    def of(cls, checkpoint: Checkpoint, architecture: Architecture, wanted: int | None = None) -> "Workers":
        """Share out the threads of torch among the ``wanted`` number of workers, or as many as pay.

        On an accelerator, or where a model keeps something from pass to pass, there is one.
        """
        threads = torch.get_num_threads()
        alone = not architecture.threaded or checkpoint.device.type != "cpu" or "," in checkpoint.devices
        number = 1 if alone else wanted or min(threads, MOST)
        return cls(number, max(1, threads // number))

    def for_batches(self, batches: int) -> "Workers":
        """Share the threads out again where there are fewer batches than workers."""
        number = max(1, min(self.number, batches))
        return Workers(number, self.threads * self.number // number)

    def map_in_order(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        thread_context: ThreadContext = nullcontext,
    ) -> Generator[Result]:
        """Do the work on every item in threads, and yield the results in the order of the items.

        One more item than there are workers is in flight, so that none waits while results are taken. A
        thread stays in ``thread_context`` from its first work to its end.
        """
        if self.number == 1:
            yield from map(work, items)
            return
        entered = local()

        def run(item: Item) -> Result:
            if not hasattr(entered, "context"):
                torch.set_num_threads(self.threads)
                context = thread_context()
                context.__enter__()
                entered.context = context  # kept, as a context may end when nothing refers to it
            return work(item)

        waiting: deque[Future[Result]] = deque()
        pool = ThreadPoolExecutor(self.number, thread_name_prefix="attnprobe-worker")
        try:
            for item in items:
                waiting.append(pool.submit(run, item))
                if len(waiting) > self.number:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            # A thread that sets its number changes the default of later threads, which is restored.
            torch.set_num_threads(torch.get_num_threads())


@dataclass(frozen=True)
class Run:
    """What all passes of a command share; ``device`` is where the model runs, for the state."""

    processes: ProcessGroup = field(default_factory=ProcessGroup)
    state: State = field(default_factory=State)
    progress: Progress = field(default_factory=SilentProgress)
    device: str = ""

    def total(self, name: str, batches: BatchReader, work: Work, restore: Restore, **options: Any) -> Any:
        """Add up what all batches give, in all processes, as ``share`` does; every process gets the whole."""
        return self.add_up(self.share(name, batches, work, restore, **options), restore)

    def share(
        self,
        name: str,
        batches: BatchReader,
        work: Work,
        restore: Restore,
        *,
        workers: Workers = Workers(),
        thread_context: ThreadContext = nullcontext,
        question: Mapping[str, str] | None = None,
        shift: int = 0,
    ) -> Any:
        """Add up what the batches of this process give; None where there are none for it.

        ``work`` computes the sum of a batch, in several threads at a time; ``restore`` makes a sum of its
        arrays. ``name`` is the stage that is reported and kept, ``question`` what its numbers depend on
        beside the batches. ``shift`` moves the shares on, so that rounds of few batches keep every process
        busy.
        """
        ranks = self.processes.ranks
        mine = batches.follow(batches.plan[(ranks.rank + shift * len(batches)) % ranks.size :: ranks.size])
        workers = workers.for_batches(len(mine))
        key = {
            "dataset": batches.digest,
            "setting": batches.rarity_digest,
            "plan of batches": batches.plan_digest,
            **(question or {}),
            "device or number of threads": f"{self.device} {workers.threads}",
        }
        stage = self.state.stage(f"{name} {shift}" if shift else name, key)
        total = restore(stage.kept[1]()) if stage.done else None
        self.progress.stage(name, mine.tokens)
        rest = mine.follow(mine.plan[stage.done :])
        if stage.done:
            self.progress.advance(mine.tokens - rest.tokens)
            self.progress.say(
                f"going on from {self.state.path}: {stage.done:,} of {len(mine):,} batches are done."
            )
        with closing(workers.map_in_order(work, rest, thread_context)) as results:
            for size, result in zip(rest.sizes, results, strict=True):
                total = result if total is None else total + result
                stage.mark_batch_done(total.arrays)
                self.progress.advance(size)
        return total

    def add_up(self, mine: Any, restore: Restore) -> Any:
        """Add up what all processes have, in their order, for each of them; refuse if none has anything."""
        parts = [] if mine is None else [mine]
        if self.processes.ranks.size > 1:
            gathered = self.processes.gather(None if mine is None else mine.arrays())
            parts = [restore(arrays) for arrays in gathered if arrays is not None]
        if not parts:
            raise DataError("There is not a single sequence to measure.")
        return reduce(add, parts)


@contextmanager
def open_run(
    checkpoint: Checkpoint,
    options: CorpusOptions,
    question: Mapping[str, str],
    *,
    resume: Path | None,
    progress: Progress,
) -> Iterator[Run]:
    """Open a run: join the process group, restore the state at ``resume``, if any, and save it on exit.

    ``question`` holds what the numbers depend on beside model and options, each by its name.
    """
    # How precise a table is to be decides at which look it ends, not what is read up to there.
    settings = {name: str(value) for name, value in options.settings.items() if name != "until"}
    key = {
        "model": json.dumps(checkpoint.origin, sort_keys=True, default=str),
        "setting": json.dumps(settings),
        **question,
        "version of a package": json.dumps(record_versions()["versions"]),
    }
    state = open_state(resume, key)
    with state.save_on_exit(), Ranks.detect().join() as processes:
        yield Run(processes, state, progress, checkpoint.devices)


# Batches that do not fit the memory

#: Whole maps of a batch that may be kept for it, in probabilities.
WHOLE_MAPS = 67_108_864


def limit_cells(maps: int) -> int | None:
    """Limit the query-key cells of a batch by the number of whole maps that are kept; None for no limit."""
    return max(1, WHOLE_MAPS // maps) if maps else None


class Halving:
    """Runs work on batches, and on their halves where the memory does not hold them whole.

    After a failure, batches with more tokens than a half of the failed one are halved at once.
    """

    def __init__(self) -> None:
        self._most: int | None = None

    def total(self, batch: Batch, work: Callable[[Batch], Any]) -> Any:
        """Do the work, whole or in parts, and add up the results."""
        return reduce(add, self.run(batch, work))

    def run(self, batch: Batch, work: Callable[[Batch], Result]) -> list[Result]:
        """Do the work, whole or in parts, and list the results in order; refuse one sequence too long."""
        sequences, length = len(batch), batch.length
        if self._most is None or sequences == 1 or sequences * length <= self._most:
            try:
                return [work(batch)]
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                if sequences == 1:
                    raise UsageError(
                        f"A single sequence of {length:,} tokens does not fit the memory; give a smaller "
                        "--max-length, a smaller --batch-tokens, or --dtype bfloat16."
                    ) from error
                # The error is let go of first: with its frames, it holds what the failed batch had.
            self._most = -(-sequences // 2) * length
            warnings.warn(
                f"batch of {sequences} sequences of {length:,} tokens does not fit the memory; going on with "
                "half of it.",
                AttnprobeWarning,
                stacklevel=2,
            )
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        first, second = batch.halves()
        return [*self.run(first, work), *self.run(second, work)]
