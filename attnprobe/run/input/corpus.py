"""How text becomes sequences, as far as it can be refused before a model is loaded."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from attnprobe.corpus.batches.batch import Side
from attnprobe.corpus.batches.text import Batches, BatchReader
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.media import IMAGE, VIDEO, MediaFolder
from attnprobe.corpus.sources.pictures import BOTH
from attnprobe.corpus.sources.sampling import select
from attnprobe.corpus.tokens.reading import Reading
from attnprobe.corpus.tokens.store import SequenceStore
from attnprobe.corpus.tokens.tokenization import CHUNK_DOCUMENTS, Frame, SequenceReader, TokenSequence
from attnprobe.corpus.tokens.vocabulary import Rarity, TokenKinds, rank_types, read_frequencies
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint, is_cut_short, resolve_window
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.input.examples import build_decoder_sequences
from attnprobe.run.input.media import plan_media_batches
from attnprobe.run.input.options import CorpusOptions
from attnprobe.run.input.pairs import plan_pair_batches
from attnprobe.run.input.repeated import RepeatedTokens, list_ordinary_tokens

Counted = TypeVar("Counted", Document, TokenSequence)

#: Tokens in a batch where the user asks for nothing else.
BATCH_TOKENS_CPU = 640
BATCH_TOKENS_ACCELERATOR = 32_768


@dataclass(frozen=True)
class Corpus:
    """A tokenised corpus, ready to be run.

    Attributes:
        batches: The sequences in batches of equal length.
        reading: What was read, cut, truncated and skipped.
        window: Most tokens in a sequence.
        rare_types: Number of token types that count as rare, in whole or in part.
        rarity: How frequent the types of the text are; None for images and sound.
    """

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
    most: Callable[[int], int] | None = None,
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
        most: Limits the sequences of a length in a batch, where memory is limited.
        progress: Called with 1 for each document.
    """
    on_processor = checkpoint.device.type == "cpu"
    budget = options.batch_tokens or (BATCH_TOKENS_CPU if on_processor else BATCH_TOKENS_ACCELERATOR)
    if isinstance(documents, MediaFolder):
        assert architecture is not None
        _refuse_text_options(options)
        if checkpoint.modality == VIDEO and documents.kind == IMAGE:
            documents = documents.group_frames()
        with ExitStack() as stores:
            found, reading = plan_media_batches(
                checkpoint,
                architecture,
                select(documents, options.limit, options.sample, options.seed),
                stores,
                options,
                budget=budget,
                cells=cells,
                most=most,
                progress=progress,
            )
            yield Corpus(found, reading, architecture.positions)
        return
    window = resolve_window(options.max_length, checkpoint)
    if checkpoint.modality == BOTH and not isinstance(documents, RepeatedTokens):
        assert architecture is not None
        with ExitStack() as stores:
            chosen = select(documents, options.limit, options.sample, options.seed)
            given = (checkpoint, architecture, chosen, stores, options, window, progress)
            pairs, read = plan_pair_batches(*given, budget=budget, cells=cells, most=most)
            yield Corpus(pairs, read, window, _count_rare(pairs.source), pairs.source.rarity)
        return
    truncate = options.truncate or is_cut_short(options.max_length, checkpoint)
    prompts: dict[str, Any] = {} if isinstance(documents, RepeatedTokens) else checkpoint.prompts
    reader = SequenceReader(checkpoint.tokenizer, window, truncate=truncate, **prompts)
    vocabulary = max(len(checkpoint.tokenizer), checkpoint.model.config.get_text_config().vocab_size)
    kinds = TokenKinds(checkpoint.tokenizer, reader.frame)
    frequencies = None
    if options.frequencies is not None:
        frequencies = read_frequencies(options.frequencies, checkpoint.tokenizer, vocabulary)
    with ExitStack() as stores:
        store = stores.enter_context(SequenceStore(vocabulary))
        longest, read = reader.max_length, None
        if isinstance(documents, RepeatedTokens):
            longest = documents.tokens(reader.frame)
            drawn = _count_progress(documents.draw(checkpoint, reader.frame), progress)
        else:
            chosen = select(documents, options.limit, options.sample, options.seed)
            drawn = reader.read(_count_progress(chosen, progress))
        sequences = _check_ids(drawn, checkpoint)
        if checkpoint.decodes:
            read = stores.enter_context(SequenceStore(vocabulary))
            while some := list(islice(sequences, CHUNK_DOCUMENTS)):
                store.extend(some)
                read.extend(build_decoder_sequences(checkpoint, some, reader.reading, labelled=labelled))
        else:
            store.extend(sequences)
        if not len(store):
            raise AttnprobeError("None of the documents gives a single token; there is nothing to measure.")
        source = Side(
            store, kinds, rank_types(store.counts, kinds.framing, frequencies), options.content_only
        )
        targets = None if read is None else _describe_targets(checkpoint, source, read, own=not labelled)
        batches = Batches(
            source,
            budget=budget,
            cells=cells,
            most=most,
            targets=targets,
            fresh=list_ordinary_tokens(checkpoint) if isinstance(documents, RepeatedTokens) else None,
        )
        yield Corpus(batches, reader.reading, longest, _count_rare(source), source.rarity)


def _count_rare(source: Side) -> int:
    """Count the types that occur and are rare, in whole or in part."""
    return int((source.rarity.rare[source.store.counts > 0] > 0).sum())


def _refuse_text_options(options: CorpusOptions) -> None:
    for name in ("max_length", "frequencies"):
        if getattr(options, name) is not None:
            raise AttnprobeError(
                f"--{name.replace('_', '-')} is about text; leave it out for images and sound."
            )


def _describe_targets(checkpoint: Checkpoint, source: Side, store: SequenceStore, *, own: bool) -> Side:
    """Describe the tokens that a decoder reads; what is rare in the text itself is so there too."""
    tokenizer = checkpoint.target_tokenizer or checkpoint.tokenizer
    kinds = TokenKinds(tokenizer, Frame.of(tokenizer), checkpoint.start)
    rarity = source.rarity if own else rank_types(store.counts, kinds.framing)
    return Side(store, kinds, rarity, source.content_only, echoes=source if own else None)


def _count_progress(documents: Iterable[Counted], progress: Callable[[int], None]) -> Iterator[Counted]:
    for document in documents:
        progress(1)
        yield document


def _check_ids(sequences: Iterable[TokenSequence], checkpoint: Checkpoint) -> Iterator[TokenSequence]:
    """Refuse ids for which the model has no embedding: the tokenizer belongs to another model."""
    embeddings = checkpoint.embeddings
    for sequence in sequences:
        if embeddings is not None and max(sequence.ids) >= embeddings:
            raise AttnprobeError(
                f"The tokenizer gave token {max(sequence.ids)}, but the model knows only {embeddings}; "
                "they do not belong together."
            )
        yield sequence
