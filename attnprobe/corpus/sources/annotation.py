"""What somebody says of a text: where its words are, and which of them belong together."""

from dataclasses import dataclass
from typing import Literal

#: Which text of a document a span lies in: its first, the second of a pair, or what a decoder beside an
#: encoder reads.
Where = Literal["text", "pair", "target"]
#: What parts several labels of one link.
SEVERAL = "|"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a document's text.

    Attributes:
        start: Its first character, counted from 0 in Unicode code points.
        stop: The character behind its last.
        where: The text it lies in.
    """

    start: int
    stop: int
    where: Where = "text"


@dataclass(frozen=True, slots=True)
class Link:
    """A gold link from one span to another.

    Attributes:
        source: Where it begins, such as a dependent or a pronoun.
        target: Where it ends, such as its head or its antecedent.
        label: What kind of link it is. Several labels are parted by ``SEVERAL``, such as "pronoun|feminine":
            the link is one of each of them.
        candidates: The only spans that count as answers; every word where there are none.
        also: Other spans that are right answers too, such as further antecedents.
        guesses: What simple rules would answer, each with its name; a rule that has no answer is not among
            them. A rule may stand there several times: its guess is then the first that lies in the stretch
            of text that is read, as long texts are cut.
    """

    source: Span
    target: Span
    label: str
    candidates: tuple[Span, ...] = ()
    also: tuple[Span, ...] = ()
    guesses: tuple[tuple[str, Span], ...] = ()


@dataclass(frozen=True, slots=True)
class Tag:
    """A word and what it is: a part of speech, an entity; ``name`` is as the file spells it."""

    word: Span
    name: str | int


@dataclass(frozen=True, slots=True)
class Annotation:
    """What is known of a document beside its text.

    Attributes:
        words: Its words.
        links: The links between them.
        tags: Words, joined by blanks to make the text, with a label each.
        answers: Where the second text answers the first, which is a question; none if it does not, and None
            if the first text is no question.
        numbered: Whether words are to be known by their numbers, so that they can be found in the tokens of
            another tokenizer too.
        number: Where they are, that of the document among all that are read.
    """

    words: tuple[Span, ...] = ()
    links: tuple[Link, ...] = ()
    tags: tuple[Tag, ...] = ()
    answers: tuple[Span, ...] | None = None
    numbered: bool = False
    number: int | None = None

    @property
    def elsewhere(self) -> bool:
        """Whether something is said of what only a decoder beside an encoder reads."""
        links = (span.where for link in self.links for span in (link.source, link.target))
        return "target" in {*(word.where for word in self.words), *links}
