"""CoNLL-U: a sentence at a time, checked against the rules of the format before it is believed."""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, TypeVar

from attnprobe.corpus.document import Annotation, Document, Link, Span, Tagged, group_parts
from attnprobe.corpus.source import Source
from attnprobe.corpus.streams import decode_lines, shorten, split_blocks
from attnprobe.errors import DataError

Token = Mapping[str, Any]

#: The head of a sentence's root.
_ROOT = 0


def annotate_sentence(tokens: Sequence[Token], text: str | None) -> tuple[str, Annotation]:
    """Find the words of a sentence in its text, and link each to the head it depends on.

    A word inside a multi-word token, such as "du" for "de le", covers the whole of it; the token is one of
    the words once. No relation inside such a token is a link, since both of its ends are the same. Empty
    nodes stand for nothing in the text and are left out, and so are links from or to them.

    Returns:
        The text; and its words in their order with a link a dependent: source the dependent, target its head,
        label the relation.
    """
    text, spans = place_words(tokens, text)
    links = []
    for token in tokens:
        number, head = token["id"], token.get("head")
        if not isinstance(number, int) or not isinstance(head, int) or head == _ROOT or head not in spans:
            continue
        if spans[number] != spans[head]:
            relation = token.get("deprel")
            label = "" if relation in (None, "_") else str(relation)
            links.append(Link(spans[number], spans[head], label))
    words = tuple(dict.fromkeys(spans.values()))
    return text, Annotation(words, tuple(links), parts_of_speech=find_parts_of_speech(tokens, spans))


def find_parts_of_speech(tokens: Iterable[Token], spans: Mapping[int, Span]) -> dict[Span, str]:
    """Find what part of speech the words of a sentence are: UPOS, or XPOS where UPOS is ``_``.

    A multi-word token is what its first word is that depends on none inside it: "du" is an adposition, as
    "de" is, and "dámelo" a verb.
    """
    found: dict[Span, str] = {}
    inner: dict[Span, str] = {}
    for token in tokens:
        span, part, head = spans.get(token["id"]), _read_part_of_speech(token), token.get("head")
        if span is not None and part:
            inside = head is not None and spans.get(head) == span
            (inner if inside else found).setdefault(span, part)
    return inner | found


def _read_part_of_speech(token: Token) -> str:
    said = (token.get(column) for column in ("upos", "xpos"))
    return next((str(part) for part in said if part not in (None, "_", "")), "")


def tag_sentence(tokens: Iterable[Token], column: str) -> Tagged | None:
    """Give the words of a sentence with what a column says of each; None where it says nothing.

    Words are those that have a number of their own, "de" and "le" rather than "du". A word of which the
    column says nothing (``_``) does not count.
    """
    words = [token for token in tokens if isinstance(token["id"], int)]
    tags = tuple(None if token[column] in (None, "_", "") else str(token[column]) for token in words)
    return None if set(tags) <= {None} else Tagged(tuple(token["form"] for token in words), tags)


def place_words(tokens: Iterable[Token], text: str | None) -> tuple[str, dict[int, Span]]:
    """Give the text of a sentence, and the span of each word by its number.

    What ``# text`` says is believed if it is made of the forms, in their order, with nothing but blanks
    between them; otherwise the forms and ``SpaceAfter=No`` make the text.
    """
    surface = list(_list_surface(tokens))
    places = _find_forms(surface, text) if text else None
    if text is None or places is None:
        text, places = _join_surface(surface)
    spans = {}
    for (_, _, numbers), span in zip(surface, places, strict=True):
        spans.update(dict.fromkeys(numbers, span))
    return text, spans


def join_forms(tokens: Iterable[Token]) -> str:
    """Join the surface forms: a multi-word token such as 3-4 stands for the words it covers."""
    return _join_surface(list(_list_surface(tokens)))[0].strip()


def is_glued(tokens: Iterable[Token]) -> bool:
    """Tell whether no blank follows a sentence, which ``SpaceAfter=No`` of its last form says."""
    blanks = [blank for _, blank, _ in _list_surface(tokens)]
    return bool(blanks) and not blanks[-1]


def _find_forms(surface: Sequence[tuple[str, bool, range]], text: str) -> list[Span] | None:
    """Look the forms up in a text; None where it does not hold them, and nothing else, in their order."""
    spans, place = [], 0
    for form, _, _ in surface:
        start = text.find(form, place)
        if start < 0 or text[place:start].strip():
            return None
        place = start + len(form)
        spans.append(Span(start, place))
    return None if text[place:].strip() else spans


