"""Passes over a corpus: shared among processes and threads, resumed after a kill, summed up in order."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from attnprobe.corpus.batches.batch import Batch
from attnprobe.corpus.batches.text import BatchReader
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.input.options import CorpusOptions
from attnprobe.run.process_group import ProcessGroup, Ranks
from attnprobe.run.progress import Progress, SilentProgress
from attnprobe.run.state import State, open_state
from attnprobe.run.versions import record_versions
from attnprobe.run.workers import Workers
from attnprobe.sums.base import Arrays

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
        workers: Workers = Workers(),  # noqa: B008 - it never changes
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
    # What the memory changes is the plan of batches, or nothing that a state depends on.
    settings = {name: str(value) for name, value in options.settings.items() if name != "memory"}
    key = {
        "model": json.dumps(checkpoint.origin, sort_keys=True, default=str),
        "setting": json.dumps(settings),
        **question,
        "version of a package": json.dumps(record_versions()["versions"]),
    }
    state = open_state(resume, key)
    with state.save_on_exit(), Ranks.detect().join() as processes:
        yield Run(processes, state, progress, checkpoint.devices)
