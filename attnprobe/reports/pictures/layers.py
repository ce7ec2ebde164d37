"""Layers as colours: from the first, dark, to the last, bright."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from attnprobe.reports.pictures.theme import SEQUENTIAL, Theme
from attnprobe.table.table import Cell

#: More labels than this are a bar of colours instead of a list.
_MOST = 16


def layer_colour(labels: Sequence[Cell], theme: Theme, *, legend: bool = True, field: str = "layer") -> Any:
    """Give the channel that colours by layer, or by another number that counts up.

    The ends of viridis that come too near the background are left out: its yellow on white, its purple on
    black.
    """
    numeric = all(isinstance(label, int) for label in labels)
    colours = list(SEQUENTIAL[1:] if theme.name == "dark" else SEQUENTIAL[:-1])
    entry: Any = alt.Legend(title=field.replace("_", " "), symbolOpacity=1) if legend else None
    if numeric and len(labels) > _MOST:
        if legend:
            entry = alt.Legend(title=field.replace("_", " "), format="~s", gradientLength=140)
        ends = [min(labels), max(labels)]  # type: ignore[type-var]
        return alt.Color(
            f"{field}:Q", scale=alt.Scale(domain=ends, range=colours, interpolate="rgb"), legend=entry
        )
    return alt.Color(
        f"{field}:O", scale=alt.Scale(domain=list(labels), range=spread(colours, len(labels))), legend=entry
    )


def spread(colours: Sequence[str], number: int) -> list[str]:
    """Take so many colours, evenly from a list, between its own where there are more.

    >>> spread(["#000000", "#ffffff"], 3)
    ['#000000', '#808080', '#ffffff']
    """
    found = []
    for place in range(number):
        at = place / max(number - 1, 1) * (len(colours) - 1)
        low = min(int(at), len(colours) - 2)
        one, other = (bytes.fromhex(colour[1:]) for colour in colours[low : low + 2])
        mixed = (round(a + (b - a) * (at - low)) for a, b in zip(one, other, strict=True))
        found.append("#" + "".join(f"{part:02x}" for part in mixed))
    return found
