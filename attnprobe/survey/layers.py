"""Only some layers of a table, chosen as people write them: ``0,3-5``."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from attnprobe.errors import AttnprobeError
from attnprobe.table.head_table import HeadTable

_RANGE = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")
#: Columns that say which layers a row is about.
_COLUMNS = ("layer", "layer_a", "layer_b")


def parse_layers(said: str | int | Iterable[int] | None) -> tuple[int, ...] | None:
    """Read which layers are wanted, counted from 0; None for all of them.

    Raises:
        AttnprobeError: When it names no layers.

    >>> parse_layers("0, 3-5"), parse_layers([2, 1]), parse_layers(7), parse_layers(None)
    ((0, 3, 4, 5), (1, 2), (7,), None)
    """
    if said is None:
        return None
    found: set[int] = set()
    if isinstance(said, str):
        for part in said.split(","):
            match = _RANGE.fullmatch(part)
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if first > last or last >= 10_000:  # no model has so many
                raise _refuse(said)
            found.update(range(first, last + 1))
        return tuple(sorted(found))
    layers = list(said) if isinstance(said, Iterable) else [said]
    if not layers or not all(type(layer) is int and layer >= 0 for layer in layers):
        raise _refuse(said)
    return tuple(sorted(set(layers)))


def _refuse(said: object) -> AttnprobeError:
    return AttnprobeError(f"--layers must be numbers from 0 and ranges of them, such as 0,3-5, not {said!r}.")


def check_layers(layers: Sequence[int], known: Iterable[int], name: str) -> None:
    there = set(known)
    if beyond := [layer for layer in layers if layer not in there]:
        raise AttnprobeError(f"{name} has layers 0 to {max(there)}, and no layer {beyond[0]}.")


def keep_layers(table: HeadTable, layers: Sequence[int]) -> HeadTable:
    """Keep the rows that are about some layers, and of pairs those whose layers are both among them."""
    columns = [table.data[name] for name in _COLUMNS if name in table.data]
    kept = [row for row, places in enumerate(zip(*columns, strict=True)) if set(places) <= set(layers)]
    data = {name: [cells[row] for row in kept] for name, cells in table.data.items()}
    listed = f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"
    note = f"Only rows of {listed} are shown; all layers were measured."
    return replace(table, data=data, notes=[*table.notes, note])
