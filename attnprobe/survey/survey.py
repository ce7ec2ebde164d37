"""A survey: tables are requested of a checkpoint, corpora and statistics; verified, measured, put on record.

Tables that are about the same corpus share its passes.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

from attnprobe.corpus.sources.order import Order
from attnprobe.corpus.vocabulary import Rarity
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.examples import LabelledExamples
from attnprobe.run.memory import limit_cells
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run, open_run
from attnprobe.run.preparation import (
    Documents,
    PreparedCorpus,
    describe_corpus,
    examine_part,
    prepare_corpus,
)
from attnprobe.run.progress import Progress
from attnprobe.run.record import record_provenance
from attnprobe.run.repeated import RepeatedTokens
from attnprobe.statistics.registry import write_title
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import HEADS, Tabulation
from attnprobe.sums.base import Measurement, pack
from attnprobe.survey.measure import SEED, Controls, explain_empty, measure_passes
from attnprobe.survey.needs import check_modality, drop_counted, drop_impossible, verify_needs
from attnprobe.survey.tables import check_layers, keep_layers, write_notes
from attnprobe.survey.until import Round, limit_observations, read_until_enough
from attnprobe.table.builder import Labels
from attnprobe.table.head_table import HeadTable


@dataclass(frozen=True)
class CorpusRequest:
    """A corpus, and what is asked of it.

    Attributes:
        documents: The text, a folder of images or sound, or random tokens.
        statistics: What is measured.
        options: How it is cut into sequences.
        name: Tells it from the other corpora of a survey; empty for the one that the survey is about.
        labelled: Whether labels are target texts.
        order: The random order in which it is read, if targets say how precise the table is to be.
    """

    documents: Documents | RepeatedTokens
    statistics: Sequence[Statistic]
    options: CorpusOptions
    name: str = ""
    labelled: bool = False
    order: Order | None = None


@dataclass(frozen=True)
class TableRequest:
    """A table that is asked for.

    Attributes:
        corpora: The corpora, the one that the table is about first.
        dataset: What the ``dataset`` column says.
        facts: What the caller adds to the provenance.
        tabulation: How the table is made.
        layers: Which layers it is about; None for all.
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


@dataclass(frozen=True)
class Survey:
    """What a survey found for one table."""

    measurement: Measurement
    statistics: Sequence[Statistic]
    architecture: Architecture
    labels: Labels
    request: TableRequest

    @property
    def table(self) -> HeadTable:
        tabulation, layers = self.request.tabulation, self.request.layers
        title = write_title(self.statistics, tabulation.title)
        table = tabulation.table(title, self.measurement, self.statistics, self.labels)
        return table if layers is None else keep_layers(table, layers)


