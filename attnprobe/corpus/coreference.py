"""Coreference: CorefUD, with mentions as brackets in ``Entity=``, and GAP, with a pronoun and two names."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple

from attnprobe.corpus.conllu import Sentence, looks_like_conllu, parse_conllu
from attnprobe.corpus.document import SEVERAL, Annotation, Document, Span, split_documents
from attnprobe.corpus.links import NOMINAL, OTHER, PRONOUN, PROPER, Mention, link_antecedent, link_mentions
from attnprobe.corpus.rows import parse_tsv
from attnprobe.corpus.schema import require
from attnprobe.corpus.source import Source
from attnprobe.corpus.streams import peek_lines, shorten, strip_packing
from attnprobe.errors import DataError

#: The formats, for errors.
COREFERENCE = "CorefUD (.conllu) or GAP (.tsv)"


def read_coreference(
    lines: Iterable[str], name: str | PurePath, group: str | None = None
) -> Iterator[Document]:
    """Read documents with a link for every mention that has an antecedent.

    ``name`` is the path of the file, or what errors call it; without an extension, the first line decides.
    ``group`` is the column or the comment that says in which group a document counts.
    """
    first, lines = peek_lines(lines)
    extension, document = strip_packing(PurePath(name)).suffix.lower(), None
    corefud = extension == ".conllu" or (extension != ".tsv" and looks_like_conllu(first))
    for document in (read_corefud if corefud else read_gap)(lines, str(name), group):
        yield document
    if document is None and first.strip():
        raise DataError(
            f"{name} holds no mention with an antecedent and another one to choose from, in Entity= of "
            "CorefUD's last column or as A or B of GAP; give texts that do."
        )


# ---- CorefUD

_DECLARED = re.compile(r"#\s*global\.Entity\s*=\s*(\S+)")
#: An opening bracket with its fields, closed at once or later; or a closing bracket with its entity. What has
#: no bracket matches too, and is refused: a search for the closing one, from every letter, would take long.
_BRACKET = re.compile(r"\([^()]+\)?|[^()]+\)?")
#: The entity of a part of a mention that is not in one piece: e5[1/2].
_PART = re.compile(r"(.+)\[([0-9]{1,6})/([0-9]{1,6})\]")
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
    brackets, parsed = _Brackets(name), parse_conllu(lines, name)
    for _, sentences in split_documents(parsed, lambda sentence: sentence.find_openings("newdoc") != []):
        if (document := _read_document(sentences, brackets, group)) is not None:
            yield document


class _Node(NamedTuple):
    """A word or an empty node of a document; the head is the place of a node, -1 for the root."""

    span: Span | None
    form: str
    part_of_speech: str
    head: int | None


@dataclass(frozen=True, slots=True)
class _Bracketed:
    """A mention by its brackets: the number of its head, 0 for none, and the nodes inside."""

    entity: str
    head: int
    line: int
    places: list[int] = field(default_factory=list)


def _read_document(
    sentences: Iterable[Sentence], brackets: "_Brackets", group: str | None
) -> Document | None:
    """Read a document; None where it has no link."""
    text, blank, counts_in = "", "", None
    nodes, parts_of_speech = list[_Node](), dict[Span, str]()
    for sentence in sentences:
        brackets.declare(sentence.comments)
        if group is not None and counts_in is None:
            counts_in = sentence.find_comment(group)
        text += "\n" if nodes and sentence.find_openings("newpar") else blank
        blank, before = sentence.blank, len(text)
        words, spans = sentence.place_words()
        text += words
        spans = {word: Span(before + span.start, before + span.stop) for word, span in spans.items()}
        parts_of_speech |= sentence.find_parts_of_speech(spans)
        numbers = [token["id"] for token in sentence.tokens if "-" not in str(token["id"])]
        places = {0: -1, **{number: place for place, number in enumerate(numbers, len(nodes))}}
        for token, line in zip(sentence.tokens, sentence.lines, strict=True):
            entity = (token.get("misc") or {}).get("Entity")
            if token["id"] in places:
                span = spans.get(token["id"])
                head = None if span is None else places.get(token.get("head"))
                nodes.append(_Node(span, token["form"], str(token.get("upos")), head))
            elif entity:
                raise brackets.refuse(line, "Entity= at a multi-word token, not at its words")
            if entity:
                brackets.read(entity, line, len(nodes) - 1)
    mentions = (_read_mention(mention, nodes) for mention in brackets.finish())
    links = link_mentions([mention for mention in mentions if mention is not None])
    if not links:
        return None
    known = tuple(dict.fromkeys(node.span for node in nodes if node.span is not None))
    annotation = Annotation(known, tuple(links), parts_of_speech=parts_of_speech)
    return Document(text, annotation=annotation, group=counts_in)


class _Brackets:
    """The mentions of a document by their brackets, which may nest, cross each other and span sentences.

    A closing bracket closes what was opened last by that name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._fields: Sequence[str] = ()  # those that # global.Entity declares, for all that follows
        self._open: defaultdict[str, list[tuple[int, _Bracketed]]] = defaultdict(list)
        #: Mentions in parts, by their entity, how many parts there are and which comes next.
        self._parts: defaultdict[tuple[str, int, int], list[_Bracketed]] = defaultdict(list)
        self._mentions: list[_Bracketed] = []

    def declare(self, comments: Iterable[str]) -> None:
        for declared in filter(None, map(_DECLARED.match, comments)):
            self._fields = declared[1].split("-")

    def read(self, brackets: str, line: int, node: int) -> None:
        """Read the brackets that stand at a node."""
        place = next((place for place, name in enumerate(self._fields) if name in _ENTITY), None)
        if place is None:
            raise DataError(
                f"line {line} of {self._name} has Entity=, but no line above says where the entity stands "
                "in it; write '# global.Entity = eid-etype-head-other' or the like before the first sentence."
            )
        chunks = _BRACKET.findall(brackets)
        if "".join(chunks) != brackets or not all(chunk[0] == "(" or chunk[-1] == ")" for chunk in chunks):
            raise self.refuse(line, f"Entity={shorten(brackets)}, not made of brackets like (e1 and e1)")
        for chunk in chunks:
            values = chunk.strip("()").split("-")
            # A closing bracket has the entity alone, or fields as the opening has.
            alone = len(values) == 1 and chunk[0] != "("
            spelled = values[0] if alone else "".join(values[place : place + 1])
            if chunk[0] == "(":
                head = dict(zip(self._fields, values, strict=False)).get("head") or "0"
                if not spelled or not re.fullmatch(r"[0-9]{1,9}", head):
                    raise self.refuse(
                        line, f"a mention {shorten(chunk)} without an entity, or a number as head"
                    )
                self._open[spelled].append((node, _Bracketed(spelled, int(head), line)))
            if chunk[-1] == ")":
                if not self._open[spelled]:
                    raise self.refuse(line, f"the end of a mention of {shorten(spelled)!r} that is not open")
                self._close(*self._open[spelled].pop(), node, line)

    def _close(self, begin: int, piece: _Bracketed, node: int, line: int) -> None:
        match = _PART.fullmatch(piece.entity)
        entity, part, parts = (match[1], int(match[2]), int(match[3])) if match else (piece.entity, 1, 1)
        mention = _Bracketed(entity, piece.head, piece.line)
        if part != 1:
            if not self._parts[entity, parts, part]:
                raise self.refuse(
                    line, f"part {part} of a mention of {shorten(entity)!r} without the one before"
                )
            mention = self._parts[entity, parts, part].pop()
        mention.places.extend(range(begin, node + 1))
        (self._mentions if part == parts else self._parts[entity, parts, part + 1]).append(mention)

    def finish(self) -> list[_Bracketed]:
        """Give the mentions, and forget them; refuse those that were never closed."""
        opened = (mention for pieces in self._open.values() for _, mention in pieces)
        parted = (mention for mentions in self._parts.values() for mention in mentions)
        if unfinished := [(mention.line, mention.entity) for mention in (*opened, *parted)]:
            line, entity = min(unfinished)
            raise self.refuse(line, f"a mention of {shorten(entity)!r} that is never closed, or lacks a part")
        mentions, self._mentions = self._mentions, []
        return mentions

    def refuse(self, line: int, what: str) -> DataError:
        return DataError(f"line {line} of {self._name} has {what}; mend the brackets of Entity= there.")


