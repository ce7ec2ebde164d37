"""A batch: what a model is given, what is known about its tokens, and what reads it from a corpus."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Layout
from attnprobe.attention.tokens import Modalities, TokenAnnotation, TokenFeatures
from attnprobe.corpus.document import Label
from attnprobe.corpus.store import SequenceStore, shuffle_tokens
from attnprobe.corpus.tokenizer import Rarity, TokenKinds
from attnprobe.errors import DataError
from attnprobe.sums.documents import in_second_half

Ints = NDArray[np.int64]
#: Those of each sequence of a batch; none where nobody gave any.
AnnotationsOf = tuple[TokenAnnotation | None, ...]


def name_clusters(names: Ints, *keys: NDArray[np.integer]) -> Ints:
    """Give the name of each sequence's document, or -1 where no other sequence agrees with it in all keys."""
    _, place, count = np.unique(np.stack(keys), axis=1, return_inverse=True, return_counts=True)
    return np.where(count[place.ravel()] > 1, names, -1)


@dataclass(frozen=True)
class Groups:
    """The groups of documents that sequences count in, each as if the others were not there."""

    names: Sequence[str]  # of the groups of the corpus
    of: NDArray[np.integer]  # the group of each sequence, by its place among the names (sequence,)
    clusters: Ints  # names the document of each, or -1 if it has no other sequence in its group

    def parts(self) -> Iterator[tuple[str, NDArray[np.intp]]]:
        for place in map(int, np.unique(self.of)):
            yield self.names[place], np.flatnonzero(self.of == place)


@dataclass(frozen=True)
class TokenisedTexts:
    """Texts in a store, and what is known about their tokens."""

    store: SequenceStore
    kinds: TokenKinds
    rarity: Rarity
    content_only: bool = False
    echoes: bool = False  # whether a decoder reads the encoder's text, one place later
    seed: int | None = None  # draws the order of ordinary tokens, where they are shuffled
    placeholder: int | None = None  # the id of the tokens that stand for an image, where texts have one
    joined: bool = False  # whether the tokens of an image see each other
    queries: str | None = None  # which tokens count as queries: "image", "text", or None for all

    def ids(self, members: Ints) -> NDArray[np.int32]:
        """Read equally long sequences, (batch, position)."""
        ids = np.stack([self.store.ids(int(member)) for member in members])
        if self.seed is None:
            return ids
        special = self.kinds.special(ids)  # these stay where they are
        parts = self.kinds.separator(ids).cumsum(1) + self.are_second(members, ids.shape[1])
        rows = zip(ids, special, parts, strict=True)
        return np.stack([shuffle_tokens(row, fixed, part, self.seed) for row, fixed, part in rows])

    def are_second(self, members: Ints, length: int) -> NDArray[np.bool_]:
        """Mark the tokens of the second text of a pair, (batch, position)."""
        seconds = np.array([self.store.second(int(member)) for member in members])[:, None]
        return (seconds > 0) & (np.arange(length) >= seconds)

    def annotations(self, members: Ints) -> tuple[AnnotationsOf, AnnotationsOf]:
        """Read words and gold links of sequences, and between them and an encoder's; none once shuffled."""
        if not self.store.annotated or self.seed is not None:
            return (), ()
        inside, crossed = zip(*(self.store.annotations(int(member)) for member in members), strict=True)
        return inside, crossed

    def features(self, ids: NDArray[np.int32]) -> TokenFeatures:
        """Look up what is known about token ids (batch, position)."""
        image = ids == (-1 if self.placeholder is None else self.placeholder)
        first = self.kinds.first(ids)
        mixed = self.placeholder is not None  # then all special tokens are separators
        special = (self.kinds.special(ids) if mixed else first | self.kinds.separator(ids)) & ~image
        first &= special
        text = ~(special | image)
        punctuation = self.kinds.punctuation(ids) & text
        rank, order = (np.where(text, place[ids], -1) for place in (self.rarity.rank, self.rarity.order))
        rare = self.rarity.rare[ids] * text
        kept = ~special if self.content_only else np.ones_like(special)
        marks = (first, special & ~first, punctuation, ~(special | punctuation), rare, kept, rank, order)
        features = TokenFeatures(*map(torch.from_numpy, marks))
        if not mixed:
            return features
        marked, every = torch.from_numpy(image), torch.ones(ids.shape, dtype=torch.bool)
        asking = {"image": marked, "text": torch.from_numpy(text)}.get(self.queries or "", every)
        sees = find_sight(marked if self.joined else ~every)
        return replace(features, mixed=Modalities(marked, asking, sees))


def find_sight(image: Tensor) -> Tensor:
    """Find the last position that each token sees where tokens of an ``image`` see each other.

    >>> find_sight(torch.tensor([[False, True, True, False, True]]))
    tensor([[0, 2, 2, 3, 4]])
    """
    length = image.shape[1]
    place = torch.arange(length, device=image.device).expand_as(image)
    goes_on = image & torch.nn.functional.pad(image[:, 1:], (0, 1))
    return place.masked_fill(goes_on, length).flip(1).cummin(1).values.flip(1)


