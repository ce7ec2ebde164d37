"""Lists of names, and roles with the marks that stand for them in a picture."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from typing import NamedTuple

from attnprobe.table.cells import clean


def join_names(names: Sequence[str], most: int = 8) -> str:
    """List names; of more than ``most``, the first and how many more there are.

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
    """The letter and the colour of a role in pictures; no colour is the background's."""

    letter: str
    colour: str | None


#: Roles in their order. Kinds that are alike have hues that are alike; no two have the same letter.
ROLE_MARKS: Mapping[str, RoleMark] = {
    "previous": RoleMark("P", "#0072b2"),
    "next": RoleMark("N", "#56b4e9"),
    "self": RoleMark("S", "#7b6fd0"),
    "offset": RoleMark("O", "#a8c8f0"),
    "delimiter": RoleMark("D", "#f0c33c"),
    "rare words": RoleMark("R", "#d55e00"),
    "syntactic": RoleMark("Y", "#009e73"),
    "coreference": RoleMark("C", "#7fd0a8"),
    "links": RoleMark("L", "#b5d96b"),
    "induction": RoleMark("I", "#cc79a7"),
    "duplicate": RoleMark("U", "#ecb8d3"),
    "broad": RoleMark("B", "#b3b3b3"),
    "block": RoleMark("K", "#8c6d46"),
    "aligns": RoleMark("A", "#4a90a4"),
    "sink": RoleMark("F", "#f7e3a1"),
    MIXED: RoleMark(".", None),
}


def find_role_kind(role: str) -> str:
    """Find the kind of a role: "offset" of "offset -2"; "links" of "atom-map: C", by links of one's own."""
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


#: The single offsets of ``profile`` end here on either side of a text, and in each direction of an image.
REACH, REACH_IN_PATCHES = 10, 3


def list_offsets(*, patches: bool) -> list[tuple[str, str]]:
    """List the columns of ``profile`` behind its name, such as "-3" or "-3_-3", each with a title."""
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
