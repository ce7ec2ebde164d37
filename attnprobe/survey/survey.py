"""One survey: a checkpoint, a corpus, statistics; verified, measured, and put on record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.observations import UnobservableError, check_observations
from attnprobe.run.budget import cells_of, copies_of, itemsize_of, price_of_statistics
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.run.input.labelled import Labelled
from attnprobe.run.packing import packed
from attnprobe.run.passes import running
from attnprobe.run.preparation import Documents, examined, prepared
from attnprobe.run.progress import Progress
from attnprobe.run.record import provenance
from attnprobe.statistics.registry import title_of
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import HEADS, Tabulation
from attnprobe.sums.measurement import Measurement
from attnprobe.survey.measure import measuring
from attnprobe.survey.remarks import notes
from attnprobe.table.builder import Labels
from attnprobe.table.head_table import HeadTable


@dataclass(frozen=True)
class Survey:
    """What a survey found.

    Attributes:
        measurement: The sums.
        statistics: What was measured.
        architecture: What the dry run verified.
        labels: Names and provenance for the table.
        tabulation: How it is tabulated.
    """

    measurement: Measurement
    statistics: Sequence[Statistic]
    architecture: Architecture
    labels: Labels
    tabulation: Tabulation = HEADS

    @property
    def table(self) -> HeadTable:
        """The table that was asked for."""
        title = self.tabulation.title or title_of(self.statistics)
        return self.tabulation.build(title, self.measurement, self.statistics, self.labels)


def survey(
    checkpoint: Checkpoint,
    documents: Documents,
    options: CorpusOptions,
    statistics: Sequence[Statistic],
    *,
    dataset: str,
    facts: Mapping[str, Any],
    tabulation: Tabulation = HEADS,
    labelled: bool = False,
    resume: Path | None = None,
    workers: int | None = None,
    progress: Progress,
) -> Survey:
    """Verify the capture, tokenise the corpus, and measure it in one pass.

    Started by torchrun, each process measures its share of the batches, and all get the whole.

    Args:
        checkpoint: Which model is asked.
        documents: The text, or a folder of images or sound.
        options: How it is cut into sequences.
        statistics: What is measured.
        dataset: What the ``dataset`` column says.
        facts: What the caller adds to the provenance: command, source of the text.
        tabulation: How the table is made.
        labelled: Whether labels are target texts, for the decoder beside an encoder.
        resume: A file that keeps the state of the run, so that it can go on after it was stopped.
        workers: How many batches are in flight; by default as many as there are threads.
        progress: Who is told how far it is.
    """
    if checkpoint.modality != "text" and all(statistic.about == "text" for statistic in statistics):
        raise AttnprobeError("What is rare is counted in text; images and sound have no rare tokens.")
    targets = Labelled(documents, "target text")
    if labelled:
        if not checkpoint.decodes:
            raise AttnprobeError(
                f"{checkpoint.name} has no decoder beside an encoder that could read targets; leave out "
                "--target-column."
            )
        documents, options = targets.examples, replace(options, truncate=True)
    checkpoint, documents, architecture = examined(checkpoint, documents, progress)
    statistics = _answerable(statistics, architecture)
    evidence = _observed(checkpoint, architecture, statistics)
    with prepared(
        checkpoint,
        architecture,
        documents,
        options,
        price=lambda: price_of_statistics(architecture, statistics, itemsize_of(checkpoint)),
        copies=copies_of(statistics),
        cells=cells_of(architecture, statistics),
        labelled=labelled,
        workers=workers,
        progress=progress,
    ) as found:
        for sentence in targets.remarks():
            progress.say(sentence)
        question = {"command": " ".join(statistic.identity for statistic in statistics)}
        restore = partial(
            Measurement.from_arrays, kinds={statistic.name: statistic.sums for statistic in statistics}
        )
        with (
            running(checkpoint, options, question, resume=resume, progress=progress) as run,
            measuring(checkpoint, architecture, statistics) as measure,
        ):
            measurement = run.total(
                "measuring",
                found.corpus.batches,
                measure.measurement,
                restore,
                workers=found.workers,
                joined=measure.joined,
            )
        record = provenance(checkpoint, architecture, found.corpus, options, found.workers) | dict(facts)
    record["measurement"] = {
        "table": tabulation.name,
        "statistics": [statistic.identity for statistic in statistics],
        "evidence": evidence,
        "sums": packed(measurement.arrays()),
    }
    patches = architecture.grid is not None
    said = notes(statistics, measurement, found.corpus.rarity, checkpoint.model.dtype)
    labels = Labels(checkpoint.name, dataset, record, architecture.places, patches, said)
    return Survey(measurement, statistics, architecture, labels, tabulation)


def _answerable(statistics: Sequence[Statistic], architecture: Architecture) -> list[Statistic]:
    """Leave out what is about rows of patches where there are none."""
    found = [
        statistic for statistic in statistics if statistic.about != "patches" or architecture.grid is not None
    ]
    if not found:
        raise AttnprobeError(f"{statistics[0].name} is about images, in which patches lie in rows.")
    return found


def _observed(
    checkpoint: Checkpoint, architecture: Architecture, statistics: Sequence[Statistic]
) -> list[str]:
    """Verify that what statistics need can be had, or refuse the first that needs more."""
    try:
        needs = frozenset[str]().union(*(statistic.needs for statistic in statistics))
        return check_observations(checkpoint, architecture, needs)
    except UnobservableError as error:
        asking = next(statistic for statistic in statistics if error.name in statistic.needs)
        raise AttnprobeError(f"The statistic {asking.name!r} can't be measured: {error}") from error
