"""Lists of names, and roles with the letters that stand for them in a picture."""

from collections.abc import Sequence
from itertools import product


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


#: The role of a head that has none.
MIXED = "mixed"
#: Roles in their order, each with the letter that stands for it in a picture.
LETTERS = {
    "previous": "P",
    "next": "N",
    "self": "S",
    "offset": "O",
    "delimiter": "D",
    "rare words": "R",
    "syntactic": "Y",
    "coreference": "C",
    "links": "L",
    "induction": "I",
    "duplicate": "U",
    "broad": "B",
    "block": "K",
    "aligns": "A",
    "sink": "F",
    MIXED: ".",
}


def find_role_kind(role: str) -> str:
    """Find the kind of a role: "offset" of "offset -2"; "links" of "atom-map: C", by links of one's own."""
    known = (kind for kind in LETTERS if role == kind or role.startswith((f"{kind}:", f"{kind} ")))
    return next(known, "links" if ": " in role else MIXED)


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
