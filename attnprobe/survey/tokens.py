"""What a reader sees of a sequence: tokens, words and groups of them on each side, and all maps."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Grid
from attnprobe.corpus.sources.links import find_words
from attnprobe.corpus.tokenization import Tokenizer
from attnprobe.corpus.vocabulary import find_special_ids
from attnprobe.errors import AttnprobeError

#: The characters that a token covers, and the text they are of; None for a token that covers none.
Covered = tuple[int, int, int] | None
#: The first of some tokens, and the one behind their last.
Ends = tuple[int, int]
#: How vocabularies mark a token that begins a word.
_BEGINS = ("▁", "Ġ")
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
    grid: Grid | None = None
    tiles: Grid | None = None
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

    @classmethod
    def of_text(
        cls,
        tokenizer: Tokenizer,
        ids: Sequence[int],
        special: NDArray[np.bool_],
        texts: Sequence[str],
        covered: Sequence[Covered] | None,
    ) -> "Side":
        """Label the tokens ``ids`` of one text or two; ``covered`` are the characters of each, if known."""
        # Of an image behind the text, nobody knows the id.
        spelled = tokenizer.convert_ids_to_tokens(list(ids))
        names = tuple("image" if name is None else str(name) for name in spelled)
        added = np.isin(np.array(ids), list(find_special_ids(tokenizer)))
        if covered is not None:
            added &= np.array([one is None for one in covered])
        special = special | added
        if covered is None:
            labels = tuple(
                tokenizer.decode([token]).strip() or name for token, name in zip(ids, names, strict=True)
            )
            words = _find_marked_words(names, special)
            word_labels = () if words is None else _join_labels(labels, words)
        else:
            pieces = (_cut_piece(texts, one) for one in covered)
            labels = tuple(piece or name for piece, name in zip(pieces, names, strict=True))
            words, word_labels = _find_words(texts, covered, labels)
            blank = [name in _BEGINS for name in names]  # a mark alone has no character of its own
            labels = tuple(" " if mark else label for mark, label in zip(blank, labels, strict=True))
        continues = None if words is None else np.append(False, words[1:] == words[:-1])
        second = next((place for place, one in enumerate(covered or ()) if one and one[0]), 0)
        return cls(labels, names, special, words, word_labels, continues, second=second)

    def with_image(self, image: NDArray[np.bool_], tiles: Grid | None) -> "Side":
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
    def of_patches(cls, length: int, grid: Grid | None, special: NDArray[np.bool_]) -> "Side":
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


def match_characters(tokenizer: Any, ids: Sequence[int], text: str) -> list[Covered] | None:
    """Tell which characters of a text each token covers where more than the text was given with it."""
    if not getattr(tokenizer, "is_fast", False):
        return None
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    own, spans = list(encoded["input_ids"]), encoded["offset_mapping"]
    whole = list(ids)
    for start in range(len(whole) - 1, -1, -1):  # the text stands last; it may be cut
        if own and whole[start : start + len(own)] == own[: len(whole) - start]:
            found: list[Covered] = [None] * len(whole)
            for place, (first, stop) in zip(range(start, len(whole)), spans, strict=False):
                found[place] = None if first == stop else (0, first, stop)
            if len(own) <= len(whole) - start:
                return found
    return None


def find_characters(
    tokenizer: Any, ids: Sequence[int], texts: Sequence[str], **options: Any
) -> list[Covered] | None:
    """Ask which characters each token covers; None where the tokenizer doesn't tell, or gives other tokens.

    ``ids`` are what it gave for one text or two, perhaps cut.
    """
    if not getattr(tokenizer, "is_fast", False):
        return None
    encoded = tokenizer(*texts, return_offsets_mapping=True, verbose=False, **options)
    found = list(encoded["input_ids"])
    sides = encoded.sequence_ids(0)
    every: list[Covered] = [
        None if side is None or start == stop else (side, start, stop)
        for side, (start, stop) in zip(sides, encoded["offset_mapping"], strict=True)
    ]
    if found == list(ids):
        return every
    return _match_cut(found, every, ids) if len(texts) == 1 else None


def _match_cut(found: list[int], every: list[Covered], ids: Sequence[int]) -> list[Covered] | None:
    """Match tokens of a text that was cut: the first ones, between special tokens that were put around."""
    same = next(
        (i for i, (a, b) in enumerate(zip(found, ids, strict=False)) if a != b), min(len(found), len(ids))
    )
    rest = len(ids) - same
    if rest > len(found) - same or (rest and found[len(found) - rest :] != list(ids[same:])):
        return None
    return every[:same] + [None] * rest


def _cut_piece(texts: Sequence[str], covered: Covered) -> str:
    if covered is None:
        return ""
    side, start, stop = covered
    whole = texts[side][start:stop]
    return whole.strip() or whole


def _find_words(
    texts: Sequence[str], covered: Sequence[Covered], labels: tuple[str, ...]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Give each token the word that its characters lie in; words that share a token are one."""
    of_character = [np.full(len(text), -1) for text in texts]
    spans = list[tuple[int, int, int]]()
    for side, text in enumerate(texts):
        for span in find_words(text):
            of_character[side][span.start : span.stop] = len(spans)
            spans.append((side, span.start, span.stop))
    parent = list(range(len(spans)))

    def root(word: int) -> int:
        while parent[word] != word:
            word = parent[word]
        return word

    names = []
    for place, one in enumerate(covered):
        touched = [] if one is None else sorted({w for w in of_character[one[0]][one[1] : one[2]] if w >= 0})
        if not touched:
            names.append(len(spans) + place)
            continue
        for left, right in pairwise(touched):
            parent[root(right)] = root(left)
        names.append(touched[0])
    names = [root(name) if name < len(spans) else name for name in names]
    word_labels = dict[int, str]()
    for place, name in enumerate(names):
        if name not in word_labels:
            members = [span for word, span in enumerate(spans) if name < len(spans) and root(word) == name]
            word_labels[name] = (
                texts[members[0][0]][members[0][1] : members[-1][2]] if members else labels[place]
            )
    return number_groups(names), tuple(word_labels.values())


