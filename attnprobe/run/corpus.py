"""A tokenised corpus in batches, and the part of tokenising that texts, pairs and media share."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import torch

from attnprobe.corpus.batch import BatchReader, TokenisedTexts
from attnprobe.corpus.batches import Batches, MediaBatches
from attnprobe.corpus.document import Uses
from attnprobe.corpus.store import SequenceStore
from attnprobe.corpus.streams import shorten
from attnprobe.corpus.tokenizer import Frame, Rarity, TokenKinds, rank_types, read_frequencies
from attnprobe.corpus.tokens import Reading, TokenSequence
from attnprobe.errors import ModelError
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.checkpoint import Checkpoint, resolve_max_length
from attnprobe.run.options import CorpusOptions, record_versions
from attnprobe.run.passes import Workers
from attnprobe.run.process_group import Ranks
from attnprobe.table.builder import Labels
from attnprobe.table.cells import clean
from attnprobe.table.reading import identify_table

Item = TypeVar("Item")

#: Tokens in a batch, unless --batch-tokens says otherwise.
BATCH_TOKENS_CPU = 640
BATCH_TOKENS_ACCELERATOR = 32_768


@dataclass(frozen=True)
class Corpus:
    """A tokenised corpus, ready for passes; ``max_length`` is the most tokens that a sequence may have."""

    batches: BatchReader
    reading: Reading
    max_length: int
    rarity: Rarity | None = None
    workers: Workers = field(default_factory=Workers)

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

    @property
    def rare_types(self) -> int:
        """Number of token types in the text that count as rare, wholly or in part."""
        if self.rarity is None or not isinstance(self.batches, Batches):
            return 0
        return int((self.rarity.rare[self.batches.source.store.counts > 0] > 0).sum())

    def describe(self, checkpoint: Checkpoint) -> Iterator[str]:
        """Yield sentences on what was cut, skipped or left out, and on prompts before texts."""
        yield from _describe_reading(
            self.reading, self.max_length, media=isinstance(self.batches, MediaBatches)
        )
        # Prompts stand before texts as in ``encode`` of sentence-transformers.
        embedding, cut = checkpoint.embedding, f"texts are cut after {self.max_length} tokens."
        if embedding is None:
            return
        if any(isinstance(label, Uses) and label.name for label in self.batches.labels.values()):
            prompts = [embedding.prompts[role] for role in ("query", "document")]
            if any(prompts):
                query, passage = (
                    f"the prompt {shorten(repr(text))}" if text else "no prompt" for text in prompts
                )
                yield f"Before queries stands {query}, and before passages {passage}; {cut}"
        elif prompt := embedding.prompts[""]:
            name = clean(str(embedding.prompt_name))
            yield f"The prompt {name} ({shorten(repr(prompt))}) stands before each text, and {cut}"


def _describe_reading(reading: Reading, max_length: int, *, media: bool) -> Iterator[str]:
    noun, limit = ("file", "what the checkpoint takes") if media else ("document", f"{max_length} tokens")
    were, links = (noun, "was", "were"), _count(reading.links, "link")
    if reading.cut:
        windows = f"cut into {reading.windows} windows, each a sequence of its own"
        yield f"{_count(reading.cut, *were)} longer than {limit} and {windows}."
    if reading.truncated:
        yield f"{_count(reading.truncated, *were)} truncated to {limit}."
    if reading.links_lost:
        why = "no sequence holds both ends, each in tokens of its own"
        yield f"{reading.links_lost:,} of {links} left out: {why}."
    if reading.links_unasked:
        why = "they name candidates in the target, and nothing in the text attends to it"
        yield f"{reading.links_unasked:,} of {links} left out: {why}."
    if reading.spelled:
        spell, token = _count(reading.spelled, noun, "spells", "spell"), clean(reading.spelled_token)
        why = "it is read as that token, as model(**tokenizer(text)) reads it"
        yield f"{spell} out a special token such as {token}: {why}."
    if reading.words_lost:
        words = _count(reading.words, "labelled word")
        yield f"{reading.words_lost:,} of {words} left out: they give no token, or lie behind {limit}."
    if reading.unanswered:
        yield f"{_count(reading.unanswered, 'question')} left out: no answer lies within {limit}."
    if reading.empty:
        why = "too short to be heard" if media else "not a single token"
        yield f"{_count(reading.empty, *were)} skipped: {why}."


def _count(number: int, noun: str, *verbs: str) -> str:
    """Write a number with its noun and verb, ``2 files were``; ``verbs`` are singular and plural."""
    return " ".join((f"{number:,} {noun}{'s' * (number != 1)}", *verbs[number != 1 :][:1]))


@dataclass
class TokenReader:
    """Stores the tokens of a corpus for a checkpoint, and describes them.

    Texts, pairs, examples and media make their sequences in different ways, and share this.

    Attributes:
        stores: Closes the temporary files that are opened.
        architecture: What the dry run found, which images and sound need.
        cells: The most query-key cells in a batch, where whole maps are kept.
        labelled: Whether a decoder beside an encoder reads the labels, and not the text itself.
        progress: Called with 1 for each document.
    """

    checkpoint: Checkpoint
    options: CorpusOptions
    stores: ExitStack
    architecture: Any = None
    cells: int | None = None
    labelled: bool = False
    progress: Callable[[int], None] = lambda _: None

    def __post_init__(self) -> None:
        checkpoint, path = self.checkpoint, self.options.frequencies
        config = checkpoint.model.config.get_text_config()
        placeholder = getattr(checkpoint.processor, "placeholder", -1)
        self._vocabulary = max(len(checkpoint.tokenizer), getattr(config, "vocab_size", 0), placeholder + 1)
        self._frequencies = path and read_frequencies(path, checkpoint.tokenizer, self._vocabulary)

    @property
    def limits(self) -> dict[str, Any]:
        """The limits of a batch."""
        usual = BATCH_TOKENS_CPU if self.checkpoint.device.type == "cpu" else BATCH_TOKENS_ACCELERATOR
        return {"budget": self.options.batch_tokens or usual, "cells": self.cells}

    @cached_property
    def max_length(self) -> int:
        """The most tokens of a sequence of text."""
        return resolve_max_length(self.options.max_length, self.checkpoint)

    def open_store(self) -> SequenceStore:
        return self.stores.enter_context(SequenceStore(self._vocabulary))

    def count(self, documents: Iterable[Item]) -> Iterator[Item]:
        for document in documents:
            self.progress(1)
            yield document

    def check(self, sequences: Iterable[TokenSequence]) -> Iterator[TokenSequence]:
        """Pass sequences on, or refuse ids without an embedding: the tokenizer is another model's."""
        known = self.checkpoint.embeddings
        for sequence in sequences:
            if known is not None and max(sequence.ids) >= known:
                raise ModelError(
                    f"The tokenizer gave token {max(sequence.ids)}, but the model knows only {known}; they "
                    "do not belong together."
                )
            yield sequence

    def describe(self, store: SequenceStore, frame: Frame, more: Iterable[int] = ()) -> TokenisedTexts:
        """Join a text's tokens with their kinds and rarity; types of the frame and ``more`` are not rare."""
        kinds = TokenKinds(self.checkpoint.tokenizer, frame)
        rarity = rank_types(store.counts, kinds.framing.union(more), self._frequencies)
        return TokenisedTexts(store, kinds, rarity, self.options.content_only)

    def describe_targets(self, store: SequenceStore, source: TokenisedTexts | None = None) -> TokenisedTexts:
        """Join the tokens that a decoder beside an encoder reads with their kinds and rarity.

        Where it reads the text itself, ``source``, the same tokens are rare.
        """
        tokenizer = self.checkpoint.target_tokenizer or self.checkpoint.tokenizer
        kinds = TokenKinds(tokenizer, Frame.of(tokenizer), self.checkpoint.start)
        rarity = rank_types(store.counts, kinds.framing) if source is None else source.rarity
        return TokenisedTexts(store, kinds, rarity, self.options.content_only, echoes=source is not None)


