"""Tokens as a reader sees them: hostile characters are made visible, blanks too, and long ones are cut."""

import unicodedata

#: What stands for blanks that would be seen nowhere, or would break a line.
_BLANKS = {" ": "\u2423", "\n": "\u21b5", "\r": "\u240d", "\t": "\u21e5", "\xa0": "\u237d"}
#: Joiners, which scripts and emoji need, and which steer nothing.
_JOINERS = "\u200c\u200d"
#: Controls, what reorders or hides text, lone surrogates, breaks, what is assigned to nobody.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
#: Most characters of a label in a graphic.
LONGEST = 20


def visible(text: str) -> str:
    r"""Make a token fit to be shown: what can't be seen, or steers what can, becomes a sign or its code.

    >>> visible("late"), visible(" "), visible("a\nb"), visible("\u202eevil"), visible("\ud800\x00")
    ('late', '␣', 'a↵b', '⟨202E⟩evil', '⟨D800⟩⟨0000⟩')
    """
    if text and not text.strip():
        return "".join(_BLANKS.get(character) or _code(character) for character in text)
    return "".join(_shown(character) for character in text) or "\u2205"


def cut(text: str, longest: int = LONGEST) -> str:
    """Cut a label for a graphic.

    >>> cut("incomprehensibilities", 10)
    'incompreh…'
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}\u2026"


def _shown(character: str) -> str:
    if character in "\n\r\t":
        return _BLANKS[character]
    if character in _JOINERS or unicodedata.category(character) not in _HIDDEN:
        return character
    return _code(character)


def _code(character: str) -> str:
    return f"\u27e8{ord(character):04X}\u27e9"
