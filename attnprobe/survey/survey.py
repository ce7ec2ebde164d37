"""A survey: a checkpoint, corpora, statistics; verified, measured, and put on record.

Tables that are about the same corpus share its passes.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.run.input.examples import LabelledExamples
from attnprobe.run.input.repeated import RepeatedTokens
from attnprobe.run.memory import count_copies, find_itemsize, limit_cells, price_statistics
from attnprobe.run.passes import open_run
from attnprobe.run.preparation import Documents, PreparedCorpus, examine_part, prepare_corpus
from attnprobe.run.progress import Progress
from attnprobe.run.record import record_provenance
from attnprobe.statistics.registry import title_of
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import HEADS, Tabulation
from attnprobe.sums.base import Measurement, pack
from attnprobe.survey.controls import SEED, Controls, measured
from attnprobe.survey.layers import check_layers, of_layers
from attnprobe.survey.measure import reasons
from attnprobe.survey.request import Asked, Part, answerable, check_modality, observed
from attnprobe.survey.tables import notes
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


def survey(
    checkpoint: Checkpoint,
    documents: Documents | RepeatedTokens,
    options: CorpusOptions,
    statistics: Sequence[Statistic],
    *,
    labelled: bool = False,
    dataset: str,
    facts: Mapping[str, Any],
    tabulation: Tabulation = HEADS,
    layers: Sequence[int] | None = None,
    seed: int = SEED,
    **settings: Any,
) -> Survey:
    """Survey one corpus; see ``Part`` and ``Asked`` for what is asked, ``surveyed_together`` for the rest."""
    part = Part(documents, statistics, options, labelled=labelled)
    return surveyed(checkpoint, Asked([part], dataset, facts, tabulation, layers, seed), **settings)


def surveyed(checkpoint: Checkpoint, asked: Asked, **settings: Any) -> Survey:
    """Measure what one table asks for; see ``surveyed_together`` for the settings."""
    (found,) = surveyed_together(checkpoint, [asked], **settings)
    assert found is not None  # a table alone shares its batches with no other
    return found


def surveyed_together(
    checkpoint: Checkpoint,
    asked: Sequence[Asked],
    *,
    resume: Path | None = None,
    workers: int | None = None,
    as_far_as_possible: bool = False,
    progress: Progress,
) -> list[Survey | None]:
    """Verify the capture, tokenise each corpus, and measure it in one pass for all tables about it.

    Statistics under a control take another pass over the same batches. Started by torchrun, each process
    measures its share of the batches, and all get the whole. Every table has the numbers that it has alone,
    to the last bit: one that alone would have other batches, because whole maps are kept for it, is not
    measured here.

    Args:
        checkpoint: Which model is asked.
        asked: The tables. The first corpora of all are the same, and so are others of one name.
        resume: A file that keeps the state of the run, so that it can go on after it was stopped.
        workers: How many batches are in flight; by default as many as there are threads.
        as_far_as_possible: Leave out, with a note, what the model does not give, instead of refusing.
        progress: Who is told how far it is.

    Returns:
        What was found for each table; None for one that has to be measured alone.
    """
    first = asked[0].parts[0]
    for one in asked:
        check_modality(checkpoint, one.statistics)
    first, targets = with_targets(checkpoint, first)
    checkpoint, documents, architecture = examine_part(checkpoint, first.documents, progress)
    corpora: dict[str, Part] = {}
    for part in (part for one in asked for part in one.parts):
        same = corpora.setdefault(part.name, part)
        if (same.options, same.labelled) != (part.options, part.labelled):
            raise ValueError("tables that share a pass read a corpus with the same options")
    corpora[first.name] = replace(first, documents=documents)
    tables = [
        _Table.of(checkpoint, architecture, one, as_far_as_possible=as_far_as_possible) for one in asked
    ]
    every = {name: Controls.together(_controls(tables, name)).statistics for name in corpora}
    question = {"command": " ".join(one.identity for some in every.values() for one in some)}
    with open_run(checkpoint, first.options, question, resume=resume, progress=progress) as run:
        for name, part in corpora.items():
            here = [table for table in tables if name in table.controls]
            if not here:
                continue
            of_all = Controls.together(_controls(here, name))
            with _ready(checkpoint, architecture, part, here, of_all, workers, progress) as found:
                if apart := [table for table in here if not table.fits(architecture, found, name)]:
                    tables = [table for table in tables if table not in apart]
                    here = [table for table in here if table not in apart]
                    of_all = Controls.together(_controls(here, name))
                for sentence in targets.remarks() if targets is not None and name == first.name else ():
                    progress.say(sentence)
                one = measured(run, checkpoint, architecture, found, of_all, name)
                for table in here:
                    made = record_provenance(
                        checkpoint, architecture, found.corpus, part.options, found.workers
                    )
                    table.found_in(name, one, made)
                    own = table.controls[name]
                    of_it = table.measurements[name]
                    table.said += notes(own.statistics, of_it, found.corpus.rarity, checkpoint.model.dtype)
                    table.said += own.notes
                    table.said += _as_notes(checkpoint.remarks) if name == first.name else []
                    table.said += reasons(checkpoint, architecture, own.statistics, of_it)
    return [
        next((table.survey(checkpoint, architecture) for table in tables if table.asked is one), None)
        for one in asked
    ]


def _as_notes(remarks: Iterable[str]) -> list[str]:
    """Make sentences of what is odd about the files of a checkpoint."""
    return [f"{remark[0].upper()}{remark[1:]}." for remark in remarks]


@dataclass(eq=False)
class _Table:
    """A table that is being measured.

    Attributes:
        asked: What was asked for.
        controls: What can be measured of each corpus, by its name.
        evidence: What was verified for it.
        said: What a reader has to know.
        measurements: What was found in each corpus.
        record: What goes into its provenance.
    """

    asked: Asked
    controls: Mapping[str, Controls]
    evidence: list[str]
    said: list[str]
    measurements: dict[str, Measurement] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, checkpoint: Checkpoint, architecture: Architecture, asked: Asked, *, as_far_as_possible: bool
    ) -> "_Table":
        """Verify that what is asked for can be had."""
        if asked.layers is not None:
            check_layers(asked.layers, (place.layer for place in architecture.places), checkpoint.name)
        wanted = [answerable(part.statistics, architecture) for part in asked.parts]
        evidence, said = observed(checkpoint, architecture, wanted, as_far_as_possible=as_far_as_possible)
        controls = {
            part.name: Controls.of(checkpoint, architecture, some, asked.seed)
            for part, some in zip(asked.parts, wanted, strict=True)
        }
        evidence += [sentence for one in controls.values() for sentence in one.evidence]
        return cls(asked, controls, evidence, said)

    @property
    def statistics(self) -> list[Statistic]:
        """What is measured, of all corpora."""
        return [statistic for one in self.controls.values() for statistic in one.statistics]

    def cells(self, architecture: Architecture, name: str) -> int | None:
        """Give the most query-key cells that a batch of a corpus may have, if that is limited."""
        return limit_cells(architecture, self.controls[name].statistics)

    def fits(self, architecture: Architecture, found: PreparedCorpus, name: str) -> bool:
        """Tell whether the batches of a corpus are those that this table would have alone."""
        cells, batches = self.cells(architecture, name), found.corpus.batches
        lengths = batches.longer
        return cells is None or all(
            len(members) == 1 or len(members) * int(lengths[members[0]]) ** 2 <= cells
            for members in batches.plan
        )

    def found_in(self, name: str, found: Measurement, made: dict[str, Any]) -> None:
        """Take what is this table's of what was found in a corpus."""
        controls = self.controls[name]
        self.measurements[name] = found.of([statistic.name for statistic in controls.statistics])
        self.record = _recorded(self.record, made, name)
        self.record["options"] |= controls.record

    def survey(self, checkpoint: Checkpoint, architecture: Architecture) -> Survey:
        """Put what was found on record."""
        asked, statistics = self.asked, self.statistics
        record = {**self.record, **asked.facts}
        if asked.layers is not None:
            record["layers"] = list(asked.layers)
        measurement = reduce(Measurement.joined, self.measurements.values())
        record["measurement"] = {
            "table": asked.tabulation.name,
            "statistics": [statistic.identity for statistic in statistics],
            "evidence": self.evidence,
            "sums": pack(measurement.arrays()),
            "beside": {
                statistic.name: record["other_corpora"][name]["texts"]
                for name, controls in list(self.controls.items())[1:]
                for statistic in controls.statistics
            },
        }
        patches = architecture.grid is not None
        labels = Labels(
            checkpoint.name, asked.dataset, record, architecture.places, patches, architecture.removed,
            self.said,
        )  # fmt: skip
        return Survey(measurement, statistics, architecture, labels, asked.tabulation, asked.layers)