def label_heads(
    checkpoint: Checkpoint, architecture: Architecture, dataset: str, record: Mapping[str, Any]
) -> Labels:
    """Make the labels and the provenance of a table of heads."""
    removed, tied = architecture.removed, architecture.absent
    return Labels(checkpoint.name, dataset, record, architecture.places, removed, tied=tied)


def record_provenance(
    checkpoint: Checkpoint, architecture: Architecture, corpus: Corpus, options: CorpusOptions
) -> dict[str, Any]:
    """Record what a run depends on: checkpoint, text, options, machine and versions."""
    path = options.frequencies
    named = {} if path is None else {"frequencies": str(path)}
    remarks = {"remarks": list(checkpoint.remarks)} if checkpoint.remarks else {}
    chosen = {"max_length": corpus.max_length, "batch_tokens": options.batch_tokens or "auto"}
    return {
        "model": {"name": checkpoint.name, **checkpoint.origin, **remarks},
        "architecture": asdict(architecture),
        "options": options.settings | named | chosen,
        "corpus": asdict(corpus.reading)
        | {
            "sequences": corpus.sequences,
            "clusters": corpus.documents,
            "tokens": corpus.tokens,
            "rare_types": corpus.rare_types,
            "texts": [corpus.batches.digest],
            "rarity": corpus.batches.rarity_digest,
            "rare_decided": corpus.rarity is not None and corpus.rarity.once is None,
        },
        "device": checkpoint.devices,
        "threads": torch.get_num_threads(),
        "workers": corpus.workers.number,
        "processes": Ranks.detect().size,
        **({} if path is None else {"frequencies": identify_table(path)}),
        **record_versions(),
    }
