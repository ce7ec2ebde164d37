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
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.run.process_group import Meeting, Ranks
from attnprobe.run.progress import Progress, Silent
from attnprobe.run.state import State, open_state
from attnprobe.run.versions import made_with
from attnprobe.run.workers import Workers
from attnprobe.sums.base import Arrays

Work = Callable[[Batch], Any]
Restore = Callable[[Arrays], Any]
Joined = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class Run:
    """Everything that the passes of a command share.

    Attributes:
        meeting: The processes.
        state: What is kept on disk.
        progress: Who is told how far it is.
        device: Where the model runs, for the state.
    """

    meeting: Meeting
    state: State
    progress: Progress
    device: str = ""

    def total(
        self,
        name: str,
        batches: BatchReader,
        work: Work,
        restore: Restore,
        *,
        workers: Workers = Workers(),  # noqa: B008 - it never changes
        joined: Joined = nullcontext,
        question: Mapping[str, str] | None = None,
    ) -> Any:
        """Sum up what is found in every batch, in all processes; every process gets the whole.

        Args:
            name: Which pass it is: the stage that a person is told and a state knows.
            batches: The batches.
            work: Gives the sum of a batch. It is called by several threads at a time.
            restore: Makes a sum of its arrays.
            workers: How many threads.
            joined: What another thread enters before it calls ``work``.
            question: What the numbers depend on beside the batches, each by its name.

        Raises:
            AttnprobeError: When there is no batch at all.
        """
        found = self.share(name, batches, work, restore, workers=workers, joined=joined, question=question)
        return self.added(found, restore)

    def share(
        self,
        name: str,
        batches: BatchReader,
        work: Work,
        restore: Restore,
        *,
        workers: Workers = Workers(),  # noqa: B008 - it never changes
        joined: Joined = nullcontext,
        question: Mapping[str, str] | None = None,
        turn: int = 0,
    ) -> Any:
        """Sum up what is found in the batches of this process; None where there are none for it.

        Args:
            name: As for ``total``, and so are those that are not explained here.
            batches: The batches of all processes.
            work: Gives the sum of a batch.
            restore: Makes a sum of its arrays.
            workers: How many threads.
            joined: What another thread enters.
            question: What the numbers depend on.
            turn: Moves the shares on, so that several rounds of few batches keep every process busy.
        """
        ranks = self.meeting.ranks
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

        with closing(workers.in_order(work, rest, joined)) as results:
            for size, one in zip(rest.sizes, results, strict=True):
                found = one if found is None else found + one
                stage.reached(found.arrays)
                self.progress.advance(size)
        return found

    def added(self, mine: Any, restore: Restore) -> Any:
        """Add up what all processes have, in their order; every process gets the whole."""
        if self.meeting.ranks.size == 1:
            parts = [mine]
        else:
            arrays = self.meeting.gathered(None if mine is None else mine.arrays())
            parts = [None if part is None else restore(part) for part in arrays]
        parts = [part for part in parts if part is not None]
        if not parts:
            raise AttnprobeError("There is not a single sequence to measure.")
        return reduce(add, parts)


def alone(progress: Progress | None = None) -> Run:
    """Give a run of one process that keeps nothing."""
    return Run(Meeting(Ranks(), None), State(None, {}), progress or Silent())


@contextmanager
def running(
    checkpoint: Checkpoint,
    options: CorpusOptions,
    question: Mapping[str, str],
    *,
    resume: Path | None,
    progress: Progress,
) -> Iterator[Run]:
    """Meet the other processes, take up the state, and put it away however the work inside ends.

    Args:
        checkpoint: Which model is asked.
        options: How text becomes sequences.
        question: What else the numbers depend on, each by its name.
        resume: A file that keeps the state, or None to keep nothing.
        progress: Who is told how far it is.

    Raises:
        AttnprobeError: When the state is one of another model, question or setting.
    """
    # What the memory changes is the plan of batches, or nothing that a state depends on.
    settings = {name: str(value) for name, value in options.settings.items() if name != "memory"}
    key = {
        "model": json.dumps(checkpoint.origin, sort_keys=True, default=str),
        "setting": json.dumps(settings),
        **question,
        "version of a package": json.dumps(made_with()["versions"]),
    }
    state = open_state(resume, key)
    with state.guarded(), Ranks.found().joined() as meeting:
        yield Run(meeting, state, progress, checkpoint.devices)
