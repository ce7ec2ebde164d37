"""Which statistics a model can be asked: what it reads, what it gives, what was left out."""

from collections.abc import Sequence

from attnprobe.attention.observed import UNEMBEDDING
from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.observations import UnobservableError, check_observations
from attnprobe.statistics.statistic import Statistic
from attnprobe.table.naming import listed


def check_modality(checkpoint: Checkpoint, statistics: Sequence[Statistic]) -> None:
    """Refuse what only text has, of images and sound."""
    if checkpoint.modality == "text":
        return
    if any(statistic.scope == "links" for statistic in statistics):
        raise AttnprobeError("Gold links lie between words of text; images and sound have none.")
    if all(statistic.about == "text" for statistic in statistics):
        raise AttnprobeError("What is rare is counted in text; images and sound have no rare tokens.")
    if any(statistic.control for statistic in statistics):
        raise AttnprobeError("--control shuffles the tokens of texts; of images and sound, leave it out.")


def answerable(statistics: Sequence[Statistic], architecture: Architecture) -> list[Statistic]:
    """Leave out what is about rows of patches where there are none."""
    found = [
        statistic for statistic in statistics if statistic.about != "patches" or architecture.grid is not None
    ]
    if not found:
        raise AttnprobeError(f"{statistics[0].name} is about images, in which patches lie in rows.")
    return found


def observed(
    checkpoint: Checkpoint,
    architecture: Architecture,
    wanted: Sequence[list[Statistic]],
    *,
    as_far_as_possible: bool,
) -> tuple[list[str], list[str]]:
    """Verify that what statistics need can be had, or refuse the first that needs more.

    Args:
        checkpoint: Which model is asked.
        architecture: What the dry run found.
        wanted: The statistics of each corpus; those that can't be had are taken out, if that is asked for.
        as_far_as_possible: Whether it is.

    Returns:
        What was verified, and what was left out.
    """
    said: list[str] = []
    while True:
        every = [statistic for some in wanted for statistic in some]
        try:
            needs = frozenset[str]().union(*(statistic.needs for statistic in every))
            return check_observations(checkpoint, architecture, needs - {UNEMBEDDING}), said
        except UnobservableError as error:
            asking = [statistic for statistic in every if error.name in statistic.needs]
            if not as_far_as_possible or len(asking) == len(every):
                instead = " Leave out --weights." if any(one.of is not None for one in asking) else ""
                raise AttnprobeError(
                    f"The statistic {asking[0].name!r} can't be measured: {error}{instead}"
                ) from error
            said.append(f"{listed([one.name for one in asking])} could not be measured: {error}")
            for some in wanted:
                some[:] = [statistic for statistic in some if statistic not in asking]
