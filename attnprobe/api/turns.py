"""Checkpoints whose turn comes one after the other: each is measured, kept, and freed before the next."""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnprobe.api.checkpoints import first_here, settled
from attnprobe.commands.call.call import Call
from attnprobe.errors import AttnprobeError
from attnprobe.run.finished import Finished
from attnprobe.run.process_group import Ranks
from attnprobe.run.relay import Relay
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from attnprobe.model.loading.revisions import Downloads, Glance

#: Measures a checkpoint, given its name, texts, labels and options.
Measured = Callable[[str, Any, Any, dict[str, Any]], HeadTable]
#: Refuses a table that can't stand beside the first, given the turns and the tables of both.
Check = Callable[["Turn", HeadTable, "Turn", HeadTable], None]


@dataclass(frozen=True)
class Turn:
    """A checkpoint among others.

    Attributes:
        number: Of its table in a state.
        glance: What was seen of it.
        name: What it is called while it is measured.
        said: What it is called in an error.
    """

    number: int
    glance: "Glance"
    name: str
    said: str


def taken(
    turns: Sequence[Turn],
    finished: Finished,
    of: Measured,
    texts: Any,
    labels: Any,
    options: Mapping[str, Any],
    call: Call,
    *,
    check: Check | None,
    downloads: "Downloads | None" = None,
) -> list[HeadTable]:
    """Take up the checkpoints that are done, and measure the others.

    Args:
        turns: The checkpoints.
        finished: The tables that are done.
        of: Measures a checkpoint.
        texts: What it reads.
        labels: Of these.
        options: Of the function that measures.
        call: The keywords of the command, sorted.
        check: Refuses a table that can't stand beside the first; None where any can.
        downloads: Takes away what was downloaded for a checkpoint once it is done.
    """
    kept = call.resume is not None
    identities = {one.number: one.glance.identity if kept else "" for one in turns}
    done = finished.taken_up(identities)
    if done:
        those = f"{len(done)} of {len(turns)} {finished.noun}s are done ({', '.join(map(str, done))})"
        call.progress.say(f"going on from {call.resume}: {those}.")
    found: list[HeadTable] = []
    relay = Relay(call.progress)
    for place, one in enumerate(turns, start=1):
        table = done.get(one.number)
        try:
            if table is None:
                more: dict[str, Any] = {"progress": relay, "threads": None}
                more["resume"] = finished.beside(one.number)
                if one.glance.options.revision is not None:
                    more["revision"] = one.glance.options.revision
                with relay.at(f"{one.name} ({place} of {len(turns)})"):
                    table = settled(of(one.glance.name, texts, labels, {**options, **more}))
            if found and check is not None:
                check(turns[0], found[0], one, table)
        except AttnprobeError as error:
            said = str(error) if one.said in str(error) else f"{one.said}: {error}"
            raise finished.stopped(error, said, len(found)) from error
        if one.number in done:
            finished.tidy(one.number)
        else:
            finished.keep(one.number, identities[one.number], table)
            gc.collect()  # before the next one is loaded; hooks may lead from a model back to itself
        found.append(table)
        if downloads is not None:
            with Ranks.found().joined() as meeting:  # nobody fetches a file that is about to go
                if first_here():
                    downloads.drop(one.glance)
                meeting.gathered(None)
    return found


@contextmanager
def dropped(downloads: "Downloads | None", glances: "Sequence[Glance]") -> Iterator[None]:
    """Take away at the end, however it comes, what was downloaded for some checkpoints."""
    try:
        yield
    finally:
        if downloads is not None and first_here():
            for glance in glances:
                downloads.drop(glance)
