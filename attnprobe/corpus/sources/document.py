"""A document: what a source yields and the tokeniser reads."""

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from attnprobe.tasks import Gold

if TYPE_CHECKING:
    from attnprobe.corpus.sources.pictures import Picture

#: Which text of a document a span lies in: its first, the second of a pair, or what a decoder beside an
#: encoder reads.
Where = Literal["text", "pair", "target"]
#: What a text is in a search; nothing where none is looked for.
Role = Literal["", "query", "document"]
#: What parts several labels of one link.
SEVERAL = "|"
#: The label of a link that may be left out of an alignment, and is no mistake where it is there.
POSSIBLE = "possible"


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
        parts_of_speech: What the source says that words are, such as NOUN; a word of which it says nothing is
            not among them.
    """

    words: tuple[Span, ...] = ()
    links: tuple[Link, ...] = ()
    tags: tuple[Tag, ...] = ()
    answers: tuple[Span, ...] | None = None
    numbered: bool = False
    number: int | None = None
    # States go by what is written of a document.
    parts_of_speech: Mapping[Span, str] = field(default_factory=dict, repr=False, hash=False)

    @property
    def elsewhere(self) -> bool:
        """Whether something is said of what only a decoder beside an encoder reads."""
        links = (span.where for link in self.links for span in (link.source, link.target))
        return "target" in {*(word.where for word in self.words), *links}


#: So many parts of a document are waited for to name it.
_NAMING_PARTS = 16

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Tagged:
    """The words of a text and what each of them is: parts of speech, entities.

    Attributes:
        words: None of them blank.
        tags: One for each word, as the file spells it; None for a word that does not count.
    """

    words: tuple[str, ...]
    tags: tuple[str | int | None, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """The text that answers a question, and where.

    Attributes:
        context: The text in which the answer is looked for.
        answers: What people said, word for word as the context has it; none where it does not answer.
        starts: The first character of each answer, counted from 0 in Unicode code points.
    """

    context: str
    answers: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """How alike another text is.

    Attributes:
        other: The other text.
        score: How alike they are, as the file spells it.
    """

    other: str
    score: str | int | float


@dataclass(frozen=True, slots=True)
class Triplet:
    """A text that is alike, and one that is not."""

    positive: str
    negative: str


@dataclass(frozen=True, slots=True)
class Query:
    """Which passages a query is to find.

    Attributes:
        name: What the data call the query; the passage of that name is the query itself, and not looked for.
        judged: Names of passages, each with how relevant it is; 0 is not.
    """

    name: str
    judged: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """One of the passages among which queries look, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Contrast:
    """A text that differs from this one in what an answer hangs on, and the answer.

    Attributes:
        corrupted: The other text.
        answer: What is right for this one: a class, a word, a target text; None where the texts themselves
            are compared by how probable they are.
        other: What it is compared with, such as what is right for the other text; None for all else.
    """

    corrupted: str
    answer: str | int | float | None = None
    other: str | int | float | None = None


class Use(NamedTuple):
    """What a text is in one example of a task about several texts.

    Attributes:
        example: The number of the example.
        document: The number of the document that the example is of.
        place: The place of the text in the example.
        number: What is said of it there.
    """

    example: int
    document: int
    place: int
    number: float


@dataclass(frozen=True, slots=True)
class Uses:
    """The examples of a task about several texts that one text is a part of; and its name, if any."""

    uses: tuple[Use, ...] = ()
    name: str = ""


#: What a model is to say of a text, as a file spells it: a class, a number, a target text; several labels;
#: a label for each word; the answer to a question; what other texts are to it; a text that it is set against.
Label = (
    str
    | int
    | float
    | tuple[str | int | float, ...]
    | Tagged
    | Asked
    | Pair
    | Triplet
    | Query
    | Passage
    | Uses
    | Contrast
)


#: The kinds of labels that have a type of their own.
_GOLD: dict[type, Gold] = {
    NoneType: Gold.NONE,
    Tagged: Gold.WORDS,
    Asked: Gold.ANSWERS,
    tuple: Gold.SEVERAL,
    Pair: Gold.PAIRS,
    Triplet: Gold.TRIPLETS,
    Query: Gold.RELEVANCE,
    Passage: Gold.RELEVANCE,
}


def find_gold(label: Label | None) -> Gold:
    """Find which kind of label a document has."""
    return next((gold for kind, gold in _GOLD.items() if isinstance(label, kind)), Gold.CLASS)


@dataclass(frozen=True, slots=True)
class Document:
    """One text, or a pair of texts that the model reads together.

    Attributes:
        text: The text, never empty or blank.
        pair: The second text of a pair, or None.
        label: The label as the file spells it, or None where it has none, or none was asked for.
        annotation: Its words and gold links, or None where nobody asked for them.
        group: What names the wider document that it is a part of, such as the text of a sentence; None where
            it is whole.
        stratum: Which of several groups of documents it counts in, such as a genre; None where nobody asked.
        role: What the text is where one is looked for by another.
        image: What the model sees beside the text, or None where it reads text alone.
    """

    text: str
    pair: str | None = None
    label: Label | None = None
    annotation: Annotation | None = None
    group: str | None = None
    stratum: str | None = field(default=None, repr=False)
    role: Role = field(default="", repr=False)  # states go by what is written of a document
    image: "Picture | None" = field(default=None, repr=False)

    @property
    def digest(self) -> int:
        """Name the document that it is a part of, or itself, in 64 bits: by what it says, not by where it is.

        Parts of one document have one name, and so have texts that are equal, word for word.
        """
        whole = f"text\0{self.text}\0{self.pair or ''}" if self.group is None else f"group\0{self.group}"
        if self.image is not None and self.group is None:
            whole = f"{whole}\0{self.image.digest}"
        found = hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=8)
        return int.from_bytes(found.digest(), "little")


class DocumentNumbers:
    """Numbers documents from 0 on as they come; parts of one need not follow each other."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, int] = {}
        self._next = 0

    def number(self, group: Hashable | None) -> int:
        """Give the number of the document that ``group`` names, or of one that is whole."""
        found = self._next if group is None else self._groups.setdefault(group, self._next)
        self._next += found == self._next
        return found


def group_parts(parts: Iterable[tuple[str | None, str, Part]]) -> Iterator[tuple[str | None, Part]]:
    """Name the document that each part of a file belongs to.

    The name is a digest of what opens the document and of its first 16 parts: the same in whatever file it
    stands, and another for documents that begin alike, as letters and tables do.

    Args:
        parts: For each, what opens a document with it, or None where it goes on with the last one; its text;
            and the part itself.

    Yields:
        The name, None before the first document, and the part.
    """
    opening: str | None = None
    group: str | None = None
    waiting: list[tuple[str, Part]] = []

    def name() -> str:
        whole = "\0".join((opening or "", *(text for text, _ in waiting)))
        return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    for opens, text, part in parts:
        if opens is not None:
            yield from ((name(), one) for _, one in waiting)
            opening, group, waiting = opens, None, []
        if opening is None or group is not None:
            yield group, part
            continue
        waiting.append((text, part))
        if len(waiting) == _NAMING_PARTS:
            group = name()
            yield from ((group, one) for _, one in waiting)
            waiting = []
    yield from ((name(), one) for _, one in waiting)
