"""The tables of the steps that are done, kept so that a run over many checkpoints goes on behind them."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path

import numpy as np

from attnprobe.errors import AttnprobeError
from attnprobe.run.process_group import Ranks
from attnprobe.run.state import State
from attnprobe.table.formats.json import jsonable
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column


class Finished:
    """A state that holds a whole table for each step that is done.

    What the step in progress has reached is kept by its own command, in a file beside this one.
    """

    def __init__(self, path: Path | None, key: Mapping[str, str], noun: str = "step") -> None:
        """Take up the state at ``path`` if there is one.

        Args:
            path: The file; of several processes, each has its own. None keeps nothing.
            key: What all tables depend on, each by a name that a person understands.
            noun: What the tables are of, in one word; each has a number.

        Raises:
            AttnprobeError: When the file is no state, is damaged, or belongs to another run.
        """
        ranks = Ranks.found()
        self.named, self.noun = path, noun
        if path is not None and ranks.size > 1:
            path = path.with_name(f"{path.name}.{ranks.rank}")
            key = {**key, "number of processes": f"{ranks.rank} of {ranks.size}"}
        self._state = State(path, key)

    def guarded(self) -> AbstractContextManager[None]:
        """Write the state down however the work inside ends."""
        return self._state.guarded()

    def beside(self, step: int) -> Path | None:
        """Give the file in which the command of a step keeps its own state."""
        return None if self.named is None else self.named.with_name(f"{self.named.name}.{self.noun}{step}")

    def stopped(self, error: AttnprobeError, said: str, done: int) -> AttnprobeError:
        """Say what becomes of the steps before the one at which something went wrong.

        Args:
            error: What went wrong.
            said: That with the name of the step.
            done: How many steps are before it.
        """
        more = ""
        if done:
            steps = f"1 {self.noun} is" if done == 1 else f"{done} {self.noun}s are"
            more = f" With --resume FILE, the {self.noun}s before it would be kept."
            if self.named is not None:
                more = f" The {steps} kept."
        raised = AttnprobeError(f"{said.rstrip('.')}.{more}")
        raised.exit_code = error.exit_code
        return raised

    def taken_up(self, checkpoints: Mapping[int, str]) -> dict[int, HeadTable]:
        """Give the tables of the steps that are done, in every process.

        Args:
            checkpoints: What tells the checkpoint of each step from any other.

        Raises:
            AttnprobeError: When a step was done with another checkpoint.
        """
        if self.named is None:
            return {}
        found = {step: table for step in checkpoints if (table := self._table(step, checkpoints[step]))}
        with Ranks.found().joined() as meeting:  # one may have been stopped before it wrote its own
            done = set.intersection(*meeting.gathered(set(found)))
        return {step: found[step] for step in sorted(done)}

    def keep(self, step: int, checkpoint: str, table: HeadTable) -> None:
        """Keep the table of a step, and drop what its command has kept on the way."""
        content = np.frombuffer(written(table), np.uint8)
        self._state.keep(self._called(step), self._key(step, checkpoint), 1, lambda: {"table": content})
        self._state.write()
        self.tidy(step)

    def tidy(self, step: int) -> None:
        """Drop what the command of a step that is done has kept on the way."""
        path, ranks = self.beside(step), Ranks.found()
        if path is not None:
            own = path if ranks.size == 1 else path.with_name(f"{path.name}.{ranks.rank}")
            own.unlink(missing_ok=True)

    def _table(self, step: int, checkpoint: str) -> HeadTable | None:
        stage = self._state.stage(self._called(step), self._key(step, checkpoint))
        if not stage.done:
            return None
        try:
            return restored(stage.arrays["table"].tobytes())
        except (ValueError, KeyError, TypeError) as error:
            raise AttnprobeError(f"The state {self.named} is damaged; delete it to start over.") from error

    def _called(self, step: int) -> str:
        return f"{self.noun} {step}"

    def _key(self, step: int, checkpoint: str) -> dict[str, str]:
        name = self._called(step)
        return {name if self.noun == "checkpoint" else f"checkpoint of {name}": checkpoint}


def written(table: HeadTable) -> bytes:
    """Write a table down so that ``restored`` gives the same numbers, to the last bit."""
    about = {
        "title": table.title,
        "columns": [asdict(column) for column in table.columns],
        "data": {name: list(cells) for name, cells in table.data.items()},
        "notes": list(table.notes),
        "provenance": jsonable(table.provenance),
    }
    return json.dumps(about).encode()


def restored(content: bytes) -> HeadTable:
    """Read what ``written`` gave.

    Raises:
        ValueError: When it is nothing of the kind; or a KeyError, or a TypeError.
    """
    found = json.loads(content)
    columns = [Column(**column) for column in found["columns"]]
    return HeadTable(found["title"], columns, found["data"], found["notes"], found["provenance"])
