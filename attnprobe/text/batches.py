"""Batches of exactly equal length: no padding, so nothing about padding can go wrong."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention import TokenFeatures
from attnprobe.text.rarity import Rarity
from attnprobe.text.store import SequenceStore
from attnprobe.text.vocabulary import TokenKinds


@dataclass(frozen=True)
class Batch:
    """Equally long sequences.

    Attributes:
        inputs: What a model is given, each (batch, ...), by the names that transformers uses.
        tokens: What is known about the tokens.
        members: Which sequences of the corpus these are, (batch,).
        targets: What is known about the tokens that a decoder beside an encoder reads.
    """

    inputs: Mapping[str, Tensor]
    tokens: TokenFeatures
    members: NDArray[np.int64]
    targets: TokenFeatures | None = None

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
        return sum(side.kept.numel() for side in (self.tokens, self.targets) if side is not None)

    def halves(self) -> tuple["Batch", "Batch"]:
        """Part the sequences in two, the first half no smaller than the second."""
        middle = -(-len(self) // 2)
        return self._rows(0, middle), self._rows(middle, len(self))

    def _rows(self, start: int, stop: int) -> "Batch":
        """Take some of the sequences, of every field alike."""
        return replace(
            self, **{field.name: _cut(getattr(self, field.name), start, stop) for field in fields(self)}
        )


def _cut(values: Any, start: int, stop: int) -> Any:
    """Take rows of whatever is kept by sequence."""
    if values is None:
        return None
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


class Batches:
    """The batches of a stored corpus, in a fixed order; iterating again reads them again.

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
        keys = None if targets is None else targets.store.lengths.astype(np.int64)
        self.plan = plan_batches(source.store.lengths, budget, cells, keys, most=most)

    @property
    def store(self) -> SequenceStore:
        """The tokenised corpus."""
        return self.source.store

    @property
    def rarity(self) -> Rarity:
        """Which types of the texts are rare."""
        return self.source.rarity

    def without_shorter(self, least: int) -> "Batches":
        """Give the batches of the sequences of at least so many tokens."""
        some = copy(self)
        some.plan = [members for members in self.plan if self.store.lengths[members[0]] >= least]
        return some

    def half(self, second: bool) -> "Batches":
        """Give the batches of one half of the sequences only."""
        some = copy(self)
        parts = [members[in_second_half(members) == second] for members in self.plan]
        some.plan = [members for members in parts if len(members)]
        return some

    def after(self, done: int) -> "Batches":
        """Give the batches behind the first ones."""
        rest = copy(self)
        rest.plan = self.plan[done:]
        return rest

    def shared_out(self, part: int, parts: int) -> "Batches":
        """Give every ``parts``-th batch, so that each part has long and short ones."""
        some = copy(self)
        some.plan = self.plan[part::parts]
        return some

    @property
    def members(self) -> NDArray[np.int64]:
        """Which sequences of the store are in a batch, in their order."""
        return np.sort(np.concatenate(self.plan)) if self.plan else np.zeros(0, np.int64)

    @property
    def digest(self) -> str:
        """Tell this plan of batches from others, by a SHA-256."""
        sizes = np.array([len(members) for members in self.plan], np.int64)
        return hashlib.sha256(b"".join(part.tobytes() for part in (sizes, *self.plan))).hexdigest()

    @property
    def tokens(self) -> int:
        """Tokens in all batches together, those of targets included."""
        lengths = self.store.lengths.astype(np.int64)
        if self.targets is not None:
            lengths = lengths + self.targets.store.lengths
        return sum(int(lengths[members].sum()) for members in self.plan)

    def __len__(self) -> int:
        """Give the number of batches."""
        return len(self.plan)

    def __iter__(self) -> Iterator[Batch]:
        """Read the batches in order."""
        return map(self._read, self.plan)

    def _read(self, members: NDArray[np.int64]) -> Batch:
        ids = self.source.ids(members)
        seconds = np.array([self.store.second(int(member)) for member in members])[:, None]
        types = (seconds > 0) & (np.arange(ids.shape[1]) >= seconds)
        inputs = {"input_ids": torch.from_numpy(ids).long(), "token_type_ids": torch.from_numpy(types).long()}
        features, targets = self.source.features(ids), None
        if self.targets is not None:
            read = self.targets.ids(members)
            inputs["decoder_input_ids"] = torch.from_numpy(read).long()
            targets = self.targets.features(read)
        return Batch(inputs, features, members, targets)
