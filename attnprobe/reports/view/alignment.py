"""The gold alignment of two texts in a picture of their attention, and what heads find of it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.table.numbers import name_head
from attnprobe.table.sequence import Ends, Maps, Side

#: How marks are read, in a picture.
EXPLANATION = (
    "Gold links are heavy where the head finds them, thin where it misses them, dashed where they are only "
    "possible."
)
#: Line widths by whether a link is hit; of what is no head, nobody can say.
_WEIGHTS = {None: 1.0, True: 1.4, False: 0.5}


class Mark(NamedTuple):
    """A gold link among what is shown: the first row and the one behind the last, and so for columns."""

    rows: Ends
    columns: Ends
    sure: bool
    hit: bool | None = None  # None for what is no head

    @property
    def name(self) -> str:
        """The kind of link, for a legend and a screen reader.

        >>> Mark((0, 1), (2, 4), sure=True, hit=False).name
        'sure link, missed'
        """
        ending = {None: "", True: ", hit", False: ", missed"}[self.hit]
        return f"{'sure' if self.sure else 'possible'} link{ending}"

    @property
    def weight(self) -> float:
        """The relative width of its line, which tells hits from others without a colour."""
        return _WEIGHTS[self.hit]


def place_marks(
    maps: Maps,
    queries: NDArray[np.int64],
    keys: NDArray[np.int64],
    *,
    words: bool,
    head: tuple[int, int] | None = None,
) -> list[Mark]:
    """Place the gold links of a map among the tokens or words that are shown, which ``select_tokens`` chose.

    A link between words of several tokens is one mark over all of them. ``head`` is the place of a layer and
    the number of a head, of which marks say what it finds.
    """

    def find(side: Side, ends: Ends, places: NDArray[np.int64]) -> Ends | None:
        named = np.arange(len(side)) if side.words is None or not words else side.words
        there = np.flatnonzero(np.isin(places, named[slice(*ends)]))
        return (int(there[0]), int(there[-1]) + 1) if there.size else None

    marks: list[Mark] = []
    if maps.alignment is None:
        return marks
    for number, (asker, answer, sure) in enumerate(maps.alignment.links):
        rows, columns = find(maps.queries, asker, queries), find(maps.keys, answer, keys)
        if rows and columns:
            hit = None if head is None else bool(maps.alignment.hits[head][number])
            marks.append(Mark(rows, columns, sure, hit))
    return marks


def state_alignment(maps: Maps, layer: int, head: int, *, several: bool) -> str:
    """State how many sure links a head hits and its error rate, first in the way in which it hits more.

    Without a sure link, only the name of the head is left.
    """
    assert maps.alignment is not None
    kind = f"{maps.kind.value.capitalize()} " if several else ""
    name = f"{kind}{name_head(maps.layers[layer], head)}"
    ways = [way for way in maps.alignment.ways if way.sure[layer, head] > 0]
    ways.sort(key=lambda way: (-way.hits[layer, head], way.rates[layer, head, 0]))
    findings = []
    for way in ways:
        hits, sure, error = way.hits[layer, head], way.sure[layer, head], way.rates[layer, head, 0]
        links = f"{hits:.0f} of {sure:.0f} sure {'link' if sure == 1 else 'links'}"
        findings.append(f"{links} (AER {error:.2f}) {way.name}")
    return f"{name} finds {', '.join(findings)}" if findings else name


def explain_hits(maps: Maps) -> str:
    """Say when a link is hit, and of which position of a word the marks say so."""
    hit = (
        "A link is hit where it has the largest attention of its word within the other text, and else missed."
    )
    return f"{hit} Marks show hits where the decoder reads a word." if maps.kind is Kind.CROSS else hit


def pack_alignment(maps: Maps, *, several: bool) -> dict[str, Any] | None:
    """Pack the gold links of a kind of attention by their tokens, and what heads find, for a page."""
    if maps.alignment is None:
        return None
    findings = [[""] * maps.standing.shape[1] for _ in maps.layers]
    for layer, head in np.argwhere(maps.standing).tolist():
        findings[layer][head] = state_alignment(maps, layer, head, several=several)
    return {
        "links": [[*asker, *answer, int(sure)] for asker, answer, sure in maps.alignment.links],
        "hits": maps.alignment.hits.astype(int).tolist(),
        "findings": findings,
        "explanation": explain_hits(maps),
        "weights": {"null": _WEIGHTS[None], "true": _WEIGHTS[True], "false": _WEIGHTS[False]},
    }
