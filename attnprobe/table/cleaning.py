"""Cleaning hostile strings: what could steer a terminal, or be a formula in a spreadsheet."""

import re

# Escape sequences go as a whole: without its ESC, "[31m" would stay behind as litter. A sequence
# that never ends only loses its first two characters, so it can't swallow the text after it.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS
    r"|\x1b[ -/]*[0-~]?"
)
_BREAKS = re.compile("[\t\n\v\f\r\x85\u2028\u2029]+")
# C0, DEL, C1; then what reorders text on screen (bidirectional controls) or hides (byte order mark).
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_SURROGATES = re.compile("[\ud800-\udfff]")

# The full-width forms start a formula too, in spreadsheets set to East Asian languages. Some spreadsheets
# trim a cell before they look at its first character. What begins with an apostrophe of its own gets another,
# so that one can be taken away when the cell is read.
_FORMULA = re.compile(r"'*\s*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
#: An apostrophe that ``guard`` put there.
GUARDED = rf"^'(?={_FORMULA.pattern})"


def clean(text: str) -> str:
    r"""Take out what could steer a terminal or break a line; line breaks and tabs become a space.

    Lone surrogates, which Python makes of undecodable file names, become U+FFFD: no file can hold them.

    >>> clean("\x1b[31m[CLS]\x1b[0m\nnext")
    '[CLS] next'
    """
    text = _ESCAPES.sub("", _BREAKS.sub(" ", text))
    return _SURROGATES.sub("\ufffd", _CONTROLS.sub("", text))


def guard(text: str) -> str:
    """Put an apostrophe before a string that a spreadsheet would take for a formula.

    For strings only: a negative number begins with a minus and must stay a number.

    >>> guard("=cmd()"), guard("bert-base")
    ("'=cmd()", 'bert-base')
    """
    return f"'{text}" if _FORMULA.match(text) else text
