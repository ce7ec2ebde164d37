"""A survey: tables of a checkpoint, corpora and statistics; verified, measured, put on record.

Tables that are about the same corpus share its passes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import chain
from pathlib import Path
from typing import Any

from attnprobe.corpus.source import Order
from attnprobe.errors import NothingToMeasureError, UsageError
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.corpus import Corpus, record_provenance
from attnprobe.run.examples import Documents, LabelledExamples
from attnprobe.run.options import NOT_COUNTED, CorpusOptions, add_corpora
from attnprobe.run.passes import Run, limit_cells, open_run
from attnprobe.run.preparation import examine_part, prepare_corpus
from attnprobe.run.progress import Progress
from attnprobe.run.repeated import RepeatedTokens
from attnprobe.statistics.registry import write_title
from attnprobe.statistics.statistic import CONTROLS, Statistic
from attnprobe.statistics.tabulation import HEADS, Tabulation
from attnprobe.sums.base import Measurement, pack
from attnprobe.survey.checks import (
    check_layers,
    check_modality,
    drop_counted,
    drop_impossible,
    explain_empty,
    keep_layers,
    verify_needs,
    write_notes,
)
from attnprobe.survey.measure import SequentialRun, open_evaluator, split_rounds
from attnprobe.table.builder import Labels
from attnprobe.table.table import HeadTable


@dataclass(frozen=True)
class CorpusRequest:
    """A corpus, and what is asked of it."""

    documents: Documents | RepeatedTokens
    statistics: Sequence[Statistic]
    options: CorpusOptions
    name: str = ""  # tells it from other corpora; empty for the one that the survey is about
    labelled: bool = False  # whether labels are target texts
    order: Order | None = None  # a random one, if it is said how precise the table is to be
    targets: LabelledExamples | None = None  # counts the documents with a target text, once these are kept

    def keep_targeted(self, checkpoint: Checkpoint) -> "CorpusRequest":
        """Keep the documents with a target, where labels are targets; refuse a model that reads none."""
        if not self.labelled or isinstance(self.documents, RepeatedTokens):
            return self
        if not checkpoint.decodes:
            raise UsageError(
                f"{checkpoint.name} has no decoder beside an encoder that could read targets; leave out "
                "--label-column."
            )
        targets = LabelledExamples(self.documents, "target text")
        options = replace(self.options, truncate=True)
        return replace(self, documents=targets.examples, options=options, targets=targets)

    def remarks(self) -> list[str]:
        """Say how many documents had no target, once they are read."""
        return [] if self.targets is None else self.targets.remarks()


@dataclass(frozen=True)
class TableRequest:
    """A table that is asked for."""

    corpora: Sequence[CorpusRequest]  # the one that the table is about first
    dataset: str
    facts: Mapping[str, Any]  # what the caller adds to the provenance
    tabulation: Tabulation = HEADS
    layers: Sequence[int] | None = None


@dataclass(eq=False)
class TableRun:
    """A table that is measured; its measurements add up, and it can be tabulated after each."""

    request: TableRequest
    checkpoint: Checkpoint
    architecture: Architecture
    refuse: bool = True  # what the model does not give; or it is left out, with a note
    measured: dict[str, list[Statistic]] = field(default_factory=dict)  # what can be, by the corpus's name
    evidence: Sequence[str] = ()
    notes: list[str] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)  # empty until a corpus was measured
    measurement: Measurement = field(default_factory=partial(Measurement, {}))  # of all corpora

    def __post_init__(self) -> None:
        """Verify that what is asked for can be had."""
        model, architecture, corpora = self.checkpoint, self.architecture, self.request.corpora
        if self.request.layers is not None:
            check_layers(self.request.layers, (place.layer for place in architecture.places), model.name)
        self.measured = {one.name: drop_impossible(one.statistics, architecture) for one in corpora}
        wanted = list(self.measured.values())
        left_out = drop_counted(wanted) if corpora[0].options.targets else []
        self.evidence, notes = verify_needs(model, architecture, wanted, refuse=self.refuse)
        self.notes = notes + left_out

    @property
    def statistics(self) -> list[Statistic]:
        return [*chain.from_iterable(self.measured.values())]

    def take(self, name: str, measurement: Measurement, record: dict[str, Any]) -> None:
        """Add this table's sums of a measured corpus, or of a further part of the first, and the record."""
        part = measurement.of(one.name for one in self.measured[name])
        if not self.record:
            self.measurement, self.record = part, record
        elif name == self.request.corpora[0].name:
            self.measurement += part
            self.record["corpus"] = add_corpora(self.record["corpus"], record["corpus"])
        else:
            self.measurement = self.measurement.join(part)
            self.record.setdefault("other_corpora", {})[name] = record["corpus"]
        # Tables of another order of tokens don't add up.
        if any(one.control == "shuffled" for one in self.measured[name]):
            self.record["options"]["seed"] = self.request.corpora[0].options.seed

    def note(self, name: str, corpus: Corpus | None) -> None:
        """Note what a reader has to know of what was found in a corpus; None where nothing was counted."""
        checkpoint, first = self.checkpoint, self.request.corpora[0]
        rarity = None if corpus is None else corpus.rarity
        self.notes += write_notes(self.measured[name], rarity, checkpoint.model.dtype)
        if name == first.name:
            if first.options.chosen_part:
                number, of = first.options.chosen_part
                self.notes.append(f"Only part {number:,} of {of:,} was read; merge adds parts up.")
            self.notes += [f"{remark[0].upper()}{remark[1:]}." for remark in checkpoint.remarks]
        self.notes += explain_empty(checkpoint, self.architecture, self.measured[name])

    @property
    def labels(self) -> Labels:
        """The labels of the table: names, notes, and its record, with the sums by which tables add up."""
        request, of = self.request, self.architecture
        record = {**self.record, **request.facts}
        others = record.get("other_corpora", {})
        if request.layers is not None:
            record["layers"] = list(request.layers)
        record["measurement"] = {
            "table": request.tabulation.name,
            "statistics": [one.identity for one in self.statistics],
            "evidence": self.evidence,
            "sums": pack(self.measurement.arrays()),
            "beside": {one.name: others[name]["texts"] for name in others for one in self.measured[name]},
        }
        about = of.places, of.removed, self.notes, of.absent
        return Labels(self.checkpoint.name, request.dataset, record, *about)

    @property
    def table(self) -> HeadTable:
        tabulation, layers, statistics = self.request.tabulation, self.request.layers, self.statistics
        title = write_title(statistics, tabulation.title)
        table = tabulation.table(title, self.measurement, statistics, self.labels)
        return table if layers is None else keep_layers(table, layers)


