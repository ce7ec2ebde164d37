"""What a role is: its mark, threshold and criteria; and lists of names."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from typing import NamedTuple

from attnprobe.table.cells import clean


def join_names(names: Sequence[str], most: int = 8) -> str:
    """Join names to a list; of more than ``most``, the first ones, and the number of the others.

    >>> join_names(["a"]), join_names(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    named = list(names[:most])
    if more := len(names) - len(named):
        named.append(f"{more} more")
    *first, last = named
    return f"{', '.join(first)} and {last}" if first else last


def name_nearest(name: str, known: Iterable[str]) -> str:
    """Name the known word whose spelling is nearest, for the end of an error; empty if none is near.

    >>> name_nearest("entropi", ["entropy", "next"])
    '; the nearest is entropy'
    """
    near = get_close_matches(name, list(known), 1)
    return f"; the nearest is {clean(near[0])}" if near else ""


#: The role of a head that has none.
MIXED = "mixed"


class RoleMark(NamedTuple):
    """The letter and the colour of a role in pictures, and what heads that have it look at, for ``--help``.

    No colour is the background's.
    """

    letter: str
    colour: str | None
    about: str


_ONE_OFFSET = "one offset, also with shuffled tokens"
#: Roles in the order of legends. Similar roles have similar hues; each has a letter of its own.
ROLE_MARKS: Mapping[str, RoleMark] = {
    "previous": RoleMark("P", "#0072b2", _ONE_OFFSET),
    "next": RoleMark("N", "#56b4e9", _ONE_OFFSET),
    "self": RoleMark("S", "#7b6fd0", _ONE_OFFSET),
    "offset": RoleMark("O", "#a8c8f0", _ONE_OFFSET),
    "delimiter": RoleMark("D", "#f0c33c", "special tokens or punctuation, beyond uniform attention"),
    "rare words": RoleMark("R", "#d55e00", "the rarest token of a sequence"),
    "syntactic": RoleMark("Y", "#009e73", "a dependency"),
    "coreference": RoleMark("C", "#7fd0a8", "an antecedent"),
    "links": RoleMark("L", "#b5d96b", "what --links says"),
    "induction": RoleMark("I", "#cc79a7", "what came after the same token"),
    "duplicate": RoleMark("U", "#ecb8d3", "the same token"),
    "broad": RoleMark("B", "#b3b3b3", "everywhere"),
    "block": RoleMark("K", "#8c6d46", "its own text of a pair"),
    "aligns": RoleMark("A", "#4a90a4", "from decoder to encoder, the same relative place"),
    "sink": RoleMark("F", "#f7e3a1", "the first token, if it is not special"),
    MIXED: RoleMark(".", None, "none of these"),
}

#: From where on a head has a role, or a pattern; see ``statistics.role_table.decide_roles``.
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
    "links": 0.1,
    "aligns": 0.5,
    "sink": 0.3,
    "pattern": 0.5,
}


@dataclass(frozen=True)
class Criterion:
    """A role or a pattern, and what has to reach which threshold of ``THRESHOLDS``, or which number, for it.

    The first of the measures is the evidence that a table shows. A role that is ``sharp``, no broad head has.
    """

    name: str
    bounds: Mapping[str, str | float]
    sharp: bool = False


OFFSET = Criterion("offset", {"offset_share": "positional"}, sharp=True)
BROAD = Criterion("broad", {"effective_share": "broad"})
BLOCK = Criterion("block", {"segment_excess": "block"})
CRITERIA = (
    OFFSET,
    Criterion("delimiter", {"special_excess": "delimiter", "special_preference": "preference"}),
    Criterion("delimiter", {"punctuation_excess": "delimiter", "punctuation_preference": "preference"}),
    Criterion("rare words", {"rarest_excess": "rare", "rare_lift": 1.0}, sharp=True),
    Criterion("induction", {"induction": "induction"}),
    Criterion("duplicate", {"duplicate": "duplicate"}),
    BROAD,
    BLOCK,
    Criterion("aligns", {"aligned_excess": "aligns"}, sharp=True),
    Criterion("sink", {"first_token_excess": "sink", "first_token_preference": "preference"}),
)


def find_role_kind(role: str) -> str:
    """Find the kind of a role: "offset" of "offset -2", and "links" of "atom-map: C", a user's links."""
    known = (kind for kind in ROLE_MARKS if role == kind or role.startswith((f"{kind}:", f"{kind} ")))
    return next(known, "links" if ": " in role else MIXED)


def title_roles(kinds: Iterable[str]) -> dict[str, str]:
    """Title the kinds of roles that occur, for a legend: with its letter, and how many heads have it.

    >>> title_roles(["next", "mixed", "next"])
    {'next': 'N  next (2)', 'mixed': '.  mixed (1)'}
    """
    counts = Counter(kinds)
    return {
        kind: f"{mark.letter}  {kind} ({counts[kind]})" for kind, mark in ROLE_MARKS.items() if counts[kind]
    }


#: The largest single offset of ``profile`` in a text, and in each direction of an image.
REACH, REACH_IN_PATCHES = 10, 3


def list_offsets(*, patches: bool) -> list[tuple[str, str]]:
    """List the columns of ``profile`` without that prefix, such as "-3" or "-3_-3", with their titles."""
    reach = REACH_IN_PATCHES if patches else REACH
    side = range(-reach, reach + 1)
    if patches:
        titles = {"first": "the leading token", "special": "other special tokens"}
        steps = product(side, side)
        titles |= {f"{down}_{right}": f"rows {down:+d}, columns {right:+d}" for down, right in steps}
        titles["beyond"] = f"more than {reach} patches away"
    else:
        titles = {"first": "the first token", "special": "special tokens but the first"}
        titles |= {"before": f"below -{reach}", **{str(offset): f"{offset:+d}" for offset in side}}
        titles["after"] = f"above +{reach}"
    return [(name, f"attention by offset, {words}".replace("+0", "0")) for name, words in titles.items()]