def survey_corpora(
    checkpoint: Checkpoint,
    requests: Sequence[TableRequest],
    *,
    resume: Path | None = None,
    workers: int | None = None,
    as_far_as_possible: bool = False,
    progress: Progress,
) -> list[Survey]:
    """Verify the capture, tokenise each corpus, and measure it in one pass for all tables about it.

    Statistics under a control take another pass over the same batches. Started by torchrun, each process
    measures its share of the batches, and all get the whole.

    Args:
        checkpoint: The model.
        requests: The tables. The first corpora of all are the same, and so are others of one name.
        resume: A file that keeps the state of the run.
        workers: How many batches are in flight; by default as many as there are threads.
        as_far_as_possible: Leave out, with a note, what the model does not give, instead of refusing.
        progress: Is told how far it is.

    Returns:
        What was found for each table, in their order.
    """
    for request in requests:
        check_modality(checkpoint, request.statistics)
    first, targets = keep_targeted(checkpoint, requests[0].corpora[0])
    targeted = {first.name: targets}
    checkpoint, documents, architecture = examine_part(checkpoint, first.documents, progress)
    corpora: dict[str, CorpusRequest] = {}
    for corpus in (corpus for request in requests for corpus in request.corpora):
        same = corpora.setdefault(corpus.name, corpus)
        if (same.options, same.labelled) != (corpus.options, corpus.labelled):
            raise ValueError("tables that share a pass read a corpus with the same options")
    corpora[first.name] = replace(first, documents=documents)
    for name, corpus in corpora.items():
        if name != first.name:
            corpora[name], targeted[name] = keep_targeted(checkpoint, corpus)
    drafts = [
        _Draft.of(checkpoint, architecture, request, as_far_as_possible=as_far_as_possible)
        for request in requests
    ]
    every = [one for name in corpora for one in _join_controls(drafts, name).statistics]
    question = {"command": " ".join(statistic.identity for statistic in every)}
    with open_run(checkpoint, first.options, question, resume=resume, progress=progress) as run:
        if first.options.targets:
            (draft,), (corpus,) = drafts, corpora.values()
            return [_survey_rounds(run, (checkpoint, architecture), corpus, draft, targets, workers)]
        for name, corpus in corpora.items():
            here = [draft for draft in drafts if name in draft.controls]
            controls = _join_controls(here, name)
            with _prepare(checkpoint, architecture, corpus, controls, workers, progress) as ready:
                for sentence in () if (targets := targeted[name]) is None else targets.remarks():
                    progress.say(sentence)
                found = measure_passes(run, checkpoint, architecture, ready, controls, name)
                for draft in here:
                    record = record_provenance(
                        checkpoint, architecture, ready.corpus, corpus.options, ready.workers
                    )
                    draft.take(name, found, record)
                    draft.note(checkpoint, architecture, name, ready.corpus.rarity, first=name == first.name)
    return [draft.finish(checkpoint, architecture) for draft in drafts]


def _survey_rounds(
    run: Run,
    model: tuple[Checkpoint, Architecture],
    corpus: CorpusRequest,
    draft: "_Draft",
    targets: LabelledExamples | None,
    workers: int | None,
) -> Survey:
    """Measure documents in a random order, until the table is as precise as was asked."""
    (checkpoint, architecture), controls, name = model, draft.controls[corpus.name], corpus.name
    assert corpus.order is not None
    assert not isinstance(corpus.documents, RepeatedTokens)  # of which there are as many as one asks for
    # What is read of it is chosen here, round by round.
    options = replace(corpus.options, limit=None, sample=None, until=None)

    def tabulate(found: Round) -> HeadTable:
        draft.record = {}
        draft.take(name, found.sums, {**found.record})
        return draft.finish(checkpoint, architecture, packed=False).table

    def measure(documents: Documents, number: int) -> Round:
        part, stage = replace(corpus, documents=documents, options=options), f"look {number + 1}"
        with _prepare(
            checkpoint, architecture, part, controls, workers, run.progress, describe=False
        ) as ready:
            record = record_provenance(checkpoint, architecture, ready.corpus, corpus.options, ready.workers)
            sums = measure_passes(run, checkpoint, architecture, ready, controls, stage)
            return Round(sums, record, ready.corpus)

    found, looks, note = read_until_enough(
        corpus.documents,
        corpus.options,
        corpus.order,
        measure,
        tabulate,
        lambda rounds: limit_observations(controls.statistics, rounds.record["corpus"]),
    )
    for sentence in describe_corpus(checkpoint, found.corpus):
        run.progress.say(sentence)
    for sentence in targets.remarks() if targets is not None else []:
        run.progress.say(sentence)
    tabulate(found)
    draft.record["until"] = looks
    draft.notes.append(note)
    draft.note(checkpoint, architecture, name, None, first=True)
    return draft.finish(checkpoint, architecture)


