"""Columns and their cells: text without what steers a terminal, and numbers that read back exactly."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from attnprobe.errors import UsageError

Cell = str | int | float | None
Role = Literal["key", "count", "measure", "error", "text"]


@dataclass(frozen=True)
class Column:
    """What a column holds."""

    name: str  # the header; a contract with programs that read the table
    unit: str = ""  # "nats", "share", "tokens", ...; what a count counts, if not sequences; "" for labels
    #: "key" names the row (model, layer, head, ...), "count" is a number of sequences or an index, "measure"
    #: a measurement, "error" the standard error of that named before ``_se``, "text" a finding in words.
    role: Role = "measure"
    headline: bool = False  # whether a reader sees the measure when there is no room for all
    title: str = ""  # a few words for the axis of a picture, where the name says too little

    @property
    def is_probability(self) -> bool:
        return self.unit == "probability" or self.name == "p" or self.name.endswith(("_p", "p_adjusted"))


# Escape sequences go as a whole, or "[31m" would stay behind. One that never ends loses its first two
# characters only, so it can't swallow the text after it.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS
    r"|\x1b[ -/]*[0-~]?"
)
_BREAKS = re.compile("[\t\n\v\f\r\x85\u2028\u2029]+")
# C0, DEL, C1; then what reorders text on screen (bidirectional controls) or hides (byte order mark).
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
#: Lone surrogates, which Python makes of undecodable file names, and characters that XML can't hold.
_UNWRITABLE = re.compile("[\ud800-\udfff\ufffe\uffff]")

# Full-width signs start a formula too, in spreadsheets set to East Asian languages, and some spreadsheets
# trim cells first. A text that begins with an apostrophe gets another, so that reading can take one away.
_FORMULA = re.compile(r"'*\s*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
#: Matches an apostrophe that ``guard`` added.
GUARDED = rf"^'(?={_FORMULA.pattern})"


@lru_cache
def clean(text: str) -> str:
    r"""Remove all that could steer a terminal; line breaks and tabs become a space.

    Characters that a file can't hold become U+FFFD.

    >>> clean("\x1b[31m[CLS]\x1b[0m\nnext")
    '[CLS] next'
    """
    text = _ESCAPES.sub("", _BREAKS.sub(" ", text))
    return _UNWRITABLE.sub("\ufffd", _CONTROLS.sub("", text))


def guard(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would take for a formula.

    >>> guard("=cmd()"), guard("bert-base")
    ("'=cmd()", 'bert-base')
    """
    return f"'{text}" if _FORMULA.match(text) else text


#: Roles of columns whose numbers are whole.
_WHOLE = {"key", "count"}


def to_plain(cell: object, role: Role = "measure") -> Cell:
    """Turn a cell into clean text, a Python number, or None for an undefined number.

    Whole keys and counts become integers, so that layer 3 is never written as 3.0.
    """
    item = getattr(cell, "item", None)  # a number of numpy
    value = cell if item is None else item()
    if value is None or isinstance(value, int):
        return value
    if not isinstance(value, float):
        return clean(str(value))
    if role in _WHOLE and value.is_integer() and abs(value) <= 2**53:
        return int(value)
    return None if math.isnan(value) else value


def to_plain_column(cells: Iterable[Cell], column: Column) -> list[Cell]:
    return [to_plain(cell, column.role) for cell in cells]


def check_precision(precision: int | None) -> None:
    if precision is not None and not 1 <= precision <= 17:  # what a float64 holds
        raise UsageError("--precision is a number of significant digits from 1 to 17")


def round_cell(value: Cell, precision: int) -> Cell:
    """Round a float to ``precision`` significant digits; integers, text and None stay as they are."""
    return float(f"{value:.{precision}g}") if isinstance(value, float) else value


def format_cell(value: Cell, precision: int | None = None) -> str:
    """Write a plain cell as text, the same in every locale; None is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if precision is None else f"{value:.{precision}g}"
    return str(value)
