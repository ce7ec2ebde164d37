"""How two models read the same texts: token by token, or word by word where tokens differ."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.annotation import TokenAnnotation, TokenSpan
from attnprobe.corpus.batch import Batch
from attnprobe.corpus.batches import Batches, BatchReader
from attnprobe.corpus.sources.document import Annotation, Document, Where
from attnprobe.corpus.sources.links import complete_words
from attnprobe.corpus.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.findings.partners import HeadGrid
from attnprobe.model.checkpoint import Checkpoint, is_cut_short, resolve_window
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.options import CorpusOptions

#: A stretch of words, by the tokens of either model.
Unit = tuple[TokenSpan, TokenSpan]


def number_words(documents: Iterable[Document]) -> Iterator[Document]:
    """Let words be known by their numbers, and documents by theirs, whatever a tokenizer makes of them."""
    for number, document in enumerate(documents):
        texts: dict[Where, str] = {"text": document.text}
        if document.pair is not None:
            texts["pair"] = document.pair
        words = complete_words(
            replace(document.annotation or Annotation(), links=(), tags=(), answers=None), texts
        )
        yield replace(document, annotation=replace(words, numbered=True, number=number))


def pair_words(first: TokenAnnotation, second: TokenAnnotation) -> list[Unit]:
    """Give the words that two sequences of one document both hold; those that share a token count as one.

    >>> one = TokenAnnotation(numbered=(TokenSpan(1, 3), TokenSpan(3, 4), TokenSpan(4, 5)))
    >>> two = TokenAnnotation(numbered=(TokenSpan(1, 2), TokenSpan(2, 3), TokenSpan(2, 3)))
    >>> [(a.start, a.stop, b.start, b.stop) for a, b in pair_words(one, two)]
    [(1, 3, 1, 2), (3, 5, 2, 3)]
    """
    units: list[Unit] = []
    for one, other in zip(first.numbered, second.numbered, strict=True):
        if one is None or other is None:
            continue
        if units and (one.start < units[-1][0].stop or other.start < units[-1][1].stop):
            last = units.pop()
            units.append((_join_spans(last[0], one), _join_spans(last[1], other)))
        else:
            units.append((one, other))
    return units


def pool_words(maps: Tensor, words: list[TokenSpan]) -> Tensor:
    """Add up attention between tokens to attention between words.

    What goes to a word is the sum over its tokens, what goes from it their mean (Clark et al. 2019, section
    4.1). What goes to no word, such as a special token, is one more key, so that rows still sum to 1.

    ``maps`` are (head, query, key); the result is (head, word, word + 1).
    """
    place = torch.cat([torch.full((word.stop - word.start,), n) for n, word in enumerate(words)])
    token = torch.cat([torch.arange(word.start, word.stop) for word in words])
    member = torch.zeros(len(words), maps.shape[-1], dtype=maps.dtype)
    member[place, token] = 1.0
    member = member.to(maps.device)
    rows = (member / member.sum(1, keepdim=True)) @ maps
    to_words = rows @ member.T
    rest = (rows.sum(-1, keepdim=True) - to_words.sum(-1, keepdim=True)).clamp_min(0)
    return torch.cat([to_words, rest], -1)


def _join_spans(one: TokenSpan, other: TokenSpan) -> TokenSpan:
    return TokenSpan(min(one.start, other.start), max(one.stop, other.stop))


@dataclass(frozen=True)
class SecondReader:
    """What the second model reads of the same texts.

    Attributes:
        batch: Gives its batch of the sequences that are in a batch of the first.
        units: Gives, of both batches, the words that both see; None where they have the same tokens.
    """

    batch: Callable[[Batch], Batch]
    units: Callable[[Batch, Batch], list[list[Unit]] | None]


#: Both models read the same batches.
SAME = SecondReader(lambda batch: batch, lambda *_: None)


def share_tokens(first: Checkpoint, second: Checkpoint) -> bool:
    """Tell whether two models make the same tokens of every text; of images and sound, that is seen later."""
    if first.modality != "text":
        return True
    if first.prompt != second.prompt:
        return False
    ours, theirs = first.tokenizer, second.tokenizer
    return ours is theirs or _describe_tokenizer(ours) == _describe_tokenizer(theirs)


def _describe_tokenizer(tokenizer: Tokenizer) -> Any:
    """Say all that decides which tokens a tokenizer makes, without what a caller asked of it last."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        vocabulary = getattr(tokenizer, "get_vocab", dict)()
        return type(tokenizer).__name__, vocabulary
    settings = json.loads(backend.to_str())
    return {name: part for name, part in settings.items() if name not in {"truncation", "padding"}}


