"""A survey: tables of a checkpoint, corpora and statistics; verified, measured, put on record.

Tables that are about the same corpus share its passes.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.examples import LabelledExamples
from attnprobe.run.passes import open_run
from attnprobe.run.preparation import examine_part
from attnprobe.run.progress import Progress
from attnprobe.run.record import record_provenance
from attnprobe.run.repeated import RepeatedTokens
from attnprobe.survey.checks import check_modality
from attnprobe.survey.measure import SEED, measure_passes
from attnprobe.survey.table_run import CorpusRequest, TableRequest, TableRun
from attnprobe.survey.until import measure_until_precise, report_targets

__all__ = ["CorpusRequest", "TableRequest", "TableRun", "keep_targeted", "survey_corpora"]


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
    tables = [
        TableRun.open(request, checkpoint, architecture, as_far_as_possible=as_far_as_possible)
        for request in requests
    ]
    # Each statistic once, whatever tables ask for it.
    asked = {
        name: list({one.name: one for table in tables for one in table.asked.get(name, ())}.values())
        for name in corpora
    }
    question = {"command": " ".join(one.identity for statistics in asked.values() for one in statistics)}
    with open_run(checkpoint, first.options, question, resume=resume, progress=progress) as run:
        if first.options.targets:
            (table,), (corpus,) = tables, corpora.values()
            measure_until_precise(run, corpus, table, targets, workers)
            return tables
        for name, corpus in corpora.items():
            own = [table for table in tables if name in table.asked]
            seeds = {table.request.seed for table in own if table.shuffles(name)}
            if len(seeds) > 1:
                raise ValueError("tables that share a pass have one seed")
            seed = next(iter(seeds), SEED)
            with corpus.prepare(checkpoint, architecture, asked[name], workers, progress) as ready:
                report_targets(targeted[name], progress)
                found = measure_passes(run, checkpoint, architecture, ready, asked[name], seed, name)
                for table in own:
                    record = record_provenance(
                        checkpoint, architecture, ready.corpus, corpus.options, ready.workers
                    )
                    table.take(name, found, record)
                    table.note(name, ready.corpus.rarity)
    return tables


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