def _controls(tables: Sequence[_Table], name: str) -> list[Controls]:
    return [table.controls[name] for table in tables if name in table.controls]


def with_targets(checkpoint: Checkpoint, part: Part) -> tuple[Part, LabelledExamples | None]:
    """Keep the documents that have a target, where targets are to be read."""
    if not part.labelled or isinstance(part.documents, RepeatedTokens):
        return part, None
    if not checkpoint.decodes:
        raise AttnprobeError(
            f"{checkpoint.name} has no decoder beside an encoder that could read targets; leave out "
            "--label-column."
        )
    targets = LabelledExamples(part.documents, "target text")
    options = replace(part.options, truncate=True)
    return replace(part, documents=targets.examples, options=options), targets


def _ready(
    checkpoint: Checkpoint,
    architecture: Architecture,
    part: Part,
    tables: Sequence[_Table],
    controls: Controls,
    workers: int | None,
    progress: Progress,
) -> AbstractContextManager[PreparedCorpus]:
    """Tokenise a corpus into batches that fit the memory, those of the table that limits them least."""
    cells = [table.cells(architecture, part.name) for table in tables]
    return prepare_corpus(
        checkpoint,
        architecture,
        part.documents,
        part.options,
        price=lambda: price_statistics(architecture, controls.largest, find_itemsize(checkpoint)),
        copies=count_copies(controls.statistics),
        cells=None if None in cells else max(one for one in cells if one is not None),
        labelled=part.labelled,
        workers=workers,
        progress=progress,
    )


def _recorded(record: dict[str, Any], made: dict[str, Any], name: str) -> dict[str, Any]:
    """Put what is on record of a further corpus beside that of the first."""
    if not record:
        return made
    return {**record, "other_corpora": {**record.get("other_corpora", {}), name: made["corpus"]}}
