"""What a picture of a sequence needs: the tokens and words on each side, and the attention of all heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.errors import AttnprobeError

if TYPE_CHECKING:
    from attnprobe.attention.layout import Grid

#: The first of some tokens, and the one behind their last.
Ends = tuple[int, int]
Rows = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Side:
    """The tokens on one side of a map.

    Attributes:
        labels: The characters that each covers, or its name.
        names: As the vocabulary names each, or the same as its label.
        special: (token,) which stand for no text.
        words: (token,) the number of the word of each; None if unknown.
        word_labels: The label of each word.
        continues: (token,) which go on with the word of the token before.
        grid: Where the patches of an image are.
        tiles: Where they are among the tokens of a text that is read with the image.
        second: The first token of the second of two texts; 0 for one text, or if unknown.
    """

    labels: tuple[str, ...]
    names: tuple[str, ...]
    special: NDArray[np.bool_]
    words: NDArray[np.int64] | None = None
    word_labels: tuple[str, ...] = ()
    continues: NDArray[np.bool_] | None = None
    grid: "Grid | None" = None
    tiles: "Grid | None" = None
    second: int = 0

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def special_words(self) -> NDArray[np.bool_]:
        """Which words are special tokens, (word,)."""
        assert self.words is not None
        return np.array(
            [bool(self.special[self.words == word].all()) for word in range(self.words.max() + 1)]
        )

    def with_image(self, image: NDArray[np.bool_], tiles: "Grid | None") -> "Side":
        """Label the tokens that stand for an image: by row and column, or else by their number."""
        places = np.flatnonzero(image)
        if tiles is None:
            named = [f"image {number}" for number in range(len(places))]
        else:
            named = [f"row {row}, column {column}" for row, column in np.ndindex(tiles.rows, tiles.columns)]
        labels, words = list(self.labels), self.words
        for place, name in zip(places, named, strict=True):
            labels[place] = name
        word_labels = self.word_labels
        if words is not None:
            names = np.where(image, len(self) + np.arange(len(self)), words)
            words = number_groups(names.tolist())
            first = [int(np.argmax(words == word)) for word in range(int(words.max()) + 1)]
            assert self.words is not None
            word_labels = tuple(
                labels[place] if image[place] else self.word_labels[self.words[place]] for place in first
            )
        continues = None if words is None else np.append(False, words[1:] == words[:-1])
        special = self.special & ~image
        return Side(tuple(labels), self.names, special, words, word_labels, continues, tiles=tiles)

    @classmethod
    def of_patches(cls, length: int, grid: "Grid | None", special: NDArray[np.bool_]) -> "Side":
        """Label the patches of an image by row and column, the stretches of sound by their number."""
        labels = tuple(map(str, range(length)))
        if grid is not None:
            before = [f"[token {place}]" for place in range(grid.first)]
            patches = [
                f"row {row}, column {column}" for row in range(grid.rows) for column in range(grid.columns)
            ]
            after = [f"[token {place}]" for place in range(grid.first + len(grid), length)]
            labels = (*before, *patches, *after)[:length]
        return cls(labels, labels, special, grid=grid)


@dataclass(frozen=True)
class Way:
    """One way in which words of a text are asked for those of another.

    Attributes:
        name: Who asks, and where.
        hits: (layer, head) sure links that a head finds; NaN for removed heads.
        sure: (layer, head) sure links.
        rates: (layer, head, rate) alignment error rate, precision and recall.
    """

    name: str
    hits: NDArray[np.float64]
    sure: NDArray[np.float64]
    rates: NDArray[np.float64]


@dataclass(frozen=True)
class Alignment:
    """The gold alignment of two texts: its links (tokens, tokens, sure), and what heads find of them."""

    links: tuple[tuple[Ends, Ends, bool], ...]
    ways: tuple[Way, ...]
    hits: NDArray[np.bool_]


@dataclass(frozen=True)
class Maps:
    """The attention of all layers of a kind.

    Attributes:
        kind: The kind.
        layers: The number of each layer, as tables have it.
        rows: Probabilities (layer, head, query, key); 0 for removed heads.
        queries: The tokens that attend.
        keys: The tokens they attend to.
        standing: (layer, head) which heads are there.
        rolled: (layer, query, key) attention rolled out up to each layer, if asked for.
        alignment: The gold alignment of two texts, if the map is between them.
    """

    kind: Kind
    layers: tuple[int, ...]
    rows: NDArray[np.float32]
    queries: Side
    keys: Side
    standing: NDArray[np.bool_]
    rolled: NDArray[np.float32] | None = None
    alignment: Alignment | None = None


@dataclass(frozen=True)
class SequenceAttention:
    """A sequence, and all its attention: names, texts, maps by kind, and the image (height, width, 3)."""

    model: str
    texts: tuple[str, ...]
    maps: tuple[Maps, ...]
    picture: NDArray[np.uint8] | None = None

    def of(self, kind: str | None) -> Maps:
        """Give the attention of a kind, or of the first; raises AttnprobeError if there is none."""
        found = next((one for one in self.maps if kind in (None, one.kind.value)), None)
        if found is None:
            has = " and ".join(one.kind.value for one in self.maps)
            raise AttnprobeError(f"{self.model} has no {kind} attention here; it has {has}.")
        return found


def group_tokens(
    rows: Rows, queries: NDArray[np.integer] | None = None, keys: NDArray[np.integer] | None = None
) -> Rows:
    """Give attention between groups of tokens, such as words.

    Attention to a group is the sum over its tokens, attention from a group the mean. ``queries`` and ``keys``
    number the group of each token from 0 without gaps; None leaves them alone.

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
    """Number groups from 0 without gaps, in the order in which they first occur.

    >>> number_groups([7, 7, 3, 7, 9])
    array([0, 0, 1, 0, 2])
    """
    known: dict[int, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)


def _members(groups: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Tell which tokens each group has, (group, token)."""
    return np.arange(int(groups.max()) + 1)[:, None] == groups