@dataclass(eq=False)
class _Draft:
    """A table that is being measured; controls and measurements go by the names of corpora."""

    request: TableRequest
    controls: Mapping[str, Controls]
    evidence: list[str]
    notes: list[str]
    measurements: dict[str, Measurement] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        checkpoint: Checkpoint,
        architecture: Architecture,
        request: TableRequest,
        *,
        as_far_as_possible: bool,
    ) -> "_Draft":
        """Verify that what is asked for can be had."""
        if request.layers is not None:
            check_layers(request.layers, (place.layer for place in architecture.places), checkpoint.name)
        wanted = [drop_impossible(corpus.statistics, architecture) for corpus in request.corpora]
        left_out = drop_counted(wanted) if request.corpora[0].options.targets else []
        evidence, notes = verify_needs(
            checkpoint, architecture, wanted, as_far_as_possible=as_far_as_possible
        )
        notes += left_out
        controls = {
            corpus.name: Controls.of(some, request.seed)
            for corpus, some in zip(request.corpora, wanted, strict=True)
        }
        return cls(request, controls, evidence, notes)

    def take(self, name: str, found: Measurement, record: dict[str, Any]) -> None:
        """Take what is this table's of what was found in a corpus, and put the corpus on record."""
        controls = self.controls[name]
        self.measurements[name] = found.of([statistic.name for statistic in controls.statistics])
        if self.record:
            self.record.setdefault("other_corpora", {})[name] = record["corpus"]
        else:
            self.record = record
        self.record["options"] |= controls.record

    def note(
        self,
        checkpoint: Checkpoint,
        architecture: Architecture,
        name: str,
        rarity: Rarity | None,
        *,
        first: bool,
    ) -> None:
        """Note what a reader has to know of what was found in a corpus, the first of the table or another."""
        own, found = self.controls[name], self.measurements[name]
        self.notes += write_notes(own.statistics, rarity, checkpoint.model.dtype)
        if first:
            if turn := self.request.corpora[0].options.turn:
                number, of = turn
                self.notes.append(f"Only part {number:,} of {of:,} was read; merge adds parts up.")
            self.notes += [f"{one[0].upper()}{one[1:]}." for one in checkpoint.remarks]
        self.notes += explain_empty(checkpoint, architecture, own.statistics, found)

    def finish(self, checkpoint: Checkpoint, architecture: Architecture, *, packed: bool = True) -> Survey:
        """Put together what is on record; sums are ``packed`` there for tables that are to be added up."""
        request = self.request
        statistics = [statistic for one in self.controls.values() for statistic in one.statistics]
        record = {**self.record, **request.facts}
        if request.layers is not None:
            record["layers"] = list(request.layers)
        measurement = reduce(Measurement.join, self.measurements.values())
        record["measurement"] = {
            "table": request.tabulation.name,
            "statistics": [statistic.identity for statistic in statistics],
            "evidence": self.evidence,
            "sums": pack(measurement.arrays()) if packed else "",
            "beside": {
                statistic.name: record["other_corpora"][name]["texts"]
                for name, controls in list(self.controls.items())[1:]
                for statistic in controls.statistics
            },
        }
        labels = Labels(
            checkpoint.name, request.dataset, record, architecture.places, architecture.patches,
            architecture.removed, self.notes, architecture.lacking,
        )  # fmt: skip
        return Survey(measurement, statistics, architecture, labels, request)


def _join_controls(drafts: Sequence[_Draft], name: str) -> Controls:
    return Controls.join([draft.controls[name] for draft in drafts if name in draft.controls])


def keep_targeted(
    checkpoint: Checkpoint, corpus: CorpusRequest
) -> tuple[CorpusRequest, LabelledExamples | None]:
    """Keep the documents that have a target, where targets are to be read."""
    if not corpus.labelled or isinstance(corpus.documents, RepeatedTokens):
        return corpus, None
    if not checkpoint.decodes:
        raise AttnprobeError(
            f"{checkpoint.name} has no decoder beside an encoder that could read targets; leave out "
            "--label-column."
        )
    targets = LabelledExamples(corpus.documents, "target text")
    return replace(
        corpus, documents=targets.examples, options=replace(corpus.options, truncate=True)
    ), targets


def _prepare(
    checkpoint: Checkpoint,
    architecture: Architecture,
    corpus: CorpusRequest,
    controls: Controls,
    workers: int | None,
    progress: Progress,
    *,
    describe: bool = True,
) -> AbstractContextManager[PreparedCorpus]:
    return prepare_corpus(
        checkpoint,
        architecture,
        corpus.documents,
        corpus.options,
        cells=limit_cells(architecture, controls.statistics),
        labelled=corpus.labelled,
        describe=describe,
        workers=workers,
        progress=progress,
    )
