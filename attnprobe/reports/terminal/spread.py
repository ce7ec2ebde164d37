"""Where columns vary: a line a column, with its shares of variance in percent."""

from collections.abc import Mapping, Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from attnprobe.findings.comparison.spread import PARTS
from attnprobe.reports.scales import Scale
from attnprobe.reports.terminal.console import has_palette, signs
from attnprobe.reports.terminal.figures import numbers
from attnprobe.reports.terminal.heatmap import shade
from attnprobe.table.cells import written
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable

#: The columns that are on the screen.
SHOWN = frozenset({*PARTS, "checkpoints", "unit"})
#: Parts that stand together, each with the short name that it has there.
_GROUPS: Mapping[str, Mapping[str, str]] = {
    "place": {"layers": "lay", "heads": "head"},
    "checkpoint": {"seeds": "all", "layers_by_seed": "lay", "heads_by_seed": "head"},
    "text": {"texts": "all", "layers_by_text": "lay", "heads_by_text": "head", "seeds_by_text": "chk"},
    "rest": {"rest": ""},
}
_SHARES = Scale(0.0, 1.0)
_CELL, _GAP = 5, 1
_LEAST_NAME = 8
_SAID = (
    "in % of the variance; place: the same in all checkpoints and texts; checkpoint, text: what they change "
    "for all heads (all), for some layers (lay) or heads"
)


def is_spread(table: HeadTable) -> bool:
    """Recognise the table."""
    needed = {"measure", *PARTS}
    return bool(len(table)) and needed <= table.data.keys() and not _text(table)


def draw(table: HeadTable, console: Console) -> None:
    """Print a line a column, and a column a component."""
    names = _names(table)
    shares = {part: numbers(table, part) for part in PARTS}
    figures = len(PARTS) * _CELL + _GAP * len(_GROUPS)
    room = max(_LEAST_NAME, console.width - figures)
    width = min(room, max(map(len, names), default=0))
    console.print(Text(_SAID, "dim"))
    top, below = Text(" " * width, "bold"), Text("".ljust(width), "bold")
    for group, parts in _GROUPS.items():
        top.append(
            " " * _GAP + (group.rjust(_CELL) if len(parts) == 1 else f"  {group}".ljust(_CELL * len(parts)))
        )
        below.append(" " * _GAP + "".join(short.rjust(_CELL) for short in parts.values()))
    for line in (top, below):
        line.rstrip()
        _line(line, console)
    for row, name in enumerate(names):
        more = signs(console).more
        shown = name if len(name) <= width else name[: width - len(more)] + more
        line = Text(shown.ljust(width))
        for parts in _GROUPS.values():
            line.append(" " * _GAP)
            for part in parts:
                found = shares[part]
                assert found is not None  # or it were no picture
                _cell(line, float(found[row]), console)
        _line(line, console)


def _cell(line: Text, share: float, console: Console) -> None:
    if np.isnan(share):
        line.append(signs(console).undefined.rjust(_CELL))
        return
    style = shade(share, _SHARES) if has_palette(console) else None
    line.append(f"{100 * share:.0f}".rjust(_CELL), style)


def _line(line: Text, console: Console) -> None:
    console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _names(table: HeadTable) -> Sequence[str]:
    measures = [clean(written(cell)) for cell in table.data["measure"]]
    if "attention" not in table.data:
        return measures
    kinds = [clean(written(cell)) for cell in table.data["attention"]]
    return [f"{measure}, {kind}" for measure, kind in zip(measures, kinds, strict=True)]


def _text(table: HeadTable) -> bool:
    return any(numbers(table, part) is None for part in PARTS)
