"""Batches of exactly equal length: no padding, so nothing about padding can go wrong."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention import Grid, Layout, TokenFeatures
from attnprobe.text.document import Label
from attnprobe.text.rarity import Rarity
from attnprobe.text.store import SequenceStore
from attnprobe.text.vocabulary import TokenKinds


@dataclass(frozen=True)
class Batch:
    """Equally long sequences.

    Attributes:
        inputs: What a model is given, each (batch, ...), by the names that transformers uses.
        tokens: What is known about the tokens; None where only the model makes them.
        members: Which sequences of the corpus these are, (batch,).
        targets: What is known about the tokens that a decoder beside an encoder reads.
        unseen: What is known about tokens that only the model makes.
    """

    inputs: Mapping[str, Tensor]
    tokens: TokenFeatures | None
    members: NDArray[np.int64]
    targets: TokenFeatures | None = None
    unseen: "Unseen | None" = None

    def __len__(self) -> int:
        """Give the number of sequences."""
        return len(self.members)

    @property
    def ids(self) -> Tensor:
        """Token ids (batch, position)."""
        return self.inputs["input_ids"]

    @property
    def size(self) -> int:
        """Tokens in all sequences together, those of their targets included."""
        known = sum(side.kept.numel() for side in (self.tokens, self.targets) if side is not None)
        return known + (self.unseen.length * len(self) if self.unseen is not None else 0)

    def layout(self, length: int) -> Layout:
        """Lay out attention of the tokens among themselves; a model made ``length`` of each sequence."""
        if self.tokens is not None:
            return Layout.of(self.tokens)
        assert self.unseen is not None
        return self.unseen.layout(len(self), length)

    @property
    def length(self) -> int:
        """Tokens in each sequence, as far as that is known."""
        if self.tokens is not None:
            return self.tokens.length
        return self.unseen.length if self.unseen is not None else 0

    def halves(self) -> tuple["Batch", "Batch"]:
        """Part the sequences in two, the first half no smaller than the second."""
        middle = -(-len(self) // 2)
        return self._rows(0, middle), self._rows(middle, len(self))

    def _rows(self, start: int, stop: int) -> "Batch":
        """Take some of the sequences, of every field alike."""
        return replace(
            self, **{field.name: _cut(getattr(self, field.name), start, stop) for field in fields(self)}
        )


@dataclass(frozen=True)
class Unseen:
    """What is known beforehand about tokens that only the model makes, of images or of sound.

    Attributes:
        length: How many it makes of a sequence, as far as that is known.
        scattered: Whether their order says nothing about where they are, unless there is a grid.
        grid: Where the patches of an image are.
        content_only: Whether tokens outside of the grid are dropped as queries and keys.
    """

    length: int
    scattered: bool = False
    grid: Grid | None = None
    content_only: bool = False

    def layout(self, batch: int, length: int) -> Layout:
        """Lay out tokens: outside of the grid the first is special, and the others part it from nothing.

        Without a grid there are no special tokens. No token is punctuation, and none is rare.
        """
        no = torch.zeros(batch, length, dtype=torch.bool)
        outside = no.clone()
        if self.grid is not None:
            outside |= self.grid.places(length)[:, 0].isnan()
        first = outside.clone()
        first[:, 1:] = False
        kept = ~outside if self.content_only else ~no
        rank = torch.full((batch, length), -1)
        tokens = TokenFeatures(first, outside & ~first, no, ~outside, no, kept, rank)
        return Layout.of(tokens, grid=self.grid, placed=not self.scattered or self.grid is not None)


def _cut(values: Any, start: int, stop: int) -> Any:
    """Take rows of whatever is kept by sequence."""
    if values is None or isinstance(values, Unseen):
        return values
    if isinstance(values, TokenFeatures):
        return values.rows(start, stop)
    if isinstance(values, Mapping):
        return {name: _cut(part, start, stop) for name, part in values.items()}
    return values[start:stop]


def plan_batches(
    lengths: NDArray[np.int32],
    budget: int,
    cells: int | None = None,
    keys: NDArray[np.int64] | None = None,
    most: Callable[[int], int] | None = None,
) -> list[NDArray[np.int64]]:
    """Group sequences of equal length into batches of at most ``budget`` tokens.

    With ``cells``, a batch also has at most so many query-key cells, so that whole maps can be kept;
    with ``keys``, the sequences of a batch also agree in their key, such as the length of their target;
    with ``most``, which is given a length, it has at most so many sequences.

    The longest come first, so that a run that does not fit memory fails at once; sequences of a
    length keep their order. A sequence longer than the budget is a batch of its own.

    >>> [batch.tolist() for batch in plan_batches(np.array([3, 5, 3, 3]), 6)]
    [[1], [0, 2], [3]]
    """
    keys = np.zeros(len(lengths), np.int64) if keys is None else keys
    order = np.lexsort((keys, -lengths))
    changes = np.any(np.diff(np.stack([lengths, keys])[:, order]), axis=0)
    planned = []
    for group in np.split(order, np.flatnonzero(changes) + 1):
        if not len(group):
            continue
        length = int(lengths[group[0]])
        size = budget // length if cells is None else min(budget // length, cells // length**2)
        size = max(1, size if most is None else min(size, most(length)))
        planned += [group[i : i + size] for i in range(0, len(group), size)]
    return planned


def in_second_half(members: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Split sequences in two by their numbers, alike in every run and whatever else is in the corpus.

    Not by turns, which is how labels often come: by the fractional part of multiples of the golden
    ratio, which fills both halves evenly and keeps step with nothing (Knuth, volume 3, section 6.4).

    >>> in_second_half(np.arange(8)).astype(int).tolist()
    [0, 1, 0, 1, 0, 0, 1, 0]
    """
    return (members.astype(np.uint64) * np.uint64(0x9E3779B1) & np.uint64(0xFFFFFFFF)) >= np.uint64(1 << 31)