def _read_mention(mention: _Bracketed, nodes: Sequence[_Node]) -> Mention | None:
    """Find the head word of a mention; None where it is no word of the text.

    The head is the declared one, else the first word whose syntactic head lies outside, else the last.
    """
    words = {place: nodes[place] for place in mention.places if nodes[place].span is not None}
    if not words:
        return None
    if 1 <= mention.head <= len(mention.places):
        head = nodes[mention.places[mention.head - 1]]
    else:
        outer = (node for node in words.values() if node.head is not None and node.head not in words)
        head = next(outer, nodes[max(words)])
    if head.span is None:
        return None
    kind = _KINDS.get(head.part_of_speech, OTHER)
    if head.part_of_speech == "DET" and len(words) == 1:
        kind = PRONOUN
    forms = [node.form for node in words.values()]
    return Mention(head.span, forms[-1], mention.entity, kind, head.form, " ".join(forms))


# ---- GAP

#: The columns that are read; a file has two more, an identifier and an address.
_GAP = ("Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref")
#: The gender of each pronoun, as GAP's scorer has it.
_GENDERS = {
    **dict.fromkeys(("she", "her", "hers"), "feminine"),
    **dict.fromkeys(("he", "him", "his"), "masculine"),
}


def read_gap(lines: Iterable[str], name: str, group: str | None = None) -> Iterator[Document]:
    """Read the snippets of a GAP file, each with a link from its pronoun to the right one of two names.

    A name stands for its last word. The link is labelled ``pronoun`` and with the pronoun's gender. Rows in
    which neither name is right are left out. ``group`` is the column of the group that a snippet counts in.

    References:
        Webster et al. (2018), Mind the GAP: a balanced corpus of gendered ambiguous pronouns.
    """
    table = parse_tsv(lines, Source(name))
    if not table.columns:
        return
    folded = [column.casefold() for column in table.columns]  # letter case does not count
    if missing := [column for column in _GAP if folded.count(column.casefold()) != 1]:
        raise DataError(
            f"{name} is no file of GAP, the only table that coreference reads: it has no column "
            f"{missing[0]!r}, or two of it. attnprobe links reads links of your own from JSON lines."
        )
    if group is not None:
        require(group, table.columns, name)
    places = {column: table.columns[folded.index(column.casefold())] for column in _GAP}
    for row in table.rows:
        cells = {column: row.cells.get(place, "") for column, place in places.items()}
        if (annotation := _annotate(cells, row.where)) is not None:
            counts_in = None if group is None else row.cells.get(group, "").strip() or None
            yield Document(cells["Text"], annotation=annotation, group=counts_in)


