"""One survey: a checkpoint, a corpus, statistics; verified, measured, and put on record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.observations import UnobservableError, check_observations
from attnprobe.run.budget import cells_of, copies_of, itemsize_of, price_of_statistics
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.run.input.labelled import Labelled
from attnprobe.run.input.repeated import Repeated
from attnprobe.run.packing import packed
from attnprobe.run.passes import running
from attnprobe.run.preparation import Documents, examined, prepared
from attnprobe.run.progress import Progress
from attnprobe.run.record import provenance
from attnprobe.statistics.registry import title_of
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import HEADS, Tabulation
from attnprobe.sums.measurement import Measurement
from attnprobe.survey.controls import SEED, Controls, measured
from attnprobe.survey.layers import check_layers, of_layers
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
        layers: Which layers the table is to be about; None for all.
    """

    measurement: Measurement
    statistics: Sequence[Statistic]
    architecture: Architecture
    labels: Labels
    tabulation: Tabulation = HEADS
    layers: Sequence[int] | None = None

    @property
    def table(self) -> HeadTable:
        """The table that was asked for."""
        title = self.tabulation.title or title_of(self.statistics)
        table = self.tabulation.build(title, self.measurement, self.statistics, self.labels)
        return table if self.layers is None else of_layers(table, self.layers)


def survey(
    checkpoint: Checkpoint,
    documents: Documents | Repeated,
    options: CorpusOptions,
    statistics: Sequence[Statistic],
    *,
    dataset: str,
    facts: Mapping[str, Any],
    tabulation: Tabulation = HEADS,
    layers: Sequence[int] | None = None,
    labelled: bool = False,
    resume: Path | None = None,
    workers: int | None = None,
    seed: int = SEED,
    progress: Progress,
) -> Survey:
    """Verify the capture, tokenise the corpus, and measure it in one pass.

    Statistics under a control take another pass over the same batches. Started by torchrun, each process
    measures its share of the batches, and all get the whole.

    Args:
        checkpoint: Which model is asked.
        documents: The text, a folder of images or sound, or random tokens.
        options: How it is cut into sequences.
        statistics: What is measured.
        dataset: What the ``dataset`` column says.
        facts: What the caller adds to the provenance: command, source of the text.
        tabulation: How the table is made.
        layers: Which layers the table is to be about; None for all.
        labelled: Whether labels are target texts, for the decoder beside an encoder.
        resume: A file that keeps the state of the run, so that it can go on after it was stopped.
        workers: How many batches are in flight; by default as many as there are threads.
        seed: From which orders are drawn, where tokens are shuffled.
        progress: Who is told how far it is.
    """
    if checkpoint.modality != "text" and all(statistic.about == "text" for statistic in statistics):
        raise AttnprobeError("What is rare is counted in text; images and sound have no rare tokens.")
    if checkpoint.modality != "text" and any(statistic.control for statistic in statistics):
        raise AttnprobeError("--control shuffles the tokens of texts; of images and sound, leave it out.")
    targets = None
    if labelled and not isinstance(documents, Repeated):
        if not checkpoint.decodes:
            raise AttnprobeError(
                f"{checkpoint.name} has no decoder beside an encoder that could read targets; leave out "
                "--label-column."
            )
        targets = Labelled(documents, "target text")
        documents, options = targets.examples, replace(options, truncate=True)
    checkpoint, documents, architecture = examined(checkpoint, documents, progress)
    if layers is not None:
        check_layers(layers, (place.layer for place in architecture.places), checkpoint.name)
    controls = Controls.of(checkpoint, architecture, _answerable(statistics, architecture), seed)
    statistics = controls.statistics
    evidence = [*_observed(checkpoint, architecture, statistics), *controls.evidence]
    with prepared(
        checkpoint,
        architecture,
        documents,
        options,
        price=lambda: price_of_statistics(architecture, controls.largest, itemsize_of(checkpoint)),
        copies=copies_of(statistics),
        cells=cells_of(architecture, statistics),
        labelled=labelled,
        workers=workers,
        progress=progress,
    ) as found:
        for sentence in targets.remarks() if targets is not None else ():
            progress.say(sentence)
        question = {"command": " ".join(statistic.identity for statistic in statistics)}
        with running(checkpoint, options, question, resume=resume, progress=progress) as run:
            measurement = measured(run, checkpoint, architecture, found, controls)
        record = provenance(checkpoint, architecture, found.corpus, options, found.workers) | dict(facts)
        record["options"] |= controls.record
    record["measurement"] = {
        "table": tabulation.name,
        "statistics": [statistic.identity for statistic in statistics],
        "evidence": evidence,
        "sums": packed(measurement.arrays()),
    }
    patches = architecture.grid is not None
    said = [
        *notes(statistics, measurement, found.corpus.rarity, checkpoint.model.dtype),
        *controls.notes,
    ]
    labels = Labels(
        checkpoint.name, dataset, record, architecture.places, patches, architecture.removed, said
    )
    return Survey(measurement, statistics, architecture, labels, tabulation, layers)


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
