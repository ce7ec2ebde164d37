"""From pairs of texts to the table of what carries their difference."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain, islice

from attnprobe.corpus.sources.document import Contrast, Document
from attnprobe.corpus.sources.text import EMBEDDED
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.contrast import MEASURES, WITHOUT_ANSWER, ContrastMeasure
from attnprobe.intervention.patching.passes import PatchPlan, measure_pairs
from attnprobe.intervention.patching.table import tabulate_patching
from attnprobe.intervention.request import PEEKED
from attnprobe.intervention.session import TaskSession
from attnprobe.intervention.task import TaskData, TaskModel, choose_subject, limit_batches
from attnprobe.model.gates import freeze_weights
from attnprobe.run.contrasts import tokenise_contrasts
from attnprobe.run.memory import report_halving
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run, Workers
from attnprobe.run.record import record_provenance
from attnprobe.sums.inference import Correction
from attnprobe.table.table import HeadTable
from attnprobe.tasks import Gold


def peek_answers(documents: Iterable[Document]) -> tuple[bool, Iterator[Document]]:
    """Tell whether one of the first pairs has an answer, without losing them."""
    rest = iter(documents)
    first = list(islice(rest, PEEKED))
    if not first:
        raise AttnprobeError("The data hold no pairs of texts; give at least one.")
    contrasts = [document.label for document in first if isinstance(document.label, Contrast)]
    return any(contrast.answer is not None for contrast in contrasts), chain(first, rest)


def choose_measure(model: TaskModel, *, answered: bool) -> type[ContrastMeasure]:
    """Choose what is read off a checkpoint, by its head and by whether pairs have answers.

    Raises:
        AttnprobeError: When nothing can be, with what to do.
    """
    name, objective = model.checkpoint.name, model.objective
    measure = (MEASURES if answered else WITHOUT_ANSWER).get(objective)
    if measure is not None:
        return measure
    if objective not in MEASURES:
        known = ", ".join(MEASURES)
        raise AttnprobeError(
            f"{name} is asked for {objective}, of which nothing is read off for a pair of texts; take a "
            f"checkpoint with a head for one of {known}."
        )
    if objective == "masked-lm":
        raise AttnprobeError(
            f"{name} fills masks, and the probability of a whole text takes a pass for each of its tokens; "
            f"write {getattr(model.checkpoint.tokenizer, 'mask_token', '[MASK]')} for one word of both "
            "texts, and give columns answer and other."
        )
    what = "target text in a column target" if objective == "seq2seq" else "class in a column answer or label"
    raise AttnprobeError(
        f"The pairs have no answer, and {name} needs one: give the {what}, or name its column with "
        "--label-column."
    )


@contextmanager
def bind_pairs(
    model: TaskModel,
    documents: Iterable[Document],
    options: CorpusOptions,
    measure: type[ContrastMeasure],
    *,
    run: Run,
    workers: int | None = None,
) -> Iterator[TaskData]:
    """Tokenise the pairs of a model and bind what is read off to them."""
    checkpoint, architecture, progress = model.checkpoint, model.architecture, run.progress
    options = limit_batches(options, checkpoint)
    shared = Workers.of(checkpoint, architecture, workers)
    progress.stage("tokenising", None)
    with (
        tokenise_contrasts(
            checkpoint,
            documents,
            options,
            measure.asked,
            progress=progress.advance,
        ) as tokenised,
        report_halving(progress.say),
    ):
        objective = measure(checkpoint, tokenised.batches, tokenised.targets)
        for sentence in tokenised.counts.describe(tokenised.corpus.window):
            progress.say(sentence)
        record = record_provenance(checkpoint, architecture, tokenised.corpus, options, shared)
        record["task"] = {
            "objective": objective.name,
            "measure": objective.described,
            "head": checkpoint.head.name if checkpoint.head else None,
            "gates": model.gating.evidence,
            "pairs": asdict(tokenised.counts),
        }
        with freeze_weights(checkpoint):
            yield TaskData(model, tokenised.corpus, objective, record, run, shared)


def run_patching(
    session: TaskSession, plan: PatchPlan, *, fast: bool, top: int, correction: Correction
) -> HeadTable:
    """Patch every head of every pair, or with ``fast`` the ``top`` ones by attribution, and tabulate it."""
    source, task = session.source, session.task
    if task.objective is not None and task.objective not in MEASURES:
        raise AttnprobeError(
            f"patch reads nothing off for --objective {task.objective}; choose one of {', '.join(MEASURES)}."
        )
    answered, documents = peek_answers(source.documents)
    labelled = Gold.CLASS if answered else Gold.NONE
    model = choose_subject(session.load, task, labelled=labelled, progress=session.progress)
    measure = choose_measure(model, answered=answered)
    if source.name == EMBEDDED and measure.asked not in {"mask", "next"}:
        raise AttnprobeError(
            f"The pairs that ship with attnprobe ask for a word, and {model.checkpoint.name} gives none; "
            "give pairs of your own with --dataset."
        )
    question = {"measure": measure.about, **plan.describe(), "--fast": fast, "--top": top}
    with (
        session.open_run(model, "patch", question) as run,
        bind_pairs(model, documents, session.options, measure, run=run, workers=session.workers) as data,
    ):
        pairs = measure_pairs(data, plan, fast=fast, top=top)
        return tabulate_patching(
            data, plan, pairs, source.name, fast=fast, correction=correction, facts=session.facts
        )
