"""When a head has a role: its interval lies beyond a threshold."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics.links.rules import ALL, Asking
from attnprobe.statistics.links.tables import FEWEST, Compared
from attnprobe.sums.resampling import CONFIDENCE, half_width
from attnprobe.sums.tally import CHOOSING, SCORING, Tally

#: From where on a head has a role; see ``deciding.roles_of``.
THRESHOLDS: dict[str, float] = {
    "positional": 0.9,
    "delimiter": 0.3,
    "preference": 0.9,
    "rare": 0.5,
    "syntactic": 0.1,
    "coreference": 0.1,
    "induction": 0.5,
    "duplicate": 0.5,
    "broad": 0.6,
    "block": 0.8,
}


Floats = NDArray[np.float64]
Columns = Mapping[str, Sequence[Any]]

_NEIGHBOURS = {-1: "previous", 0: "self", 1: "next"}


@dataclass(frozen=True)
class Role:
    """A role that a head has, and why.

    Attributes:
        name: "previous", "syntactic: det", ...
        measure: What was measured.
        value: What came out.
        error: Its standard error.
        threshold: What its interval lies beyond.
    """

    name: str
    measure: str
    value: float
    error: float
    threshold: float


@dataclass(frozen=True)
class Heads:
    """What was measured of all heads, one after the other, layer by layer.

    Attributes:
        columns: Measures and their errors, by name.
        number: How many heads there are.
    """

    columns: Columns
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

    def beyond(self, name: str, threshold: float) -> NDArray[np.bool_]:
        """Tell the heads whose whole interval lies at a threshold or above it."""
        value, error = self.of(name)
        return value - half_width(error) >= threshold


def roles_of(
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
    - syntactic, coreference: see ``found_by``.
    - induction, duplicate: the score on random tokens, repeated, is ``induction`` or ``duplicate``.
    - broad: rows are as broad as ``broad`` of the keys in sight.
    - block: of two texts, beyond uniform attention ``block`` is within the query's own.

    Args:
        heads: What was measured.
        thresholds: See ``THRESHOLDS``.
        found: The syntactic roles and those of coreference of each head.
        rare: Whether the text is large enough to say what is rare; without that, no head has that role.

    References:
        Voita et al. (2019), sections 5.1 to 5.3; Clark et al. (2019); Kovaleva et al. (2019);
        Olsson et al. (2022).
    """
    every: list[list[Role]] = [[] for _ in range(heads.number)]
    sharp = ~heads.beyond("effective_share", thresholds["broad"])
    for head, role in _positional(heads, thresholds["positional"], sharp):
        every[head].append(role)
    for head, role in _delimiters(heads, thresholds):
        every[head].append(role)
    if rare:
        for head, role in _rare(heads, thresholds["rare"], sharp):
            every[head].append(role)
    for head, roles in enumerate(found):
        every[head] += roles
    of_one_measure = {
        "induction": "induction",
        "duplicate": "duplicate",
        "broad": "effective_share",
        "block": "segment_excess",
    }
    for name, measure in of_one_measure.items():
        holds = heads.beyond(measure, thresholds[name])
        for head, role in _of_measure(heads, name, measure, thresholds[name], holds):
            every[head].append(role)
    return every


def lost_when_shuffled(heads: Heads, threshold: float) -> NDArray[np.bool_]:
    """Tell the heads that look at one offset in the text, and significantly less with its tokens shuffled."""
    then, error = heads.of("offset_share_shuffled")
    return heads.beyond("offset_share", threshold) & (then + half_width(error) < threshold)


def _positional(heads: Heads, threshold: float, sharp: NDArray[np.bool_]) -> Iterator[tuple[int, Role]]:
    share, error = heads.of("offset_share")
    holds = heads.beyond("offset_share", threshold) & ~lost_when_shuffled(heads, threshold)
    for head in map(int, np.flatnonzero(holds & sharp)):
        offset = int(heads.columns["offset"][head])
        name = _NEIGHBOURS.get(offset, f"offset {offset:+d}")
        yield head, Role(name, "offset_share", share[head], error[head], threshold)


def _delimiters(heads: Heads, thresholds: Mapping[str, float]) -> Iterator[tuple[int, Role]]:
    """Name the heads of special tokens, and those of punctuation that are none of them."""
    named = np.zeros(heads.number, bool)
    for kind in ("special", "punctuation"):
        measure, threshold = f"{kind}_excess", thresholds["delimiter"]
        holds = heads.beyond(measure, threshold)
        holds &= heads.beyond(f"{kind}_preference", thresholds["preference"])
        yield from _of_measure(heads, "delimiter", measure, threshold, holds & ~named)
        named |= holds