def survey_corpora(
    checkpoint: Checkpoint,
    requests: Sequence[TableRequest],
    *,
    resume: Path | None = None,
    workers: int | None = None,
    as_far_as_possible: bool = False,
    progress: Progress,
) -> list[TableRun]:
    """Verify the capture, tokenise each corpus, and measure it in one pass for all tables about it.

    The first corpora of all tables are the same, and so are others of one name. Statistics under a control
    take another pass over the same batches. Started by torchrun, each process measures its share of the
    batches, and all get the whole. ``resume`` is a file that keeps the state of the run. What the model does
    not give is refused, or, with ``as_far_as_possible``, left out with a note.
    """
    for request in requests:
        check_modality(checkpoint, [one for corpus in request.corpora for one in corpus.statistics])
    first = requests[0].corpora[0].keep_targeted(checkpoint)
    checkpoint, documents, architecture = examine_part(checkpoint, first.documents, progress)
    corpora = {first.name: replace(first, documents=documents)}
    for corpus in chain.from_iterable(request.corpora[1:] for request in requests):
        corpora.setdefault(corpus.name, corpus.keep_targeted(checkpoint))
    tables = [TableRun(one, checkpoint, architecture, not as_far_as_possible) for one in requests]
    statistics = [one for name in corpora for one in _join_statistics(tables, name)]
    question = {"command": " ".join(one.identity for one in statistics)}
    with open_run(checkpoint, first.options, question, resume=resume, progress=progress) as run:
        for name, corpus in corpora.items():
            if first.options.targets:
                _measure_until_precise(run, corpus, tables[0], workers)
                continue
            read = _measure_corpus(run, corpus, tables, workers)
            for table in tables:
                if name in table.measured:
                    table.note(name, read)
    return tables