@dataclass(frozen=True)
class Side:
    """Tokenised texts, and what is known about their tokens.

    Attributes:
        store: The sequences.
        kinds: What kind of token each id is.
        rarity: Which types are rare.
        content_only: Whether special tokens are dropped as queries and keys.
    """

    store: SequenceStore
    kinds: TokenKinds
    rarity: Rarity
    content_only: bool = False

    def ids(self, members: NDArray[np.int64]) -> NDArray[np.int32]:
        """Read equally long sequences, (batch, position)."""
        return np.stack([self.store.ids(int(member)) for member in members])

    def features(self, ids: NDArray[np.int32]) -> TokenFeatures:
        """Look up what is known about token ids (batch, position)."""
        first, separator = self.kinds.first(ids), self.kinds.separator(ids)
        separator &= ~first
        special = first | separator
        punctuation = self.kinds.punctuation(ids) & ~special
        rank = np.where(special, -1, self.rarity.rank[ids])
        marks = (
            first,
            separator,
            punctuation,
            ~(special | punctuation),
            self.rarity.rare[ids] & ~special,
            ~special if self.content_only else np.ones_like(special),
            rank,
        )
        return TokenFeatures(*(torch.from_numpy(mark) for mark in marks))


class BatchReader(ABC):
    """Reads planned batches, in a fixed order; iterating again reads them again.

    Attributes:
        plan: Which sequences make each batch.
    """

    def __init__(self, plan: list[NDArray[np.int64]]) -> None:
        """Follow a plan."""
        self.plan = plan

    @property
    @abstractmethod
    def lengths(self) -> NDArray[np.int32]:
        """Tokens in each sequence, special tokens included."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """Name the content: sequences, pairs and labels, in their order."""

    @property
    @abstractmethod
    def rarity_digest(self) -> str:
        """Name what is rare."""

    @property
    @abstractmethod
    def labels(self) -> Mapping[int, Label]:
        """The labels of the sequences that have one."""

    @abstractmethod
    def read(self, members: NDArray[np.int64]) -> Batch:
        """Read some sequences that fit into one batch."""

    #: What a decoder beside an encoder reads, sequence for sequence.
    targets: Side | None = None

    @property
    def plan_digest(self) -> str:
        """Name the plan: equal only where the same sequences make the same batches, in the same order."""
        digest = hashlib.sha256()
        for members in self.plan:
            digest.update(len(members).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(members, np.int64).tobytes())
        return digest.hexdigest()

    def without_shorter(self, least: int) -> Self:
        """Give the batches of the sequences of at least so many tokens."""
        some = copy(self)
        some.plan = [members for members in self.plan if self.lengths[members[0]] >= least]
        return some

    def half(self, second: bool) -> Self:
        """Give the batches of one half of the sequences only."""
        some = copy(self)
        parts = [members[in_second_half(members) == second] for members in self.plan]
        some.plan = [members for members in parts if len(members)]
        return some

    def after(self, done: int) -> Self:
        """Give the batches behind the first ones."""
        rest = copy(self)
        rest.plan = self.plan[done:]
        return rest

    def shared_out(self, part: int, parts: int) -> Self:
        """Give every ``parts``-th batch, so that each part has long and short ones."""
        some = copy(self)
        some.plan = self.plan[part::parts]
        return some

    @property
    def members(self) -> NDArray[np.int64]:
        """Which sequences are in a batch, in their order."""
        return np.sort(np.concatenate(self.plan)) if self.plan else np.zeros(0, np.int64)

    @property
    def longer(self) -> NDArray[np.int32]:
        """Tokens in each sequence or in its target, whichever is longer."""
        if self.targets is None:
            return self.lengths
        return np.maximum(self.lengths, self.targets.store.lengths)

    @property
    def tokens(self) -> int:
        """Tokens in all batches together, those of targets included."""
        lengths = self.lengths.astype(np.int64)
        if self.targets is not None:
            lengths = lengths + self.targets.store.lengths
        return sum(int(lengths[members].sum()) for members in self.plan)

    def __len__(self) -> int:
        """Give the number of batches."""
        return len(self.plan)

    def __iter__(self) -> Iterator[Batch]:
        """Read the batches in order."""
        return map(self.read, self.plan)


class Batches(BatchReader):
    """The batches of a stored corpus of text.

    Attributes:
        source: The texts.
        targets: What a decoder beside an encoder reads, text for text.
    """

    def __init__(
        self,
        source: Side,
        *,
        budget: int,
        cells: int | None = None,
        most: Callable[[int], int] | None = None,
        targets: Side | None = None,
    ) -> None:
        """Plan the batches for a budget of tokens, of cells where whole maps are kept, of memory."""
        self.source, self.targets = source, targets
        lengths, keys = source.store.lengths, None
        if targets is not None:
            # A batch is as large as the longer side makes it; the other one agrees in its length too.
            keys = lengths.astype(np.int64) * (1 + int(targets.store.lengths.max())) + targets.store.lengths
            lengths = np.maximum(lengths, targets.store.lengths)
        super().__init__(plan_batches(lengths, budget, cells, keys, most=most))

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens in each text, special tokens included."""
        return self.source.store.lengths

    @property
    def digest(self) -> str:
        """Name the content: texts, pairs and labels, in their order."""
        return self.source.store.digest

    @property
    def rarity_digest(self) -> str:
        """Name which types of the texts are rare."""
        return self.source.rarity.digest

    @property
    def labels(self) -> Mapping[int, Label]:
        """The labels of the texts that have one."""
        return self.source.store.labels

    def read(self, members: NDArray[np.int64]) -> Batch:
        """Read some texts of one length."""
        ids = self.source.ids(members)
        seconds = np.array([self.source.store.second(int(member)) for member in members])[:, None]
        types = (seconds > 0) & (np.arange(ids.shape[1]) >= seconds)
        inputs = {"input_ids": torch.from_numpy(ids).long(), "token_type_ids": torch.from_numpy(types).long()}
        features, targets = self.source.features(ids), None
        if self.targets is not None:
            read = self.targets.ids(members)
            inputs["decoder_input_ids"] = torch.from_numpy(read).long()
            targets = self.targets.features(read)
        return Batch(inputs, features, members, targets)
