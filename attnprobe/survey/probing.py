"""Probing a checkpoint: one pass that keeps attention between words, then probes that are fitted to it."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run, open_run
from attnprobe.run.preparation import Documents, PreparedCorpus, examine_part, prepare_corpus
from attnprobe.run.progress import Progress
from attnprobe.run.record import record_provenance
from attnprobe.statistics.rules import LinkTask
from attnprobe.survey.measure import open_evaluator
from attnprobe.survey.probe import ProbeData
from attnprobe.survey.probe_table import Scored, tabulate_heads, tabulate_labels
from attnprobe.survey.word_maps import AskedCorpus, ask_words, list_heads
from attnprobe.table.builder import Labels
from attnprobe.table.table import HeadTable

#: The most of the free memory that attention between words may take.
_SHARE = 0.5


@dataclass(frozen=True)
class ProbePlan:
    """What is asked of a probe; ``penalty`` is lambda."""

    task: LinkTask
    by: Literal["label", "head"] = "label"
    folds: int = 5
    penalty: float = 100.0

    @property
    def question(self) -> dict[str, str]:
        """What the state of a run depends on: fitting begins when all is read."""
        return {"command": f"probe {self.task.label}"}


def probe_checkpoint(
    checkpoint: Checkpoint,
    documents: Documents,
    plan: ProbePlan,
    options: CorpusOptions,
    *,
    dataset: str,
    facts: Mapping[str, Any],
    resume: Path | None = None,
    workers: int | None = None,
    progress: Progress,
) -> HeadTable:
    """Read attention between words in one pass, fit probes to it, and tabulate what they find.

    Of a model with an encoder and a decoder, the encoder is read. ``resume`` is a file that keeps the state
    of the run, attention between words included.
    """
    notes = []
    if checkpoint.decodes:
        checkpoint = replace(checkpoint, encoder_only=True)
        notes.append("Heads of the encoder are probed; those of the decoder are left out.")
    checkpoint, documents, architecture = examine_part(checkpoint, documents, progress)
    with (
        open_run(checkpoint, options, plan.question, resume=resume, progress=progress) as run,
        prepare_corpus(
            checkpoint,
            architecture,
            documents,
            options,
            workers=workers,
            progress=progress,
        ) as ready,
    ):
        read = _read(run, checkpoint, architecture, ready, plan)
        record = record_provenance(checkpoint, architecture, ready.corpus, options, ready.workers)
        progress.stage("fitting probes", None)
        data = ProbeData(read, plan.penalty)
        _check_documents(data, dataset)
        labels = Labels(
            checkpoint.name, dataset, {**record, **facts}, architecture.places, removed=architecture.removed
        )
        heads = list_heads(architecture.standing)
        notes += _note_left_out(data)
        if plan.by == "head":
            return tabulate_heads(data, data.fit(data.every), plan.task, labels, heads, notes)
        folds = min(plan.folds, data.documents)
        hit, fold = data.cross_fit(folds)
        return tabulate_labels(Scored(data, hit, fold), plan.task, labels, heads, notes)


def _read(
    run: Run,
    checkpoint: Checkpoint,
    architecture: Architecture,
    ready: PreparedCorpus,
    plan: ProbePlan,
) -> AskedCorpus:
    """Read attention between the words of all batches, as far as the memory holds it."""
    statistic, free, taken = ask_words(plan.task), _find_free_memory(), 0

    def read(batch: Batch) -> AskedCorpus:
        nonlocal taken
        asked: Any = evaluator.values(batch)[statistic.name]
        taken += sum(part.maps.nbytes + part.cells.nbytes for part in asked.batches)
        if free and taken > _SHARE * free:
            raise AttnprobeError(
                f"Attention between words takes more than half of the {free / 2**30:.1f} GiB of memory that "
                "are free; read fewer texts (--sample N, --limit N), or give a smaller --max-length."
            )
        return asked

    with open_evaluator(checkpoint, architecture, [statistic]) as evaluator:
        return run.total(
            "reading words",
            ready.corpus.batches,
            read,
            AskedCorpus.from_arrays,
            workers=ready.workers,
            thread_context=evaluator.thread_context,
        )


def _find_free_memory() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0


def _check_documents(data: ProbeData, dataset: str) -> None:
    if not len(data):
        raise AttnprobeError(f"{dataset} has no link that can be asked for.")
    if data.documents < 2:
        raise AttnprobeError(
            f"All links of {dataset} are of one document, and a probe is fitted to some documents and scored "
            "on others; give more documents."
        )


def _note_left_out(data: ProbeData) -> Iterator[str]:
    same, _, certain = np.sum([batch.left_out for batch in data.corpus.batches], 0).tolist()
    for number, reason in (
        (same, "both ends of the link have the same tokens"),
        (certain, "every candidate is right"),
    ):
        if number:
            yield f"{number:,} {'link was' if number == 1 else 'links were'} left out: {reason}."
