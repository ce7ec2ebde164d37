"""CoNLL-U, read and checked a sentence at a time."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from attnprobe.corpus.document import Annotation, Document, Link, Span, Tagged, group_parts
from attnprobe.corpus.source import Source
from attnprobe.corpus.streams import shorten, split_blocks
from attnprobe.errors import DataError

Token = Mapping[str, Any]

#: The columns that can be labels of words, the usual one first.
TAGS = ("upos", "xpos", "deprel")
_BLANK = (None, "_", "")


@dataclass(frozen=True)
class Sentence:
    """A sentence of CoNLL-U."""

    tokens: Sequence[Token]  # words, multi-word tokens and empty nodes
    lines: Sequence[int]  # their line numbers
    comments: Sequence[str]  # the lines before that begin with ``#``
    stated: str | None  # the text of ``# text``

    @cached_property
    def _forms(self) -> list[tuple[str, str, range]]:
        """List the forms of the text, each with the blank behind it and the numbers of its words."""
        forms, covered = [], 0
        for token in self.tokens:
            match token["id"]:
                case (first, "-", last):
                    covered, numbers = last, range(first, last + 1)
                case int(number) if number > covered:
                    numbers = range(number, number + 1)
                case _:  # part of a multi-word token, or an empty node, which is not in the text
                    continue
            glued = (token["misc"] or {}).get("SpaceAfter") == "No"
            forms.append((token["form"], "" if glued else " ", numbers))
        return forms

    @property
    def blank(self) -> str:
        """The blank before the next sentence; "" where the last form has SpaceAfter=No."""
        return self._forms[-1][1] if self._forms else " "

    @property
    def _joined(self) -> str:
        return "".join(form + blank for form, blank, _ in self._forms).removesuffix(self.blank)

    @property
    def text(self) -> str:
        return self.stated or self._joined.strip()

    def find_openings(self, what: str) -> list[str]:
        """List the comments that open a document (``newdoc``) or a paragraph (``newpar``)."""
        return [line.strip() for line in self.comments if re.match(rf"#\s*{what}\b", line)]

    def find_comment(self, name: str) -> str | None:
        """Find the value of the first ``# NAME = VALUE``, or ``# meta::NAME = VALUE`` as in GUM."""
        for comment in self.comments:
            key, _, value = map(str.strip, comment.lstrip("#").partition("="))
            if name in (key, key.rpartition("::")[2]) and value:
                return value
        return None

    def place_words(self) -> tuple[str, dict[int, Span]]:
        """Find the text, and the spans of words by number; in a multi-word token, all have its span.

        The text of ``# text`` is taken if it is the forms, in order, with only blanks between them; otherwise
        forms are joined by ``SpaceAfter=No``.
        """
        for text in (self.stated or "", self._joined):
            spans: dict[int, Span] = {}
            place = 0
            for form, _, numbers in self._forms:
                start = text.find(form, place)
                if start < 0 or text[place:start].strip():
                    break
                place = start + len(form)
                spans |= dict.fromkeys(numbers, Span(start, place))
            else:
                if not text[place:].strip():
                    break
        return text, spans

    def find_parts_of_speech(self, spans: Mapping[int, Span]) -> dict[Span, str]:
        """Find UPOS, or else XPOS, by span; for a multi-word token, of its first word with a head outside."""
        outer, inner = dict[Span, str](), dict[Span, str]()
        for token in self.tokens:
            span, part = spans.get(token["id"]), token["upos"]
            part = token["xpos"] if part in _BLANK else part
            if span is not None and part not in _BLANK:
                inside = token["head"] is not None and spans.get(token["head"]) == span
                (inner if inside else outer).setdefault(span, str(part))
        return inner | outer

    def annotate(self) -> Document:
        """Make a document that links each word to its head, by relation; a multi-word token is one word."""
        text, spans = self.place_words()
        links = []
        for token in self.tokens:
            number, head, relation = token["id"], token["head"], token["deprel"]
            if isinstance(number, int) and head in spans and spans[number] != spans[head]:
                links.append(Link(spans[number], spans[head], "" if relation in _BLANK else str(relation)))
        words, parts = tuple(dict.fromkeys(spans.values())), self.find_parts_of_speech(spans)
        return Document(text, annotation=Annotation(words, tuple(links), parts_of_speech=parts))

    def tag(self, column: str) -> Document:
        """Label words ("de", "le", not "du") with a column, in a new document; no label if all are ``_``."""
        words = [token for token in self.tokens if isinstance(token["id"], int)]
        tags = tuple(None if token[column] in _BLANK else str(token[column]) for token in words)
        label = None if set(tags) <= {None} else Tagged(tuple(token["form"] for token in words), tags)
        return Document(self.text, label=label)


