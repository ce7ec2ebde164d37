"""Naming heads of a table in a sentence."""

from collections.abc import Sequence

from attnprobe.table.head_table import HeadTable

#: So many heads a sentence names; of more it gives the number.
NAMED = 8


def head_names(table: HeadTable) -> list[str]:
    """Name the head of each row.

    >>> from attnprobe.table.table import Column
    >>> keys = [Column(name, role="key") for name in ("layer", "head")]
    >>> head_names(HeadTable("heads", keys, {"layer": [3], "head": [1]}, (), {}))
    ['layer 3 head 1']
    """
    kinds = [f"{kind} " for kind in table.data["attention"]] if "attention" in table.data else None
    kinds = kinds or [""] * len(table)
    places = zip(kinds, table.data["layer"], table.data["head"], strict=True)
    return [f"{kind}layer {layer} head {head}" for kind, layer, head in places]


def listed(names: Sequence[str]) -> str:
    """List names, or the first of many.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    some = list(names[:NAMED])
    if more := len(names) - len(some):
        some.append(f"{more} more")
    *most, last = some
    return f"{', '.join(most)} and {last}" if most else last
