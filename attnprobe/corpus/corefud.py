"""CorefUD: CoNLL-U with mentions as brackets in ``Entity=``, a document at a time."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from attnprobe.corpus.conllu import (
    Sentence,
    find_comment,
    find_parts_of_speech,
    is_glued,
    parse_conllu,
    place_words,
)
from attnprobe.corpus.document import Annotation, Document, Span
from attnprobe.corpus.links import (
    NOMINAL,
    OTHER,
    PRONOUN,
    PROPER,
    Mention,
    link_mentions,
)
from attnprobe.corpus.streams import shorten
from attnprobe.errors import AttnprobeError, DataError

#: An opening bracket with its fields, closed at once or later; or a closing bracket with its entity.
_CHUNK = re.compile(r"\([^()]+\)?|[^()]+\)")
#: The entity of a part of a mention that is not in one piece: e5[1/2].
_PART = re.compile(r"(?P<entity>.+)\[(?P<part>[0-9]{1,6})/(?P<parts>[0-9]{1,6})\]")
#: What the entity's number is called: GUM had another name for it, and numbers that are unique in a document.
_ENTITY = ("eid", "GRP")
_HEAD = "head"


@dataclass(slots=True)
class Bracketed:
    """A mention by its brackets."""

    entity: str
    line: int
    parts: int = 1
    head: int | None = None
    ranges: list[tuple[int, int]] = field(default_factory=list)


class Brackets:
    """The brackets of one document, from its first line on.

    Mentions may nest, cross each other and go on in the next sentence. A closing bracket closes the mention
    of its entity that was opened last.
    """

    def __init__(self, name: str, fields: Sequence[str]) -> None:
        """Expect brackets with the fields that ``# global.Entity`` declares, in a file called ``name``."""
        self.fields = fields
        self._name = name
        #: By entity: mentions with an open piece, and where that begins.
        self._open: defaultdict[str, list[tuple[Bracketed, int]]] = defaultdict(list)
        #: By entity: mentions whose next piece is to come.
        self._broken: defaultdict[str, list[Bracketed]] = defaultdict(list)
        self._done: list[Bracketed] = []

    def read(self, brackets: str, node: int, line: int) -> None:
        """Read the brackets that stand at a node."""
        chunks = _split_brackets(brackets)
        if not set(self.fields) & set(_ENTITY):
            raise DataError(
                f"line {line} of {self._name} has Entity=, but no line above says where the entity stands "
                "in it; write '# global.Entity = eid-etype-head-other' or the like before the first sentence."
            )
        if "".join(chunks) != brackets:
            raise self._wrong(
                line, f"Entity={shorten(brackets)}, which is not made of brackets like (e1 and e1)"
            )
        for chunk in chunks:
            values = chunk.strip("()").split("-")
            if chunk.startswith("("):
                mention = self._open_mention(values, line)
                self._open[mention.entity].append((mention, node))
            if chunk.endswith(")"):
                closing = not chunk.startswith("(")
                self._close(self._find_entity(values, closing=closing), node, line)

    def finish(self) -> list[Bracketed]:
        """Give the mentions, in the order in which they end; refuse one that was never closed."""
        left = [mention for opened in self._open.values() for mention, _ in opened]
        if left:
            first = min(left, key=lambda one: one.line)
            raise self._wrong(first.line, f"a mention of {shorten(first.entity)!r} that is never closed")
        broken = [mention for found in self._broken.values() for mention in found]
        if broken:
            first = min(broken, key=lambda one: one.line)
            told = f"{len(first.ranges)} of its {first.parts} parts"
            raise self._wrong(first.line, f"a mention of {shorten(first.entity)!r} with only {told}")
        return self._done

    def _open_mention(self, values: Sequence[str], line: int) -> Bracketed:
        """Begin a mention, or go on with one that is in pieces."""
        spelled = self._find_entity(values)
        entity, part, parts = _parse_entity(spelled)
        if not entity or not 1 <= part <= parts:
            raise self._wrong(line, f"a mention of {shorten(spelled)!r}, which names no entity")
        if part > 1:
            broken = self._broken[entity]
            for place in reversed(range(len(broken))):
                if (len(broken[place].ranges), broken[place].parts) == (part - 1, parts):
                    return broken.pop(place)
            raise self._wrong(
                line, f"part {part} of a mention of {shorten(entity)!r} without part {part - 1}"
            )
        head = dict(zip(self.fields, values, strict=False)).get(_HEAD, "")
        if head and not re.fullmatch(r"[0-9]{1,9}", head):
            raise self._wrong(line, f"{shorten(head)!r} for the head of a mention, which is no number")
        return Bracketed(entity, line, parts, int(head) if head else None)

    def _close(self, spelled: str, node: int, line: int) -> None:
        entity, part, parts = _parse_entity(spelled)
        opened = self._open[entity]
        for place in reversed(range(len(opened))):
            mention, begin = opened[place]
            if (len(mention.ranges) + 1, mention.parts) == (part, parts):
                break
        else:
            raise self._wrong(line, f"the end of a mention of {shorten(spelled)!r} that is not open")
        del opened[place]
        mention.ranges.append((begin, node))
        (self._done if len(mention.ranges) == mention.parts else self._broken[entity]).append(mention)

    def _find_entity(self, values: Sequence[str], *, closing: bool = False) -> str:
        """Find the entity among the fields; a closing bracket has it alone, or fields as the opening has."""
        if closing and len(values) == 1:
            return values[0]
        place = next(place for place, name in enumerate(self.fields) if name in _ENTITY)
        return values[place] if place < len(values) else ""

    def _wrong(self, line: int, what: str) -> AttnprobeError:
        return DataError(f"line {line} of {self._name} has {what}; mend the brackets of Entity= there.")