def drop_lone_decoders(
    checkpoints: tuple[Checkpoint, Checkpoint], *, by_word: bool
) -> tuple[tuple[Checkpoint, Checkpoint], list[str]]:
    """Leave a decoder beside an encoder out, where the other model has none or reads other tokens."""
    decoding = [checkpoint for checkpoint in checkpoints if checkpoint.decodes]
    starts = {checkpoint.start for checkpoint in decoding}
    if not decoding or (len(decoding) == 2 and not by_word and len(starts) == 1):
        return checkpoints, []
    why = "The decoders read different tokens"
    if len(decoding) == 1:
        why = f"Only {decoding[0].name} has a decoder beside its encoder"
    first, second = (
        replace(checkpoint, encoder_only=True) if checkpoint.decodes else checkpoint
        for checkpoint in checkpoints
    )
    return (first, second), [f"{why}: only the encoders are compared."]


def fit_options(
    options: CorpusOptions, first: Checkpoint, second: Checkpoint, *, by_word: bool
) -> CorpusOptions:
    """Settle windows that both models take; of texts in different tokens, each reads the first window."""
    if first.modality != "text":
        return options
    if by_word:
        return replace(options, truncate=True)
    windows = [resolve_window(options.max_length, checkpoint) for checkpoint in (first, second)]
    short = any(is_cut_short(options.max_length, checkpoint) for checkpoint in (first, second))
    return replace(options, max_length=min(windows), truncate=options.truncate or short)


def check_media(
    checkpoints: tuple[Checkpoint, Checkpoint], first: Architecture, second: Architecture
) -> None:
    """Refuse models that are given different pixels or samples, whose tokens then are different ones."""
    for checkpoint, architecture in zip(checkpoints, (first, second), strict=True):
        if architecture.layer_heads:
            raise AttnprobeError(
                f"{checkpoint.name} has maps of other tokens in other layers, so that heads of two models "
                "can't be compared map by map; measure each with census, or both with dynamics."
            )
    prepared = [checkpoint.processor and checkpoint.processor.own.to_dict() for checkpoint in checkpoints]
    if (first.positions, first.grid) != (second.positions, second.grid) or prepared[0] != prepared[1]:
        one, other = (checkpoint.name for checkpoint in checkpoints)
        raise AttnprobeError(
            f"{one} and {other} prepare their input differently, so that their tokens are not the same; only "
            "models with one way of preparing it can be compared."
        )


def pair_by_tokens(batches: BatchReader, second: Checkpoint) -> SecondReader:
    """Let the second model read the batches of the first.

    Raises:
        AttnprobeError: When it lacks tokens that occur.
    """
    known = second.embeddings
    if known is not None and isinstance(batches, Batches):
        last = int(np.flatnonzero(batches.source.store.counts)[-1])
        if last >= known:
            raise AttnprobeError(
                f"The texts have token {last}, but {second.name} knows only {known}; its tokenizer belongs "
                "to another model."
            )
    return SAME


def pair_by_words(first: BatchReader, second: BatchReader) -> tuple[BatchReader, SecondReader]:
    """Pair the sequences of each document that both models have tokens for.

    Returns:
        The batches of the first, in each of which the sequences of the second are equally long too; and what
        the second reads.
    """
    theirs = {number: member for member, number in enumerate(_number_documents(second))}
    partner = np.array([theirs.get(number, -1) for number in _number_documents(first)], np.int64)
    lengths = second.lengths
    plan: list[NDArray[np.int64]] = []
    for members in first.plan:
        both = members[partner[members] >= 0]
        other = lengths[partner[both]]
        plan += [both[other == length] for length in sorted(set(other.tolist()), reverse=True)]
    if not plan:
        raise AttnprobeError("There is no text that both models have tokens for.")

    def read_partners(batch: Batch) -> Batch:
        return second.read(partner[batch.members])

    def units(batch: Batch, other: Batch) -> list[list[Unit]]:
        pairs = zip(batch.annotations, other.annotations, strict=True)
        return [pair_words(one, two) if one and two else [] for one, two in pairs]

    return first.follow(plan), SecondReader(read_partners, units)


def _number_documents(batches: BatchReader) -> list[int]:
    annotations = (batches.annotation(member) for member in range(len(batches.lengths)))
    return [-1 if one is None or one.number is None else one.number for one in annotations]


def describe_heads(architecture: Architecture) -> HeadGrid:
    kept = [tuple(map(int, np.flatnonzero(layer))) for layer in architecture.standing]
    return HeadGrid(architecture.places, architecture.kinds, architecture.heads, kept)
