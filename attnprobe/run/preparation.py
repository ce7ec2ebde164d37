"""Before the first pass: a checkpoint examined, and a corpus in batches that fit the memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from attnprobe.corpus.batch import TokenisedTexts
from attnprobe.corpus.batches import Batches, BatchReader, MediaBatches
from attnprobe.corpus.sources.document import Document, Uses
from attnprobe.corpus.sources.media import MediaFolder
from attnprobe.corpus.sources.opening import select
from attnprobe.corpus.sources.pictures import BOTH
from attnprobe.corpus.store import SequenceStore
from attnprobe.corpus.tokens import CHUNK_DOCUMENTS, Frame, Reading, SequenceReader, TokenSequence
from attnprobe.corpus.vocabulary import Rarity, TokenKinds, rank_types, read_frequencies
from attnprobe.errors import AttnprobeError, NothingToMeasureError
from attnprobe.model.checkpoint import Checkpoint, is_cut_short, resolve_window
from attnprobe.model.folders import quote
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.dry_run import examine
from attnprobe.run.examples import Documents, build_decoder_sequences, refuse_unknown_ids
from attnprobe.run.media import choose_decoder_targets, plan_media_batches, plan_pair_batches
from attnprobe.run.memory import report_halving
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Workers
from attnprobe.run.progress import Progress
from attnprobe.run.repeated import RepeatedTokens, list_ordinary_tokens
from attnprobe.table.cells import clean

Counted = TypeVar("Counted", Document, TokenSequence)
Tokenised = TypeVar("Tokenised")

#: Tokens in a batch where the user asks for nothing else.
BATCH_TOKENS_CPU = 640
BATCH_TOKENS_ACCELERATOR = 32_768


@dataclass(frozen=True)
class Corpus:
    """A tokenised corpus, ready to be run."""

    batches: BatchReader
    reading: Reading
    window: int
    rare_types: int = 0
    rarity: Rarity | None = None

    @property
    def sequences(self) -> int:
        return len(self.batches.lengths)

    @property
    def documents(self) -> int:
        return int(self.batches.documents.max()) + 1

    @property
    def tokens(self) -> int:
        """Number of tokens, special tokens included."""
        return int(self.batches.lengths.sum(dtype="int64"))


@contextmanager
def tokenise(
    checkpoint: Checkpoint,
    documents: Iterable[Document] | MediaFolder | RepeatedTokens,
    options: CorpusOptions,
    *,
    cells: int | None = None,
    labelled: bool = False,
    architecture: Architecture | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Corpus]:
    """Tokenise documents into a temporary store, or list images or sound, and plan batches.

    Args:
        checkpoint: Whose tokenizer and limits apply.
        documents: The text, a folder of images or sound, or random tokens.
        options: How it is cut.
        cells: Most query-key cells in a batch, where whole maps are kept.
        labelled: Whether the decoder beside an encoder reads the labels, not the text itself.
        architecture: What the dry run found; needed for images and sound.
        progress: Called with 1 for each document.
    """
    on_processor = checkpoint.device.type == "cpu"
    budget = options.batch_tokens or (BATCH_TOKENS_CPU if on_processor else BATCH_TOKENS_ACCELERATOR)
    limits: dict[str, Any] = {"budget": budget, "cells": cells}
    if isinstance(documents, MediaFolder):
        _refuse_text_options(options)
    if not isinstance(documents, RepeatedTokens):
        documents = select(documents, options.limit, options.sample, options.seed, options.turn)
    with ExitStack() as stores:
        if isinstance(documents, MediaFolder):
            assert architecture is not None
            given = (checkpoint, architecture, documents, stores, options, progress)
            yield Corpus(*plan_media_batches(*given, **limits), architecture.positions)
        elif checkpoint.modality == BOTH and not isinstance(documents, RepeatedTokens):
            assert architecture is not None
            window = resolve_window(options.max_length, checkpoint)
            given = (checkpoint, architecture, documents, stores, options, progress)
            pairs, reading = plan_pair_batches(*given, window, **limits)
            yield Corpus(pairs, reading, window, _count_rare(pairs.source), pairs.source.rarity)
        else:
            yield _store_text(checkpoint, documents, stores, options, progress, limits, labelled=labelled)


def _store_text(
    checkpoint: Checkpoint,
    documents: Iterable[Document] | RepeatedTokens,
    stores: ExitStack,
    options: CorpusOptions,
    progress: Callable[[int], None],
    limits: Mapping[str, Any],
    *,
    labelled: bool,
) -> Corpus:
    """Tokenise text, or draw random tokens; the arguments are those of ``tokenise``."""
    window = resolve_window(options.max_length, checkpoint)
    truncate = options.truncate or is_cut_short(options.max_length, checkpoint)
    prompts: dict[str, Any] = {} if isinstance(documents, RepeatedTokens) else checkpoint.prompts
    reader = SequenceReader(checkpoint.tokenizer, window, truncate=truncate, **prompts)
    vocabulary = max(len(checkpoint.tokenizer), checkpoint.model.config.get_text_config().vocab_size)
    kinds = TokenKinds(checkpoint.tokenizer, reader.frame)
    frequencies = None
    if options.frequencies is not None:
        frequencies = read_frequencies(options.frequencies, checkpoint.tokenizer, vocabulary)
    store = stores.enter_context(SequenceStore(vocabulary))
    longest, read, fresh = reader.max_length, None, None
    if isinstance(documents, RepeatedTokens):
        longest, fresh = documents.tokens(reader.frame), list_ordinary_tokens(checkpoint)
        drawn = _count_progress(documents.draw(checkpoint, reader.frame), progress)
    else:
        drawn = reader.read(_count_progress(documents, progress))
    sequences = _check_ids(drawn, checkpoint)
    if checkpoint.decodes:
        read = stores.enter_context(SequenceStore(vocabulary))
        while some := list(islice(sequences, CHUNK_DOCUMENTS)):
            store.extend(some)
            read.extend(build_decoder_sequences(checkpoint, some, reader.reading, labelled=labelled))
    else:
        store.extend(sequences)
    if not len(store):
        raise NothingToMeasureError(
            "None of the documents gives a single token; there is nothing to measure."
        )
    rarity = rank_types(store.counts, kinds.framing, frequencies)
    source = TokenisedTexts(store, kinds, rarity, options.content_only)
    targets = None if read is None else _describe_targets(checkpoint, source, read, own=not labelled)
    batches = Batches(source, targets=targets, fresh=fresh, **limits)
    return Corpus(batches, reader.reading, longest, _count_rare(source), rarity)


def _count_rare(source: TokenisedTexts) -> int:
    return int((source.rarity.rare[source.store.counts > 0] > 0).sum())


def _refuse_text_options(options: CorpusOptions) -> None:
    for name in ("max_length", "frequencies"):
        if getattr(options, name) is not None:
            raise AttnprobeError(
                f"--{name.replace('_', '-')} is about text; leave it out for images and sound."
            )


def _describe_targets(
    checkpoint: Checkpoint, source: TokenisedTexts, store: SequenceStore, *, own: bool
) -> TokenisedTexts:
    """Describe the tokens that a decoder reads; what is rare in the text itself is so there too."""
    tokenizer = checkpoint.target_tokenizer or checkpoint.tokenizer
    kinds = TokenKinds(tokenizer, Frame.of(tokenizer), checkpoint.start)
    rarity = source.rarity if own else rank_types(store.counts, kinds.framing)
    return TokenisedTexts(store, kinds, rarity, source.content_only, echoes=source if own else None)


def _count_progress(documents: Iterable[Counted], progress: Callable[[int], None]) -> Iterator[Counted]:
    for document in documents:
        progress(1)
        yield document


def _check_ids(sequences: Iterable[TokenSequence], checkpoint: Checkpoint) -> Iterator[TokenSequence]:
    for sequence in sequences:
        refuse_unknown_ids(sequence.ids, checkpoint)
        yield sequence


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
def open_tokenised(
    checkpoint: Checkpoint,
    architecture: Architecture,
    tokenised: AbstractContextManager[Tokenised],
    *,
    workers: int | None,
    progress: Progress,
) -> Iterator[tuple[Tokenised, Workers]]:
    """Tokenise a corpus, and give it with workers; batches that don't fit the memory are halved inside."""
    shared = Workers.of(checkpoint, architecture, workers)
    progress.stage("tokenising", None)
    with tokenised as corpus, report_halving(progress.say):
        yield corpus, shared


