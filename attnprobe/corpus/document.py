"""Documents, which sources yield and the tokenizer reads: texts with their labels and annotations."""

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
#: The role of a text in retrieval, if any.
Role = Literal["", "query", "document"]
#: One label, as a file spells it.
Value = str | int | float
#: Separates several labels of a link.
SEVERAL = "|"
#: The label of a link that an alignment may have or leave out.
POSSIBLE = "possible"


@dataclass(frozen=True, slots=True)
class Span:
    """The characters of a text from ``start`` up to ``stop``, in Unicode code points from 0."""

    start: int
    stop: int
    where: Where = "text"


@dataclass(frozen=True, slots=True)
class Link:
    """A gold link from a span, such as a dependent or a pronoun, to another: its head or its antecedent."""

    source: Span
    target: Span
    label: str  # one or several, such as "pronoun|feminine"
    candidates: tuple[Span, ...] = ()  # the only spans that count as answers; without any, every word does
    also: tuple[Span, ...] = ()  # other right answers, such as further antecedents
    #: The answers of simple rules, by name; of several by a rule, the first in a sequence counts.
    guesses: tuple[tuple[str, Span], ...] = ()

    @property
    def elsewhere(self) -> bool:
        """Whether an end lies in the text of a decoder beside an encoder."""
        return "target" in {self.source.where, self.target.where}


@dataclass(frozen=True, slots=True)
class Annotation:
    """The words, links and other annotation of a document."""

    words: tuple[Span, ...] = ()
    links: tuple[Link, ...] = ()
    tags: tuple[tuple[Span, str | int], ...] = ()  # words, with blanks between, and their labels
    answers: tuple[Span, ...] | None = None  # in the second text; None if the first is no question
    numbered: bool = False  # words are compared by number with those of another tokenizer
    number: int | None = None  # of the document among all that are read, where words are numbered
    parts_of_speech: Mapping[Span, str] = field(default_factory=dict, repr=False, hash=False)  # such as NOUN

    @property
    def elsewhere(self) -> bool:
        """Whether a word or link lies in the text of a decoder beside an encoder."""
        return "target" in {word.where for word in self.words} or any(link.elsewhere for link in self.links)


@dataclass(frozen=True, slots=True)
class Tagged:
    """The words of a text, none blank, with a label each; None for a word that does not count."""

    words: tuple[str, ...]
    tags: tuple[str | int | None, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A context, the answers that it holds literally, and their first characters."""

    context: str
    answers: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """Another text, and the similarity of the two, as the file spells it."""

    other: str
    score: Value


@dataclass(frozen=True, slots=True)
class Triplet:
    """A text that is similar to this one, and one that is not."""

    positive: str
    negative: str


@dataclass(frozen=True, slots=True)
class Query:
    """A query and its judged passages by name, with their relevance; or a passage."""

    name: str
    judged: tuple[tuple[str, int], ...] | None = None  # None of a passage


@dataclass(frozen=True, slots=True)
class Contrast:
    """A corrupted version of a text, with another answer."""

    corrupted: str
    answer: Value | None = None  # to the clean text: a class, a word, a target; None compares probabilities
    other: Value | None = None  # the answer that it is compared with; None for all others


class Use(NamedTuple):
    """The place of a text in an example of a task about several, and its score or relevance there."""

    example: int
    document: int
    place: int
    number: float


@dataclass(frozen=True, slots=True)
class Uses:
    """The places of a text in the examples of a task about several; and its name, if any."""

    uses: tuple[Use, ...] = ()
    name: str = ""


#: What a model is to predict of a text, as a file spells it; or the relation of other texts to it.
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
    """Find the kind of a label."""
    return next((gold for kind, gold in _GOLD.items() if isinstance(label, kind)), Gold.CLASS)


@dataclass(frozen=True, slots=True)
class Document:
    """A text, never blank, or a pair of texts that the model reads together, perhaps with an image."""

    text: str
    pair: str | None = None
    label: Label | None = None
    annotation: Annotation | None = None
    part_of: str | None = None  # the name of the wider document that it is a part of, if any
    # A state on disk belongs to the repr of its documents, in which these are left out.
    group: str | None = field(default=None, repr=False)  # the group of documents that it counts in
    role: Role = field(default="", repr=False)
    image: "Picture | None" = field(default=None, repr=False)

    @property
    def digest(self) -> int:
        """A hash of 64 bits of its content, or of the name of the wider document."""
        content = f"group\0{self.part_of}"
        if self.part_of is None:
            content = f"text\0{self.text}\0{self.pair or ''}"
            content += "" if self.image is None else f"\0{self.image.digest}"
        return int.from_bytes(_hash(content, 8), "little")


def _hash(content: str, size: int) -> bytes:
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=size).digest()


class DocumentNumbers:
    """Numbers documents from 0 on in the order of their first parts."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}
        self._next = 0

    def number(self, name: Hashable | None) -> int:
        number = self._next if name is None else self._known.setdefault(name, self._next)
        self._next += number == self._next
        return number


Part = TypeVar("Part")
#: A document is named by so many first parts.
_NAMING_PARTS = 16


def split_documents(
    parts: Iterable[Part], opens: Callable[[Part], bool]
) -> Iterator[tuple[int, Iterator[Part]]]:
    """Split parts before each one that opens a document; those before the first opening are number 0."""
    number = 0

    def count(part: Part) -> int:
        nonlocal number
        number += opens(part)
        return number

    return groupby(parts, key=count)


def group_parts(parts: Iterable[tuple[str | None, str, Part]]) -> Iterator[tuple[str | None, Part]]:
    """Name the document that each part of a file belongs to, by its opening and its first parts.

    ``parts`` are openings (None where a document goes on), texts, and the parts themselves. The name is None
    before the first opening.
    """
    for number, inside in split_documents(parts, lambda part: part[0] is not None):
        first, name = list(islice(inside, _NAMING_PARTS if number else 0)), None
        if first:
            texts = (text for _, text, _ in first)
            name = _hash("\0".join((first[0][0] or "", *texts)), 16).hex()
        yield from ((name, part) for _, _, part in chain(first, inside))
