"""When a head has a role: its interval lies beyond a threshold; and the pattern of its maps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.inference import half_width

Floats = NDArray[np.float64]

_NEIGHBOURS = {-1: "previous", 0: "self", 1: "next"}
#: Roles that one measure alone decides, and the measure; the name is that of the threshold too.
_OF_ONE_MEASURE = {
    "induction": "induction",
    "duplicate": "duplicate",
    "broad": "effective_share",
    "block": "segment_excess",
    "aligns": "aligned_excess",
}

#: Patterns of maps, in the order in which they are asked for, and the measure of each.
PATTERNS = {
    "vertical": "vertical_excess",
    "diagonal": "diagonal_excess",
    "vertical+diagonal": "vertical_diagonal_excess",
    "block": "segment_excess",
}
HETEROGENEOUS = "heterogeneous"


@dataclass(frozen=True)
class Role:
    """A role that a head has, such as "syntactic: det", and the measure that lies beyond the threshold."""

    name: str
    measure: str
    value: float
    error: float
    threshold: float


@dataclass(frozen=True)
class Heads:
    """Measures of all heads and their errors, by name: one head after the other, layer by layer.

    ``documents`` says of how many documents each measure is.
    """

    columns: Mapping[str, Sequence[Any]]
    number: int
    documents: Mapping[str, float]

    def of(self, name: str) -> tuple[Floats, Floats]:
        """Give a measure and its standard error; NaN where it was not measured."""
        nothing = [np.nan] * self.number
        found = (self.columns.get(one, nothing) for one in (name, f"{name}_se"))
        value, error = (np.array([np.nan if cell is None else cell for cell in one], float) for one in found)
        return value, error

    def half_width(self, name: str) -> Floats:
        """Give half the width of the interval of each head, all of which hold together with 95 %."""
        return half_width(self.of(name)[1], self.documents.get(name, 0))

    def beyond(self, name: str, threshold: float) -> NDArray[np.bool_]:
        """Tell the heads whose whole interval lies at a threshold or above it."""
        return self.of(name)[0] - self.half_width(name) >= threshold


class Condition(NamedTuple):
    """That a measure of a head reaches a threshold."""

    measure: str
    threshold: float


class Criterion(NamedTuple):
    """A role, its evidence, and the heads that have it."""

    name: str
    evidence: Condition
    holds: NDArray[np.bool_]


def decide_roles(
    heads: Heads, thresholds: Mapping[str, float], found: Sequence[list[Role]], *, rare: bool = True
) -> list[list[Role]]:
    """Give the roles of each head, the one that names it first.

    A role holds if the interval of its evidence lies beyond the threshold. Intervals hold for all heads
    together with 95 % (Student's t over documents, Bonferroni). Thresholds are on what lies beyond uniform
    attention to the same keys, since a mass depends on the length of a text.

    - previous, next, self, offset: for ``positional`` of the queries, the most attended token is at that one
      offset, and still is with the tokens shuffled; and the head is not broad.
    - delimiter: ``delimiter`` is on special tokens, or on punctuation; and of the attention to one such token
      and one other, ``preference`` goes to the first.
    - rare words: for ``rare`` of the queries beyond chance, the most attended token is the rarest, rare
      tokens get more than their share, and the head is not broad.
    - syntactic, coreference, links: see ``role_table.find_known_relations``.
    - induction, duplicate: the score on random tokens, repeated, is ``induction`` or ``duplicate``.
    - broad: rows are as broad as ``broad`` of the keys in sight.
    - block: of two texts, ``block`` is within the query's own.
    - aligns: from decoder to encoder, for ``aligns`` of the queries beyond chance, the most attended token is
      at the same relative place; and the head is not broad.
    - sink: of a text that begins with no special token, what ``delimiter`` is of special tokens, with
      ``sink`` of the attention on the first token.

    Args:
        heads: What was measured.
        thresholds: See ``THRESHOLDS``.
        found: The roles by gold links of each head.
        rare: Whether the text is large enough to say what is rare.

    References:
        Voita et al. (2019), sections 5.1 to 5.3; Clark et al. (2019); Kovaleva et al. (2019);
        Olsson et al. (2022); Xiao et al. (2024).
    """
    every: list[list[Role]] = [[] for _ in range(heads.number)]

    def give(criteria: Iterator[Criterion]) -> None:
        for name, (measure, threshold), holds in criteria:
            value, error = heads.of(measure)
            for head in map(int, np.flatnonzero(holds)):
                every[head].append(Role(name, measure, value[head], error[head], threshold))

    give(_list_by_keys(heads, thresholds, rare=rare))
    for head, roles in enumerate(found):
        every[head] += roles
    give(_list_others(heads, thresholds))
    return every


def _list_by_keys(heads: Heads, thresholds: Mapping[str, float], *, rare: bool) -> Iterator[Criterion]:
    """List the roles that are known by the places or the kinds of the keys, and come before gold links."""
    sharp = ~heads.beyond("effective_share", thresholds["broad"])
    threshold = thresholds["positional"]
    stays = ~lost_when_shuffled(heads, threshold) & sharp
    positional = heads.beyond("offset_share", threshold) & stays
    offsets, _ = heads.of("offset")
    for offset in map(int, np.unique(offsets[~np.isnan(offsets)])):
        name, here = _NEIGHBOURS.get(offset, f"offset {offset:+d}"), offsets == offset
        yield Criterion(name, Condition("offset_share", threshold), positional & here)
    delimiters = np.zeros(heads.number, bool)
    for kind in ("special", "punctuation"):  # a head of special tokens is not named for punctuation again
        wanted = _prefer(kind, "delimiter", thresholds)
        holds = _hold(heads, wanted) & ~delimiters
        yield Criterion("delimiter", wanted[0], holds)
        delimiters |= holds
    if rare:
        wanted = [Condition("rarest_excess", thresholds["rare"]), Condition("rare_lift", 1.0)]
        yield Criterion("rare words", wanted[0], _hold(heads, wanted) & sharp)


def _list_others(heads: Heads, thresholds: Mapping[str, float]) -> Iterator[Criterion]:
    sharp = ~heads.beyond("effective_share", thresholds["broad"])
    for name, measure in _OF_ONE_MEASURE.items():
        holds = heads.beyond(measure, thresholds[name])
        if name == "aligns":
            holds &= sharp
        yield Criterion(name, Condition(measure, thresholds[name]), holds)
    wanted = _prefer("first_token", "sink", thresholds)
    yield Criterion("sink", wanted[0], _hold(heads, wanted))


def _prefer(kind: str, name: str, thresholds: Mapping[str, float]) -> list[Condition]:
    return [
        Condition(f"{kind}_excess", thresholds[name]),
        Condition(f"{kind}_preference", thresholds["preference"]),
    ]


def _hold(heads: Heads, conditions: Sequence[Condition]) -> NDArray[np.bool_]:
    return np.all([heads.beyond(one.measure, one.threshold) for one in conditions], 0)


def lost_when_shuffled(heads: Heads, threshold: float) -> NDArray[np.bool_]:
    """Tell the heads that look at one offset in the text, and significantly less with its tokens shuffled."""
    then = heads.of("offset_share_shuffled")[0] + heads.half_width("offset_share_shuffled")
    return heads.beyond("offset_share", threshold) & (then < threshold)


def name_patterns(heads: Heads, thresholds: Mapping[str, float]) -> list[str | None]:
    """Name the pattern of each head's maps; None where nothing was measured, or on one document alone.

    With V what lies on special tokens and on the first token, D what lies on the token itself and on its
    neighbours, E what lies on either, B what stays within one of two texts, all beyond uniform attention, the
    first of these holds, by the whole interval:

    - vertical: V of ``pattern`` or more.
    - diagonal: D of ``pattern`` or more.
    - vertical+diagonal: E of ``pattern`` or more, and V and D above 0.
    - block: B of ``block`` or more.
    - heterogeneous: none of these.

    References:
        Kovaleva et al. (2019), section 4.1.
    """
    holds = {
        name: heads.beyond(measure, thresholds["block" if name == "block" else "pattern"])
        for name, measure in PATTERNS.items()
    }
    both = [heads.beyond(PATTERNS[name], np.nextafter(0, 1)) for name in ("vertical", "diagonal")]
    holds["vertical+diagonal"] &= np.all(both, 0)
    known = np.any([~np.isnan(heads.of(measure)).any(0) for measure in PATTERNS.values()], 0)
    return [
        next((name for name, those in holds.items() if those[head]), HETEROGENEOUS) if known[head] else None
        for head in range(heads.number)
    ]