@contextmanager
def prepare_corpus(
    checkpoint: Checkpoint,
    architecture: Architecture,
    documents: Documents | RepeatedTokens,
    options: CorpusOptions,
    *,
    cells: int | None = None,
    labelled: bool = False,
    describe: bool = True,
    workers: int | None = None,
    progress: Progress,
) -> Iterator[PreparedCorpus]:
    """Tokenise documents, or list files, into batches, and say what happened to them.

    ``describe`` says whether it is said what happened to the documents. The other arguments are those of
    ``tokenise``.
    """
    tokenised = tokenise(
        checkpoint,
        documents,
        options,
        cells=cells,
        labelled=labelled,
        architecture=architecture,
        progress=progress.advance,
    )
    with open_tokenised(checkpoint, architecture, tokenised, workers=workers, progress=progress) as (
        corpus,
        shared,
    ):
        if describe:
            for sentence in describe_corpus(checkpoint, corpus, documents):
                progress.say(sentence)
        yield PreparedCorpus(corpus, shared)


def describe_corpus(
    checkpoint: Checkpoint, corpus: Corpus, documents: Documents | RepeatedTokens | None = None
) -> Iterator[str]:
    """Say what happened to documents that did not go in as they were, and how an embedding model reads."""
    yield from describe_reading(corpus)
    if not isinstance(documents, RepeatedTokens):
        yield from describe_embedding(checkpoint, corpus)


def describe_embedding(checkpoint: Checkpoint, corpus: Corpus) -> Iterator[str]:
    """Say which prompt stands before the texts of an embedding model."""
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


def describe_reading(corpus: Corpus) -> Iterator[str]:
    """Say what happened to documents that did not go in as they were."""
    reading, media = corpus.reading, isinstance(corpus.batches, MediaBatches)
    noun, limit = ("file", "what the checkpoint takes") if media else ("document", f"{corpus.window} tokens")
    links = _count(reading.links, "link")
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
