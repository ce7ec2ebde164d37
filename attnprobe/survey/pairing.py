"""How two models read the same texts: token by token, or word by word where tokens differ."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.annotation import TokenAnnotation, TokenSpan
from attnprobe.attention.kinds import Kind
from attnprobe.corpus.batch import Batch
from attnprobe.corpus.batches import Batches, BatchReader
from attnprobe.corpus.sources.document import Annotation, Document, Where
from attnprobe.corpus.sources.links import complete_words
from attnprobe.corpus.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
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
    found: list[Unit] = []
    for one, other in zip(first.numbered, second.numbered, strict=True):
        if one is None or other is None:
            continue
        if found and (one.start < found[-1][0].stop or other.start < found[-1][1].stop):
            last = found.pop()
            found.append((_join_spans(last[0], one), _join_spans(last[1], other)))
        else:
            found.append((one, other))
    return found


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
    found = rows @ member.T
    rest = (rows.sum(-1, keepdim=True) - found.sum(-1, keepdim=True)).clamp_min(0)
    return torch.cat([found, rest], -1)


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


Places = NDArray[np.intp]
#: Within which heads partners are looked for: layers of one number, or all of the model.
Within = Literal["layer", "model"]


@dataclass(frozen=True)
class SharedHeads:
    """The kinds of attention that two models share.

    Heads of a kind are numbered through all its layers: head h of the i-th layer is i * heads + h.

    Attributes:
        first: What the dry run found of the one model.
        second: Of the other.
        kinds: The kinds, in the order of tables.
    """

    first: Architecture
    second: Architecture
    kinds: tuple[Kind, ...]

    @classmethod
    def of(
        cls, names: tuple[str, str], first: Architecture, second: Architecture
    ) -> "tuple[SharedHeads, list[str]]":
        """Find out what two models share, and say what they don't.

        Raises:
            AttnprobeError: When they share nothing.
        """
        ours, theirs = (
            [kind for kind in Kind if kind in architecture.kinds] for architecture in (first, second)
        )
        sides = list(zip(names, (ours, theirs), strict=True))
        kinds = tuple(kind for kind in ours if kind in theirs)
        if not kinds:
            one, other = (f"{name} has {_format_kinds(some)} attention" for name, some in sides)
            raise AttnprobeError(f"{one} and {other}; only heads of one kind can be compared.")
        left_out = [
            f"{name} also has {_format_kinds(extra)} attention, which the other has not; it is left out."
            for name, side in sides
            if (extra := [kind for kind in side if kind not in kinds])
        ]
        return cls(first, second, kinds), left_out

    def layers(self, kind: Kind) -> tuple[list[int], list[int]]:
        """Give the layers of a kind in either model, in the order of a forward pass."""
        first, second = (
            [layer for layer, one in enumerate(architecture.kinds) if one is kind]
            for architecture in (self.first, self.second)
        )
        return first, second

    def size(self, kind: Kind) -> tuple[int, int]:
        """Give how many heads a kind has in either model, removed ones included."""
        first, second = self.layers(kind)
        return len(first) * self.first.heads, len(second) * self.second.heads

    def numbered(self, kind: Kind) -> bool:
        """Tell whether both have as many layers of a kind, with as many heads: each has one of its number."""
        first, second = self.layers(kind)
        return len(first) == len(second) and self.first.heads == self.second.heads

    @cached_property
    def alike(self) -> bool:
        """Whether each head of the first has one of its number in the second, whatever the kind."""
        return all(map(self.numbered, self.kinds))

    def check_layers(self, names: tuple[str, str], within: Within) -> None:
        """Refuse layers that are to have partners of their number, where the numbers of layers differ."""
        for kind in self.kinds if within == "layer" else ():
            ours, theirs = map(len, self.layers(kind))
            if ours != theirs:
                raise AttnprobeError(
                    f"{names[0]} has {ours} layers and {names[1]} has {theirs}, so that heads can't be "
                    "matched layer by layer; use --match model."
                )

    def assign(self, apart: NDArray[np.float64], kind: Kind, within: Within) -> Places:
        """Assign heads of a kind to heads one to one, so that how far they are apart adds up to the least.

        ``apart`` is (head, other head), below 1, NaN for removed heads, which get no partner. Gives the head
        of the second model for each of the first, -1 where there is none.

        References:
            Kuhn (1955), The Hungarian method for the assignment problem.
        """
        from scipy.optimize import linear_sum_assignment  # takes a while to import

        cost = np.where(np.isnan(apart), 2.0, apart)  # more than any, so that removed heads come last
        blocks = [np.ogrid[: len(cost), : cost.shape[1]]]
        if within == "layer":
            sizes = self.first.heads, self.second.heads
            layers = range(len(self.layers(kind)[0]))
            blocks = [np.ix_(*(np.arange(i * size, (i + 1) * size) for size in sizes)) for i in layers]
        partner = np.full(len(cost), -1, np.intp)
        for rows, columns in blocks:
            picked = linear_sum_assignment(cost[rows, columns])
            ours, theirs = rows.ravel()[picked[0]], columns.ravel()[picked[1]]
            partner[ours] = np.where(np.isfinite(apart[ours, theirs]), theirs, -1)
        return partner

    def find_kept(self, kind: Kind) -> tuple[tuple[Places, Places], tuple[Places, Places]]:
        """Say which heads the maps of a kind hold, in their order.

        Returns:
            For either model, places among the maps that are kept, and the numbers of these heads. A layer
            that lost all its heads computes one that is none of them.
        """
        first, second = self.layers(kind)
        return _find_kept(self.first, first), _find_kept(self.second, second)


def _find_kept(architecture: Architecture, layers: list[int]) -> tuple[Places, Places]:
    standing, present = architecture.standing, architecture.present
    places, numbers, seen = [], [], 0
    for rank, layer in enumerate(layers):
        computed = (present[layer] or (0,)) if present else range(architecture.heads)
        for place, head in enumerate(computed):
            if standing[layer, head]:
                places.append(seen + place)
                numbers.append(rank * architecture.heads + head)
        seen += len(computed)
    return np.array(places, np.intp), np.array(numbers, np.intp)


def _format_kinds(kinds: list[Kind]) -> str:
    return " and ".join(map(str, kinds))
