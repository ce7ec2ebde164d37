"""Importance by attention alone: the mean of a head's largest weight, which needs no task."""

import numpy as np

from attnprobe.corpus.batch import Batch
from attnprobe.intervention.gradient import Attributions
from attnprobe.intervention.importance import tabulate_attributions
from attnprobe.intervention.task import TaskSession
from attnprobe.run.corpus import label_heads, record_provenance
from attnprobe.run.passes import open_run
from attnprobe.run.preparation import examine_part, prepare_corpus
from attnprobe.statistics import all_statistics
from attnprobe.survey.measure import open_evaluator
from attnprobe.table.table import HeadTable

_CONFIDENCE = "confidence"


def measure_confidence(session: TaskSession) -> HeadTable:
    """Measure the mean of every head's largest attention weight, and tabulate it, one row a head.

    References:
        Voita et al. (2019), section 4.
    """
    source, options, progress = session.source, session.options, session.progress
    checkpoint, documents, architecture = examine_part(
        session.load((), False, source.kind), source.documents, progress
    )
    question = {"command": "importance", "--method": _CONFIDENCE}
    with (
        prepare_corpus(
            checkpoint, architecture, documents, options, workers=session.workers, progress=progress
        ) as corpus,
        open_run(checkpoint, options, question, resume=session.resume, progress=progress) as run,
        open_evaluator(checkpoint, architecture, [all_statistics()[_CONFIDENCE]]) as evaluator,
    ):

        def sum_part(part: Batch) -> Attributions:
            values = np.asarray(evaluator.evaluate(part)[_CONFIDENCE], np.float64)
            return Attributions.of(values, part.clusters, part.documents)

        sums = run.total(
            _CONFIDENCE,
            corpus.batches,
            lambda batch: evaluator.halving.total(batch, sum_part),
            Attributions.from_arrays,
            workers=corpus.workers,
            thread_context=evaluator.thread_context,
        )
        record = record_provenance(checkpoint, architecture, corpus, options)
    labels = label_heads(checkpoint, architecture, source.name, record | session.facts)
    return tabulate_attributions(sums, "none", _CONFIDENCE, labels)
