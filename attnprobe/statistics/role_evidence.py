"""When a head has a role, since its interval lies beyond a threshold; the nearest role; the pattern."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics.parts_of_speech import PARTS, name_column
from attnprobe.sums.resampling import half_width

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
PART_OF_SPEECH = "part of speech"
#: What a head has that prefers nothing: of two tokens, half for either.
_NO_PREFERENCE = 0.5

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
    """A role that a head has, and why; or the one that a head without any is nearest to.

    Attributes:
        name: "previous", "syntactic: det", ...
        measure: What was measured.
        value: What came out.
        error: Its standard error.
        threshold: What its interval lies beyond.
        way: How much of the way to the threshold a head has come, from one that has nothing of the role.
    """

    name: str
    measure: str
    value: float
    error: float
    threshold: float
    way: float = 1.0


@dataclass(frozen=True)
class Heads:
    """Measures of all heads and their errors, by name: one head after the other, layer by layer."""

    columns: Mapping[str, Sequence[Any]]
    number: int

    def of(self, name: str) -> tuple[Floats, Floats]:
        """Give a measure and its standard error; NaN where it was not measured."""
        nothing = [np.nan] * self.number
        found = (self.columns.get(one, nothing) for one in (name, f"{name}_se"))
        value, error = (np.array([np.nan if cell is None else cell for cell in one], float) for one in found)
        return value, error

    @property
    def without_errors(self) -> "Heads":
        """The same with errors of 0, so that means alone decide."""
        sure = {name: [0.0] * self.number for name in self.columns if name.endswith("_se")}
        return Heads({**self.columns, **sure}, self.number)

    def beyond(self, name: str, threshold: float, among: int = 1) -> NDArray[np.bool_]:
        """Tell the heads whose whole interval lies at a threshold or above it.

        Intervals hold for all heads together, and for as many measures as there are to choose ``among``.
        """
        value, error = self.of(name)
        return value - half_width(np.tile(error, among))[: self.number] >= threshold


@dataclass(frozen=True)
class Condition:
    """That a measure of a head reaches a threshold; ``nothing`` is what a head has without the property."""

    measure: str
    threshold: float
    nothing: float = 0.0

    def way(self, heads: Heads) -> Floats:
        """Give how much of the way from nothing to the threshold the mean has come: 1 at the threshold."""
        return (heads.of(self.measure)[0] - self.nothing) / (self.threshold - self.nothing)


@dataclass(frozen=True)
class Criterion:
    """What a head needs for a role.

    Attributes:
        name: The role.
        conditions: All of them; the first is the evidence that a table gives.
        holds: The heads that have the role.
        possible: The heads that could have it, if their means were others; all by default.
    """

    name: str
    conditions: Sequence[Condition]
    holds: NDArray[np.bool_]
    possible: NDArray[np.bool_] | None = None

    def nearest(self, heads: Heads) -> list[Role | None]:
        """Give how near each head is, by the condition that it is furthest from; None where nobody knows."""
        ways = np.stack([one.way(heads) for one in self.conditions])
        ways[:, [] if self.possible is None else ~self.possible] = np.nan
        found: list[Role | None] = []
        for head, way in enumerate(ways.T):
            if np.isnan(way).any():
                found.append(None)
                continue
            last = self.conditions[int(way.argmin())]
            value, error = heads.of(last.measure)
            found.append(
                Role(self.name, last.measure, value[head], error[head], last.threshold, float(way.min()))
            )
        return found


def decide_roles(
    heads: Heads, thresholds: Mapping[str, float], found: Sequence[list[Role]], *, rare: bool = True
) -> list[list[Role]]:
    """Give the roles of each head, the one that names it first.

    A role holds if the interval of its evidence lies beyond the threshold. Intervals hold for all heads
    together with 95 % (Bonferroni). No threshold is on a mass, which depends on the length of a text: they
    are on what lies beyond uniform attention to the same keys.

    - previous, next, self, offset: for ``positional`` of the queries, the most attended token is at that one
      offset; with the tokens shuffled, it still is, as far as can be told; and the head is not broad, or the
      most attended token would be so by a hair.
    - delimiter: beyond uniform attention, ``delimiter`` is on special tokens, or on punctuation; and beside
      another token, one of that kind gets ``preference`` of the attention to the two.
    - rare words: beyond chance, for ``rare`` of the queries the most attended token is the rarest, and rare
      tokens get more than their share; and the head is not broad.
    - syntactic, coreference, links: see ``role_table.find_known_relations``.
    - induction, duplicate: the score on random tokens, repeated, is ``induction`` or ``duplicate``.
    - broad: rows are as broad as ``broad`` of the keys in sight.
    - block: of two texts, beyond uniform attention ``block`` is within the query's own.
    - aligns: from decoder to encoder, beyond chance, for ``aligns`` of the queries the most attended token is
      at the same relative place; and the head is not broad.
    - sink: of a text that begins with no special token, what ``delimiter`` is of special tokens, with
      ``sink`` of the attention on the first token.
    - part of speech: beyond uniform attention, ``part_of_speech`` is on words of that part of speech.
      Intervals hold for all parts of speech together; the largest comes first.

    Args:
        heads: What was measured.
        thresholds: See ``THRESHOLDS``.
        found: The roles by gold links of each head.
        rare: Whether the text is large enough to say what is rare; without that, no head has that role.

    References:
        Voita et al. (2019), sections 5.1 to 5.3; Clark et al. (2019); Kovaleva et al. (2019);
        Olsson et al. (2022); Xiao et al. (2024); Vig and Belinkov (2019).
    """
    every: list[list[Role]] = [[] for _ in range(heads.number)]

    def give(criteria: Iterator[Criterion]) -> None:
        for one in criteria:
            evidence = one.conditions[0]
            value, error = heads.of(evidence.measure)
            for head in map(int, np.flatnonzero(one.holds)):
                every[head].append(
                    Role(one.name, evidence.measure, value[head], error[head], evidence.threshold)
                )

    give(_list_by_keys(heads, thresholds, rare=rare))
    for head, roles in enumerate(found):
        every[head] += roles
    give(_list_others(heads, thresholds))
    for roles in every:  # which stand last
        roles.sort(key=lambda role: -role.value if role.name.startswith(PART_OF_SPEECH) else -np.inf)
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
        yield Criterion(name, [Condition("offset_share", threshold)], positional & here, stays & here)
    delimiters = np.zeros(heads.number, bool)
    for kind in ("special", "punctuation"):  # a head of special tokens is not named for punctuation again
        wanted = _prefer(kind, "delimiter", thresholds)
        holds = _hold(heads, wanted) & ~delimiters
        yield Criterion("delimiter", wanted, holds)
        delimiters |= holds
    if rare:
        wanted = [Condition("rarest_excess", thresholds["rare"]), Condition("rare_lift", 1.0)]
        yield Criterion("rare words", wanted, _hold(heads, wanted) & sharp, sharp)


def _list_others(heads: Heads, thresholds: Mapping[str, float]) -> Iterator[Criterion]:
    sharp = ~heads.beyond("effective_share", thresholds["broad"])
    for name, measure in _OF_ONE_MEASURE.items():
        wanted, possible = [Condition(measure, thresholds[name])], sharp if name == "aligns" else None
        holds = _hold(heads, wanted)
        yield Criterion(name, wanted, holds if possible is None else holds & possible, possible)
    wanted = _prefer("first_token", "sink", thresholds)
    yield Criterion("sink", wanted, _hold(heads, wanted))
    for part in PARTS:
        wanted = [Condition(name_column(part), thresholds["part_of_speech"])]
        holds = heads.beyond(wanted[0].measure, wanted[0].threshold, len(PARTS))
        yield Criterion(f"{PART_OF_SPEECH}: {part}", wanted, holds)


def _prefer(kind: str, name: str, thresholds: Mapping[str, float]) -> list[Condition]:
    return [
        Condition(f"{kind}_excess", thresholds[name]),
        Condition(f"{kind}_preference", thresholds["preference"], _NO_PREFERENCE),
    ]


def _hold(heads: Heads, conditions: Sequence[Condition]) -> NDArray[np.bool_]:
    return np.all([heads.beyond(one.measure, one.threshold) for one in conditions], 0)


def lost_when_shuffled(heads: Heads, threshold: float) -> NDArray[np.bool_]:
    """Tell the heads that look at one offset in the text, and significantly less with its tokens shuffled."""
    then, error = heads.of("offset_share_shuffled")
    return heads.beyond("offset_share", threshold) & (then + half_width(error) < threshold)


def find_nearest(
    heads: Heads,
    thresholds: Mapping[str, float],
    known: Sequence[Sequence[Role | None]] = (),
    *,
    rare: bool = True,
) -> list[Role | None]:
    """Give the role that each head is nearest to, and by what.

    The way to a threshold t of a value v is (v - v0) / (t - v0), where v0 is what a head without the property
    has: 0 of what lies beyond uniform attention or chance, of a share of queries and of the breadth of rows,
    1/2 of a preference among two, what the rule finds of links. It is 1 where the mean has reached the
    threshold, and the interval may not have. Of a role with several conditions, the one counts that the head
    is furthest from.

    Args:
        heads: What was measured.
        thresholds: See ``THRESHOLDS``.
        known: For each kind of gold links, the relation that each head is nearest to.
        rare: Whether the text is large enough to say what is rare.

    Returns:
        For each head the role with the longest way behind it, the first of equals; None where none has any.
    """
    criteria = [*_list_by_keys(heads, thresholds, rare=rare), *_list_others(heads, thresholds)]
    every = [*(one.nearest(heads) for one in criteria), *known]
    found: list[Role | None] = []
    for several in zip(*every, strict=True):
        some = [role for role in several if role is not None and role.way > 0]
        found.append(max(some, key=lambda role: role.way, default=None))
    return found


def name_patterns(heads: Heads, thresholds: Mapping[str, float]) -> list[str | None]:
    """Name the pattern of each head's maps, by where most of its attention lies beyond uniform attention.

    With V what lies on special tokens and on the first token, D what lies on the token itself and on its
    neighbours, E what lies on either, B what stays within one of two texts, all beyond uniform attention, and
    p the threshold ``pattern``, the first of these holds, by the whole interval:

    - vertical: V of ``pattern`` or more.
    - diagonal: D of ``pattern`` or more.
    - vertical+diagonal: E of ``pattern`` or more, and V and D above 0.
    - block: B of ``block`` or more.
    - heterogeneous: none of these.

    Returns:
        The names; None where nothing was measured, or on one document alone.

    References:
        Kovaleva et al. (2019), section 4.1, who tell the five apart by eye, and by a network that learnt it
        from 400 maps.
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
