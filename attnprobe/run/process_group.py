"""One run by several processes: each takes its share of the batches, and the sums are added."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store


#: How long a process waits for the slowest: a dead one is noticed at once, whatever this says.
PATIENCE = timedelta(days=30)
#: How long a process waits for the first one to say what it would say too.
COURTESY = timedelta(seconds=10)
_REFUSAL = "attnprobe refusal"
#: Every process of a run meets the others equally often.
_meetings = count()


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is, as torchrun and ``accelerate launch`` say in the environment.

    Attributes:
        rank: The number of this process.
        size: How many there are.
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def detect(cls) -> "Ranks":
        """Look into the environment."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        return cls(int(os.environ.get("RANK", "0")), size) if size > 1 else cls()

    @property
    def first(self) -> bool:
        """Whether this process speaks for all of them."""
        return self.rank == 0

    @contextmanager
    def join(self) -> Iterator["ProcessGroup"]:
        """Meet the other processes, and leave together."""
        if self.size == 1:
            yield ProcessGroup(self, None)
            return
        import torch.distributed

        # Only sums travel, from memory to memory: gloo does that wherever the models run.
        if torch.distributed.is_initialized():  # by the program that called us
            yield ProcessGroup(self, torch.distributed.new_group(backend="gloo", timeout=PATIENCE))
            return
        torch.distributed.init_process_group(
            "gloo", store=_meeting_place(), rank=self.rank, world_size=self.size, timeout=PATIENCE
        )
        try:
            yield ProcessGroup(self, torch.distributed.group.WORLD)
        finally:
            torch.distributed.destroy_process_group()


@dataclass(frozen=True)
class ProcessGroup:
    """Processes that have met.

    Attributes:
        ranks: Which of them this is.
        group: What torch calls them; None for a single one.
    """

    ranks: Ranks
    group: Any

    def gather(self, mine: Any) -> list[Any]:
        """Give every process what each of them has, in the order of their numbers."""
        if self.group is None:
            return [mine]
        import torch.distributed

        found: list[Any] = [None] * self.ranks.size
        torch.distributed.all_gather_object(found, mine, group=self.group)
        return found


def is_said_by_first(ranks: Ranks, sentence: str) -> bool:
    """Tell whether the first process refuses with the same sentence, so that it need not be said again.

    The first one leaves its sentence where the processes meet; the others look for it there.
    """
    if ranks.size == 1:
        return False
    try:
        store = _store()
        if ranks.first:
            store.set(_REFUSAL, sentence)
            return False
        store.wait([_REFUSAL], COURTESY)
        return store.get(_REFUSAL).decode() == sentence
    except Exception:  # nobody to meet: better said twice than not at all
        return False


def _meeting_place() -> "Store":
    """Give a place for the processes to meet, apart from those where they have met before."""
    from torch.distributed.distributed_c10d import PrefixStore

    return PrefixStore(f"meeting {next(_meetings)}", _store())


def _store() -> "Store":
    """Give the store through which the processes find each other, clear of what an earlier start left there.

    torchrun keeps one store over all restarts. In it a process that is quick finds the address of a dead one,
    and waits for it or gives up. All processes of one machine count the same restarts; those of several
    need not, and must agree on the name.
    """
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    store = next(rendezvous("env://"))[0]
    if os.environ.get("LOCAL_WORLD_SIZE") != os.environ["WORLD_SIZE"]:
        return store
    return PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