def _join_surface(surface: Sequence[tuple[str, bool, range]]) -> tuple[str, list[Span]]:
    """Put the forms together, with blanks where they belong."""
    parts, spans, place = [], [], 0
    for form, blank, _ in surface:
        spans.append(Span(place, place + len(form)))
        parts += [form, " " * blank]
        place = spans[-1].stop + blank
    return "".join(parts[:-1]), spans


def _list_surface(tokens: Iterable[Token]) -> Iterator[tuple[str, bool, range]]:
    """Give each form that stands in the text, whether a blank follows, and the numbers of its words."""
    covered = 0
    for token in tokens:
        match token["id"]:
            case (_, ".", _):  # an empty node: inferred, not in the text
                continue
            case (first, "-", last):
                covered, numbers = last, range(first, last + 1)
            case int(number) if number <= covered:
                continue
            case number:
                numbers = range(number, number + 1)
        yield token["form"], (token.get("misc") or {}).get("SpaceAfter") != "No", numbers


#: What the columns say of a word that can be its label; the first is the usual one.
TAGS = ("upos", "xpos", "deprel")
COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
#: A line that names other columns, as CoNLL-U Plus has them.
_DECLARED = "# global.columns = "
#: Comments that say that something begins with the next sentence.
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b")
_NEW_PARAGRAPH = re.compile(r"#\s*newpar\b")

Read = TypeVar("Read")


@dataclass(frozen=True)
class Sentence:
    """A sentence of CoNLL-U, checked."""

    tokens: Sequence[Token]
    numbers: Sequence[int]
    comments: Sequence[str]
    said: str | None

    @property
    def text(self) -> str:
        return self.said or join_forms(self.tokens)

    @property
    def begins_document(self) -> bool:
        return any(map(_NEW_DOCUMENT.match, self.comments))

    @property
    def begins_paragraph(self) -> bool:
        return any(map(_NEW_PARAGRAPH.match, self.comments))


def find_comment(comments: Iterable[str], name: str) -> str | None:
    """Give the value of the first comment ``# NAME = VALUE``; None where there is none, or it is empty.

    A prefix before ``::``, as GUM has it, need not be named.

    >>> find_comment(["# sent_id = 3", "# meta::genre = news"], "genre")
    'news'
    """
    for comment in comments:
        said, _, value = comment.lstrip("#").partition("=")
        if name in (said.strip(), said.strip().rpartition("::")[2]) and value.strip():
            return value.strip()
    return None


