"""Coreference: CorefUD, with mentions as brackets in ``Entity=``, and GAP, with a pronoun and two names."""

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import PurePath
from typing import NamedTuple

from attnprobe.corpus.conllu import looks_like_conllu, parse_conllu
from attnprobe.corpus.document import SEVERAL, Annotation, Document, Link, Span, split_documents
from attnprobe.corpus.rows import parse_tsv
from attnprobe.corpus.schema import require
from attnprobe.corpus.source import Source
from attnprobe.corpus.streams import peek_lines, shorten, strip_packing
from attnprobe.errors import DataError

#: Kinds of mention, as the labels of links have them.
PRONOUN, PROPER, NOMINAL, OTHER = "pronoun", "proper", "nominal", "other"
#: Antecedents are looked for among this many mentions: memory grows with their square.
REACH = 1000


class Mention(NamedTuple):
    """A mention of an entity."""

    head: Span
    last: str  # its last word
    entity: Hashable
    kind: str
    head_word: str
    text: str


def link_antecedent(source: Mention, others: Sequence[Mention], label: str) -> Link | None:
    """Link a mention to its antecedent among others, which are in the order of their head words.

    Candidates are the head words of the others, but for any that overlaps that of the source. All of the same
    entity are right, and the nearest is the target. Simple rules guess too; of a rule's guesses, the first in
    a model's window counts. None where no candidate is right, or only one is there.
    """

    def measure_gap(mention: Mention) -> int:
        return max(mention.head.start - source.head.stop, source.head.start - mention.head.stop)

    others = [mention for mention in others if measure_gap(mention) >= 0]
    near = sorted(others, key=measure_gap)
    candidates = tuple(dict.fromkeys(mention.head for mention in others))
    right = list(dict.fromkeys(mention.head for mention in near if mention.entity == source.entity))
    if not right or len(candidates) < 2:
        return None

    def find_same(among: Iterable[Mention], what: str) -> list[Mention]:
        earlier = (mention for mention in among if mention.head.stop <= source.head.start)
        spelled = getattr(source, what).casefold()
        return [mention for mention in earlier if getattr(mention, what).casefold() == spelled]

    guesses = {"nearest": near[:1], "first": others[:1]}
    for kind in (PRONOUN, PROPER, NOMINAL):
        guesses[f"nearest {kind}"] = [mention for mention in near if mention.kind == kind][:1]
    guesses["same last word"] = find_same(others, "last")
    guesses["same head word"] = find_same(near, "head_word")[:1]
    guesses["same string"] = find_same(near, "text")[:1] + guesses["same head word"]
    spans = [(rule, mention.head) for rule, mentions in guesses.items() for mention in mentions]
    also = tuple(sorted(right[1:], key=lambda span: span.start))
    return Link(source.head, right[0], label, candidates, also, tuple(dict.fromkeys(spans)))


def link_mentions(mentions: Sequence[Mention]) -> list[Link]:
    """Link the mentions of a text to their antecedents, as far as the ``REACH`` mentions before have any."""
    ordered, links = sorted(mentions, key=lambda mention: mention.head.start), list[Link]()
    for place, source in enumerate(ordered):
        link = link_antecedent(source, ordered[max(0, place - REACH) : place], source.kind)
        links += [] if link is None else [link]
    return links


