"""Coreference: CorefUD, with mentions as brackets in ``Entity=``, and GAP, with a pronoun and two names."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import PurePath
from typing import Any, NamedTuple

from attnprobe.corpus.conllu import Sentence, looks_like_conllu, parse_conllu
from attnprobe.corpus.document import SEVERAL, Annotation, Document, Span
from attnprobe.corpus.links import NOMINAL, OTHER, PRONOUN, PROPER, Mention, link_antecedent, link_mentions
from attnprobe.corpus.schema import require
from attnprobe.corpus.streams import peek_lines, shorten, strip_ends, strip_packing
from attnprobe.errors import DataError

_DECLARED = re.compile(r"#\s*global\.Entity\s*=\s*(\S+)")
#: An opening bracket with its fields, closed at once or later; or a closing bracket with its entity. What has
#: no bracket matches too, and is refused: a search for the closing one, from every letter, would take long.
_BRACKET = re.compile(r"\([^()]+\)?|[^()]+\)?")
#: The entity of a part of a mention that is not in one piece: e5[1/2].
_PART = re.compile(r"(?P<entity>.+)\[(?P<part>[0-9]{1,6})/(?P<parts>[0-9]{1,6})\]")
#: What the entity's number is called: GUM had another name for it, and numbers that are unique in a document.
_ENTITY = ("eid", "GRP")
_KINDS = {"PRON": PRONOUN, "PROPN": PROPER, "NOUN": NOMINAL}
#: The columns of GAP that are read; a file has two more, an identifier and an address.
_GAP = ("Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref")
#: The gender of each pronoun, as its scorer has it.
_GENDERS = {
    **dict.fromkeys(("she", "her", "hers"), "feminine"),
    **dict.fromkeys(("he", "him", "his"), "masculine"),
}


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
    """A document that grows sentence by sentence; ``fields`` are those that ``# global.Entity`` declares.

    Mentions may nest, cross each other and go on in the next sentence. A closing bracket closes the mention
    of its entity that was opened last.
    """

    def __init__(self, name: str, fields: Sequence[str], group: str | None) -> None:
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
        if "".join(chunks) != brackets or not all(chunk[0] == "(" or chunk[-1] == ")" for chunk in chunks):
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
            told = f"without all its {first.parts} parts" if first.begin is None else "that is never closed"
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


def read_gap(lines: Iterable[str], name: str, group: str | None = None) -> Iterator[Document]:
    """Read the snippets of a GAP file, each with a link from its pronoun to the right one of two names.

    A name stands for its last word. The link is labelled ``pronoun`` and with the pronoun's gender. Rows in
    which neither name is right are left out. ``group`` is the column of the group that a snippet counts in.

    References:
        Webster et al. (2018), Mind the GAP: a balanced corpus of gendered ambiguous pronouns.
    """
    rows = ((number, line.split("\t")) for number, line in enumerate(strip_ends(lines), 1) if line.strip())
    _, header = next(rows, (0, []))
    if not header:
        return
    usual = {column.casefold(): column for column in _GAP}  # letter case does not count
    columns = [usual.get(cell.strip().casefold(), cell) for cell in header]
    if missing := [column for column in _GAP if columns.count(column) != 1]:
        raise DataError(
            f"{name} is no file of GAP, the only table that coreference reads: it has no column "
            f"{missing[0]!r}, or two of it. attnprobe links reads links of your own from JSON lines."
        )
    if group is not None:
        require(group, columns, name)
    number, documents = 1, 0
    for number, row in rows:
        where = f"line {number} of {name}"
        if len(row) != len(columns):
            raise DataError(
                f"{where} has {len(row)} cells under a header of {len(columns)}; part them by single tabs."
            )
        cells = dict(zip(columns, row, strict=True))
        if (annotation := _annotate(cells, where)) is not None:
            documents += 1
            counts_in = None if group is None else cells[group].strip() or None
            yield Document(cells["Text"], annotation=annotation, group=counts_in)
    if number > 1 and not documents:
        raise DataError(
            f"{name} holds no row in which A or B is the antecedent and both are words of their own; give "
            "rows that do."
        )


def _annotate(cells: Mapping[str, str], where: str) -> Annotation | None:
    """Link a pronoun to its antecedent; None where neither name is right, or both share words with it."""
    pronoun = cells["Pronoun"]
    right = {name: cells[f"{name}-coref"].strip().casefold() for name in ("A", "B")}
    for name, cell in right.items():
        if cell not in {"true", "false"}:
            raise DataError(f"{where} has {shorten(repr(cell))} for {name}-coref; write TRUE or FALSE.")
    if "true" not in right.values():
        return None
    source = Mention(_find_words(cells, "Pronoun", where), pronoun, True, PRONOUN)
    names = []
    for name in ("A", "B"):
        span, words = _find_words(cells, name, where), cells[name].split()
        parts = list(re.finditer(r"\S+", cells[name]))
        last = ([part for part in parts if any(map(str.isalnum, part[0]))] or parts)[-1]
        head = Span(span.start + last.start(), span.start + last.end())
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


#: The formats of coreference by extension: what they are called, how they are read, and how they are told by
#: their first line that is not blank.
COREFERENCE: dict[str, tuple[str, Callable[..., Iterator[Document]], Callable[[str], bool]]] = {
    ".conllu": ("CorefUD", read_corefud, looks_like_conllu),
    ".tsv": ("GAP", read_gap, lambda first: "\t" in first),
}


def read_coreference(
    lines: Iterable[str], name: str | PurePath, group: str | None = None
) -> Iterator[Document]:
    """Read documents with a link for every mention that has an antecedent.

    ``name`` is the path of the file, or what errors call it; without an extension, the first line decides.
    ``group`` is the column or the comment that says in which group a document counts.
    """
    first, lines = peek_lines(lines)
    named = strip_packing(PurePath(name)).suffix.lower()
    for extension, (_, read, begins) in COREFERENCE.items():
        if extension == named or (named not in COREFERENCE and begins(first)):
            return read(lines, str(name), group)
    if first.strip():
        raise DataError(f"{name} holds no coreference; give {list_coreference()}.")
    return iter(())


def list_coreference(word: str = "or") -> str:
    """List the formats of coreference: CorefUD (.conllu) or GAP (.tsv)."""
    return f" {word} ".join(f"{name} ({extension})" for extension, (name, _, _) in COREFERENCE.items())
