"""The gold alignment of two texts in a picture of their attention, and what heads find of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.alignment import RATES
from attnprobe.table.numbers import is_number, name_head

if TYPE_CHECKING:
    from attnprobe.table.sequence import Ends, Maps, Side, Way

#: What the rates are called, as ``RATES`` names them.
_TITLES = {"aer": "alignment error rate", "precision": "precision", "recall": "recall"}
#: Of one sentence, nothing is sure: it has no error.
_SOURCE = "Gold alignment of this sentence"
_HIT = "A link is hit where it has the largest attention of its word within the other text, and else missed."
_ACROSS = "Marks show hits where the decoder reads a word."
#: How heavy the line of a mark is that is hit or missed; that of a mark of which nobody can say it is 1.
_HEAVY, _THIN = 1.4, 0.5
EXPLANATION = (
    "Of a gold alignment, each word chooses the one word of the other text that it attends to most; these "
    "links A, sure ones S and possible ones P, which hold S, give the alignment error rate 1 - (|A & S| + "
    "|A & P|) / (|A| + |S|) (Och and Ney 2003). Where no head is named, the one that is shown first has the "
    "fewest errors in this sentence, which chose it; links with --metric aer scores heads on texts that did "
    "not choose them."
)


class Mark(NamedTuple):
    """A gold link among what is shown: the first row and the one behind the last, and so for columns."""

    rows: "Ends"
    columns: "Ends"
    sure: bool
    hit: bool | None = None  # None for what is no head

    @property
    def name(self) -> str:
        """What a legend and a screen reader say of it.

        >>> Mark((0, 1), (2, 4), sure=True, hit=False).name
        'sure link, missed'
        """
        said = "" if self.hit is None else ", hit" if self.hit else ", missed"
        return f"{'sure' if self.sure else 'possible'} link{said}"

    @property
    def weight(self) -> float:
        """How heavy its line is, which tells hits from others without a colour."""
        return 1.0 if self.hit is None else _HEAVY if self.hit else _THIN


def list_kinds(marks: Sequence[Mark]) -> list[Mark]:
    """List the kinds of marks that there are, as marks of one cell, for a legend."""
    kinds = {(mark.sure, mark.hit) for mark in marks}
    kept = sorted(kinds, key=lambda kind: (not kind[0], not kind[1]))
    return [Mark((0, 1), (0, 1), sure, hit) for sure, hit in kept]


def place_marks(
    maps: "Maps", queries: NDArray[np.int64], keys: NDArray[np.int64], *, words: bool,
    head: tuple[int, int] | None = None,
) -> list[Mark]:  # fmt: skip
    """Place the gold links of a map among the tokens or words that are shown, which ``select_tokens`` chose.

    A link between words of several tokens is one mark over all of them. Marks say what a head finds, which
    is named by the place of its layer and its number.
    """
    found = []
    for number, (asker, answer, sure) in enumerate(() if maps.alignment is None else maps.alignment.links):
        rows = _find_shown(maps.queries, asker, queries, words=words)
        columns = _find_shown(maps.keys, answer, keys, words=words)
        if rows and columns:
            hit = None if head is None or maps.alignment is None else bool(maps.alignment.hits[head][number])
            found.append(Mark(rows, columns, sure, hit))
    return found


def _find_shown(side: "Side", ends: "Ends", places: NDArray[np.int64], *, words: bool) -> "Ends | None":
    named = np.arange(len(side)) if side.words is None or not words else side.words
    there = np.flatnonzero(np.isin(places, named[slice(*ends)]))
    return (int(there[0]), int(there[-1]) + 1) if there.size else None


def find_second_text(side: "Side", places: NDArray[np.int64], *, words: bool) -> int:
    """Find the first token or word of the second text among those shown; 0 where one text is shown alone."""
    first = side.second if not words or side.words is None else int(side.words[side.second])
    before = int(np.searchsorted(places, first))
    return before if before < len(places) else 0


def state_finding(maps: "Maps", layer: int, head: int, *, several: bool) -> str:
    """State what a head finds of the gold alignment, first in the way in which it finds more.

    Without a sure link, only the name of the head is left.
    """
    assert maps.alignment is not None
    place = maps.layers[layer], head
    asked = [way for way in maps.alignment.ways if way.sure[layer, head] > 0]
    if not asked:
        return f"{f'{maps.kind.value} layer'.capitalize() if several else 'Layer'} {place[0]}, head {head}"
    best = max(asked, key=lambda way: (way.hits[layer, head], -way.rates[layer, head, 0]))
    name = f"{f'{maps.kind.value.capitalize()} ' if several else ''}{name_head(*place)}"
    ways = [best, *(way for way in asked if way is not best)]
    counted = [f"{_count_hits(way.hits[layer, head], way.sure[layer, head])} {way.name}" for way in ways]
    return f"{name} finds {', '.join(counted)}"


def explain_hits(maps: "Maps") -> str:
    """Say when a link is hit, and of which position of a word the marks say so."""
    return f"{_HIT} {_ACROSS}" if maps.kind is Kind.CROSS else _HIT


def tell_rates(way: "Way", layer: int, head: int) -> str:
    """Say in a sentence what a head finds of the gold alignment."""
    hits, sure = way.hits[layer, head], way.sure[layer, head]
    rates = ", ".join(
        f"{'alignment error rate (AER)' if name == 'aer' else name} {value:.2f}"
        for (name, *_), value in zip(RATES, way.rates[layer, head].tolist(), strict=True)
        if is_number(value)
    )
    return f"{way.name[0].upper()}{way.name[1:]}: {_count_hits(hits, sure)} hit; {rates}."


def _count_hits(hits: float, sure: float) -> str:
    return f"{hits:.0f} of {sure:.0f} sure {'link' if sure == 1 else 'links'}"


def describe_alignment(maps: "Maps", *, several: bool = False) -> dict[str, Any] | None:
    """Describe the gold links of a kind of attention by their tokens, and what heads find, for a page."""
    if maps.alignment is None:
        return None
    layers, heads = maps.standing.shape
    return {
        "links": [[*asker, *answer, int(sure)] for asker, answer, sure in maps.alignment.links],
        "hits": [["".join(map(str, one)) for one in layer] for layer in maps.alignment.hits.astype(int)],
        "findings": [
            [
                state_finding(maps, layer, head, several=several) if maps.standing[layer, head] else ""
                for head in range(heads)
            ]
            for layer in range(layers)
        ],
        "said": explain_hits(maps),
        "weights": {
            said: Mark((0, 1), (0, 1), True, hit).weight
            for said, hit in (("null", None), ("true", True), ("false", False))
        },
    }


def describe_rates(maps: "Maps") -> list[dict[str, Any]]:
    """Describe what every head finds of the gold alignment, as ``describe_notes`` does a table."""
    if maps.alignment is None:
        return []
    return [
        {
            "source": _SOURCE, "about": way.name, "roles": None,
            "columns": [
                {"title": "sure links hit", "unit": "", "texts": _by_head(maps, way.hits, way.sure)},
                *(
                    {"title": _TITLES[name], "unit": "", "texts": _by_head(maps, rates)}
                    for (name, *_), rates in zip(RATES, np.moveaxis(way.rates, -1, 0), strict=True)
                ),
            ],
        }
        for way in maps.alignment.ways
    ]  # fmt: skip


def _by_head(
    maps: "Maps", values: NDArray[np.float64], of: NDArray[np.float64] | None = None
) -> list[list[str]]:
    """Write a column by layer and head; nothing for what is undefined."""
    found = []
    for layer, line in enumerate(values.tolist()):
        known = [
            one if is_number(one) and maps.standing[layer, head] else None for head, one in enumerate(line)
        ]
        found.append([
            "" if one is None else f"{one:.3f}" if of is None else f"{one:.0f} of {of[layer, head]:.0f}"
            for head, one in enumerate(known)
        ])  # fmt: skip
    return found
