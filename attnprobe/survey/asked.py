"""What is asked of a checkpoint: corpora, statistics of each, and the table that becomes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.run.input.repeated import Repeated
from attnprobe.run.preparation import Documents
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import HEADS, Tabulation
from attnprobe.survey.controls import SEED


@dataclass(frozen=True)
class Part:
    """A corpus, and what is asked of it.

    Attributes:
        documents: The text, a folder of images or sound, or random tokens.
        statistics: What is measured.
        options: How it is cut into sequences.
        name: Tells it from the other corpora of a survey; empty for the one that the survey is about.
        labelled: Whether labels are target texts, for the decoder beside an encoder.
    """

    documents: Documents | Repeated
    statistics: Sequence[Statistic]
    options: CorpusOptions
    name: str = ""
    labelled: bool = False


@dataclass(frozen=True)
class Asked:
    """A table that is asked for.

    Attributes:
        parts: One corpus or several, the one that the table is about first.
        dataset: What the ``dataset`` column says.
        facts: What the caller adds to the provenance: command, source of the text.
        tabulation: How the table is made.
        layers: Which layers the table is to be about; None for all.
        seed: From which orders are drawn, where tokens are shuffled.
    """

    parts: Sequence[Part]
    dataset: str
    facts: Mapping[str, Any]
    tabulation: Tabulation = HEADS
    layers: Sequence[int] | None = None
    seed: int = SEED

    @property
    def statistics(self) -> list[Statistic]:
        """What is measured, of all corpora."""
        return [statistic for part in self.parts for statistic in part.statistics]
