"""All cores of one machine: batches in flight on several threads, and their results in order.

Torch and the compiled loops let go of Python's lock while they compute, so threads share the work of one
process. With as many workers as threads, each batch is computed by a single thread, and results are taken in
the order of the batches: they are the same, bit for bit, on however many cores.
"""

import contextvars
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import local
from typing import TypeVar

import torch

from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture

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