def parse_conllu(lines: Iterable[str], name: str, *, heads: bool = False) -> Iterator[Sentence]:
    """Parse the sentences of the file ``name``, or refuse; with ``heads``, heads have to make trees."""
    import conllu
    from conllu.exceptions import ParseException
    from conllu.parser import DEFAULT_FIELDS

    waiting = list[str]()
    # A sentence at a time, since the exceptions of conllu name no line.
    for start, block in split_blocks(lines):
        comments = [*waiting, *(line for line in block if line.startswith("#"))]
        rows = [number for number, line in enumerate(block, start) if not line.startswith("#")]
        waiting = [] if rows else comments  # comments alone belong to the sentence that follows
        if not rows:
            continue
        try:
            if wrong := [number for number in rows if block[number - start].count("\t") != 9]:
                raise ValueError(f"line {wrong[0]} does not have 10 columns with tabs between")
            (tokens,) = conllu.parse("".join(block), DEFAULT_FIELDS)
            _check_tokens(tokens, heads=heads)
        except (ParseException, ValueError) as error:
            raise DataError(
                f"the sentence at line {start} of {name} is not CoNLL-U ({shorten(error)}); mend it, "
                "or rename the file to .txt if it holds a document a line"
            ) from None
        yield Sentence(tokens, rows, comments, tokens.metadata.get("text"))


def _check_tokens(tokens: Iterable[Token], *, heads: bool) -> None:
    """Refuse missing forms, wrong numbers and, with ``heads``, heads (if any) that make no tree."""
    words, last = 0, 0
    for token in tokens:
        fits = False
        match token["id"]:
            case int(number):
                words, fits = words + 1, number == words + 1
            case (int(begin), "-", int(end)):
                fits = begin == words + 1 and end >= begin > last
                last = end
            case (int(number), ".", _):
                fits = number == words
        if not (fits and token["form"]):
            raise ValueError(f"a line behind word {words} has no form, or a number out of order")
    if last > words:
        raise ValueError(f"a range ends at word {last} of {words}")
    tree = {token["id"]: token["head"] for token in tokens if heads and isinstance(token["id"], int)}
    if all(head is None for head in tree.values()):
        return
    dependents = defaultdict[int | None, list[int]](list)
    for word, head in tree.items():
        dependents[head].append(word)
    reached = [0]
    for word in reached:  # which grows
        reached += dependents.pop(word, [])
    for word, *_ in dependents.values():
        raise ValueError(f"the head of word {word} is no word of the sentence, or leads in a circle")


def read_conllu(
    lines: Iterable[str],
    name: str,
    *,
    annotated: bool = False,
    tags: str | None = None,
    group: str | None = None,
) -> Iterator[Document]:
    """Read the sentences of CoNLL-U that hold a text, with words and dependencies, or labels of words.

    Each is part of the document that ``# newdoc`` opened, or else of a paragraph that ``# newpar`` opened, if
    any. ``tags`` is the column that labels words. The comment ``group`` names the group of a sentence, or in
    the first sentence of a document that of all.
    """

    def list_parts() -> Iterator[tuple[str | None, str, Document]]:
        mark, of_document = "newpar", None
        for sentence in parse_conllu(lines, name, heads=annotated):
            counts_in = None if group is None else sentence.find_comment(group)
            if sentence.find_openings("newdoc"):
                mark, of_document = "newdoc", counts_in
            opens = sentence.find_openings(mark)
            document = Document(sentence.text) if tags is None else sentence.tag(tags)
            document = replace(sentence.annotate() if annotated else document, group=counts_in or of_document)
            yield opens[-1] if opens else None, sentence.text, document

    for whole, document in group_parts(list_parts()):
        if document.text.strip():
            yield replace(document, part_of=whole)


def read_treebank(lines: Iterable[str], source: Source) -> Iterator[Document]:
    """Read the sentences of a file: plain, with dependencies or with labels of words, as a source asks."""
    tags = None
    if source.annotated or not source.find_labels:
        source.refuse_columns(source.spec, grouped=True)
    else:
        named = ("text_column", "pair_column", "document_column")
        source.refuse(f"{source.spec} is CoNLL-U, whose text has no column", *named)
        if (tags := source.label_column or TAGS[0]) not in TAGS:
            raise DataError(f"{source.spec} is CoNLL-U; --label-column takes {', '.join(TAGS)}")
    return read_conllu(lines, source.spec, annotated=source.annotated, tags=tags, group=source.group_column)


def looks_like_conllu(line: str) -> bool:
    """Tell whether the first line of a text that is not blank looks like CoNLL-U."""
    return line.startswith("#") or (line[:1].isdigit() and "\t" in line)
