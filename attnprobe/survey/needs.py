"""What statistics need: left out, or refused, where a model, a modality or the reading does not give it."""

from collections.abc import Sequence

from attnprobe.attention.observed import UNEMBEDDING
from attnprobe.corpus.sources.pictures import BOTH
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.observations import UnobservableError, check_observations
from attnprobe.statistics.statistic import Statistic
from attnprobe.table.naming import join_names


def check_modality(checkpoint: Checkpoint, statistics: Sequence[Statistic]) -> None:
    """Refuse what only text has, of images and sound, and what only both together have, of either."""
    named = next((one.family.name for one in statistics if one.about == "modalities"), None)
    if checkpoint.modality != BOTH and named is not None:
        raise AttnprobeError(
            f"{named} is about images with texts; give data with a column of images "
            "(--image-column), and a model that reads both."
        )
    if checkpoint.modality == "text":
        return
    if any(statistic.scope == "links" for statistic in statistics):
        raise AttnprobeError("Gold links lie between words of text; images and sound have none.")
    if checkpoint.modality != BOTH and all(statistic.about == "text" for statistic in statistics):
        raise AttnprobeError("What is rare is counted in text; images and sound have no rare tokens.")
    if any(statistic.control for statistic in statistics):
        raise AttnprobeError("--control shuffles the tokens of texts; of images and sound, leave it out.")


def drop_impossible(statistics: Sequence[Statistic], architecture: Architecture) -> list[Statistic]:
    """Leave out what is about rows of patches where there are none; refuse heads of maps of other tokens."""
    found = [one for one in statistics if one.about != "patches" or architecture.patches]
    if not found:
        raise AttnprobeError(f"{statistics[0].name} is about images, in which patches lie in rows.")
    if architecture.layer_heads and any(one.scope == "model" for one in found):
        raise AttnprobeError(
            f"{architecture.model_type} has maps of other tokens in other layers, so that heads of different "
            "layers can't be compared; leave out --all-pairs."
        )
    return found


def drop_counted(wanted: Sequence[list[Statistic]]) -> list[str]:
    """Leave out what depends on counts over a whole corpus; say so, or refuse where nothing else is asked."""
    names = [one.name for some in wanted for one in some if one.by_corpus]
    if not names:
        return []
    if len(names) == sum(map(len, wanted)):
        raise AttnprobeError("What is rare is counted over the whole text; leave out --until.")
    for some in wanted:
        some[:] = [one for one in some if not one.by_corpus]
    are = "is" if len(names) == 1 else "are"
    return [f"{join_names(names)} {are} left out: what is rare is counted over the whole text."]


def verify_needs(
    checkpoint: Checkpoint,
    architecture: Architecture,
    wanted: Sequence[list[Statistic]],
    *,
    as_far_as_possible: bool,
) -> tuple[list[str], list[str]]:
    """Verify that what the statistics of each corpus need can be had, or refuse the first that needs more.

    With ``as_far_as_possible``, those that can't be had are taken out of ``wanted`` instead.

    Returns:
        What was verified, and what was left out.
    """
    left_out: list[str] = []
    while True:
        every = [statistic for some in wanted for statistic in some]
        try:
            needs = frozenset[str]().union(*(statistic.needs for statistic in every))
            return check_observations(checkpoint, architecture, needs - {UNEMBEDDING}), left_out
        except UnobservableError as error:
            asking = [statistic for statistic in every if error.name in statistic.needs]
            if not as_far_as_possible or len(asking) == len(every):
                instead = " Leave out --weights." if any(one.of is not None for one in asking) else ""
                raise AttnprobeError(
                    f"The statistic {asking[0].name!r} can't be measured: {error}{instead}"
                ) from error
            left_out.append(f"{join_names([one.name for one in asking])} could not be measured: {error}")
            for some in wanted:
                some[:] = [statistic for statistic in some if statistic not in asking]
