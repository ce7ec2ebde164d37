"""From a sequence to a vector graphic: which panels, with which labels."""

import numpy as np
from numpy.typing import NDArray

from attnprobe.reports.view.colours import LIGHT, Look
from attnprobe.reports.view.graphics import Block, Panel, all_heads, beside_image, heat_map, lines
from attnprobe.reports.view.images import data_url
from attnprobe.reports.view.labels import visible
from attnprobe.reports.view.packing import all_maps, looking, shown, small_maps
from attnprobe.reports.view.page import Start
from attnprobe.survey.viewing.groups import grouped
from attnprobe.survey.viewing.tokens import Maps, Seen

#: Cells of a small map on either side.
SMALL = 24


def figure(seen: Seen, start: Start, *, chosen: bool, look: Look = LIGHT, width: int | None = None) -> str:
    """Draw the head that was chosen, or all heads small.

    Args:
        seen: The sequence.
        start: Which head, and how.
        chosen: Whether one was chosen.
        look: Colours and sizes.
        width: About how many pixels wide; by default as wide as it needs to be.
    """
    if not chosen:
        return _all(seen, start, look, width)
    maps = seen.of(start.kind)
    place = f"layer {maps.layers[start.layer]}"
    if len(seen.maps) > 1:
        place = f"{maps.kind.value} {place}"
    rolled = start.head == maps.rows.shape[1]
    title = f"rollout up to {place}" if rolled else f"{place}, head {start.head}"
    title = f"{title[0].upper()}{title[1:]}"
    rows = all_maps(maps)[start.layer, start.head]
    if start.words:
        rows = grouped(rows, maps.queries.words, maps.keys.words)
    (queries, left), (keys, right) = (
        shown(side, words=start.words, special=start.special) for side in (maps.queries, maps.keys)
    )
    rows = rows[queries][:, keys]
    left = _marked(left, None if start.words else maps.queries.continues, queries)
    right = _marked(right, None if start.words else maps.keys.continues, keys)
    panel = Panel(title, rows, left, right)
    if start.draw == "patches":
        return _patches(seen, maps, title, start, look, width)
    return (lines if start.draw == "lines" else heat_map)(panel, look, width)


def _all(seen: Seen, start: Start, look: Look, width: int | None) -> str:
    blocks = []
    for maps in seen.maps:
        small = small_maps(maps, words=start.words, special=start.special, most=SMALL)
        standing = np.pad(
            maps.standing, ((0, 0), (0, small.shape[1] - maps.standing.shape[1])), constant_values=True
        )
        grid = [
            [rows if there else None for rows, there in zip(*row, strict=True)]
            for row in zip(small, standing, strict=True)
        ]
        heads = [str(head) for head in range(maps.rows.shape[1])]
        heads += [] if maps.rolled is None else ["rollout"]
        blocks.append(Block(maps.kind.value, [str(layer) for layer in maps.layers], heads, grid))
    images = any(maps.keys.grid is not None for maps in seen.maps)
    title = f"Attention of {visible(seen.model)}{', each head as a share of its most' if images else ''}"
    return all_heads(title, blocks, look, width)


def _marked(
    labels: tuple[str, ...], continues: NDArray[np.bool_] | None, places: NDArray[np.int64]
) -> tuple[str, ...]:
    """Make labels visible, with a dot before each piece that goes on with a word."""
    dots = [False] * len(labels) if continues is None else continues[places]
    return tuple(
        f"\u00b7{visible(label)}" if dot else visible(label) for label, dot in zip(labels, dots, strict=True)
    )


def _patches(seen: Seen, maps: Maps, title: str, start: Start, look: Look, width: int | None) -> str:
    query = looking(maps)
    rows = all_maps(maps)[start.layer, start.head]
    grid = maps.keys.grid
    assert grid is not None
    assert seen.picture is not None
    given = rows.mean(0) if query is None else rows[query]
    whose = "all tokens on average" if query is None else maps.queries.labels[query]
    patches = given[grid.first : grid.first + len(grid)].reshape(grid.rows, grid.columns)
    size = seen.picture.shape[:2]
    return beside_image(title, f"from {whose}", patches, data_url(seen.picture), size, look, width)
