"""What the tokens of one sequence are called, on each side of each kind of attention."""

from collections.abc import Sequence
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.features import TokenFeatures
from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Grid, Layout
from attnprobe.corpus.batch import Batch
from attnprobe.corpus.sources.links import find_words
from attnprobe.corpus.tokenization import Tokenizer
from attnprobe.corpus.vocabulary import find_special_ids
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.table.sequence import Side, number_groups

#: The characters that a token covers, and the text they are of; None for a token that covers none.
Covered = tuple[int, int, int] | None
#: How vocabularies mark a token that begins a word.
_BEGINS = ("▁", "Ġ")


class Labeller:
    """Labels the tokens of a batch of one sequence, on each side of each kind of attention."""

    def __init__(
        self, checkpoint: Checkpoint, batch: Batch, texts: tuple[str, ...], target: str | None
    ) -> None:
        self._checkpoint, self._batch, self._texts, self._target = checkpoint, batch, texts, target

    def label(self, kind: Kind, layout: Layout) -> tuple[Side, Side]:
        """Give the queries and the keys of a kind of attention."""
        decodes = self._batch.targets is not None
        if decodes and kind is Kind.DECODER:
            return self._decoder, self._decoder
        if "input_ids" in self._batch.inputs:
            encoder = self._encoder
        else:
            encoder = Side.of_patches(layout.keys.length, layout.grid, _find_special(layout.keys))
        return self._decoder if decodes and kind is Kind.CROSS else encoder, encoder

    @cached_property
    def _encoder(self) -> Side:
        assert self._batch.tokens is not None
        ids, special = self._batch.ids[0].tolist(), _find_special(self._batch.tokens)
        side = label_text(self._checkpoint.tokenizer, ids, special, self._texts, self._covered)
        mixed = self._batch.tokens.mixed
        if mixed is None:
            return side
        image = mixed.image[0].numpy()
        return side.with_image(image, _find_tiles(self._batch, image))

    @cached_property
    def _covered(self) -> list[Covered] | None:
        ids, tokenizer = self._batch.ids[0].tolist(), self._checkpoint.tokenizer
        assert self._batch.tokens is not None
        if self._batch.tokens.mixed is not None:
            return match_characters(tokenizer, ids, self._texts[0])
        covered = find_characters(tokenizer, ids, self._texts)
        if covered is None and len(self._texts) == 2:
            cut = {"truncation": "longest_first", "max_length": len(ids)}
            covered = find_characters(tokenizer, ids, self._texts, **cut)
        return covered

    @cached_property
    def _decoder(self) -> Side:
        ids = self._batch.inputs["decoder_input_ids"][0].tolist()
        tokenizer: Any = self._checkpoint.target_tokenizer or self._checkpoint.tokenizer
        assert self._batch.targets is not None
        special = _find_special(self._batch.targets)
        if self._target is None:
            before = None if self._covered is None else [None, *self._covered[: len(ids) - 1]]
            return label_text(tokenizer, ids, special, self._texts, before)
        covered = _find_target_characters(tokenizer, ids, self._target)
        return label_text(tokenizer, ids, special, (self._target,), covered)


