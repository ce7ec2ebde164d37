"""A document: what a source yields and the tokeniser reads."""

import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, groupby, islice
from types import NoneType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from attnprobe.tasks import Gold

if TYPE_CHECKING:
    from attnprobe.corpus.media import Picture

#: Which text a span lies in: the first, the second of a pair, or what a decoder beside an encoder reads.
Where = Literal["text", "pair", "target"]
#: What a text is in a search; nothing where none is looked for.
Role = Literal["", "query", "document"]
#: One label, as a file spells it.
Value = str | int | float
#: What parts several labels of one link.
SEVERAL = "|"
#: The label of a link that may be left out of an alignment, and is no mistake where it is there.
POSSIBLE = "possible"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a text, from its first character to behind its last, in Unicode code points from 0."""

    start: int
    stop: int
    where: Where = "text"


@dataclass(frozen=True, slots=True)
class Link:
    """A gold link from one span, such as a dependent or a pronoun, to another: its head or its antecedent."""

    source: Span
    target: Span
    label: str  # its kind; several are parted by ``SEVERAL``, such as "pronoun|feminine"
    candidates: tuple[Span, ...] = ()  # the only spans that count as answers; every word where there are none
    also: tuple[Span, ...] = ()  # other right answers, such as further antecedents
    #: What simple rules would answer, by name; of several by one rule, the first that is read.
    guesses: tuple[tuple[str, Span], ...] = ()

    @property
    def elsewhere(self) -> bool:
        """Whether it has an end in what only a decoder beside an encoder reads."""
        return "target" in {self.source.where, self.target.where}


@dataclass(frozen=True, slots=True)
class Annotation:
    """What is known of a document beside its text."""

    words: tuple[Span, ...] = ()
    links: tuple[Link, ...] = ()
    tags: tuple[tuple[Span, str | int], ...] = ()  # words, with blanks between, and their labels
    answers: tuple[Span, ...] | None = None  # in the second text; None if the first is no question
    numbered: bool = False  # whether words are found by number in the tokens of another tokenizer too
    number: int | None = None  # of the document among all that are read, where words are numbered
    # Such as NOUN, as far as the source says them. States go by what is written of a document.
    parts_of_speech: Mapping[Span, str] = field(default_factory=dict, repr=False, hash=False)

    @property
    def elsewhere(self) -> bool:
        """Whether something is said of what only a decoder beside an encoder reads."""
        return "target" in {word.where for word in self.words} or any(link.elsewhere for link in self.links)


@dataclass(frozen=True, slots=True)
class Tagged:
    """The words of a text, none blank, with a label each; None for a word that does not count."""

    words: tuple[str, ...]
    tags: tuple[str | int | None, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A context, the answers in it word for word (none if it has none), and their first characters."""

    context: str
    answers: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """Another text, and how alike they are, as the file spells it."""

    other: str
    score: Value


@dataclass(frozen=True, slots=True)
class Triplet:
    """A text that is alike, and one that is not."""

    positive: str
    negative: str


@dataclass(frozen=True, slots=True)
class Query:
    """A query by name, and its judged passages with their relevance; the passage of that name is itself."""

    name: str
    judged: tuple[tuple[str, int], ...] | None = None  # None of a passage among which queries look


@dataclass(frozen=True, slots=True)
class Contrast:
    """A text that differs from this one in what an answer hangs on."""

    corrupted: str
    answer: Value | None = None  # right for this one: a class, a word, a target; None compares probabilities
    other: Value | None = None  # what it is compared with; None is all else


class Use(NamedTuple):
    """What a text is in one example of a task about several: its place, and its score or relevance there."""

    example: int
    document: int
    place: int
    number: float


@dataclass(frozen=True, slots=True)
class Uses:
    """The examples of a task about several texts that one text is a part of; and its name, if any."""

    uses: tuple[Use, ...] = ()
    name: str = ""


#: What a model is to say of a text, as a file spells it; or what other texts are to it.
Label = Value | tuple[Value, ...] | Tagged | Asked | Pair | Triplet | Query | Uses | Contrast
#: The kinds of labels that have a type of their own.
_GOLD: dict[type, Gold] = {
    NoneType: Gold.NONE,
    Tagged: Gold.WORDS,
    Asked: Gold.ANSWERS,
    tuple: Gold.SEVERAL,
    Pair: Gold.PAIRS,
    Triplet: Gold.TRIPLETS,
    Query: Gold.RELEVANCE,
}


def find_gold(label: Label | None) -> Gold:
    """Find which kind of label a document has."""
    return next((gold for kind, gold in _GOLD.items() if isinstance(label, kind)), Gold.CLASS)


@dataclass(frozen=True, slots=True)
class Document:
    """One text, never blank, or a pair of texts that the model reads together, perhaps with an image."""

    text: str
    pair: str | None = None
    label: Label | None = None  # what a model is to say of it, as the file spells it
    annotation: Annotation | None = None
    part_of: str | None = None  # the name of the wider document that it is a part of; None where it is whole
    # States go by what is written of a document.
    group: str | None = field(default=None, repr=False)  # the group of documents that it counts in
    role: Role = field(default="", repr=False)
    image: "Picture | None" = field(default=None, repr=False)

    @property
    def digest(self) -> int:
        """Name the document in 64 bits by its content; equal texts have one name, as parts of one have."""
        content = f"group\0{self.part_of}"
        if self.part_of is None:
            content = f"text\0{self.text}\0{self.pair or ''}"
            content += "" if self.image is None else f"\0{self.image.digest}"
        return int.from_bytes(_hash(content, 8), "little")


def _hash(content: str, size: int) -> bytes:
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=size).digest()


class DocumentNumbers:
    """Numbers documents from 0 on as they come; parts of one need not follow each other."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}
        self._next = 0

    def number(self, name: Hashable | None) -> int:
        number = self._next if name is None else self._known.setdefault(name, self._next)
        self._next += number == self._next
        return number


Part = TypeVar("Part")
#: So many parts of a document are waited for to name it.
_NAMING_PARTS = 16


def split_documents(
    parts: Iterable[Part], opens: Callable[[Part], bool]
) -> Iterator[tuple[int, Iterator[Part]]]:
    """Group parts by the document that one of them opens; what comes before the first opening is number 0."""
    number = 0

    def count(part: Part) -> int:
        nonlocal number
        number += opens(part)
        return number

    return groupby(parts, key=count)


def group_parts(parts: Iterable[tuple[str | None, str, Part]]) -> Iterator[tuple[str | None, Part]]:
    """Name the document that each part of a file belongs to, by its opening and its first parts.

    ``parts``: what opens a document with it (None: the last one goes on), its text, and itself. The name is
    None before the first document.
    """
    for number, inside in split_documents(parts, lambda part: part[0] is not None):
        first, name = list(islice(inside, _NAMING_PARTS if number else 0)), None
        if first:
            texts = (text for _, text, _ in first)
            name = _hash("\0".join((first[0][0] or "", *texts)), 16).hex()
        yield from ((name, part) for _, _, part in chain(first, inside))
