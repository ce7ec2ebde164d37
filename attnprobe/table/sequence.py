"""A sequence with its attention, as pictures show it: tokens and words on both sides, maps of all heads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.errors import UsageError

if TYPE_CHECKING:
    from attnprobe.attention.layout import Grid

#: A range of tokens: the first, and the one behind the last.
Ends = tuple[int, int]
Rows = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Side:
    """The tokens on one side of a map."""

    labels: tuple[str, ...]  # the text of each token, or else its name
    names: tuple[str, ...]  # the name of each token in the vocabulary, or else its label
    special: NDArray[np.bool_]  # (token,) whether a token stands for no text
    words: NDArray[np.int64] | None = None  # (token,) the number of its word; None if unknown
    word_labels: tuple[str, ...] = ()
    grid: "Grid | None" = None  # the patches of an image
    tiles: "Grid | None" = None  # the patches of an image that is read together with a text
    second: int = 0  # the first token of the second text; 0 if there is none, or if unknown

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def continues(self) -> NDArray[np.bool_] | None:
        """Whether a token continues the word of the token before, (token,); None if words are unknown."""
        return None if self.words is None else np.append(False, self.words[1:] == self.words[:-1])

    @property
    def special_words(self) -> NDArray[np.bool_]:
        """Which words are special tokens, (word,)."""
        assert self.words is not None
        return np.all(~_members(self.words) | self.special, axis=1)

    def with_image(self, image: NDArray[np.bool_], tiles: "Grid | None") -> "Side":
        """Label image tokens by row and column, or else number; each becomes a word, and none is special."""
        labels, places = np.array(self.labels, object), np.flatnonzero(image)
        numbered = [f"image {number}" for number in range(len(places))]
        labels[places] = numbered if tiles is None else _name_patches(tiles)
        side = replace(self, labels=tuple(labels), special=self.special & ~image, tiles=tiles)
        if self.words is None:
            return side
        words = number_groups(np.where(image, len(self) + np.arange(len(self)), self.words).tolist())
        word_labels = tuple(
            labels[place] if image[place] else self.word_labels[self.words[place]]
            for place in find_first_tokens(words)
        )
        return replace(side, words=words, word_labels=word_labels)

    @classmethod
    def of_patches(cls, length: int, grid: "Grid | None", special: NDArray[np.bool_]) -> "Side":
        """Make the side of an image, its patches labelled by row and column, or of sound, by number."""
        named = [str(place) if grid is None else f"[token {place}]" for place in range(length)]
        if grid is not None:
            named[grid.first : grid.first + len(grid)] = _name_patches(grid)
        labels = tuple(named[:length])
        return cls(labels, labels, special, grid=grid)


@dataclass(frozen=True)
class AlignmentDirection:
    """What heads find of the links when words of one of two texts attend to words of the other."""

    name: str  # which text attends, and at which position of its words
    hits: NDArray[np.float64]  # (layer, head) sure links that a head finds; NaN for removed heads
    sure: NDArray[np.float64]  # (layer, head) sure links
    rates: NDArray[np.float64]  # (layer, head, rate) alignment error rate, precision and recall


@dataclass(frozen=True)
class Alignment:
    """The gold alignment of two texts, and what heads find of it."""

    links: tuple[tuple[Ends, Ends, bool], ...]  # tokens that attend, tokens that are linked, whether sure
    directions: tuple[AlignmentDirection, ...]
    hits: NDArray[np.bool_]  # (layer, head, link)


@dataclass(frozen=True)
class Maps:
    """The attention of all heads of one kind of attention, from queries to keys."""

    kind: Kind
    layers: tuple[int, ...]  # the number of each layer in tables
    rows: NDArray[np.float32]  # probabilities (layer, head, query, key); 0 for removed heads
    queries: Side
    keys: Side
    kept: NDArray[np.bool_]  # (layer, head) whether a head was not removed
    rolled: NDArray[np.float32] | None = None  # (layer, query, key) rollout up to each layer
    alignment: Alignment | None = None  # of two texts, if it is known


@dataclass(frozen=True)
class SequenceAttention:
    """A sequence, and all its attention: names, texts, maps by kind, and the image (height, width, 3)."""

    model: str
    texts: tuple[str, ...]
    maps: tuple[Maps, ...]
    picture: NDArray[np.uint8] | None = None

    def of(self, kind: str | None) -> Maps:
        """Give the attention of a kind, or of the first; raises AttnprobeError if there is none."""
        for maps in self.maps:
            if kind in (None, maps.kind.value):
                return maps
        has = " and ".join(maps.kind.value for maps in self.maps)
        raise UsageError(f"{self.model} has no {kind} attention here; it has {has}.")


def group_tokens(
    rows: Rows, queries: NDArray[np.integer] | None = None, keys: NDArray[np.integer] | None = None
) -> Rows:
    """Give attention between groups of tokens, such as words: the sum to a group, the mean from a group.

    ``queries`` and ``keys`` number the group of each token from 0 without gaps; None leaves them alone.
    Source: Clark et al. (2019), What does BERT look at?, section 4.1.

    >>> words = np.array([0, 0, 1])
    >>> group_tokens(np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.3, 0.2, 0.5]]), words, words)
    array([[0.525, 0.475],
           [0.5  , 0.5  ]])
    """
    if keys is not None:
        rows = rows @ _members(keys).T.astype(rows.dtype)
    if queries is not None:
        members = _members(queries).astype(rows.dtype)
        rows = (members / members.sum(1, keepdims=True)) @ rows
    return rows


def number_groups(names: Sequence[int]) -> NDArray[np.int64]:
    """Number groups from 0 without gaps, in the order in which they first occur: 7 7 3 is 0 0 1."""
    known: dict[int, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)


def find_first_tokens(groups: NDArray[np.integer]) -> list[int]:
    """Find the first token of each group, as ``number_groups`` numbers them."""
    return np.unique(groups, return_index=True)[1].tolist()


def _name_patches(grid: "Grid") -> list[str]:
    return [f"row {row}, column {column}" for row, column in np.ndindex(grid.rows, grid.columns)]


def _members(groups: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Tell which tokens belong to each group, (group, token)."""
    return np.arange(int(groups.max()) + 1)[:, None] == groups