def _find_marked_words(names: Sequence[str], special: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    continued = [name.startswith("##") for name in names]
    if not any(continued) and any(name.startswith(_BEGINS) for name in names):
        continued = [not name.startswith(_BEGINS) for name in names]
    elif not any(continued):
        return None
    words, number = [], -1
    for place, on in enumerate(continued):
        number += not (on and place and not special[place] and not special[place - 1])
        words.append(number)
    return np.array(words, np.int64)


def _join_labels(labels: Sequence[str], words: NDArray[np.int64]) -> tuple[str, ...]:
    found = [""] * (int(words.max()) + 1)
    for label, word in zip(labels, words, strict=True):
        found[word] += label.removeprefix("##")
    return tuple(found)


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


def roll_out(rows: Rows, standing: NDArray[np.bool_] | None = None) -> Rows:
    """Roll attention (layer, head, token, token) out over layers: (layer, token, token).

    R_l = A_l R_(l-1), R_0 = A_0, where A_l = (M_l + I) / 2 and M_l is the mean over the heads of layer l,
    with its rows divided by their sums. It is no measure of a head.

    Source: Abnar and Zuidema (2020), Quantifying attention flow in transformers, section 3.
    """
    layers, heads, length, _ = rows.shape
    weight = np.ones((layers, heads)) if standing is None else standing.astype(np.float64)
    found = np.empty((layers, length, length), rows.dtype)
    before = np.eye(length)
    for layer in range(layers):
        number = weight[layer].sum()
        mean = np.einsum("hqk,h->qk", rows[layer].astype(np.float64), weight[layer]) / max(number, 1.0)
        mean = mean / mean.sum(1, keepdims=True) if number else np.eye(length)
        before = (mean + np.eye(length)) / 2 @ before
        found[layer] = before
    return found


def find_squares(rows: int, columns: int, most: int) -> tuple[NDArray[np.int64], int, int]:
    """Put patches into the smallest squares that leave at most so many of them.

    Returns:
        The number of the square of each patch, row by row; how many rows of squares; how many columns.

    >>> find_squares(2, 4, 2)
    (array([0, 0, 1, 1, 0, 0, 1, 1]), 1, 2)
    """
    side = 1
    while -(-rows // side) * -(-columns // side) > most:
        side += 1
    down, right = -(-rows // side), -(-columns // side)
    place = np.arange(rows)[:, None] // side * right + np.arange(columns) // side
    return place.ravel(), down, right


def find_stretches(length: int, most: int) -> NDArray[np.int64]:
    """Put consecutive tokens into the shortest stretches that leave at most so many of them."""
    return np.arange(length) // -(-length // most)


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
