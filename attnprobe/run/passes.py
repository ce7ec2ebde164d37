"""Passes over a corpus: shared among processes and threads, resumed after a kill, summed up in order.

Torch and the compiled loops let go of Python's lock while they compute, so threads share the work of one
process. With as many workers as threads, each batch is computed by a single thread, and results are taken in
the order of the batches: they are the same, bit for bit, on however many cores.
"""

import contextvars
import json
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from threading import local
from typing import Any, TypeVar

import torch

from attnprobe.corpus.batch import Batch
from attnprobe.corpus.batches import BatchReader
from attnprobe.errors import AttnprobeError
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.process_group import ProcessGroup, Ranks
from attnprobe.run.progress import Progress, SilentProgress
from attnprobe.run.record import record_versions
from attnprobe.run.state import State, open_state
from attnprobe.sums.base import Arrays

Item = TypeVar("Item")
Result = TypeVar("Result")

#: More batches in flight than this take memory and give little: further cores share each batch.
MOST = 8


@dataclass(frozen=True)
class Workers:
    """How the cores of a machine are shared out: the batches in flight, and the threads of torch for each."""

    number: int = 1
    threads: int = 1

    @classmethod
    def of(cls, checkpoint: Checkpoint, architecture: Architecture, wanted: int | None = None) -> "Workers":
        """Share out the threads that torch has been given; ``wanted`` is how many workers the user asked for.

        On an accelerator, or where a model keeps something from pass to pass, one batch is computed after the
        other.
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
        thread_context: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> Generator[Result]:
        """Do the work on every item, and yield the results in the order of the items.

        One more item than there are workers is in flight, so that none waits while results are taken.

        Args:
            work: Is called by any of the workers' threads.
            items: Are read by the calling thread.
            thread_context: What a thread enters before its first work, and stays in until it ends.
        """
        if self.number == 1:
            yield from map(work, items)
            return
        own = local()

        def run(item: Item) -> Result:
            if not hasattr(own, "context"):
                torch.set_num_threads(self.threads)
                entered = thread_context()
                entered.__enter__()
                own.context = entered  # kept, as a context may end when nothing refers to it
            return work(item)

        waiting: deque[Future[Result]] = deque()
        pool = ThreadPoolExecutor(self.number, thread_name_prefix="attnprobe-worker")
        try:
            for item in items:
                # The memory limit of the calling thread holds for the workers too.
                context = contextvars.copy_context()
                waiting.append(pool.submit(context.run, run, item))
                if len(waiting) > self.number:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            # A thread that sets its number changes the default of later threads, which is restored.
            torch.set_num_threads(torch.get_num_threads())


Work = Callable[[Batch], Any]
Restore = Callable[[Arrays], Any]
ThreadContext = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class Run:
    """Everything that the passes of a command share.

    Attributes:
        processes: The processes of the run.
        state: What is kept on disk.
        progress: Who is told how far it is.
        device: Where the model runs, for the state.
    """

    processes: ProcessGroup
    state: State
    progress: Progress
    device: str = ""

    def total(self, name: str, batches: BatchReader, work: Work, restore: Restore, **options: Any) -> Any:
        """Add up what all batches give, in all processes; every process gets the whole.

        The arguments are those of ``share``.
        """
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
        turn: int = 0,
    ) -> Any:
        """Add up what the batches of this process give; None where there are none for it.

        Args:
            name: Which pass it is: the stage that is reported and kept in the state.
            batches: The batches of all processes.
            work: Computes the sum of a batch. It is called by several threads at a time.
            restore: Makes a sum of its arrays.
            workers: How many threads.
            thread_context: What another thread enters before it calls ``work``.
            question: What the numbers depend on beside the batches, each by its name.
            turn: Moves the shares on, so that several rounds of few batches keep every process busy.
        """
        ranks = self.processes.ranks
        mine = batches.take_share((ranks.rank + turn * len(batches)) % ranks.size, ranks.size)
        workers = workers.for_batches(len(mine))
        key = {
            "dataset": batches.digest,
            "setting": batches.rarity_digest,
            "plan of batches": batches.plan_digest,
            **(question or {}),
            "device or number of threads": f"{self.device} {workers.threads}",
        }
        stage = self.state.stage(f"{name} {turn}" if turn else name, key)
        found = restore(stage.arrays) if stage.done else None
        self.progress.stage(name, mine.tokens)
        rest = mine.skip(stage.done)
        if stage.done:
            self.progress.advance(mine.tokens - rest.tokens)
            self.progress.say(
                f"going on from {self.state.path}: {stage.done:,} of {len(mine):,} batches are done."
            )

        with closing(workers.map_in_order(work, rest, thread_context)) as results:
            for size, one in zip(rest.sizes, results, strict=True):
                found = one if found is None else found + one
                stage.mark_batch_done(found.arrays)
                self.progress.advance(size)
        return found

    def add_up(self, mine: Any, restore: Restore) -> Any:
        """Add up what all processes have, in their order; every process gets the whole."""
        parts = [] if mine is None else [mine]
        if self.processes.ranks.size > 1:
            gathered = self.processes.gather(None if mine is None else mine.arrays())
            parts = [restore(arrays) for arrays in gathered if arrays is not None]
        if not parts:
            raise AttnprobeError("There is not a single sequence to measure.")
        return reduce(add, parts)


def open_single_run(progress: Progress | None = None) -> Run:
    return Run(ProcessGroup(Ranks(), None), State(None, {}), progress or SilentProgress())


@contextmanager
def open_run(
    checkpoint: Checkpoint,
    options: CorpusOptions,
    question: Mapping[str, str],
    *,
    resume: Path | None,
    progress: Progress,
) -> Iterator[Run]:
    """Open a run: join the process group, restore the state, save it on exit.

    ``question`` holds what the numbers depend on beside model and options, each by its name. Without
    ``resume``, no state is kept.
    """
    # What the memory changes is the plan of batches, or nothing that a state depends on; and how precise a
    # table is to be decides at which look it ends, not what is read up to there.
    free = {"memory", "until"}
    settings = {name: str(value) for name, value in options.settings.items() if name not in free}
    key = {
        "model": json.dumps(checkpoint.origin, sort_keys=True, default=str),
        "setting": json.dumps(settings),
        **question,
        "version of a package": json.dumps(record_versions()["versions"]),
    }
    state = open_state(resume, key)
    with state.save_on_exit(), Ranks.detect().join() as processes:
        yield Run(processes, state, progress, checkpoint.devices)
