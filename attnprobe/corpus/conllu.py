"""CoNLL-U: a sentence at a time, checked against the rules of the format before it is believed."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, BinaryIO

from attnprobe.corpus.document import Annotation, Document, Link, Span, Tagged, group_parts
from attnprobe.corpus.source import Source
from attnprobe.corpus.streams import decode_lines, shorten, split_blocks
from attnprobe.errors import DataError

Token = Mapping[str, Any]

#: What the columns say of a word that can be its label; the first is the usual one.
TAGS = ("upos", "xpos", "deprel")
_BLANK = (None, "_", "")


@dataclass(frozen=True)
class Sentence:
    """A sentence of CoNLL-U, checked."""

    tokens: Sequence[Token]  # words, multi-word tokens and empty nodes
    lines: Sequence[int]  # the number of the line of each
    comments: Sequence[str]  # the lines before them that begin with ``#``
    stated: str | None  # what ``# text`` says

    @cached_property
    def _forms(self) -> list[tuple[str, str, range]]:
        """List each form that stands in the text, the blank that follows, and the numbers of its words."""
        forms, covered = [], 0
        for token in self.tokens:
            match token["id"]:
                case (first, "-", last):
                    covered, numbers = last, range(first, last + 1)
                case int(number) if number > covered:
                    numbers = range(number, number + 1)
                case _:  # part of a multi-word token; an empty node, which is inferred, not in the text
                    continue
            glued = (token["misc"] or {}).get("SpaceAfter") == "No"
            forms.append((token["form"], "" if glued else " ", numbers))
        return forms

    @property
    def blank(self) -> str:
        """What stands between it and the next sentence: nothing where its last form has SpaceAfter=No."""
        return self._forms[-1][1] if self._forms else " "

    @property
    def _joined(self) -> str:
        return "".join(form + blank for form, blank, _ in self._forms).removesuffix(self.blank)

    @property
    def text(self) -> str:
        return self.stated or self._joined.strip()

    def find_openings(self, what: str) -> list[str]:
        """List the comments that say that a document (``newdoc``) or a paragraph (``newpar``) begins."""
        return [line.strip() for line in self.comments if re.match(rf"#\s*{what}\b", line)]

    def find_comment(self, name: str) -> str | None:
        """Give the value of the first ``# NAME = VALUE``, or ``# meta::NAME = VALUE`` as GUM has it."""
        for comment in self.comments:
            key, _, value = map(str.strip, comment.lstrip("#").partition("="))
            if name in (key, key.rpartition("::")[2]) and value:
                return value
        return None

    def place_words(self) -> tuple[str, dict[int, Span]]:
        """Give the text, and the span of each word by its number; that of a multi-word token inside one.

        What ``# text`` says is believed if it is made of the forms, in their order, with nothing but blanks
        between them; otherwise the forms and ``SpaceAfter=No`` make the text.
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
        """Find UPOS, or else XPOS; of a multi-word token, that of its first that depends on none inside."""
        outer, inner = dict[Span, str](), dict[Span, str]()
        for token in self.tokens:
            span, part = spans.get(token["id"]), token["upos"]
            part = token["xpos"] if part in _BLANK else part
            if span is not None and part not in _BLANK:
                inside = token["head"] is not None and spans.get(token["head"]) == span
                (inner if inside else outer).setdefault(span, str(part))
        return inner | outer

    def annotate(self) -> Document:
        """Link each word to the head it depends on, by relation; multi-word tokens are one word."""
        text, spans = self.place_words()
        links = []
        for token in self.tokens:
            number, head, relation = token["id"], token["head"], token["deprel"]
            if isinstance(number, int) and head in spans and spans[number] != spans[head]:
                links.append(Link(spans[number], spans[head], "" if relation in _BLANK else str(relation)))
        words, parts = tuple(dict.fromkeys(spans.values())), self.find_parts_of_speech(spans)
        return Document(text, annotation=Annotation(words, tuple(links), parts_of_speech=parts))

    def tag(self, column: str) -> Document:
        """Label the words, "de" and "le" rather than "du", with a column, if it has more than ``_``."""
        words = [token for token in self.tokens if isinstance(token["id"], int)]
        tags = tuple(None if token[column] in _BLANK else str(token[column]) for token in words)
        label = None if set(tags) <= {None} else Tagged(tuple(token["form"] for token in words), tags)
        return Document(self.text, label=label)


def parse_conllu(lines: Iterable[str], name: str, *, heads: bool = False) -> Iterator[Sentence]:
    """Parse the sentences of a file called ``name``; with ``heads``, those of each must make a tree."""
    import conllu
    from conllu.exceptions import ParseException
    from conllu.parser import DEFAULT_FIELDS

    waiting = list[str]()
    # A sentence at a time, because conllu's own exceptions do not say where they happened.
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
    """Refuse numbers out of order and, with ``heads``, those of no word or in circles; none make no tree."""
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

    Each is part of a document that begins with ``# newdoc``, or else of a paragraph that begins with
    ``# newpar``, if one has begun. ``tags`` is the column that labels the words, ``group`` the comment that
    says in which group a sentence counts: its own, or that of the sentence that opens its document.
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


def read_treebank(stream: BinaryIO, source: Source) -> Iterator[Document]:
    """Read the sentences of a file that hold a text, with what is wanted of them."""
    tags = None
    if source.annotated or not source.find_labels:
        source.refuse_columns(source.spec, grouped=True)
    else:
        named = ("text_column", "pair_column", "document_column")
        source.refuse(f"{source.spec} is CoNLL-U, whose text has no column", *named)
        if (tags := source.label_column or TAGS[0]) not in TAGS:
            raise DataError(f"{source.spec} is CoNLL-U; --label-column takes {', '.join(TAGS)}")
    lines = decode_lines(stream, source.spec)
    return read_conllu(lines, source.spec, annotated=source.annotated, tags=tags, group=source.group_column)


def looks_like_conllu(line: str) -> bool:
    """Tell by its first line, which is not blank, whether a text looks like CoNLL-U."""
    return line.startswith("#") or (line[:1].isdigit() and "\t" in line)
