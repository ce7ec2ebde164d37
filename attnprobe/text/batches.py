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
        ids: Token ids (batch, position).
        types: 0 for the first text of a pair and 1 for the second, (batch, position).
        tokens: What is known about the tokens.
        members: Which sequences of the corpus these are, (batch,).
    """

    ids: Tensor
    types: Tensor
    tokens: TokenFeatures
    members: NDArray[np.int64]

    def halves(self) -> tuple["Batch", "Batch"]:
        """Part the sequences in two, the first half no smaller than the second."""
        middle = -(-len(self.ids) // 2)
        return self._rows(0, middle), self._rows(middle, len(self.ids))

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


class Batches:
    """The batches of a stored corpus, in a fixed order; iterating again reads them again.

    Attributes:
        store: The tokenised corpus.
        kinds: What kind of token each id is.
        rarity: Which types are rare.
        content_only: Whether special tokens are dropped as queries and keys.
    """

    def __init__(
        self,
        store: SequenceStore,
        kinds: TokenKinds,
        rarity: Rarity,
        *,
        budget: int,
        cells: int | None = None,
        most: Callable[[int], int] | None = None,
        content_only: bool = False,
    ) -> None:
        """Plan the batches for a budget of tokens, of cells where whole maps are kept, of memory."""
        self.store, self.kinds, self.rarity = store, kinds, rarity
        self.content_only = content_only
        self._budget, self._most = budget, most
        self.plan = plan_batches(store.lengths, budget, cells, most=most)

    def split_by(self, keys: NDArray[np.int64]) -> None:
        """Plan again so that the sequences of a batch also agree in their key."""
        self.plan = plan_batches(self.store.lengths, self._budget, keys=keys, most=self._most)

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
        """Tokens in all batches together."""
        lengths = self.store.lengths
        return sum(int(lengths[members].sum(dtype=np.int64)) for members in self.plan)

    def __len__(self) -> int:
        """Give the number of batches."""
        return len(self.plan)

    def __iter__(self) -> Iterator[Batch]:
        """Read the batches in order."""
        return map(self._read, self.plan)

    def _read(self, members: NDArray[np.int64]) -> Batch:
        ids = np.stack([self.store.ids(int(member)) for member in members])
        seconds = np.array([self.store.second(int(member)) for member in members])[:, None]
        types = (seconds > 0) & (np.arange(ids.shape[1]) >= seconds)
        return Batch(
            torch.from_numpy(ids).long(), torch.from_numpy(types).long(), self.features(ids), members
        )

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
