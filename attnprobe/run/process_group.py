"""One run by several processes: each takes its share of the batches, and the sums are added."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from attnprobe.errors import AttnprobeError, UsageError, first_line

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

#: How long a process waits for the slowest: a dead one is noticed at once, whatever this says.
PATIENCE = timedelta(days=30)
#: Numbers the process groups of a run, of which every process joins equally many.
_groups = count()


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is, as torchrun and ``accelerate launch`` say in the environment."""

    rank: int = 0
    size: int = 1

    @classmethod
    def detect(cls) -> "Ranks":
        """Read rank and size from the environment, or refuse what is no number; 0 of 1 by default."""
        size, rank = os.environ.get("WORLD_SIZE", "1"), os.environ.get("RANK", "0")
        if not (size.isdecimal() and rank.isdecimal()):
            raise UsageError(f"WORLD_SIZE={size!r} and RANK={rank!r} of the environment are no numbers.")
        return cls(int(rank), int(size)) if int(size) > 1 else cls()

    @property
    def first(self) -> bool:
        """Whether this process speaks for all of them."""
        return self.rank == 0

    @contextmanager
    def join(self) -> Iterator["ProcessGroup"]:
        """Join the group of all processes and yield it; leave it at the end."""
        if self.size == 1:
            yield ProcessGroup()
            return
        import torch.distributed

        # Only sums travel, from memory to memory: gloo does that wherever the models run.
        if torch.distributed.is_initialized():  # by the program that called us
            yield ProcessGroup(self, torch.distributed.new_group(backend="gloo", timeout=PATIENCE))
            return
        with _explain_loss():
            from torch.distributed.distributed_c10d import PrefixStore

            store = PrefixStore(f"meeting {next(_groups)}", _open_store())
            torch.distributed.init_process_group(
                "gloo", store=store, rank=self.rank, world_size=self.size, timeout=PATIENCE
            )
        try:
            yield ProcessGroup(self, torch.distributed.group.WORLD)
        finally:
            torch.distributed.destroy_process_group()


@dataclass(frozen=True)
class ProcessGroup:
    """The processes of a run; ``group`` is torch's process group, None for a single process."""

    ranks: Ranks = Ranks()
    group: Any = None

    def gather(self, mine: Any) -> list[Any]:
        """Collect what every process has, in the order of their numbers, in each of them."""
        if self.group is None:
            return [mine]
        import torch.distributed

        gathered: list[Any] = [None] * self.ranks.size
        with _explain_loss():
            torch.distributed.all_gather_object(gathered, mine, group=self.group)
        return gathered


@contextmanager
def _explain_loss() -> Iterator[None]:
    """Turn a RuntimeError of torch's connections into an AttnprobeError: another process is gone."""
    try:
        yield
    except RuntimeError as error:
        raise AttnprobeError(
            "Another process of this run is gone, so it can't go on; start all of them again. With --resume "
            f"FILE, they go on where they were ({first_line(error)})."
        ) from error


def _open_store() -> "Store":
    """Open the store through which the processes find each other.

    torchrun keeps one over all restarts, which still has the addresses of dead processes: those of one
    machine name a part of it by the restart. Those of several need not count the same restarts.
    """
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    try:
        store = next(rendezvous("env://"))[0]
    except ValueError as error:  # MASTER_ADDR or MASTER_PORT is not set, or is wrong
        raise UsageError(f"The processes can't find each other: {first_line(error)}.") from error
    if os.environ.get("LOCAL_WORLD_SIZE") != os.environ["WORLD_SIZE"]:
        return store
    return PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
