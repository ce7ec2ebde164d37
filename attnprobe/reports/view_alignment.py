"""The gold alignment of two texts in a picture of their attention, and what heads find of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprobe.reports.report_page.measures import is_number
from attnprobe.statistics.alignment import RATES

if TYPE_CHECKING:
    from attnprobe.survey.tokens import Ends, Maps, Side, Way

#: What the rates are called, as ``RATES`` names them.
_TITLES = {"aer": "alignment error rate", "precision": "precision", "recall": "recall"}
#: Of one sentence, nothing is sure: it has no error.
_SOURCE = "Gold alignment of this sentence"
HIT = "A link is hit where it has the largest attention of its word within the other text."
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

    @property
    def name(self) -> str:
        """What a screen reader says of it."""
        return "sure link" if self.sure else "possible link"


def place_marks(
    maps: "Maps", queries: NDArray[np.int64], keys: NDArray[np.int64], *, words: bool
) -> list[Mark]:
    """Place the gold links of a map among the tokens or words that are shown, which ``select_tokens`` chose.

    A link between words of several tokens is one mark over all of them.
    """
    found = []
    for asker, answer, sure in () if maps.alignment is None else maps.alignment.links:
        rows = _find_shown(maps.queries, asker, queries, words=words)
        columns = _find_shown(maps.keys, answer, keys, words=words)
        if rows and columns:
            found.append(Mark(rows, columns, sure))
    return found


def _find_shown(side: "Side", ends: "Ends", places: NDArray[np.int64], *, words: bool) -> "Ends | None":
    """Find where some tokens are shown; None where they are hidden."""
    named = np.arange(len(side)) if side.words is None or not words else side.words
    there = np.flatnonzero(np.isin(places, named[slice(*ends)]))
    return (int(there[0]), int(there[-1]) + 1) if there.size else None


def explain_marks(marks: Sequence[Mark], draw: str) -> str:
    """Say what the marks are, of those kinds that there are; empty where nothing is marked."""
    kinds = {mark.sure for mark in marks}
    if not kinds or draw not in ("lines", "map"):
        return ""
    solid, dashed = ("a solid square", "a dashed one") if draw == "map" else ("a wide band", "a dashed one")
    if kinds == {True}:
        return f"Gold alignment: {solid} is a sure link."
    if kinds == {False}:
        return f"Gold alignment: {dashed.replace('one', solid.split()[-1])} is a possible link."
    return f"Gold alignment: {solid} is a sure link, {dashed} a possible link."


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


def describe_alignment(maps: "Maps") -> list[list[int]]:
    """Describe the links of a kind of attention by their tokens, for ``draw.js``."""
    links = () if maps.alignment is None else maps.alignment.links
    return [[*asker, *answer, int(sure)] for asker, answer, sure in links]


def describe_rates(maps: "Maps") -> list[dict[str, Any]]:
    """Describe what every head finds of the gold alignment, as ``describe_notes`` does a table."""
    if maps.alignment is None:
        return []
    return [
        {
            "source": _SOURCE, "about": way.name, "roles": None, "alignment": True,
            "columns": [
                {"title": "sure links hit", "unit": "", **_by_head(maps, way.hits, way.sure)},
                *(
                    {"title": _TITLES[name], "unit": "", "rising": name == "aer", **_by_head(maps, rates)}
                    for (name, *_), rates in zip(RATES, np.moveaxis(way.rates, -1, 0), strict=True)
                ),
            ],
        }
        for way in maps.alignment.ways
    ]  # fmt: skip


def _by_head(maps: "Maps", values: NDArray[np.float64], of: NDArray[np.float64] | None = None) -> Any:
    """Give the texts and values of a column by layer and head; None for what is undefined."""
    found: dict[str, list[list[Any]]] = {"texts": [], "values": []}
    for layer, line in enumerate(values.tolist()):
        known = [
            one if is_number(one) and maps.standing[layer, head] else None for head, one in enumerate(line)
        ]
        found["values"].append([None if one is None else round(one, 6) for one in known])
        found["texts"].append([
            "" if one is None else f"{one:.3f}" if of is None else f"{one:.0f} of {of[layer, head]:.0f}"
            for head, one in enumerate(known)
        ])  # fmt: skip
    return found
