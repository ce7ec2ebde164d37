"""CorefUD: CoNLL-U with mentions as brackets in ``Entity=``, a document at a time."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from attnprobe.corpus.sources.annotation import Annotation, Span
from attnprobe.corpus.sources.coreference.brackets import Bracketed, Brackets
from attnprobe.corpus.sources.coreference.mentions import NOMINAL, OTHER, PRONOUN, PROPER, Mention, linked
from attnprobe.corpus.sources.coreference.remarks import say_left_out
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.treebank import Sentence, parsed
from attnprobe.corpus.sources.trees import glued, placed
from attnprobe.errors import AttnprobeError

_DECLARED = re.compile(r"#\s*global\.Entity\s*=\s*(\S+)")
_KINDS = {"PRON": PRONOUN, "PROPN": PROPER, "NOUN": NOMINAL}


def read_corefud(lines: Iterable[str], name: str) -> Iterator[Document]:
    """Read the documents of a CorefUD file, each with a link for every mention that has an antecedent.

    A document goes from ``# newdoc`` to the next, or over the whole file where there is none. Its sentences
    are joined by a blank, by nothing where their last word has ``SpaceAfter=No``, and by a line break before
    ``# newpar``. One without any link is left out.

    Args:
        lines: Of the file.
        name: What errors call it.

    Raises:
        AttnprobeError: Where a sentence is not CoNLL-U, or brackets make no mentions.

    References:
        Nedoluzhko et al. (2022), CorefUD 1.0: coreference meets Universal Dependencies.
    """
    left_out: Counter[str] = Counter()
    any_text = any_link = False
    for text in _texts(lines, name):
        any_text = True
        document = text.finished(left_out)
        if document is not None:
            any_link = True
            yield document
    if any_text and not any_link:
        raise AttnprobeError(
            f"{name} holds no mention with an antecedent and another one to choose from; coreference reads "
            "mentions from Entity= in the last column, as CorefUD has them."
        )
    say_left_out(name, "mention", left_out)


def _texts(lines: Iterable[str], name: str) -> Iterator["_Text"]:
    text = _Text(name)
    for sentence in parsed(lines, name, lambda found: found):
        if sentence.begins_document and text.nodes:
            yield text
            text = _Text(name, text.brackets.fields)
        text.add(sentence)
    if text.nodes:
        yield text


@dataclass(slots=True)
class _Node:
    """A word or an empty node of a document.

    Attributes:
        span: Its characters; None for an empty node.
        form: As it is written.
        part: Its part of speech.
        head: The place of its syntactic head among the nodes, -1 where it is the root, None where unknown.
    """

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
        self._length = 0
        self._glued = False

    def add(self, sentence: Sentence) -> None:
        for comment in sentence.comments:
            if declared := _DECLARED.match(comment):
                self.brackets.fields = tuple(declared[1].split("-"))
        if self._parts:
            self._append("\n" if sentence.begins_paragraph else "" if self._glued else " ")
        said, spans = placed(sentence.tokens, sentence.said)
        places = self._places(sentence)
        for token, line in zip(sentence.tokens, sentence.numbers, strict=True):
            number, entity = token["id"], (token.get("misc") or {}).get("Entity")
            if _is_range(number):
                if entity:
                    raise AttnprobeError(
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
        self._append(said)
        self._glued = glued(sentence.tokens)

    def finished(self, left_out: Counter[str]) -> Document | None:
        """Give the document, or None if it has no link; count the mentions that are left out."""
        found = [self._mention(bracketed) for bracketed in self.brackets.finished()]
        mentions = [mention for mention in found if mention is not None]
        links, unasked = linked(mentions)
        left_out["for words that are not in the text (empty nodes)"] += len(found) - len(mentions)
        left_out["with an antecedent, but without two mentions before to choose from"] += unasked
        if not links:
            return None
        words = dict.fromkeys(node.span for node in self.nodes if node.span is not None)
        return Document("".join(self._parts), annotation=Annotation(tuple(words), tuple(links)))

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
        return Mention(head.span, self.nodes[words[-1]].form, bracketed.entity, kind)

    def _top(self, words: list[int]) -> int:
        """Find the first word whose syntactic head lies outside; the last word where nothing is known."""
        own = set(words)
        heads = ((place, self.nodes[place].head) for place in words)
        return next((place for place, head in heads if head is not None and head not in own), words[-1])


def _is_range(number: Any) -> bool:
    """Tell the number of a multi-word token, such as 3-4."""
    return isinstance(number, tuple) and number[1] == "-"
