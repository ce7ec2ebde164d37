"""A document: what a source yields and the tokeniser reads."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """One text, or a pair of texts that the model reads together.

    Attributes:
        text: The text, never empty or blank.
        pair: The second text of a pair, or None.
        label: The label as the file spells it, or None where no label column was asked for.
    """

    text: str
    pair: str | None = None
    label: str | int | float | None = None
