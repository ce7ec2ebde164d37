"""A batch: a model's inputs, the features of their tokens, and the reader that takes it from a corpus."""

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
from attnprobe.corpus.store import SequenceStore
from attnprobe.corpus.tokenizer import Rarity, TokenKinds
from attnprobe.errors import DataError
from attnprobe.sums.documents import in_second_half

Ints = NDArray[np.int64]
#: The annotation of each sequence of a batch; empty where nothing is annotated.
AnnotationsOf = tuple[TokenAnnotation | None, ...]


def name_clusters(names: Ints, *keys: NDArray[np.integer]) -> Ints:
    """Keep the name of each sequence's document; -1 where no other sequence has the same keys."""
    _, place, count = np.unique(np.stack(keys), axis=1, return_inverse=True, return_counts=True)
    return np.where(count[place.ravel()] > 1, names, -1)


@dataclass(frozen=True)
class Groups:
    """The groups of documents, such as genres, that sequences count in."""

    names: Sequence[str]  # of all groups of the corpus
    of: NDArray[np.integer]  # the group of each sequence, by its place in ``names``
    clusters: Ints  # the name of each sequence's document; -1 where it has no other sequence in its group

    def parts(self) -> Iterator[tuple[str, NDArray[np.intp]]]:
        for place in map(int, np.unique(self.of)):
            yield self.names[place], np.flatnonzero(self.of == place)


@dataclass(frozen=True)
class TokenisedTexts:
    """Texts in a store, and the kinds and frequencies of their tokens."""

    store: SequenceStore
    kinds: TokenKinds
    rarity: Rarity
    content_only: bool = False
    echoes: bool = False  # a decoder reads the encoder's text, one place later
    seed: int | None = None  # by which ordinary tokens are shuffled; None leaves them in order
    placeholder: int | None = None  # the id of the tokens of an image, where texts have one
    joined: bool = False  # the tokens of an image see each other
    queries: str | None = None  # the tokens that count as queries: "image", "text", or None for all

    def ids(self, members: Ints) -> NDArray[np.int32]:
        """Read token ids of equally long sequences, (batch, position), shuffled if there is a ``seed``."""
        ids = np.stack([self.store.ids(int(member)) for member in members])
        if self.seed is None:
            return ids
        special = self.kinds.special(ids)  # which stay in their places
        parts = self.kinds.separator(ids).cumsum(1) + self.are_second(members, ids.shape[1])
        rows = zip(ids, special, parts, strict=True)
        return np.stack([shuffle_tokens(row, fixed, part, self.seed) for row, fixed, part in rows])

    def are_second(self, members: Ints, length: int) -> NDArray[np.bool_]:
        """Mark the tokens of the second text of a pair, (batch, position)."""
        seconds = np.array([self.store.second(int(member)) for member in members])[:, None]
        return (seconds > 0) & (np.arange(length) >= seconds)

    def annotations(self, members: Ints) -> tuple[AnnotationsOf, AnnotationsOf]:
        """Read annotations of sequences and of their cross-attention; both are empty for shuffled tokens."""
        if not self.store.annotated or self.seed is not None:
            return (), ()
        inside, crossed = zip(*(self.store.annotations(int(member)) for member in members), strict=True)
        return inside, crossed

    def features(self, ids: NDArray[np.int32]) -> TokenFeatures:
        """Look up the features of token ids (batch, position)."""
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


def replace_repeated(
    ids: NDArray[np.integer], special: NDArray[np.bool_], ordinary: NDArray[np.int64]
) -> NDArray[np.integer]:
    """Replace repeated tokens, except ``special`` ones, by random ``ordinary`` ones that do not occur."""
    again = np.ones(len(ids), bool)
    again[np.unique(ids, return_index=True)[1]] = False
    places = np.flatnonzero(again & ~special)
    replaced, others = ids.copy(), np.setdiff1d(ordinary, ids)
    replaced[places] = _open_random(ids.astype(np.int64).tobytes()).choice(others, len(places), replace=False)
    return replaced


def shuffle_tokens(
    ids: NDArray[np.int32], fixed: NDArray[np.bool_], parts: NDArray[np.integer], seed: int
) -> NDArray[np.int32]:
    """Shuffle the tokens of a sequence within each of its ``parts`` (position,); ``fixed`` ones stay."""
    random, shuffled = _open_random(f"{seed}|".encode() + ids.tobytes()), ids.copy()
    for part in np.unique(parts):
        places = np.flatnonzero(~fixed & (parts == part))
        shuffled[places] = ids[random.permutation(places)]
    return shuffled


