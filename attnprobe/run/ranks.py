"""One census by several processes: each takes its share of the batches, and the moments are added."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import torch.distributed
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from attnprobe.errors import AttnprobeError
from attnprobe.survey.measurement import Measurement


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
    def found(cls) -> "Ranks":
        """Look into the environment."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        return cls(int(os.environ.get("RANK", "0")), size) if size > 1 else cls()

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Meet the other processes, and leave together."""
        if self.size == 1:
            yield
            return
        # Only moments travel, from memory to memory: gloo does that wherever the models run.
        torch.distributed.init_process_group(
            "gloo", store=_meeting_place(), rank=self.rank, world_size=self.size
        )
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()

    def gathered(self, measurement: Measurement) -> Measurement | None:
        """Add up the measurements of all processes, in their order, at the first; None elsewhere."""
        if self.size == 1:
            return measurement
        found: list[Any] | None = [None] * self.size if self.rank == 0 else None
        torch.distributed.gather_object(measurement.arrays(), found)
        return reduce(add, map(Measurement.from_arrays, found)) if found is not None else None

    def check(self, batches: int) -> None:
        """Refuse more processes than there is work for."""
        if batches < self.size:
            raise AttnprobeError(
                f"There are {batches} batches for {self.size} processes; start fewer, or give a smaller "
                "--batch-tokens."
            )


def _meeting_place() -> Store:
    """Give the store through which the processes find each other, clear of what an earlier start left there.

    torchrun keeps one store over all restarts. In it a process that is quick finds the address of a dead one,
    and waits for it or gives up. All processes of one machine count the same restarts; those of several
    need not, and must agree on the name.
    """
    store = next(rendezvous("env://"))[0]
    if os.environ.get("LOCAL_WORLD_SIZE") != os.environ["WORLD_SIZE"]:
        return store
    return PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