class _StratumReader:
    """Tells in which group each sentence counts: by its own comment, or by that which opens its document."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._of_document: str | None = None

    def read(self, sentence: Sentence) -> str | None:
        if self._name is None:
            return None
        own = find_comment(sentence.comments, self._name)
        if sentence.begins_document:
            self._of_document = own
        return own or self._of_document


def _group_sentences(sentences: Iterable[tuple[Sentence, Document]]) -> Iterator[Document]:
    """Say of each sentence of a file which document it is a part of."""

    def openings() -> Iterator[tuple[str | None, str, Document]]:
        documents = False
        for sentence, found in sentences:
            documents = documents or sentence.begins_document
            begins = _NEW_DOCUMENT if documents else _NEW_PARAGRAPH
            said = [line.strip() for line in sentence.comments if begins.match(line)]
            yield said[-1] if said else None, sentence.text, found

    return (replace(found, group=group) for group, found in group_parts(openings()))


def read_treebank(stream: BinaryIO, source: Source) -> Iterator[Document]:
    """Read the sentences of a file that hold a text, with what is wanted of them."""
    tags = _choose_tags(source)
    if tags is None:
        source.refuse_columns(source.spec)
    lines = decode_lines(stream, source.spec)
    return read_conllu(lines, source.spec, annotated=source.annotated, tags=tags, group=source.group_column)


def _choose_tags(source: Source) -> str | None:
    """Tell which column labels the words, if labels are wanted."""
    if source.annotated or not source.find_labels:
        return None
    if any((source.text_column, source.pair_column, source.document_column)):
        raise DataError(
            f"{source.spec} is CoNLL-U, whose text has no column; leave out --text-column, "
            "--text-pair-column and --document-column"
        )
    column = source.label_column or TAGS[0]
    if column not in TAGS:
        raise DataError(
            f"{source.spec} is CoNLL-U, whose words are labelled by {', '.join(TAGS)}; pass one of them to "
            "--label-column"
        )
    return column


def read_conllu(
    lines: Iterable[str],
    name: str,
    *,
    annotated: bool = False,
    tags: str | None = None,
    group: str | None = None,
) -> Iterator[Document]:
    """Read the sentences of CoNLL-U that hold a text.

    Each is part of a document that begins with ``# newdoc``, or else of a paragraph that begins with
    ``# newpar``, if one has begun.

    ``group``: the comment that says in which group a sentence counts: its own, or that of the sentence that
    opens its document.
    """
    strata = _StratumReader(group)

    def read(sentence: Sentence) -> tuple[Sentence, Document]:
        stratum = strata.read(sentence)
        if not annotated:
            label = None if tags is None else tag_sentence(sentence.tokens, tags)
            return sentence, Document(sentence.text, label=label, stratum=stratum)
        _check_heads(sentence.tokens)
        text, annotation = annotate_sentence(sentence.tokens, sentence.said)
        return sentence, Document(text, annotation=annotation, stratum=stratum)

    for document in _group_sentences(parse_conllu(lines, name, read)):
        if document.text.strip():
            yield document


def parse_conllu(lines: Iterable[str], name: str, read: Callable[[Sentence], Read]) -> Iterator[Read]:
    """Make something of each sentence of a CoNLL-U file; a ValueError of ``read`` refuses the sentence."""
    import conllu
    from conllu.exceptions import ParseException

    columns = list(COLUMNS)
    alone: list[str] = []
    # A sentence at a time, because conllu's own exceptions do not say where they happened.
    for start, block in split_blocks(lines):
        try:
            columns = _find_declared(block) or columns
            numbers = _number_lines(block, columns, start)
            comments = [*alone, *(line for line in block if line.startswith("#"))]
            if not numbers:
                alone = comments
                continue
            (sentence,) = conllu.parse_incr(io.StringIO("".join(block)), fields=columns)
            _check_words(sentence)
            found = read(Sentence(sentence, numbers, comments, sentence.metadata.get("text")))
        except (ParseException, ValueError, KeyError) as error:
            # Columns can be declared in the file, and then the ones we need can be missing.
            wrong = f"no column {error.args[0]}" if isinstance(error, KeyError) else error
            raise DataError(
                f"the sentence at line {start} of {name} is not CoNLL-U ({shorten(wrong)}); mend it, "
                "or rename the file to .txt if it holds a document a line"
            ) from None
        alone = []
        yield found


def looks_like_conllu(line: str) -> bool:
    """Tell by its first line, which is not blank, whether a text looks like CoNLL-U."""
    return line.startswith("#") or (line[:1].isdigit() and "\t" in line)


def _find_declared(block: Sequence[str]) -> list[str]:
    """Find the columns that CoNLL-U Plus declares, once for the whole file."""
    line = next((line for line in block if line.startswith(_DECLARED)), "")
    return line.removeprefix(_DECLARED).lower().split()


def _number_lines(block: Sequence[str], columns: Sequence[str], start: int) -> list[int]:
    numbers = []
    for number, line in enumerate(block, start=start):
        if line.startswith("#"):
            continue
        found = line.rstrip("\r\n").count("\t") + 1
        if found != len(columns):
            raise ValueError(f"line {number} has {found} columns with tabs between, not {len(columns)}")
        numbers.append(number)
    return numbers


def _check_words(sentence: Iterable[Token]) -> None:
    words, last = 0, 0
    for token in sentence:
        match token["id"]:
            case int(number):
                words, fits = words + 1, number == words + 1
            case (int(begin), "-", int(end)):
                fits = begin == words + 1 and end >= begin > last
                last = end
            case (int(number), ".", _):
                fits = number == words
            case _:
                fits = False
        if not (fits and token["form"]):
            raise ValueError(f"a line behind word {words} has no form, or a number out of order")
    if last > words:
        raise ValueError(f"a range ends at word {last} of {words}")


def _check_heads(sentence: Iterable[Token]) -> None:
    """Refuse heads that are no words of the sentence, or lead in circles; none at all make no tree."""
    heads = {token["id"]: token.get("head") for token in sentence if isinstance(token["id"], int)}
    if all(head is None for head in heads.values()):
        return
    for word, head in heads.items():
        if head is None:
            raise ValueError(f"word {word} has no head, and others have one")
        if head not in heads and head != 0:
            raise ValueError(f"word {word} depends on word {head}, which is not there")
    safe = {0}
    for first in heads:
        word, path = first, []
        while word not in safe:
            if word in path:
                raise ValueError(f"the heads of word {word} lead in a circle")
            path.append(word)
            word = heads[word] or 0
        safe.update(path)
