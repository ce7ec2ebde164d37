"""Maps of more tokens than a picture takes: patches in squares, frames in stretches."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.layout import Grid
from attnprobe.errors import AttnprobeError
from attnprobe.table.sequence import Maps, Side, group_tokens, number_groups

#: Most tokens on a side of a map.
TOKENS = 256


def pool_maps(maps: Maps, say: Callable[[str], None]) -> Maps:
    """Put patches of a large image into squares, and frames of long sound into stretches."""
    queries, keys = (_group_side(side) for side in (maps.queries, maps.keys))
    if queries is None and keys is None:
        return maps
    sides = {id(maps.queries): (maps.queries, queries), id(maps.keys): (maps.keys, keys)}
    for side, groups in sides.values():
        if groups is not None:
            what = "patches" if side.grid is not None or side.tiles is not None else "frames"
            say(
                f"{len(side):,} places of the {maps.kind} are more than a picture takes: neighbouring {what} "
                f"are shown together as {len(groups[1])}, with attention to them summed and attention from "
                "them averaged."
            )
    to, from_ = (None if grouped is None else grouped[0] for grouped in (keys, queries))
    return replace(
        maps,
        rows=group_tokens(maps.rows, from_, to),
        rolled=None if maps.rolled is None else group_tokens(maps.rolled, from_, to),
        queries=maps.queries if queries is None else queries[1],
        keys=maps.keys if keys is None else keys[1],
    )


def _group_side(side: Side) -> tuple[NDArray[np.int64], Side] | None:
    """Give the group of each token, and the side of these groups; None for one that is small enough."""
    if len(side) <= TOKENS:
        return None
    patches = side.grid or side.tiles
    if patches is None:
        groups = _find_stretches(len(side), TOKENS)
        ends = [np.flatnonzero(groups == group)[[0, -1]] for group in range(groups[-1] + 1)]
        labels = tuple(f"{first}\u2013{last}" for first, last in ends)
        return groups, Side(labels, labels, np.zeros(len(labels), bool))
    extra = len(side) - len(patches)
    if extra > TOKENS - 4:
        raise AttnprobeError(
            f"The text has {extra:,} tokens beside the image, and a picture takes {TOKENS}; give a shorter "
            "one."
        )
    place, down, right = _find_squares(patches.rows, patches.columns, TOKENS - extra)
    before, after = np.arange(patches.first), np.arange(extra - patches.first)
    # Squares are numbered row by row, and occur in that order.
    groups = number_groups(np.concatenate([-1 - before, place, down * right + after]).tolist())
    first = [int(np.argmax(groups == group)) for group in range(int(groups.max()) + 1)]
    special, pooled = side.special[first], Grid(patches.first, down, right)
    if side.grid is not None:
        return groups, Side.of_patches(len(first), pooled, special)
    labels, names = (tuple(texts[place] for place in first) for texts in (side.labels, side.names))
    image = np.array([patches.first <= place < patches.first + len(patches) for place in first])
    return groups, Side(labels, names, special).with_image(image, pooled)


def _find_squares(rows: int, columns: int, most: int) -> tuple[NDArray[np.int64], int, int]:
    """Put patches into the smallest squares that leave at most so many of them.

    Returns:
        The number of the square of each patch, row by row; how many rows of squares; how many columns.

    >>> _find_squares(2, 4, 2)
    (array([0, 0, 1, 1, 0, 0, 1, 1]), 1, 2)
    """
    side = 1
    while -(-rows // side) * -(-columns // side) > most:
        side += 1
    down, right = -(-rows // side), -(-columns // side)
    place = np.arange(rows)[:, None] // side * right + np.arange(columns) // side
    return place.ravel(), down, right


def _find_stretches(length: int, most: int) -> NDArray[np.int64]:
    """Put consecutive tokens into the shortest stretches that leave at most so many of them."""
    return np.arange(length) // -(-length // most)