def _of_measure(
    heads: Heads, name: str, measure: str, threshold: float, holds: NDArray[np.bool_]
) -> Iterator[tuple[int, Role]]:
    """Give some heads a role, with one measure as its evidence."""
    value, error = heads.of(measure)
    for head in map(int, np.flatnonzero(holds)):
        yield head, Role(name, measure, value[head], error[head], threshold)


def _rare(heads: Heads, threshold: float, sharp: NDArray[np.bool_]) -> Iterator[tuple[int, Role]]:
    holds = heads.beyond("rarest_excess", threshold) & heads.beyond("rare_lift", 1.0) & sharp
    return _of_measure(heads, "rare words", "rarest_excess", threshold, holds)


def found_by(tally: Tally, asking: Asking, name: str, gain: float) -> list[list[Role]]:
    """Give the relations that each head knows: those of which it finds more than the best simple rule.

    On one half of the documents, heads are tried that are ahead of the best rule of that half by ``gain``. On
    the other half, the interval of the difference has to lie beyond ``gain`` (Student's t over documents).
    So that a few documents of uneven size don't decide it, the difference also has to be significant by
    ``Compared.chance``.
    Intervals hold for all that are tried together with 95 % (Bonferroni), and for as many as there are heads
    at least. Relations of fewer than 20 links in either half are not tried.

    Args:
        tally: What was counted.
        asking: What was asked.
        name: What a role is called, before the relation.
        gain: By how much a head has to be ahead.

    Returns:
        For each head, layer by layer, its roles, the one with the largest gain first.

    References:
        Voita et al. (2019), section 5.2.
    """
    from scipy.stats import t as student  # takes a second to import

    compared, layers, heads = Compared.of(tally), *tally.hits.shape[1:3]
    tried = []
    for place, (label, direction, *position) in enumerate(tally.keys):
        if label == ALL:
            continue
        for layer in range(layers):
            asked = tally.asked[place, layer]
            if asked.min() < FEWEST:
                continue
            by_rule = tally.guessed[place, layer, :, CHOOSING]
            rule = asking.best_rule(by_rule)
            best = by_rule[rule]
            ahead = (tally.hits[place, layer, :, CHOOSING] - best) / asked[CHOOSING]
            asked_as = [*([direction.replace("_", " ")] if asking.backward else []), *position]
            measure = ", ".join(["accuracy", *asked_as])
            tried += [(place, layer, head, rule, label, measure) for head in np.flatnonzero(ahead >= gain)]
    tail = (1 - CONFIDENCE) / 2 / max(len(tried), layers * heads)
    roles: list[list[tuple[float, Role]]] = [[] for _ in range(layers * heads)]
    for place, layer, head, rule, label, measure in tried:
        n = int(tally.asked[place, layer, SCORING])
        clusters = compared.clusters[place, layer].item()
        if clusters < 2:
            continue
        accuracy = tally.hits[place, layer, head, SCORING] / n
        baseline = tally.guessed[place, layer, rule, SCORING] / n
        where = (place, layer, int(head), rule)
        error = compared.gain_error(where, n)
        if compared.chance(where) > tail:
            continue
        if accuracy - baseline - float(student.isf(tail, clusters - 1)) * error >= gain:
            spread = float(compared.error[place, layer, head])
            role = Role(f"{name}: {label}", measure, accuracy, spread, baseline + gain)
            roles[layer * heads + int(head)].append((accuracy - baseline, role))
    return [_each_once(some) for some in roles]


def _each_once(roles: Sequence[tuple[float, Role]]) -> list[Role]:
    """Sort roles by their gains; of one from either end, or at either position, keep the largest gain.

    >>> gains = [("a", 0.1), ("b", 0.4), ("a", 0.5)]
    >>> found = [(gain, Role(name, "accuracy", gain, 0, 0)) for name, gain in gains]
    >>> [(role.name, role.value) for role in _each_once(found)]
    [('a', 0.5), ('b', 0.4)]
    """
    best: dict[str, Role] = {}
    for _, role in sorted(roles, key=lambda one: -one[0]):
        best.setdefault(role.name, role)
    return list(best.values())
