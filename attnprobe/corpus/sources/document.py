"""A document: what a source yields and the tokeniser reads."""

from dataclasses import dataclass

from attnprobe.corpus.sources.annotation import Annotation

#: A label as a file spells it.
Label = str | int | float


@dataclass(frozen=True, slots=True)
class Document:
    """One text, or a pair of texts that the model reads together.

    Attributes:
        text: The text, never empty or blank.
        pair: The second text of a pair, or None.
        label: The label as the file spells it, or None where it has none, or none was asked for.
        annotation: Its words and gold links, or None where nobody asked for them.
    """

    text: str
    pair: str | None = None
    label: Label | None = None
    annotation: Annotation | None = None