def _split_brackets(brackets: str) -> list[str]:
    chunks, place = [], 0
    while found := _CHUNK.match(brackets, place):
        chunks.append(found[0])
        place = found.end()
    return chunks


def _parse_entity(entity: str) -> tuple[str, int, int]:
    """Read e5[1/2] as part 1 of 2 of e5; an entity alone is whole."""
    found = _PART.fullmatch(entity)
    return (found["entity"], int(found["part"]), int(found["parts"])) if found else (entity, 1, 1)


_DECLARED = re.compile(r"#\s*global\.Entity\s*=\s*(\S+)")
_KINDS = {"PRON": PRONOUN, "PROPN": PROPER, "NOUN": NOMINAL}


def read_corefud(lines: Iterable[str], name: str, group: str | None = None) -> Iterator[Document]:
    """Read the documents of a CorefUD file, each with a link for every mention that has an antecedent.

    A document goes from ``# newdoc`` to the next, or over the whole file where there is none. Its sentences
    are joined by a blank, by nothing where their last word has ``SpaceAfter=No``, and by a line break before
    ``# newpar``. One without any link is left out. ``group`` is the comment that says in which group a
    document counts; the first one of a document counts.

    References:
        Nedoluzhko et al. (2022), CorefUD 1.0: coreference meets Universal Dependencies.
    """
    text = document = None
    for text in _read_texts(lines, name):
        if (found := text.finish()) is not None:
            document = found
            yield document if group is None else replace(document, stratum=text.find_comment(group))
    if text is not None and document is None:
        raise DataError(
            f"{name} holds no mention with an antecedent and another one to choose from; coreference reads "
            "mentions from Entity= in the last column, as CorefUD has them."
        )


def _read_texts(lines: Iterable[str], name: str) -> Iterator["_Text"]:
    text = _Text(name)
    for sentence in parse_conllu(lines, name, lambda found: found):
        if sentence.begins_document and text.nodes:
            yield text
            text = _Text(name, text.brackets.fields)
        text.add(sentence)
    if text.nodes:
        yield text


@dataclass(slots=True)
class _Node:
    """A word or an empty node of a document."""

    span: Span | None
    form: str
    part: str
    head: int | None = None


