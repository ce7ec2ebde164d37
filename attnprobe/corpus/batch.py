"""A batch: what a model is given, and what is known about its tokens."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Grid, Layout
from attnprobe.attention.tokens import Modalities, TokenAnnotation, TokenFeatures
from attnprobe.corpus.store import SequenceStore, shuffle_tokens
from attnprobe.corpus.vocabulary import Rarity, TokenKinds

#: Those of each sequence of a batch; none where nobody gave any.
AnnotationsOf = tuple[TokenAnnotation | None, ...]


@dataclass(frozen=True)
class Groups:
    """The groups of documents that sequences count in."""

    names: Sequence[str]  # of the groups of the corpus
    of: NDArray[np.int64]  # the group of each sequence, by its place among the names (sequence,)
    clusters: NDArray[np.int64]  # names the document of each, or -1 if it has no other sequence in its group

    @classmethod
    def find(cls, names: Sequence[str], of: NDArray[np.integer], documents: NDArray[np.int64]) -> "Groups":
        """Find which sequences are of one document within each group, as if the others were not there.

        >>> Groups.find("ab", np.array([0, 1, 0, 1]), np.array([95, 96, 96, 96])).clusters.tolist()
        [-1, 96, -1, 96]
        """
        clusters = np.full(len(of), -1)
        for one in range(len(names)):
            here = np.flatnonzero(of == one)
            _, inverse, count = np.unique(documents[here], return_inverse=True, return_counts=True)
            clusters[here] = np.where(count[inverse] > 1, documents[here], -1)
        return cls(names, np.asarray(of, np.int64), clusters)

    def rows(self, kept: slice | NDArray[np.integer]) -> "Groups":
        """Give the groups of part of the sequences."""
        return Groups(self.names, self.of[kept], self.clusters[kept])

    def parts(self) -> Iterator[tuple[str, NDArray[np.intp]]]:
        """Give the name of each group that is there, and which of the sequences count in it."""
        for one in map(int, np.unique(self.of)):
            yield self.names[one], np.flatnonzero(self.of == one)


@dataclass(frozen=True)
class Batch:
    """Equally long sequences.

    Attributes:
        targets: What is known about the tokens that a decoder beside an encoder reads; ``target_annotations``
            are their words and gold links, ``cross_annotations`` those of attention to the sequence.
        baseline: The same sequences without what is looked for in them, such as a repetition, whose places
            are those of these; or the corrupted texts beside clean ones.
    """

    inputs: Mapping[str, Tensor]  # what a model is given, each (batch, ...), by transformers' names
    tokens: TokenFeatures | None  # None where only the model makes them, see ``media``
    members: NDArray[np.int64]  # which sequences of the corpus these are (batch,)
    targets: TokenFeatures | None = None
    media: "MediaTokens | None" = None
    documents: NDArray[np.int64] | None = None  # the document of each, by its number (batch,)
    names: NDArray[np.int64] | None = None  # what names it, in whatever corpus it lies (batch,)
    clusters: NDArray[np.int64] | None = None  # the same, or -1 where it is its only one (batch,)
    groups: "Groups | None" = None
    annotations: AnnotationsOf = ()
    target_annotations: AnnotationsOf = ()
    cross_annotations: AnnotationsOf = ()
    baseline: "Batch | None" = None

    def __len__(self) -> int:
        return len(self.members)

    @property
    def ids(self) -> Tensor:
        return self.inputs["input_ids"]

    @property
    def size(self) -> int:
        """Tokens in all sequences together, those of their targets included."""
        known = sum(side.kept.numel() for side in (self.tokens, self.targets) if side is not None)
        return known + (self.media.length * len(self) if self.media is not None else 0)

    @property
    def length(self) -> int:
        """Tokens in each sequence, as far as that is known."""
        known = self.tokens or self.media
        return 0 if known is None else known.length

    def layout(self, length: int) -> Layout:
        """Lay out attention of the tokens among themselves; a model made ``length`` of each sequence."""
        if self.tokens is not None:
            return Layout(self.tokens, self.tokens, annotations=self.annotations)
        assert self.media is not None
        return self.media.layout(len(self), length)

    def lay_out(self, kind: Kind | int, queries: int, keys: int) -> Layout:
        """Tell which tokens attend to which in a kind of attention, of so many queries and keys.

        ``kind`` is the number of a layer where layers have tokens of their own, whose places are not known.
        """
        if isinstance(kind, int):
            return Layout(self.layout(queries).queries, self.layout(keys).keys)
        if kind is Kind.DECODER and self.targets is not None:
            annotations = self.target_annotations
            return Layout(self.targets, self.targets, causal=True, annotations=annotations, shifted=True)
        layout = self.layout(keys)
        if kind is Kind.CROSS:
            assert self.targets is not None
            annotations = self.cross_annotations
            return Layout(self.targets, layout.keys, annotations=annotations, shifted=True)
        return layout if kind is Kind.ENCODER else replace(layout, causal=True, grid=None, placed=True)

    def halves(self) -> tuple["Batch", "Batch"]:
        """Part the sequences in two, the first half no smaller than the second."""
        middle = -(-len(self) // 2)
        return _cut_rows(self, 0, middle), _cut_rows(self, middle, len(self))


@dataclass(frozen=True)
class MediaTokens:
    """What is known beforehand about tokens that only the model makes, of images or of sound."""

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
        tokens = TokenFeatures(first, outside & ~first, no, ~outside, no.float(), kept, rank, rank)
        return Layout.of(tokens, grid=self.grid, placed=not self.scattered or self.grid is not None)


def _cut_rows(values: Any, start: int, stop: int) -> Any:
    if values is None or isinstance(values, MediaTokens):
        return values
    if isinstance(values, Groups):
        return values.rows(slice(start, stop))
    if isinstance(values, Batch):
        cut = {field.name: _cut_rows(getattr(values, field.name), start, stop) for field in fields(values)}
        return replace(values, **cut)
    if isinstance(values, TokenFeatures):
        return values.rows(start, stop)
    if isinstance(values, Mapping):
        return {name: _cut_rows(part, start, stop) for name, part in values.items()}
    return values[start:stop]


@dataclass(frozen=True)
class TokenisedTexts:
    """Texts in a store, and what is known about their tokens."""

    store: SequenceStore
    kinds: TokenKinds
    rarity: Rarity
    content_only: bool = False
    echoes: "TokenisedTexts | None" = None  # what these repeat one place later, as a decoder does
    seed: int | None = None  # draws the order of ordinary tokens, where they are shuffled

    def shuffle(self, seed: int) -> "TokenisedTexts":
        """Give the same with the ordinary tokens of each sequence in a random order.

        Special tokens stay where they are, and separators part what is shuffled within itself. Words and gold
        links are nowhere any more.
        """
        echoes = None if self.echoes is None else self.echoes.shuffle(seed)
        return replace(self, echoes=echoes, seed=seed)

    def ids(self, members: NDArray[np.int64]) -> NDArray[np.int32]:
        """Read equally long sequences, (batch, position)."""
        ids = np.stack([self.store.ids(int(member)) for member in members])
        if self.seed is None:
            return ids
        if self.echoes is not None:  # of which it reads the first tokens, behind one that starts it
            ids[:, 1:] = self.echoes.ids(members)[:, : ids.shape[1] - 1]
            return ids
        special = self.kinds.special(ids)
        parts = self.kinds.separator(ids).cumsum(1) + self.are_second(members, ids.shape[1])
        rows = zip(ids, special, parts, strict=True)
        return np.stack([shuffle_tokens(row, fixed, part, self.seed) for row, fixed, part in rows])

    def are_second(self, members: NDArray[np.int64], length: int) -> NDArray[np.bool_]:
        """Mark the tokens of the second text of a pair, (batch, position)."""
        seconds = np.array([self.store.second(int(member)) for member in members])[:, None]
        return (seconds > 0) & (np.arange(length) >= seconds)

    def annotations(self, members: NDArray[np.int64]) -> tuple[AnnotationsOf, AnnotationsOf]:
        """Read words and gold links of sequences, and between them and an encoder's."""
        if not self.store.annotated or self.seed is not None:
            return (), ()
        inside, crossed = zip(*(self.store.annotations(int(member)) for member in members), strict=True)
        return inside, crossed

    def features(self, ids: NDArray[np.int32]) -> TokenFeatures:
        """Look up what is known about token ids (batch, position)."""
        first, separator = self.kinds.first(ids), self.kinds.separator(ids)
        separator &= ~first
        special = first | separator
        punctuation = self.kinds.punctuation(ids) & ~special
        rank, order = (np.where(special, -1, place[ids]) for place in (self.rarity.rank, self.rarity.order))
        ordinary, rare = ~(special | punctuation), self.rarity.rare[ids] * ~special
        kept = ~special if self.content_only else np.ones_like(special)
        marks = (first, separator, punctuation, ordinary, rare, kept, rank, order)
        return TokenFeatures(*map(torch.from_numpy, marks), mixed=None)