def _find_tiles(batch: Batch, image: NDArray[np.bool_]) -> Grid | None:
    """Find rows and columns of the tokens of an image that is seen as one, row by row; or None."""
    places = np.flatnonzero(image)
    if len(places) != places[-1] - places[0] + 1:
        return None
    number = len(places)
    if "image_grid_thw" in batch.inputs:
        frames, high, wide = batch.inputs["image_grid_thw"].flatten()[:3].tolist()
        merged = isqrt(frames * high * wide // number)
        rows, columns = high // merged, wide // merged
    else:
        pixels = batch.inputs.get("pixel_values")
        if pixels is None or pixels.shape[1:-3].numel() != 1:  # cut into tiles, each seen by itself
            return None
        rows = columns = isqrt(number)
    return Grid(int(places[0]), rows, columns) if rows * columns == number else None


def _find_special(features: TokenFeatures) -> NDArray[np.bool_]:
    return (features.first | features.separator)[0].cpu().numpy()


def label_text(
    tokenizer: Tokenizer,
    ids: Sequence[int],
    special: NDArray[np.bool_],
    texts: Sequence[str],
    covered: Sequence[Covered] | None,
) -> Side:
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
    second = next((place for place, one in enumerate(covered or ()) if one and one[0]), 0)
    return Side(labels, names, special, words, word_labels, second=second)


def _tokenize(tokenizer: Any, *texts: str, **options: Any) -> tuple[list[int], list[Covered]] | None:
    """Give the tokens of texts and the characters of each; None where the tokenizer doesn't tell."""
    if not getattr(tokenizer, "is_fast", False):
        return None
    encoded = tokenizer(*texts, return_offsets_mapping=True, verbose=False, **options)
    covered: list[Covered] = [
        None if side is None or start == stop else (side, start, stop)
        for side, (start, stop) in zip(encoded.sequence_ids(0), encoded["offset_mapping"], strict=True)
    ]
    return list(encoded["input_ids"]), covered


def _find_target_characters(tokenizer: Any, ids: Sequence[int], target: str) -> list[Covered] | None:
    """Tell which characters of a target each token covers that a decoder reads, one place later."""
    if (encoded := _tokenize(tokenizer, text_target=target)) is None:
        return None
    whole, covered = encoded
    for left_out in (0, 1):  # a token that the decoder begins with anyway
        stop = left_out + len(ids) - 1
        if whole[left_out:stop] == list(ids[1:]):
            return [None, *covered[left_out:stop]]
    return None


def match_characters(tokenizer: Any, ids: Sequence[int], text: str) -> list[Covered] | None:
    """Tell which characters of a text each token covers where more than the text was given with it."""
    encoded = _tokenize(tokenizer, text, add_special_tokens=False)
    if encoded is None or not encoded[0]:
        return None
    (part, covered), whole = encoded, list(ids)
    for start in range(len(whole) - len(part), -1, -1):  # the text stands last
        if whole[start : start + len(part)] == part:
            return [None] * start + covered + [None] * (len(whole) - start - len(part))
    return None


def find_characters(
    tokenizer: Any, ids: Sequence[int], texts: Sequence[str], **options: Any
) -> list[Covered] | None:
    """Tell which characters each token covers; None where the tokenizer doesn't tell, or gives other tokens.

    ``ids`` are what it gave for one text or two, perhaps cut.
    """
    if (encoded := _tokenize(tokenizer, *texts, **options)) is None:
        return None
    given, covered = encoded
    if given == list(ids):
        return covered
    return _match_cut(given, covered, ids) if len(texts) == 1 else None


def _match_cut(given: list[int], every: list[Covered], ids: Sequence[int]) -> list[Covered] | None:
    """Match tokens of a text that was cut: the first ones, between special tokens that were put around."""
    same = next(
        (i for i, (a, b) in enumerate(zip(given, ids, strict=False)) if a != b), min(len(given), len(ids))
    )
    rest = len(ids) - same
    if rest > len(given) - same or (rest and given[len(given) - rest :] != list(ids[same:])):
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
    spans = [(side, span.start, span.stop) for side, text in enumerate(texts) for span in find_words(text)]
    of_character = [np.full(len(text), -1) for text in texts]
    for word, (side, start, stop) in enumerate(spans):
        of_character[side][start:stop] = word
    touched = [
        [] if one is None else [word for word in of_character[one[0]][one[1] : one[2]].tolist() if word >= 0]
        for one in covered
    ]
    joined = np.zeros(len(spans), bool)  # with the word before
    for words in filter(None, touched):
        joined[min(words) + 1 : max(words) + 1] = True
    number = np.cumsum(~joined)
    names = [int(number[words[0]]) if words else -1 - place for place, words in enumerate(touched)]
    word_labels = []
    for name in dict.fromkeys(names):
        if name < 0:
            word_labels.append(labels[-1 - name])
            continue
        members = np.flatnonzero(number == name)
        (side, start, _), (_, _, stop) = spans[members[0]], spans[members[-1]]
        word_labels.append(texts[side][start:stop])
    return number_groups(names), tuple(word_labels)


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
    joined = [""] * (int(words.max()) + 1)
    for label, word in zip(labels, words, strict=True):
        joined[word] += label.removeprefix("##")
    return tuple(joined)