class _Text:
    """A document that grows sentence by sentence."""

    def __init__(self, name: str, fields: Iterable[str] = ()) -> None:
        self.brackets = Brackets(name, tuple(fields))
        self.nodes: list[_Node] = []
        self._name = name
        self._parts: list[str] = []
        self._parts_of_speech: dict[Span, str] = {}
        self._length = 0
        self._glued = False
        self._comments: list[str] = []

    def find_comment(self, name: str) -> str | None:
        return find_comment(self._comments, name)

    def add(self, sentence: Sentence) -> None:
        self._comments += sentence.comments
        for comment in sentence.comments:
            if declared := _DECLARED.match(comment):
                self.brackets.fields = tuple(declared[1].split("-"))
        if self._parts:
            self._append("\n" if sentence.begins_paragraph else "" if self._glued else " ")
        text, spans = place_words(sentence.tokens, sentence.said)
        places = self._places(sentence)
        for span, part in find_parts_of_speech(sentence.tokens, spans).items():
            self._parts_of_speech[Span(span.start + self._length, span.stop + self._length)] = part
        for token, line in zip(sentence.tokens, sentence.numbers, strict=True):
            number, entity = token["id"], (token.get("misc") or {}).get("Entity")
            if _is_range(number):
                if entity:
                    raise DataError(
                        f"line {line} of {self._name} has Entity= at a multi-word token; move it to the "
                        "words of the token."
                    )
                continue
            span = spans.get(number)
            if span is not None:
                span = Span(span.start + self._length, span.stop + self._length)
            head = token.get("head") if span is not None else None
            self.nodes.append(_Node(span, token["form"], str(token.get("upos")), places.get(head)))
            if entity:
                self.brackets.read(entity, len(self.nodes) - 1, line)
        self._append(text)
        self._glued = is_glued(sentence.tokens)

    def finish(self) -> Document | None:
        """Give the document, or None if it has no link."""
        mentions = map(self._mention, self.brackets.finish())
        links = link_mentions([mention for mention in mentions if mention is not None])
        if not links:
            return None
        words = dict.fromkeys(node.span for node in self.nodes if node.span is not None)
        found = Annotation(tuple(words), tuple(links), parts_of_speech=self._parts_of_speech)
        return Document("".join(self._parts), annotation=found)

    def _append(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    def _places(self, sentence: Sentence) -> dict[int | None, int]:
        """Give the place that each word of a sentence will have among the nodes; -1 for its root's head."""
        nodes = [token["id"] for token in sentence.tokens if not _is_range(token["id"])]
        return {number: len(self.nodes) + place for place, number in enumerate(nodes)} | {0: -1}

    def _mention(self, bracketed: Bracketed) -> Mention | None:
        """Find the head word of a mention; None where it is no word of the text."""
        places = [place for first, last in bracketed.ranges for place in range(first, last + 1)]
        words = [place for place in places if self.nodes[place].span is not None]
        if not words:
            return None
        if bracketed.head is not None and 1 <= bracketed.head <= len(places):
            head = self.nodes[places[bracketed.head - 1]]
        else:
            head = self.nodes[self._top(words)]
        if head.span is None:
            return None
        kind = _KINDS.get(head.part, OTHER)
        if head.part == "DET" and len(words) == 1:
            kind = PRONOUN
        forms = [self.nodes[place].form for place in words]
        return Mention(head.span, forms[-1], bracketed.entity, kind, head.form, " ".join(forms))

    def _top(self, words: list[int]) -> int:
        """Find the first word whose syntactic head lies outside; the last word where nothing is known."""
        own = set(words)
        heads = ((place, self.nodes[place].head) for place in words)
        return next((place for place, head in heads if head is not None and head not in own), words[-1])


def _is_range(number: Any) -> bool:
    """Tell the number of a multi-word token, such as 3-4."""
    return isinstance(number, tuple) and number[1] == "-"