@dataclass(frozen=True)
class ImageTexts(TokenisedTexts):
    """Texts with images in them, whose tokens ``find_sight`` may let see each other."""

    is_image: Callable[[Any], Any] = lambda ids: ids < 0  # marks the ids that stand for an image
    find_sight: Callable[[Tensor], Tensor] | None = None  # the last position that each token sees
    queries: str | None = None  # which tokens count as queries: "image", "text", or None for all

    def features(self, ids: NDArray[np.int32]) -> TokenFeatures:
        """Look up what is known about token ids; all special tokens that are no image are separators here."""
        known, image = super().features(ids), torch.from_numpy(self.is_image(ids))
        special = torch.from_numpy(self.kinds.special(ids)) & ~image
        text = ~(image | special)
        first, punctuation = known.first & special, known.punctuation & text
        place = torch.arange(ids.shape[1]).expand(ids.shape)
        return TokenFeatures(
            first,
            special & ~first,
            punctuation,
            ~(special | punctuation),
            known.rare.masked_fill(~text, 0),
            ~special if self.content_only else torch.ones_like(image),
            known.rank.masked_fill(~text, -1),
            known.order.masked_fill(~text, -1),
            mixed=Modalities(
                image,
                {"image": image, "text": text}.get(self.queries or "", torch.ones_like(image)),
                place.contiguous() if self.find_sight is None else self.find_sight(image),
            ),
        )
