"""Before the first pass: a checkpoint examined, and a corpus in batches that fit the memory."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from attnprobe.corpus.batches.media import MediaBatches
from attnprobe.corpus.sources.document import Document, Uses
from attnprobe.corpus.sources.media import MediaFolder
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.folders import quote
from attnprobe.model.processing import SeeingProcessor
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.dry_run import examine
from attnprobe.run.input.corpus import Corpus, tokenise
from attnprobe.run.input.media import choose_decoder_targets
from attnprobe.run.input.options import CorpusOptions
from attnprobe.run.input.repeated import RepeatedTokens
from attnprobe.run.memory import Budget, Price, fit_to_memory
from attnprobe.run.progress import Progress
from attnprobe.run.workers import Workers
from attnprobe.table.cells import clean
from attnprobe.table.naming import join_names

Documents = Iterable[Document] | MediaFolder
#: Documents, or random tokens in their place.
Given = TypeVar("Given", bound=Documents | RepeatedTokens)


def examine_part(
    checkpoint: Checkpoint, documents: Given, progress: Progress
) -> tuple[Checkpoint, Given, Architecture]:
    """Choose which part of a checkpoint is read, verify that it is read rightly, and say what is odd.

    Returns:
        The part, the documents that it can be given, and what the dry run found.
    """
    progress.stage("dry run", None)
    checkpoint, documents = choose_decoder_targets(checkpoint, documents, progress.say)
    checkpoint, architecture = examine(checkpoint)
    for warning in (*checkpoint.remarks, *architecture.warnings):
        progress.say(f"{warning}.")
    return checkpoint, documents, architecture


@dataclass(frozen=True)
class PreparedCorpus:
    """A corpus that is ready for passes, and the workers whose batches are in flight."""

    corpus: Corpus
    workers: Workers


@contextmanager
def prepare_corpus(
    checkpoint: Checkpoint,
    architecture: Architecture,
    documents: Documents | RepeatedTokens,
    options: CorpusOptions,
    *,
    price: Callable[[], Price],
    copies: int | None = None,
    cells: int | None = None,
    labelled: bool = False,
    workers: int | None = None,
    progress: Progress,
) -> Iterator[PreparedCorpus]:
    """Tokenise documents, or list files, into batches; passes made inside keep within the memory.

    ``price`` computes what is kept of a batch, where memory is limited; ``copies`` is how often a block of
    attention is held, if not as often as usual. The other arguments are those of ``tokenise``.
    """
    shared, budget = Workers.of(checkpoint, architecture, workers), Budget.of(options)
    priced = price() if budget is not None else None
    progress.stage("tokenising", None)
    with (
        tokenise(
            checkpoint,
            documents,
            options,
            cells=cells,
            labelled=labelled,
            architecture=architecture,
            most=budget.each(shared.number).most(priced) if budget and priced else None,
            progress=progress.advance,
        ) as corpus,
        fit_to_memory(
            checkpoint, architecture, corpus, budget, priced, shared, copies=copies, say=progress.say
        ) as workers_that_fit,
    ):
        embedded = () if isinstance(documents, RepeatedTokens) else describe_embedding(checkpoint, corpus)
        for sentence in (*describe_reading(corpus), *embedded):
            progress.say(sentence)
        yield PreparedCorpus(corpus, workers_that_fit)


def describe_embedding(checkpoint: Checkpoint, corpus: Corpus) -> Iterator[str]:
    """Say where images are in texts; which prompt stands before those of an embedding model, and the rest."""
    if isinstance(checkpoint.processor, SeeingProcessor):
        described = checkpoint.processor.described
        yield f"An image is read with each text: {described}."
    found = checkpoint.embedding
    if found is None:
        return
    if any(isinstance(label, Uses) and label.name for label in corpus.batches.labels.values()):
        if any(found.role_prompts.values()):
            # As encode_query and encode_document of sentence-transformers put them.
            shown = {role: f"the prompt {quote(text)}" for role, text in found.role_prompts.items() if text}
            none = "no prompt"
            yield (
                f"Before queries stands {shown.get('query', none)}, and before passages "
                f"{shown.get('document', none)}; texts are cut after {corpus.window} tokens."
            )
    elif found.prompt:
        yield (
            f"The prompt {clean(str(found.prompt_name))} ({quote(found.prompt)}) stands before each text, "
            f"and texts are cut after {corpus.window} tokens."
        )
    elif known := [clean(name) for name, text in found.prompts.texts.items() if text]:
        knows = f"{checkpoint.name} knows {join_names(known)}"
        yield f"No prompt stands before the texts; {knows} (--prompt NAME)."
    if corpus.reading.truncated and corpus.window == checkpoint.embedded_length:
        yield (
            f"encode() of sentence-transformers reads no more than {corpus.window} tokens of a text; give "
            f"--max-length {corpus.window} to read the rest in windows of its own."
        )


def describe_reading(corpus: Corpus) -> Iterator[str]:
    """Say what happened to documents that did not go in as they were."""
    reading, media = corpus.reading, isinstance(corpus.batches, MediaBatches)
    noun, limit = ("file", "what the checkpoint takes") if media else ("document", f"{corpus.window} tokens")
    links = _count(reading.links, "link")
    if isinstance(corpus.batches, MediaBatches) and corpus.batches.frames:
        yield f"{corpus.batches.frames} frames of each video are read, evenly over its length."
    if reading.cut:
        yield (
            f"{_count(reading.cut, noun, 'was', 'were')} longer than {limit} and cut into {reading.windows} "
            "windows, each a sequence of its own."
        )
    if reading.truncated:
        yield f"{_count(reading.truncated, noun, 'was', 'were')} truncated to {limit}."
    if reading.links_lost:
        yield (
            f"{reading.links_lost:,} of {links} left out: no sequence holds both ends, each in tokens of its "
            "own."
        )
    if reading.links_unasked:
        yield (
            f"{reading.links_unasked:,} of {links} left out: they name candidates in the target, and nothing "
            "in the text attends to it."
        )
    if reading.spelled:
        yield (
            f"{_count(reading.spelled, noun, 'spells', 'spell')} out a special token such as "
            f"{clean(reading.spelled_token)}: it is read as that token, as model(**tokenizer(text)) reads it."
        )
    if reading.words_lost:
        yield (
            f"{reading.words_lost:,} of {_count(reading.words, 'labelled word')} left out: they give no "
            f"token, or lie behind {limit}."
        )
    if reading.unanswered:
        yield f"{_count(reading.unanswered, 'question')} left out: no answer lies within {limit}."
    if reading.empty:
        reason = "too short to be heard" if media else "not a single token"
        yield f"{_count(reading.empty, noun, 'was', 'were')} skipped: {reason}."


def _count(number: int, noun: str, *verbs: str) -> str:
    """Count things, with a verb that agrees if there is one in both forms.

    >>> _count(1, "file", "was", "were"), _count(2000, "link")
    ('1 file was', '2,000 links')
    """
    counted = f"{number:,} {noun}{'s' * (number != 1)}"
    return f"{counted} {verbs[number != 1]}" if verbs else counted