@dataclass(frozen=True)
class Batch:
    """Equally long sequences."""

    inputs: Mapping[str, Tensor]  # what a model is given, each (batch, ...), by transformers' names
    tokens: TokenFeatures | None  # None where only the model makes them, of images or of sound
    members: Ints  # which sequences of the corpus these are (batch,)
    corpus: "BatchReader"
    targets: TokenFeatures | None = None  # of the tokens that a decoder beside an encoder reads
    annotations: AnnotationsOf = ()
    target_annotations: AnnotationsOf = ()
    cross_annotations: AnnotationsOf = ()  # of attention from the targets to the sequence
    baseline: "Batch | None" = None  # these without what is looked for in them; or the corrupted texts

    def __len__(self) -> int:
        return len(self.members)

    @property
    def ids(self) -> Tensor:
        return self.inputs["input_ids"]

    @property
    def documents(self) -> Ints:
        return self.corpus.documents[self.members]

    @property
    def names(self) -> Ints:
        return self.corpus.names[self.members]

    @property
    def clusters(self) -> Ints:
        return self.corpus.clusters[self.members]

    @property
    def groups(self) -> Groups | None:
        if (groups := self.corpus.groups) is None:
            return None
        return Groups(groups.names, groups.of[self.members], groups.clusters[self.members])

    @property
    def length(self) -> int:
        return int(self.corpus.lengths[self.members[0]])

    @property
    def size(self) -> int:
        """Tokens in all sequences together, those of their targets included."""
        return len(self) * (self.length + (0 if self.targets is None else self.targets.length))

    def lay_out(self, kind: Kind | int, queries: int, keys: int) -> Layout:
        """Tell which tokens attend to which in a kind of attention, of so many queries and keys."""
        layout = self.corpus.lay_out(self, keys)
        if isinstance(kind, int):  # of a layer with tokens of its own, whose places are not known
            return Layout(self.corpus.lay_out(self, queries).queries, layout.keys)
        if kind is Kind.DECODER and self.targets is not None:
            annotations = self.target_annotations
            return Layout(self.targets, self.targets, causal=True, annotations=annotations, shifted=True)
        if kind is Kind.CROSS:
            assert self.targets is not None
            return Layout(self.targets, layout.keys, annotations=self.cross_annotations, shifted=True)
        return layout if kind is Kind.ENCODER else replace(layout, causal=True, grid=None, placed=True)

    def halves(self) -> tuple["Batch", "Batch"]:
        middle = -(-len(self) // 2)
        return self.corpus.read(self.members[:middle]), self.corpus.read(self.members[middle:])


class BatchReader(ABC):
    """Reads planned batches, in a fixed order; iterating again reads them again."""

    plan: list[Ints]
    lengths: NDArray[np.int32]  # in tokens
    documents: Ints  # the number of each one's document
    names: Ints  # what names that, in whatever corpus it lies
    groups: Groups | None = None
    labels: Mapping[int, Label]
    digest: str  # of the content
    rarity_digest: str = ""
    targets: TokenisedTexts | None = None

    @abstractmethod
    def gather(self, members: Ints) -> Batch:
        """Read some sequences that fit into one batch, without what a decoder beside an encoder reads."""

    def read(self, members: Ints) -> Batch:
        batch = self.gather(members)
        if self.targets is None:
            return batch
        inside, crossed = self.targets.annotations(members)
        inputs = self.add_targets(batch.inputs, members)
        targets = self.targets.features(inputs["decoder_input_ids"].numpy())
        known = replace(batch, target_annotations=inside, cross_annotations=crossed)
        return replace(known, inputs=inputs, targets=targets)

    def add_targets(self, inputs: Mapping[str, Tensor], members: Ints) -> Mapping[str, Tensor]:
        """Add what a decoder beside an encoder reads: a text of its own, or again the encoder's."""
        if self.targets is None:
            return inputs
        ids = torch.from_numpy(self.targets.ids(members)).long()
        if self.targets.echoes:
            ids[:, 1:] = inputs["input_ids"][:, : ids.shape[1] - 1]
        return {**inputs, "decoder_input_ids": ids}

    def lay_out(self, batch: Batch, length: int) -> Layout:
        """Lay out attention among the tokens of a batch; a model made ``length`` of each sequence."""
        assert batch.tokens is not None
        return Layout(batch.tokens, batch.tokens, annotations=batch.annotations)

    def annotation(self, member: int) -> TokenAnnotation | None:
        return None

    @cached_property
    def clusters(self) -> Ints:
        return name_clusters(self.names, self.documents)

    @property
    def plan_digest(self) -> str:
        """Name the plan: equal only where the same sequences make the same batches, in the same order."""
        return hashlib.sha256(repr([members.tolist() for members in self.plan]).encode()).hexdigest()

    def follow(self, plan: list[Ints]) -> Self:
        other = copy(self)
        other.plan = plan
        return other

    def half(self, second: bool) -> Self:
        parts = [members[in_second_half(self.documents[members]) == second] for members in self.plan]
        return self.follow([members for members in parts if len(members)])

    def shuffle(self, seed: int) -> Self:
        raise DataError("Images and sound have no tokens that could be shuffled; give text.")

    @property
    def members(self) -> Ints:
        return np.sort(np.concatenate(self.plan)) if self.plan else np.zeros(0, np.int64)

    @property
    def longer(self) -> NDArray[np.int32]:
        return self.lengths if self.targets is None else np.maximum(self.lengths, self.targets.store.lengths)

    @property
    def sizes(self) -> list[int]:
        lengths = self.lengths if self.targets is None else self.lengths + self.targets.store.lengths
        return [int(lengths[members].sum(dtype=np.int64)) for members in self.plan]

    @property
    def tokens(self) -> int:
        return sum(self.sizes)

    def __len__(self) -> int:
        return len(self.plan)

    def __iter__(self) -> Iterator[Batch]:
        return map(self.read, self.plan)
