"""Maps as the page holds them: whole ones in four decimals, small ones for the overview."""

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.survey.viewing.groups import grouped
from attnprobe.survey.viewing.tokens import Maps, Side

Rows = NDArray[np.floating[Any]]

#: Probabilities are kept as so many parts of 1: in four decimals.
SCALE = 10_000
#: Most cells of a small map on either side.
SMALL = 32
#: Quick to pack; better packing takes ten times as long for a tenth of the size.
_LEVEL = 6


def packed_layer(rows: Rows) -> str:
    """Pack the maps of a layer (head, query, key): high bytes first, then low ones, which don't compress."""
    parts = np.rint(np.clip(rows, 0, 1) * SCALE).astype(np.uint16)
    return _packed(np.stack([parts >> 8, parts & 255]).astype(np.uint8))


def packed_small(rows: Rows) -> str:
    """Pack small maps, the square root of each probability in a byte."""
    return _packed(np.rint(np.sqrt(np.clip(rows, 0, 1)) * 255).astype(np.uint8))


def all_maps(maps: Maps) -> NDArray[np.float32]:
    """Give the maps of all heads (layer, head, query, key), behind which the rollout goes as one more."""
    return maps.rows if maps.rolled is None else np.concatenate([maps.rows, maps.rolled[:, None]], 1)


def small_maps(
    maps: Maps, *, words: bool = False, special: bool = True, most: int = SMALL
) -> NDArray[np.float32]:
    """Give small maps (layer, head, row, column) of what is shown.

    A cell is the most that any of its tokens gives to any other. Of an image, a small map is the image: where
    its first token that is no patch looks, or all tokens on average, as a share of the most.
    """
    rows = all_maps(maps)
    grid = maps.keys.grid
    if grid is not None:
        query = looking(maps)
        given = rows.mean(2) if query is None else rows[:, :, query]
        patches = given[..., grid.first : grid.first + len(grid)]
        patches = patches / np.maximum(patches.max(-1, keepdims=True), 1e-9)
        return _pooled(patches.reshape(*patches.shape[:2], grid.rows, grid.columns), most)
    if words:
        rows = grouped(rows, maps.queries.words, maps.keys.words)
    if not special:
        (queries, _), (keys, _) = (
            shown(side, words=words, special=False) for side in (maps.queries, maps.keys)
        )
        rows = rows[:, :, queries][..., keys]
    return _pooled(rows, most)


def looking(maps: Maps) -> int | None:
    """Give the first token of an image that is no patch; None for all of them on average, where none is."""
    if maps.queries.grid is None or not maps.queries.special.any():
        return None
    return int(maps.queries.special.argmax())


def shown(side: Side, *, words: bool, special: bool) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Tell which tokens or words of a side are shown, and their labels."""
    labels = side.word_labels if words else side.labels
    hidden = side.special_words if words else side.special
    places = np.flatnonzero(np.ones(len(labels), bool) if special else ~hidden)
    return places, tuple(labels[place] for place in places)


def _pooled(rows: Rows, most: int) -> NDArray[np.float32]:
    for axis in (2, 3):
        length = rows.shape[axis]
        if length > most:
            starts = np.arange(most) * length // most
            rows = np.maximum.reduceat(rows, starts, axis)
    return rows.astype(np.float32)


def _packed(content: NDArray[np.uint8]) -> str:
    return base64.b64encode(zlib.compress(content.tobytes(), _LEVEL)).decode("ascii")