def _open_random(content: bytes) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(content).digest(), "little"))


@dataclass(frozen=True)
class Batch:
    """Equally long sequences."""

    inputs: Mapping[str, Tensor]  # each (batch, ...), by transformers' names
    tokens: TokenFeatures | None  # None of images and sound, of which the model makes the tokens
    members: Ints  # the numbers of the sequences in the corpus (batch,)
    corpus: "BatchReader"
    targets: TokenFeatures | None = None  # of the tokens that a decoder beside an encoder reads
    annotations: AnnotationsOf = ()
    target_annotations: AnnotationsOf = ()
    cross_annotations: AnnotationsOf = ()  # of attention from the targets to the sequence
    baseline: "Batch | None" = None  # the sequences without repeated tokens; or the corrupted texts

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
        """The number of tokens in each sequence."""
        return int(self.corpus.lengths[self.members[0]])

    @property
    def size(self) -> int:
        """The number of tokens, those of targets included."""
        return len(self) * (self.length + (0 if self.targets is None else self.targets.length))

    def lay_out(self, kind: Kind | int, queries: int, keys: int) -> Layout:
        """Make the layout of queries and keys for a kind of attention, or a layer with tokens of its own."""
        layout = self.corpus.lay_out(self, keys)
        if isinstance(kind, int):  # a layer whose tokens are not those of the others, and have no places
            return Layout(self.corpus.lay_out(self, queries).queries, layout.keys)
        if kind is Kind.DECODER and self.targets is not None:
            annotations = self.target_annotations
            return Layout(self.targets, self.targets, causal=True, annotations=annotations, shifted=True)
        if kind is Kind.CROSS:
            assert self.targets is not None
            return Layout(self.targets, layout.keys, annotations=self.cross_annotations, shifted=True)
        return layout if kind is Kind.ENCODER else replace(layout, causal=True, grid=None, placed=True)

    def halves(self) -> tuple["Batch", "Batch"]:
        """Split the sequences into two batches."""
        middle = -(-len(self) // 2)
        return self.corpus.read(self.members[:middle]), self.corpus.read(self.members[middle:])


class BatchReader(ABC):
    """Reads planned batches, in a fixed order; iterating again reads them again."""

    plan: list[Ints]
    lengths: NDArray[np.int32]  # in tokens
    documents: Ints  # the number of each sequence's document
    names: Ints  # its name, which is the same in any corpus
    groups: Groups | None = None
    labels: Mapping[int, Label]
    digest: str  # of the content
    rarity_digest: str = ""
    targets: TokenisedTexts | None = None

    @abstractmethod
    def gather(self, members: Ints) -> Batch:
        """Read sequences that fit into one batch, without targets."""

    def read(self, members: Ints) -> Batch:
        """Read sequences as one batch, with the tokens of a decoder beside an encoder, if there is one."""
        batch = self.gather(members)
        if self.targets is None:
            return batch
        inside, crossed = self.targets.annotations(members)
        inputs = self.add_targets(batch.inputs, members)
        targets = self.targets.features(inputs["decoder_input_ids"].numpy())
        known = replace(batch, target_annotations=inside, cross_annotations=crossed)
        return replace(known, inputs=inputs, targets=targets)

    def add_targets(self, inputs: Mapping[str, Tensor], members: Ints) -> Mapping[str, Tensor]:
        """Copy inputs, adding what a decoder beside an encoder reads, if any: its text, or the encoder's."""
        if self.targets is None:
            return inputs
        ids = torch.from_numpy(self.targets.ids(members)).long()
        if self.targets.echoes:
            ids[:, 1:] = inputs["input_ids"][:, : ids.shape[1] - 1]
        return {**inputs, "decoder_input_ids": ids}

    def lay_out(self, batch: Batch, length: int) -> Layout:
        """Lay out attention among the ``length`` tokens that a model made of each sequence."""
        assert batch.tokens is not None
        return Layout(batch.tokens, batch.tokens, annotations=batch.annotations)

    def annotation(self, member: int) -> TokenAnnotation | None:
        return None

    @cached_property
    def clusters(self) -> Ints:
        return name_clusters(self.names, self.documents)

    @property
    def plan_digest(self) -> str:
        """The SHA-256 of the plan: of the sequences of each batch, in order."""
        return hashlib.sha256(repr([members.tolist() for members in self.plan]).encode()).hexdigest()

    def follow(self, plan: list[Ints]) -> Self:
        """Give a reader of the same corpus with other batches."""
        other = copy(self)
        other.plan = plan
        return other

    def half(self, second: bool) -> Self:
        """Keep the first or the second half of the documents."""
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
