"""What is requested of a checkpoint: corpora, statistics that it can be asked, and tables of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnprobe.attention.block import UNEMBEDDING
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.observations import UnobservableError, check_observations
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.run.input.repeated import RepeatedTokens
from attnprobe.run.preparation import Documents
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import HEADS, Tabulation
from attnprobe.survey.controls import SEED
from attnprobe.table.naming import listed


@dataclass(frozen=True)
class CorpusRequest:
    """A corpus, and what is asked of it.

    Attributes:
        documents: The text, a folder of images or sound, or random tokens.
        statistics: What is measured.
        options: How it is cut into sequences.
        name: Tells it from the other corpora of a survey; empty for the one that the survey is about.
        labelled: Whether labels are target texts, for the decoder beside an encoder.
    """

    documents: Documents | RepeatedTokens
    statistics: Sequence[Statistic]
    options: CorpusOptions
    name: str = ""
    labelled: bool = False


@dataclass(frozen=True)
class TableRequest:
    """A table that is asked for.

    Attributes:
        corpora: One corpus or several, the one that the table is about first.
        dataset: What the ``dataset`` column says.
        facts: What the caller adds to the provenance: command, source of the text.
        tabulation: How the table is made.
        layers: Which layers the table is to be about; None for all.
        seed: From which orders are drawn, where tokens are shuffled.
    """

    corpora: Sequence[CorpusRequest]
    dataset: str
    facts: Mapping[str, Any]
    tabulation: Tabulation = HEADS
    layers: Sequence[int] | None = None
    seed: int = SEED

    @property
    def statistics(self) -> list[Statistic]:
        return [statistic for corpus in self.corpora for statistic in corpus.statistics]


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


def drop_patch_statistics(statistics: Sequence[Statistic], architecture: Architecture) -> list[Statistic]:
    """Leave out what is about rows of patches where there are none."""
    found = [one for one in statistics if one.about != "patches" or architecture.grid is not None]
    if not found:
        raise AttnprobeError(f"{statistics[0].name} is about images, in which patches lie in rows.")
    return found


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
            left_out.append(f"{listed([one.name for one in asking])} could not be measured: {error}")
            for some in wanted:
                some[:] = [statistic for statistic in some if statistic not in asking]