def _annotate(cells: Mapping[str, str], where: str) -> Annotation | None:
    """Link a pronoun to its antecedent; None where neither name is right, or both share words with it."""
    right = {name: cells[f"{name}-coref"].strip().casefold() for name in ("A", "B")}
    for name, cell in right.items():
        if cell not in {"true", "false"}:
            raise DataError(f"{where} has {shorten(repr(cell))} for {name}-coref; write TRUE or FALSE.")
    if "true" not in right.values():
        return None
    pronoun, names = cells["Pronoun"], []
    source = Mention(_find_words(cells, "Pronoun", where), pronoun, True, PRONOUN)
    for name in ("A", "B"):
        span, parts = _find_words(cells, name, where), list(re.finditer(r"\S+", cells[name]))
        last = ([part for part in parts if any(map(str.isalnum, part[0]))] or parts)[-1]
        head = Span(span.start + last.start(), span.start + last.end())
        words = [part[0] for part in parts]
        names.append(Mention(head, words[-1], right[name] == "true", PROPER, text=" ".join(words)))
    gender = _GENDERS.get(pronoun.casefold())
    label = PRONOUN if gender is None else f"{PRONOUN}{SEVERAL}{gender}"
    link = link_antecedent(source, sorted(names, key=lambda mention: mention.head.start), label)
    return None if link is None else Annotation(links=(link,))


def _find_words(cells: Mapping[str, str], column: str, where: str) -> Span:
    """Find a pronoun or a name where its offset says, and nowhere else."""
    words, offset = cells[column], cells[f"{column}-offset"].strip()
    start = int(offset) if re.fullmatch("[0-9]{1,9}", offset) else -1
    if start < 0 or not words.strip() or not cells["Text"].startswith(words, start):
        raise DataError(
            f"{where} has {shorten(repr(words))} for {column}, which does not stand at {shorten(offset)} in "
            "its text; offsets count Unicode code points from 0."
        )
    return Span(start, start + len(words))
