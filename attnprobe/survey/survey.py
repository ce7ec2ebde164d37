"""One survey: a checkpoint, a corpus, statistics; verified, measured, and put on record."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.budget import cells_of, copies_of, itemsize_of, price_of_statistics
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.run.input.labelled import Labelled
from attnprobe.run.input.repeated import Repeated
from attnprobe.run.packing import packed
from attnprobe.run.passes import running
from attnprobe.run.preparation import Documents, Prepared, examined, prepared
from attnprobe.run.progress import Progress
from attnprobe.run.record import provenance
from attnprobe.statistics.registry import title_of
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import HEADS, Tabulation
from attnprobe.sums.measurement import Measurement
from attnprobe.survey.answerable import answerable, check_modality, observed
from attnprobe.survey.constants import reasons
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
        title = title_of(self.statistics, self.tabulation.title)
        table = self.tabulation.table(title, self.measurement, self.statistics, self.labels)
        return table if self.layers is None else of_layers(table, self.layers)


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


def survey(
    checkpoint: Checkpoint,
    documents: Documents | Repeated,
    options: CorpusOptions,
    statistics: Sequence[Statistic],
    *,
    labelled: bool = False,
    **settings: Any,
) -> Survey:
    """Survey one corpus; see ``surveyed`` for the settings."""
    return surveyed(checkpoint, [Part(documents, statistics, options, labelled=labelled)], **settings)


def surveyed(
    checkpoint: Checkpoint,
    parts: Sequence[Part],
    *,
    dataset: str,
    facts: Mapping[str, Any],
    tabulation: Tabulation = HEADS,
    layers: Sequence[int] | None = None,
    resume: Path | None = None,
    workers: int | None = None,
    seed: int = SEED,
    as_far_as_possible: bool = False,
    progress: Progress,
) -> Survey:
    """Verify the capture, tokenise each corpus, and measure it in one pass.

    Statistics under a control take another pass over the same batches. Started by torchrun, each process
    measures its share of the batches, and all get the whole.

    Args:
        checkpoint: Which model is asked.
        parts: One corpus or several, the one that the survey is about first.
        dataset: What the ``dataset`` column says.
        facts: What the caller adds to the provenance: command, source of the text.
        tabulation: How the table is made.
        layers: Which layers the table is to be about; None for all.
        resume: A file that keeps the state of the run, so that it can go on after it was stopped.
        workers: How many batches are in flight; by default as many as there are threads.
        seed: From which orders are drawn, where tokens are shuffled.
        as_far_as_possible: Leave out, with a note, what the model does not give, instead of refusing.
        progress: Who is told how far it is.
    """
    first, *others = parts
    check_modality(checkpoint, [statistic for part in parts for statistic in part.statistics])
    first, targets = with_targets(checkpoint, first)
    checkpoint, documents, architecture = examined(checkpoint, first.documents, progress)
    first = replace(first, documents=documents)
    if layers is not None:
        check_layers(layers, (place.layer for place in architecture.places), checkpoint.name)
    wanted = [answerable(part.statistics, architecture) for part in (first, *others)]
    evidence, said = observed(checkpoint, architecture, wanted, as_far_as_possible=as_far_as_possible)
    asked = [
        (part, Controls.of(checkpoint, architecture, some, seed))
        for part, some in zip((first, *others), wanted, strict=True)
    ]
    statistics = [statistic for _, controls in asked for statistic in controls.statistics]
    evidence += [sentence for _, controls in asked for sentence in controls.evidence]
    question = {"command": " ".join(statistic.identity for statistic in statistics)}
    measured_parts: list[Measurement] = []
    record: dict[str, Any] = {}
    with running(checkpoint, first.options, question, resume=resume, progress=progress) as run:
        for part, controls in asked:
            with _ready(checkpoint, architecture, part, controls, workers, progress) as found:
                for sentence in targets.remarks() if targets is not None and part is first else ():
                    progress.say(sentence)
                one = measured(run, checkpoint, architecture, found, controls, part.name)
                made = provenance(checkpoint, architecture, found.corpus, part.options, found.workers)
                said += notes(controls.statistics, one, found.corpus.rarity, checkpoint.model.dtype)
                said += controls.notes
                said += reasons(checkpoint, architecture, controls.statistics, one)
            measured_parts.append(one)
            record = _recorded(record, made, part.name)
            record["options"] |= controls.record
    record |= facts
    if layers is not None:
        record["layers"] = list(layers)
    measurement = reduce(Measurement.joined, measured_parts)
    record["measurement"] = {
        "table": tabulation.name,
        "statistics": [statistic.identity for statistic in statistics],
        "evidence": evidence,
        "sums": packed(measurement.arrays()),
        "beside": {
            statistic.name: record["other_corpora"][part.name]["texts"]
            for part, controls in asked[1:]
            for statistic in controls.statistics
        },
    }
    patches = architecture.grid is not None
    labels = Labels(
        checkpoint.name, dataset, record, architecture.places, patches, architecture.removed, said
    )
    return Survey(measurement, statistics, architecture, labels, tabulation, layers)


def with_targets(checkpoint: Checkpoint, part: Part) -> tuple[Part, Labelled | None]:
    """Keep the documents that have a target, where targets are to be read."""
    if not part.labelled or isinstance(part.documents, Repeated):
        return part, None
    if not checkpoint.decodes:
        raise AttnprobeError(
            f"{checkpoint.name} has no decoder beside an encoder that could read targets; leave out "
            "--label-column."
        )
    targets = Labelled(part.documents, "target text")
    options = replace(part.options, truncate=True)
    return replace(part, documents=targets.examples, options=options), targets


def _ready(
    checkpoint: Checkpoint,
    architecture: Architecture,
    part: Part,
    controls: Controls,
    workers: int | None,
    progress: Progress,
) -> AbstractContextManager[Prepared]:
    """Tokenise a corpus into batches that fit the memory."""
    return prepared(
        checkpoint,
        architecture,
        part.documents,
        part.options,
        price=lambda: price_of_statistics(architecture, controls.largest, itemsize_of(checkpoint)),
        copies=copies_of(controls.statistics),
        cells=cells_of(architecture, controls.statistics),
        labelled=part.labelled,
        workers=workers,
        progress=progress,
    )


def _recorded(record: dict[str, Any], made: dict[str, Any], name: str) -> dict[str, Any]:
    """Put what is on record of a further corpus beside that of the first."""
    if not record:
        return made
    return {**record, "other_corpora": {**record.get("other_corpora", {}), name: made["corpus"]}}
