"""CorefUD: CoNLL-U with mentions as brackets in ``Entity=``, a document at a time."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from attnprobe.corpus.conllu import Sentence, parse_conllu
from attnprobe.corpus.document import Annotation, Document, Span
from attnprobe.corpus.links import NOMINAL, OTHER, PRONOUN, PROPER, Mention, link_mentions
from attnprobe.corpus.streams import shorten
from attnprobe.errors import DataError

_DECLARED = re.compile(r"#\s*global\.Entity\s*=\s*(\S+)")
#: An opening bracket with its fields, closed at once or later; or a closing bracket with its entity.
_BRACKET = re.compile(r"\([^()]+\)?|[^()]+\)")
#: The entity of a part of a mention that is not in one piece: e5[1/2].
_PART = re.compile(r"(?P<entity>.+)\[(?P<part>[0-9]{1,6})/(?P<parts>[0-9]{1,6})\]")
#: What the entity's number is called: GUM had another name for it, and numbers that are unique in a document.
_ENTITY = ("eid", "GRP")
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
    text, nodes, documents = _Text(name, (), group), 0, 0
    for sentence in chain(parse_conllu(lines, name), [None]):
        if sentence is None or (text.nodes and sentence.find_openings("newdoc")):
            nodes += len(text.nodes)
            if (document := text.finish()) is not None:
                documents += 1
                yield document
            text = _Text(name, text.fields, group)
        if sentence is not None:
            text.add(sentence)
    if nodes and not documents:
        raise DataError(
            f"{name} holds no mention with an antecedent and another one to choose from; coreference reads "
            "mentions from Entity= in the last column, as CorefUD has them."
        )


@dataclass(slots=True, eq=False)
class _Brackets:
    """A mention by its brackets, as far as they are read; ``begin`` is the first node of an open piece."""

    entity: str
    line: int
    parts: int
    head: str
    begin: int | None = None
    pieces: list[range] = field(default_factory=list)


class _Node(NamedTuple):
    """A word or an empty node of a document."""

    span: Span | None
    form: str
    part_of_speech: str
    head: int | None


class _Text:
    """A document that grows sentence by sentence.

    Mentions may nest, cross each other and go on in the next sentence. A closing bracket closes the mention
    of its entity that was opened last.
    """

    def __init__(self, name: str, fields: Sequence[str], group: str | None) -> None:
        """Begin a document of a file; brackets have the ``fields`` that ``# global.Entity`` declares."""
        self.nodes: list[_Node] = []
        self.fields = fields
        self._name, self._group_comment = name, group
        self._group: str | None = None
        self._text = ""
        self._blank: str | None = None
        self._parts_of_speech: dict[Span, str] = {}
        self._unfinished: defaultdict[str, list[_Brackets]] = defaultdict(list)
        self._mentions: list[_Brackets] = []

    def add(self, sentence: Sentence) -> None:
        for declared in filter(None, map(_DECLARED.match, sentence.comments)):
            self.fields = declared[1].split("-")
        if self._group_comment is not None and self._group is None:
            self._group = sentence.find_comment(self._group_comment)
        if self._blank is not None:
            self._text += "\n" if sentence.find_openings("newpar") else self._blank
        self._blank = sentence.blank
        text, spans = sentence.place_words()
        before = len(self._text)
        self._text += text
        moved = {span: Span(before + span.start, before + span.stop) for span in spans.values()}
        for span, part in sentence.find_parts_of_speech(spans).items():
            self._parts_of_speech[moved[span]] = part
        ids = [token["id"] for token in sentence.tokens if not _is_range(token["id"])]
        # -1 is the head of the root.
        places = {0: -1, **{number: place for place, number in enumerate(ids, len(self.nodes))}}
        for token, line in zip(sentence.tokens, sentence.lines, strict=True):
            entity = (token.get("misc") or {}).get("Entity")
            if not _is_range(token["id"]):
                span = spans.get(token["id"])
                head = None if span is None else places.get(token.get("head"))
                self.nodes.append(_Node(span and moved[span], token["form"], str(token.get("upos")), head))
                if entity:
                    self._read_brackets(entity, line)
            elif entity:
                raise DataError(
                    f"line {line} of {self._name} has Entity= at a multi-word token; move it to the words of "
                    "the token."
                )

    def _read_brackets(self, brackets: str, line: int) -> None:
        """Read the brackets that stand at the last node."""
        place = next((place for place, name in enumerate(self.fields) if name in _ENTITY), None)
        if place is None:
            raise DataError(
                f"line {line} of {self._name} has Entity=, but no line above says where the entity stands "
                "in it; write '# global.Entity = eid-etype-head-other' or the like before the first sentence."
            )
        chunks = _BRACKET.findall(brackets)
        if "".join(chunks) != brackets:
            raise self._refuse(line, f"Entity={shorten(brackets)}, not made of brackets like (e1 and e1)")
        for chunk in chunks:
            values = chunk.strip("()").split("-")
            # A closing bracket has the entity alone, or fields as the opening has.
            alone = len(values) == 1 and not chunk.startswith("(")
            spelled = values[0] if alone else "".join(values[place : place + 1])
            match = _PART.fullmatch(spelled)
            entity, part, parts = (match[1], int(match[2]), int(match[3])) if match else (spelled, 1, 1)
            if chunk.startswith("("):
                if not entity or not 1 <= part <= parts:
                    raise self._refuse(line, f"a mention of {shorten(spelled)!r}, which names no entity")
                if part == 1:
                    head = dict(zip(self.fields, values, strict=False)).get("head", "")
                    mention = _Brackets(entity, line, parts, head)
                    if head and not re.fullmatch(r"[0-9]{1,9}", head):
                        raise self._refuse(line, f"{shorten(head)!r} for the number of the head of a mention")
                else:
                    mention = self._take(entity, part, parts, line, is_open=False)
                mention.begin = len(self.nodes) - 1
                self._unfinished[entity].append(mention)
            if chunk.endswith(")"):
                mention = self._take(entity, part, parts, line, is_open=True)
                mention.pieces.append(range(mention.begin or 0, len(self.nodes)))
                mention.begin = None
                whole = len(mention.pieces) == parts
                (self._mentions if whole else self._unfinished[entity]).append(mention)

    def _take(self, entity: str, part: int, parts: int, line: int, *, is_open: bool) -> _Brackets:
        """Take the last mention of an entity of which this is the next piece out of the unfinished ones."""
        unfinished = self._unfinished[entity]
        for place in reversed(range(len(unfinished))):
            mention = unfinished[place]
            state = len(mention.pieces) + 1, mention.parts, mention.begin is not None
            if state == (part, parts, is_open):
                return unfinished.pop(place)
        what = "the end of a mention" if is_open else f"part {part} of a mention"
        raise self._refuse(line, f"{what} of {shorten(entity)!r} that is not open")

    def _refuse(self, line: int, what: str) -> DataError:
        return DataError(f"line {line} of {self._name} has {what}; mend the brackets of Entity= there.")

    def finish(self) -> Document | None:
        """Give the document, or None if it has no link; refuse mentions that were never closed."""
        if unfinished := [mention for mentions in self._unfinished.values() for mention in mentions]:
            first = min(unfinished, key=lambda mention: (mention.begin is None, mention.line))
            told = (
                "that is never closed" if first.begin is not None else f"without all its {first.parts} parts"
            )
            raise self._refuse(first.line, f"a mention of {shorten(first.entity)!r} {told}")
        links = link_mentions([mention for mention in map(self._read_mention, self._mentions) if mention])
        if not links:
            return None
        words = dict.fromkeys(node.span for node in self.nodes if node.span is not None)
        annotation = Annotation(tuple(words), tuple(links), parts_of_speech=self._parts_of_speech)
        return Document(self._text, annotation=annotation, group=self._group)

    def _read_mention(self, brackets: _Brackets) -> Mention | None:
        """Find the head word of a mention; None where it is no word of the text.

        The head is the declared one, else the first word whose syntactic head lies outside, else the last.
        """
        places = [place for piece in brackets.pieces for place in piece]
        words = {place: self.nodes[place] for place in places if self.nodes[place].span is not None}
        number = int(brackets.head or 0)
        if not words:
            return None
        if 1 <= number <= len(places):
            head = self.nodes[places[number - 1]]
        else:
            outer = (node for node in words.values() if node.head is not None and node.head not in words)
            head = next(outer, self.nodes[max(words)])
        if head.span is None:
            return None
        kind = _KINDS.get(head.part_of_speech, OTHER)
        if head.part_of_speech == "DET" and len(words) == 1:
            kind = PRONOUN
        forms = [node.form for node in words.values()]
        return Mention(head.span, forms[-1], brackets.entity, kind, head.form, " ".join(forms))


def _is_range(number: Any) -> bool:
    """Tell the number of a multi-word token, such as 3-4."""
    return isinstance(number, tuple) and number[1] == "-"
