"""Before the first pass: a checkpoint examined, and a corpus in batches that fit the memory."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar, cast

from attnprobe.corpus.batches import Batches
from attnprobe.corpus.document import Document
from attnprobe.corpus.media import BOTH, MediaFolder
from attnprobe.corpus.store import select
from attnprobe.corpus.tokens import CHUNK_DOCUMENTS, SequenceReader
from attnprobe.errors import NothingToMeasureError, UsageError
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.dry_run import examine
from attnprobe.model.checkpoint import Checkpoint, is_cut_short
from attnprobe.run.contrasts import Reads, read_contrasts
from attnprobe.run.corpus import Corpus, TokenReader
from attnprobe.run.examples import Documents, LabelledExamples, build_decoder_sequences
from attnprobe.run.media import read_media, read_pictures
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Workers
from attnprobe.run.progress import Progress
from attnprobe.run.repeated import RepeatedTokens, list_ordinary_tokens

#: Documents, or random tokens in their place.
Given = TypeVar("Given", bound=Documents | RepeatedTokens)


@contextmanager
def tokenise(
    checkpoint: Checkpoint,
    documents: Documents | RepeatedTokens,
    options: CorpusOptions,
    *,
    contrasts: Reads | None = None,
    **how: Any,
) -> Iterator[Corpus]:
    """Tokenise documents into a temporary store, or list images or sound, and plan batches.

    ``contrasts`` is what is read off pairs of a clean and a corrupted text, which make a ``ContrastCorpus``.
    The other arguments are those of ``TokenReader``.
    """
    for name in ("max_length", "frequencies") if isinstance(documents, MediaFolder) else ():
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} is about text; leave it out for images and sound.")
    with ExitStack() as stores:
        reader = TokenReader(checkpoint, options, stores, **how)
        if isinstance(documents, RepeatedTokens):
            yield _read_text(reader, documents)
            return
        chosen: Documents = select(
            documents, options.limit, options.sample, options.seed, options.chosen_part
        )
        if isinstance(chosen, MediaFolder):
            yield read_media(reader, chosen)
        elif contrasts is not None:
            yield read_contrasts(reader, chosen, contrasts)
        elif checkpoint.modality == BOTH:
            yield read_pictures(reader, chosen)
        else:
            yield _read_text(reader, chosen)


def _read_text(reader: TokenReader, documents: Iterable[Document] | RepeatedTokens) -> Corpus:
    """Tokenise text, or draw random tokens, for encoder and decoder, or refuse text without a token."""
    checkpoint, options = reader.checkpoint, reader.options
    truncate = options.truncate or is_cut_short(options.max_length, checkpoint)
    prompts = {"": ""} if isinstance(documents, RepeatedTokens) else checkpoint.prompts
    source = SequenceReader(checkpoint.tokenizer, reader.max_length, truncate=truncate, prompts=prompts)
    max_length, fresh = source.max_length, None
    if isinstance(documents, RepeatedTokens):
        max_length, fresh = documents.tokens(source.frame), list_ordinary_tokens(checkpoint)
        sequences = reader.check(reader.count(documents.draw(checkpoint, source.frame)))
    else:
        sequences = reader.check(source.read(reader.count(documents)))
    store, beside = reader.open_store(), reader.open_store() if checkpoint.decodes else None
    labelled, targets = reader.labelled, None
    while chunk := list(islice(sequences, CHUNK_DOCUMENTS)):
        store.extend(chunk)
        if beside is not None:
            beside.extend(build_decoder_sequences(checkpoint, chunk, source.reading, labelled=labelled))
    if not len(store):
        raise NothingToMeasureError(
            "None of the documents gives a single token; there is nothing to measure."
        )
    side = reader.describe(store, source.frame)
    if beside is not None:
        targets = reader.describe_targets(beside, None if labelled else side)
    batches = Batches(side, targets=targets, fresh=fresh, **reader.limits)
    return Corpus(batches, source.reading, max_length, side.rarity)


def examine_part(
    checkpoint: Checkpoint, documents: Given, progress: Progress
) -> tuple[Checkpoint, Given, Architecture]:
    """Verify that attention is read rightly, and choose whether the decoder of a model of sound is read too.

    It reads the transcripts of the files; without any, only the encoder is measured.

    Returns:
        The checkpoint, the documents that it can read, and what the dry run found.
    """
    progress.stage("dry run", None)
    if isinstance(documents, MediaFolder) and checkpoint.decodes:
        if documents.labelled.items:
            heard = LabelledExamples(documents, "transcript")
            documents = cast(Given, heard.examples)
            for remark in heard.remarks():
                progress.say(remark)
        else:
            progress.say(
                "no transcripts (metadata.csv with the columns file_name and text), so that the decoder has "
                "nothing to read: only the encoder is measured."
            )
            checkpoint = replace(checkpoint, encoder_only=True)
    checkpoint, architecture = examine(checkpoint)
    for warning in (*checkpoint.remarks, *architecture.warnings):
        progress.say(f"{warning}.")
    return checkpoint, documents, architecture


@contextmanager
def prepare_corpus(
    checkpoint: Checkpoint,
    architecture: Architecture,
    documents: Documents | RepeatedTokens,
    options: CorpusOptions,
    *,
    describe: bool = True,
    workers: int | None = None,
    progress: Progress,
    **how: Any,
) -> Iterator[Corpus]:
    """Tokenise documents as ``tokenise`` does, share out the threads, and ``describe`` what was cut."""
    shared = Workers.of(checkpoint, architecture, workers)
    progress.stage("tokenising", None)
    how |= {"architecture": architecture, "progress": progress.advance}
    with tokenise(checkpoint, documents, options, **how) as corpus:
        if describe and not isinstance(documents, RepeatedTokens):
            for sentence in corpus.describe(checkpoint):
                progress.say(sentence)
        yield replace(corpus, workers=shared)