def read_coreference(
    lines: Iterable[str], name: str | PurePath, group: str | None = None
) -> Iterator[Document]:
    """Read the documents of CorefUD or GAP, with a link for every mention that has an antecedent.

    ``name`` is the path of the file, or a name for errors; without an extension, the first line decides. A
    file without any link is refused.
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

#: An opening bracket with its fields, closed at once or later, or a closing one with its entity. Text without
#: either matches as well, and is refused: a search from each of its letters would take long.
_BRACKET = re.compile(r"\([^()]+\)?|[^()]+\)?")
#: The entity of a mention, with the number of the part where it is in pieces: e5, e5[1/2].
_PART = re.compile(r"(.+?)(?:\[([0-9]{1,6})/([0-9]{1,6})\])?")
#: Names of the field with the entity; the second is that of older versions of GUM.
_ENTITY = ("eid", "GRP")
_WRONG = "not each bracket is opened with an entity and the number of a head, and closed in all its parts."
_KINDS = {"PRON": PRONOUN, "PROPN": PROPER, "NOUN": NOMINAL}


class _Node(NamedTuple):
    """A word or an empty node of a document; the head is the place of a node, -1 for the root."""

    span: Span | None
    form: str
    part_of_speech: str
    head: int | None


class _Bracketed(NamedTuple):
    """A mention as its brackets mark it."""

    entity: str
    head: int  # the number of its head among its nodes, or 0
    line: int
    places: list[int]


def read_corefud(lines: Iterable[str], name: str, group: str | None = None) -> Iterator[Document]:
    """Read the documents of a CorefUD file, each with a link for every mention that has an antecedent.

    A document begins at ``# newdoc``; a file without any is one document. Sentences are joined by a blank, by
    nothing after ``SpaceAfter=No``, and by a line break before ``# newpar``. Documents without links are left
    out. The comment ``group`` names the group of a document.

    References:
        Nedoluzhko et al. (2022), CorefUD 1.0: coreference meets Universal Dependencies.
    """
    fields: list[str] = []
    parsed = parse_conllu(lines, name)
    for _, sentences in split_documents(parsed, lambda sentence: sentence.find_openings("newdoc") != []):
        text, blank, counts_in = "", "", None
        nodes, parts_of_speech = list[_Node](), dict[Span, str]()
        marks: list[tuple[int, int, str, Sequence[str]]] = []
        for sentence in sentences:
            fields = (sentence.find_comment("global.Entity") or "-".join(fields)).split("-")
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
                if token["id"] in places:
                    span = spans.get(token["id"])
                    head = None if span is None else places.get(token["head"])
                    nodes.append(_Node(span, token["form"], str(token["upos"]), head))
                if brackets := (token["misc"] or {}).get("Entity"):
                    if token["id"] not in places:
                        wrong = "has Entity= at a multi-word token; move it to the words"
                        raise DataError(f"line {line} of {name} {wrong}.")
                    marks.append((len(nodes) - 1, line, brackets, fields))
        mentions = (_read_mention(mention, nodes) for mention in _match_brackets(marks, name))
        if links := link_mentions([mention for mention in mentions if mention is not None]):
            known = tuple(dict.fromkeys(node.span for node in nodes if node.span is not None))
            annotation = Annotation(known, tuple(links), parts_of_speech=parts_of_speech)
            yield Document(text, annotation=annotation, group=counts_in)


def _match_brackets(marks: Iterable[tuple[int, int, str, Sequence[str]]], name: str) -> list[_Bracketed]:
    """Find the mentions of a document; each closing bracket ends the last one of its name, or is refused.

    ``marks`` are nodes with their lines, brackets, and the fields of these that ``# global.Entity`` declares.
    """
    mentions = list[_Bracketed]()
    opened = defaultdict[str, list[_Bracketed]](list)
    # Mentions in parts: by entity, number of parts, and the part that comes next.
    parted = defaultdict[tuple[str, int, int], list[_Bracketed]](list)
    for node, line, brackets, fields in marks:
        place = next((place for place, field in enumerate(fields) if field in _ENTITY), None)
        if place is None:
            raise DataError(
                f"line {line} of {name} has Entity=, but no line above declares its fields; put one such as "
                "'# global.Entity = eid-etype-head-other' before the first sentence."
            )
        chunks = _BRACKET.findall(brackets)
        try:
            if "".join(chunks) != brackets:
                raise ValueError(brackets)
            for chunk in chunks:
                opens, closes, values = chunk[0] == "(", chunk[-1] == ")", chunk.strip("()").split("-")
                # A closing bracket has the entity alone, or all fields.
                spelled = values[place if opens or len(values) > 1 else 0]
                match = _PART.fullmatch(spelled)
                if match is None or not (opens or closes):
                    raise ValueError(chunk)
                entity, part, parts = match[1], int(match[2] or 1), int(match[3] or 1)
                if opens:
                    head = dict(zip(fields, values, strict=False)).get("head") or 0
                    opened[spelled].append(_Bracketed(entity, int(head), line, [node]))
                if closes:
                    mention = opened[spelled].pop()
                    places = range(mention.places.pop(), node + 1)
                    mention = mention if part == 1 else parted[entity, parts, part].pop()
                    mention.places.extend(places)
                    (mentions if part == parts else parted[entity, parts, part + 1]).append(mention)
        except (ValueError, IndexError):
            raise DataError(f"line {line} of {name} has Entity={shorten(brackets)}: {_WRONG}") from None
    for mention in chain(*opened.values(), *parted.values()):
        raise DataError(f"line {mention.line} of {name} has Entity={shorten(mention.entity)}: {_WRONG}")
    return mentions


def _read_mention(mention: _Bracketed, nodes: Sequence[_Node]) -> Mention | None:
    """Read a mention and its head (declared, or the first word with a head outside); None if that is none."""
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
#: The pronouns of each gender, as GAP's scorer has it.
_GENDERS = {"feminine": ("she", "her", "hers"), "masculine": ("he", "him", "his")}


def read_gap(lines: Iterable[str], name: str, group: str | None = None) -> Iterator[Document]:
    """Read the snippets of a GAP file, each with a link from its pronoun to the right one of two names.

    The last word of a name is its head; the label has the pronoun's gender. Rows in which neither name is
    right are left out. The column ``group`` names the group of a snippet.

    References:
        Webster et al. (2018), Mind the GAP: a balanced corpus of gendered ambiguous pronouns.
    """
    table = parse_tsv(lines, Source(name))
    missing = [column for column in _GAP if table.columns.count(column) != 1]
    if table.columns and missing:
        raise DataError(
            f"{name} is no file of GAP: it has no column {missing[0]!r}, or two of it. Links of your own are "
            "read by attnprobe links, from JSON lines."
        )
    if table.columns and group is not None:
        require(group, table.columns, name)
    for row in table.rows:
        cells = {column: row.cells.get(column, "") for column in table.columns}
        right = {name: cells[f"{name}-coref"].strip().casefold() for name in ("A", "B")}
        for which, cell in right.items():
            if cell not in {"true", "false"}:
                raise DataError(
                    f"{row.where} has {shorten(repr(cell))} for {which}-coref, not TRUE or FALSE."
                )
        if "true" not in right.values():
            continue
        pronoun, names = cells["Pronoun"], []
        source = Mention(_find_words(cells, "Pronoun", row.where), pronoun, True, PRONOUN, pronoun, pronoun)
        for which in ("A", "B"):
            span, parts = _find_words(cells, which, row.where), list(re.finditer(r"\S+", cells[which]))
            last = ([part for part in parts if any(map(str.isalnum, part[0]))] or parts)[-1]
            head = Span(span.start + last.start(), span.start + last.end())
            words = [part[0] for part in parts]
            names.append(Mention(head, words[-1], right[which] == "true", PROPER, words[-1], " ".join(words)))
        genders = [gender for gender, forms in _GENDERS.items() if pronoun.casefold() in forms]
        label = SEVERAL.join((PRONOUN, *genders))
        link = link_antecedent(source, sorted(names, key=lambda mention: mention.head.start), label)
        if link is not None:
            counts_in = None if group is None else cells[group].strip() or None
            yield Document(cells["Text"], annotation=Annotation(links=(link,)), group=counts_in)


def _find_words(cells: Mapping[str, str], column: str, where: str) -> Span:
    """Find the span of a pronoun or a name at its stated offset, or refuse where it is not there."""
    words, offset = cells[column], cells[f"{column}-offset"].strip()
    start = int(offset) if re.fullmatch("[0-9]{1,9}", offset) else -1
    if start < 0 or not words.strip() or not cells["Text"].startswith(words, start):
        raise DataError(
            f"{where} has {shorten(repr(words))} for {column}, which does not stand at {shorten(offset)} in "
            "its text; offsets count Unicode code points from 0."
        )
    return Span(start, start + len(words))
