"""How two models read the same texts: token by token, or word by word where tokens differ."""

import json
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.batches.batch import Batch
from attnprobe.corpus.batches.planning import BatchReader
from attnprobe.corpus.batches.text import Batches
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint, check_window
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.survey.comparison.words import Unit, shared_units


@dataclass(frozen=True)
class Beside:
    """What the second model reads of the same texts.

    Attributes:
        batch: Gives its batch of the sequences that are in a batch of the first.
        units: Gives, of both batches, the words that both see; None where they have the same tokens.
    """

    batch: Callable[[Batch], Batch]
    units: Callable[[Batch, Batch], list[list[Unit]] | None]


#: Both models read the same batches.
SAME = Beside(lambda batch: batch, lambda *_: None)


def read_alike(first: Checkpoint, second: Checkpoint) -> bool:
    """Tell whether two models make the same tokens of every text; of images and sound, that is seen later."""
    if first.modality != "text":
        return True
    ours, theirs = first.tokenizer, second.tokenizer
    return ours is theirs or _described(ours) == _described(theirs)


def _described(tokenizer: Tokenizer) -> Any:
    """Say all that decides which tokens a tokenizer makes, without what a caller asked of it last."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        vocabulary = getattr(tokenizer, "get_vocab", dict)()
        return type(tokenizer).__name__, vocabulary
    said = json.loads(backend.to_str())
    return {name: part for name, part in said.items() if name not in {"truncation", "padding"}}


def common_parts(
    checkpoints: tuple[Checkpoint, Checkpoint], *, by_word: bool
) -> tuple[tuple[Checkpoint, Checkpoint], list[str]]:
    """Leave a decoder beside an encoder out, where the other model has none or reads other tokens."""
    decoding = [checkpoint for checkpoint in checkpoints if checkpoint.decodes]
    starts = {checkpoint.start for checkpoint in decoding}
    if not decoding or (len(decoding) == 2 and not by_word and len(starts) == 1):
        return checkpoints, []
    if len(decoding) == 1:
        why = f"Only {decoding[0].name} has a decoder beside its encoder"
    else:
        why = "The decoders read different tokens"
    first, second = (
        replace(checkpoint, encoder_only=True) if checkpoint.decodes else checkpoint
        for checkpoint in checkpoints
    )
    return (first, second), [f"{why}: only the encoders are compared."]


def settled(options: CorpusOptions, first: Checkpoint, second: Checkpoint, *, by_word: bool) -> CorpusOptions:
    """Settle windows that both models take; of texts in different tokens, each reads the first window."""
    if first.modality != "text":
        return options
    windows = [check_window(options.max_length, checkpoint) for checkpoint in (first, second)]
    if by_word:
        return replace(options, truncate=True)
    return replace(options, max_length=min(windows))


def check_media(
    checkpoints: tuple[Checkpoint, Checkpoint], first: Architecture, second: Architecture
) -> None:
    """Refuse models that are given different pixels or samples, whose tokens then are different ones."""
    prepared = [checkpoint.processor and checkpoint.processor.own.to_dict() for checkpoint in checkpoints]
    if (first.positions, first.grid) != (second.positions, second.grid) or prepared[0] != prepared[1]:
        one, other = (checkpoint.name for checkpoint in checkpoints)
        raise AttnprobeError(
            f"{one} and {other} prepare their input differently, so that their tokens are not the same; only "
            "models with one way of preparing it can be compared."
        )


def by_tokens(batches: BatchReader, second: Checkpoint) -> Beside:
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


def by_words(first: BatchReader, second: BatchReader) -> tuple[BatchReader, Beside]:
    """Pair the sequences of each document that both models have tokens for.

    Returns:
        The batches of the first, in each of which the sequences of the second are equally long too; and what
        the second reads.
    """
    theirs = {number: member for member, number in enumerate(_numbers(second))}
    found = [theirs.get(number, -1) for number in _numbers(first)]
    partner: NDArray[np.int64] = np.array(found, np.int64)
    lengths = second.lengths
    plan: list[NDArray[np.int64]] = []
    for members in first.plan:
        both = members[partner[members] >= 0]
        other = lengths[partner[both]]
        plan += [both[other == length] for length in sorted(set(other.tolist()), reverse=True)]
    if not plan:
        raise AttnprobeError("There is no text that both models have tokens for.")
    batches = copy(first)
    batches.plan = plan

    def batch_of(batch: Batch) -> Batch:
        return second.read(partner[batch.members])

    def units(batch: Batch, other: Batch) -> list[list[Unit]]:
        pairs = zip(batch.annotations, other.annotations, strict=True)
        return [shared_units(one, two) if one and two else [] for one, two in pairs]

    return batches, Beside(batch_of, units)


def _numbers(batches: BatchReader) -> list[int]:
    """Give the number of the document of each sequence, among all that were read."""
    said = (batches.annotation(member) for member in range(len(batches.lengths)))
    return [-1 if one is None or one.number is None else one.number for one in said]
