"""A survey: tables of a checkpoint, corpora and statistics; verified, measured, put on record.

Tables that are about the same corpus share its passes.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.passes import open_run
from attnprobe.run.preparation import examine_part
from attnprobe.run.progress import Progress
from attnprobe.survey.checks import check_modality
from attnprobe.survey.table_run import (
    CorpusRequest,
    TableRequest,
    TableRun,
    join_statistics,
    measure_corpus,
)
from attnprobe.survey.until import measure_until_precise

__all__ = ["CorpusRequest", "TableRequest", "TableRun", "survey_corpora"]


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
    first = requests[0].corpora[0].keep_targeted(checkpoint)
    checkpoint, documents, architecture = examine_part(checkpoint, first.documents, progress)
    corpora: dict[str, CorpusRequest] = {}
    for corpus in (corpus for request in requests for corpus in request.corpora):
        same = corpora.setdefault(corpus.name, corpus)
        if (same.options, same.labelled) != (corpus.options, corpus.labelled):
            raise ValueError("tables that share a pass read a corpus with the same options")
    for name, corpus in corpora.items():
        if name == first.name:
            corpora[name] = replace(first, documents=documents)
        else:
            corpora[name] = corpus.keep_targeted(checkpoint)
    tables = [
        TableRun.open(request, checkpoint, architecture, as_far_as_possible=as_far_as_possible)
        for request in requests
    ]
    asked = [one.identity for name in corpora for one in join_statistics(tables, name)]
    question = {"command": " ".join(asked)}
    with open_run(checkpoint, first.options, question, resume=resume, progress=progress) as run:
        if first.options.targets:
            (table,), (corpus,) = tables, corpora.values()
            measure_until_precise(run, corpus, table, workers)
            return tables
        for name, corpus in corpora.items():
            read = measure_corpus(run, corpus, tables, workers)
            for table in tables:
                if name in table.asked:
                    table.note(name, read.rarity)
    return tables