def _join_statistics(tables: Sequence[TableRun], name: str) -> list[Statistic]:
    """List the statistics of a corpus that any of the tables asks for, each once."""
    return list({one.name: one for table in tables for one in table.measured.get(name, ())}.values())


def _measure_corpus(
    run: Run, corpus: CorpusRequest, tables: Sequence[TableRun], workers: int | None, look: int | None = None
) -> Corpus:
    """Measure a corpus, or a part for a look, in a pass for each control, and give tables what is theirs."""
    tables = [table for table in tables if corpus.name in table.measured]
    statistics = _join_statistics(tables, corpus.name)
    checkpoint, architecture, options = tables[0].checkpoint, tables[0].architecture, corpus.options
    name = corpus.name if look is None else f"look {look}"
    if look is not None:  # what is read is chosen round by round
        options = replace(options, limit=None, sample=None, until=None)
    passes: list[Measurement] = []
    whole = len({one.weights for one in statistics if one.scope == "model"})  # maps kept of a head
    with prepare_corpus(
        checkpoint,
        architecture,
        corpus.documents,
        options,
        cells=limit_cells(whole * architecture.layers * architecture.heads),
        labelled=corpus.labelled,
        describe=look is None,
        workers=workers,
        progress=run.progress,
    ) as read:
        for sentence in corpus.remarks() if look is None else ():
            run.progress.say(sentence)
        for control in (one for one in CONTROLS if any(one == other.control for other in statistics)):
            measured = [one for one in statistics if one.control == control]
            batches, question, stage = read.batches, None, "measuring"
            if control == "shuffled":
                batches, question = batches.shuffle(options.seed), {"seed": str(options.seed)}
                stage = "measuring, tokens shuffled"
            with open_evaluator(checkpoint, architecture, measured) as evaluator:
                total = run.total(
                    f"{stage}, {name}" if name else stage,
                    batches,
                    evaluator.measurement,
                    partial(Measurement.from_arrays, kinds={one.name: one.sums for one in measured}),
                    workers=read.workers,
                    thread_context=evaluator.thread_context,
                    question=question,
                )
            passes.append(total)
        measurement = reduce(Measurement.join, passes)
        for table in tables:
            record = record_provenance(checkpoint, architecture, read, corpus.options)
            table.take(corpus.name, measurement, record)
        return read


def _measure_until_precise(run: Run, corpus: CorpusRequest, table: TableRun, workers: int | None) -> None:
    """Measure documents in a random order, until the table is as precise as was asked."""
    assert corpus.order is not None
    assert not isinstance(corpus.documents, RepeatedTokens)  # of which there are as many as one asks for
    looks = SequentialRun(corpus.order, corpus.options.targets, table.statistics)
    read: Corpus | None = None
    for number, documents in enumerate(split_rounds(corpus.documents, corpus.options, corpus.order), 1):
        try:
            new = _measure_corpus(run, replace(corpus, documents=documents), [table], workers, number)
        except NothingToMeasureError:
            continue
        read = new if read is None else replace(new, reading=read.reading + new.reading)
        if looks.look(table.table, table.record["corpus"]):
            break
    if read is None:
        raise NothingToMeasureError("There is not a single document to measure.")
    for sentence in (*read.describe(table.checkpoint), *corpus.remarks()):
        run.progress.say(sentence)
    table.record["corpus"] |= NOT_COUNTED
    table.record["until"] = looks.record
    table.notes.append(looks.note)
    table.note(corpus.name, None)
