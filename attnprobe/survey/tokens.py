"""What the tokens of one sequence are called, on each side of each kind of attention."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Grid, Layout
from attnprobe.attention.tokens import TokenFeatures
from attnprobe.corpus.batch import Batch
from attnprobe.corpus.links import find_words
from attnprobe.corpus.tokenizer import Tokenizer, find_special_ids
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.table.sequence import Side, number_groups

#: The characters that a token covers, and the text they are of; None for a token that covers none.
Covered = tuple[int, int, int] | None
#: How vocabularies mark a token that begins a word.
_BEGINS = ("▁", "Ġ")


def label_sides(
    checkpoint: Checkpoint, batch: Batch, kind: Kind, layout: Layout, texts: Sequence[str], target: str | None
) -> tuple[Side, Side]:
    """Label the queries and the keys of a kind of attention, in a batch of one sequence.

    A decoder beside an encoder reads a ``target``, or else the text itself.
    """
    decoder = None
    if batch.targets is not None and kind is not Kind.ENCODER:
        tokenizer: Any = checkpoint.target_tokenizer or checkpoint.tokenizer
        ids, read = batch.inputs["decoder_input_ids"][0].tolist(), texts if target is None else (target,)
        of = checkpoint.tokenizer if target is None else tokenizer
        covered = find_characters(of, ids, read, target=target is not None)
        decoder = label_text(tokenizer, ids, _find_special(batch.targets), read, covered)
        if kind is Kind.DECODER:
            return decoder, decoder
    if "input_ids" not in batch.inputs:
        encoder = Side.of_patches(layout.keys.length, layout.grid, _find_special(layout.keys))
        return decoder or encoder, encoder
    assert batch.tokens is not None
    ids, tokenizer = batch.ids[0].tolist(), checkpoint.tokenizer
    covered = find_characters(tokenizer, ids, texts)
    encoder = label_text(tokenizer, ids, _find_special(batch.tokens), texts, covered)
    if batch.tokens.mixed is not None:
        image = batch.tokens.mixed.image[0].numpy()
        encoder = encoder.with_image(image, _find_tiles(batch, image))
    return decoder or encoder, encoder


def _find_tiles(batch: Batch, image: NDArray[np.bool_]) -> Grid | None:
    """Find the rows and columns of an image's tokens; None if it is seen in several parts, or in no grid."""
    places = np.flatnonzero(image)
    number = len(places)
    if number != places[-1] - places[0] + 1:
        return None
    if "image_grid_thw" in batch.inputs:
        frames, high, wide = batch.inputs["image_grid_thw"].flatten()[:3].tolist()
        merged = isqrt(frames * high * wide // number)
        rows, columns = high // merged, wide // merged
    else:
        pixels = batch.inputs.get("pixel_values")
        if pixels is None or pixels.shape[:-3].numel() != 1:  # cut into tiles, each seen by itself
            return None
        rows = columns = isqrt(number)
    return Grid(int(places[0]), rows, columns) if rows * columns == number else None


def _find_special(features: TokenFeatures) -> NDArray[np.bool_]:
    return (features.first | features.separator)[0].cpu().numpy()


def find_characters(
    tokenizer: Any, ids: Sequence[int], texts: Sequence[str], *, target: bool = False
) -> list[Covered] | None:
    """Tell which characters each token covers; None where the tokenizer doesn't tell, or gives other tokens.

    ``ids`` may be cut, or have more around the text, such as an image, or the token that a decoder begins
    with. A ``target`` is tokenised as one.
    """
    if not getattr(tokenizer, "is_fast", False):
        return None
    given = {"text_target": texts[0]} if target else {}
    encoded = tokenizer(*(() if target else texts), **given, return_offsets_mapping=True, verbose=False)
    every: list[Covered] = [
        None if side is None or start == stop else (side, start, stop)
        for side, (start, stop) in zip(encoded.sequence_ids(0), encoded["offset_mapping"], strict=True)
    ]
    covered, matched = list[Covered]([None] * len(ids)), 0
    blocks = SequenceMatcher(None, list(encoded["input_ids"]), list(ids), autojunk=False)
    for start, place, size in blocks.get_matching_blocks():
        covered[place : place + size] = every[start : start + size]
        matched += size
    whole = sum(one is not None for one in covered) == sum(one is not None for one in every)
    return covered if whole or matched == len(ids) else None


def label_text(
    tokenizer: Tokenizer,
    ids: Sequence[int],
    special: NDArray[np.bool_],
    texts: Sequence[str],
    covered: Sequence[Covered] | None,
) -> Side:
    """Label the tokens ``ids`` of one text or two; words are known where characters ``covered`` are."""
    # Of an image behind the text, nobody knows the id.
    spelled = tokenizer.convert_ids_to_tokens(list(ids))
    names = tuple("image" if name is None else str(name) for name in spelled)
    added = np.isin(np.array(ids), list(find_special_ids(tokenizer)))
    if covered is None:
        decoded = (tokenizer.decode([token]).strip() for token in ids)
        labels = tuple(label or name for label, name in zip(decoded, names, strict=True))
        return Side(labels, names, special | added)
    special = special | (added & np.array([one is None for one in covered]))
    pieces = ["" if one is None else texts[one[0]][one[1] : one[2]] for one in covered]
    labels = tuple(piece.strip() or piece or name for piece, name in zip(pieces, names, strict=True))
    words, word_labels = _number_words(texts, covered, labels)
    # A mark alone has no character of its own.
    labels = tuple(" " if name in _BEGINS else label for name, label in zip(names, labels, strict=True))
    second = next((place for place, one in enumerate(covered) if one and one[0]), 0)
    return Side(labels, names, special, words, word_labels, second=second)


def _number_words(
    texts: Sequence[str], covered: Sequence[Covered], labels: tuple[str, ...]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Number the word of each token, and label the words; those that share a token are one."""
    spans = [(side, span.start, span.stop) for side, text in enumerate(texts) for span in find_words(text)]
    of_character = [np.full(len(text), -1) for text in texts]
    for word, (side, start, stop) in enumerate(spans):
        of_character[side][start:stop] = word
    touched = list[list[int]]()
    for place in covered:
        side, start, stop = place or (0, 0, 0)
        touched.append([word for word in of_character[side][start:stop].tolist() if word >= 0])
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
