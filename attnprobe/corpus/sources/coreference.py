"""Files of coreference: readers of GAP and WinoBias, and which reader takes a file."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from attnprobe.corpus.sources.corefud import read_corefud
from attnprobe.corpus.sources.document import SEVERAL, Annotation, Document, Link, Span
from attnprobe.corpus.sources.links import (
    NOMINAL,
    PRONOUN,
    PROPER,
    Mention,
    link_antecedent,
    warn_left_out,
)
from attnprobe.corpus.sources.streams import EACH_ALSO, peek_lines, shorten, strip_ends, strip_packing
from attnprobe.corpus.sources.treebank import looks_like_conllu
from attnprobe.errors import AttnprobeError

#: The columns that are read; a file has two more, an identifier and an address.
COLUMNS = ("Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref")
#: The gender of each pronoun, as GAP's scorer has it.
GENDERS = {
    **dict.fromkeys(("she", "her", "hers"), "feminine"),
    **dict.fromkeys(("he", "him", "his"), "masculine"),
}
_NAMES = ("A", "B")


def read_gap(lines: Iterable[str], name: str) -> Iterator[Document]:
    """Read the snippets of a GAP file, each with a link from its pronoun to the right one of two names.

    A name stands for its last word. The link is labelled ``pronoun`` and with the pronoun's gender. Rows in
    which neither name is right are left out.

    Raises:
        AttnprobeError: When a column is missing, or a row does not say what it should.

    References:
        Webster et al. (2018), Mind the GAP: a balanced corpus of gendered ambiguous pronouns.
    """
    left_out: Counter[str] = Counter()
    any_link = False
    for number, cells in _read_rows(lines, name):
        document = _read_document(cells, f"line {number} of {name}")
        if isinstance(document, Document):
            any_link = True
            yield document
        else:
            left_out[document] += 1
    if left_out and not any_link:
        raise AttnprobeError(
            f"{name} holds no row in which A or B is the antecedent and both are words of their own; give "
            "rows that do."
        )
    warn_left_out(name, "row", left_out)


def _read_rows(lines: Iterable[str], name: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Give the cells of each row by the names of their columns, whose letter case does not count."""
    columns: Sequence[str] = ()
    for number, line in enumerate(strip_ends(lines), start=1):
        if not line.strip():
            continue
        cells = line.split("\t")
        if not columns:
            columns = _read_header(cells, name)
        elif len(cells) != len(columns):
            raise AttnprobeError(
                f"line {number} of {name} has {len(cells)} cells under a header of {len(columns)}; part them "
                "by single tabs."
            )
        else:
            yield number, dict(zip(columns, cells, strict=True))


def _read_header(header: Sequence[str], name: str) -> Sequence[str]:
    usual = {column.casefold(): column for column in COLUMNS}
    found = [usual.get(cell.strip().casefold(), cell) for cell in header]
    missing = [column for column in COLUMNS if found.count(column) != 1]
    if missing:
        raise AttnprobeError(
            f"{name} is no file of GAP, the only table that coreference reads: it has no column "
            f"{missing[0]!r}, or two of it. attnprobe links reads links of your own from JSON lines."
        )
    return found


def _read_document(cells: Mapping[str, str], where: str) -> Document | str:
    """Make a document of a row, or say why it is left out."""
    text, word = cells["Text"], cells["Pronoun"]
    right = {name for name in _NAMES if _read_truth(cells, f"{name}-coref", where)}
    if not right:
        return "in which neither A nor B is the antecedent"
    source = Mention(_read_span(cells, "Pronoun", where), word, True, PRONOUN)
    heads = {name: _find_last_word(text, _read_span(cells, name, where)) for name in _NAMES}
    names = [Mention(head, cells[name].split()[-1], name in right, PROPER) for name, head in heads.items()]
    gender = GENDERS.get(word.casefold())
    label = PRONOUN if gender is None else f"{PRONOUN}{SEVERAL}{gender}"
    link = link_antecedent(source, sorted(names, key=lambda one: one.head.start), label)
    if link is None:
        return "in which A, B and the pronoun share words"
    return Document(text, annotation=Annotation(links=(link,)))


def _read_truth(cells: Mapping[str, str], column: str, where: str) -> bool:
    cell = cells[column].strip().casefold()
    if cell not in {"true", "false"}:
        raise AttnprobeError(f"{where} has {shorten(repr(cells[column]))} for {column}; write TRUE or FALSE.")
    return cell == "true"


def _read_span(cells: Mapping[str, str], column: str, where: str) -> Span:
    """Find a pronoun or a name where its offset says, and nowhere else."""
    words, offset = cells[column], cells[f"{column}-offset"].strip()
    start = int(offset) if re.fullmatch("[0-9]{1,9}", offset) else -1
    if start < 0 or not words.strip() or not cells["Text"].startswith(words, start):
        raise AttnprobeError(
            f"{where} has {shorten(repr(words))} for {column}, which does not stand at {shorten(offset)} in "
            "its text; offsets count Unicode code points from 0."
        )
    return Span(start, start + len(words))


def _find_last_word(text: str, name: Span) -> Span:
    """Give the last of the words in a name, which blanks part; punctuation alone is none."""
    words = list(re.finditer(r"\S+", text[name.start : name.stop]))
    worded = [word for word in words if any(map(str.isalnum, word[0]))] or words
    return Span(name.start + worded[-1].start(), name.start + worded[-1].end())


#: English pronouns, by which a bracket with a pronoun is told from one with an occupation.
PRONOUNS = {
    *("he", "him", "his", "himself", "she", "her", "hers", "herself", "it", "its", "itself"),
    *("they", "them", "their", "theirs", "themself", "themselves"),
}
#: What a part of a file's name says of its sentences.
STEREOTYPES = {"pro": "pro-stereotypical", "anti": "anti-stereotypical"}

#: The number of a sentence, which may be missing.
_NUMBER = re.compile(r"\s*[0-9]+\s+")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
#: A word; what follows an apostrophe is none, so that "nurse's" ends in "nurse".
_WORD = re.compile(r"(?<![\w'\u2019])\w+(?:-\w+)*")


def read_winobias(lines: Iterable[str], name: str) -> Iterator[Document]:
    """Read the sentences of a WinoBias file, each with a link from its pronoun to an occupation.

    An occupation stands for its last word. The pronoun chooses between the one in brackets and every other
    whose last word stands in the sentence; occupations are those that stand in brackets anywhere in the file.
    Links are labelled ``pronoun`` and, where ``pro`` or ``anti`` is a part of the file's name, with what the
    sentences say of stereotypes. A sentence with one occupation only is left out. One with two pronouns in
    brackets has two links.

    Raises:
        AttnprobeError: When a line has no brackets, or they are not closed.

    References:
        Zhao et al. (2018), Gender bias in coreference resolution: evaluation and debiasing methods.
    """
    sentences = [
        _read_sentence(line, f"line {number} of {name}")
        for number, line in enumerate(strip_ends(lines), start=1)
        if line.strip()
    ]
    occupations = {sentence.word(one) for sentence in sentences for one in sentence.occupations}
    label = _read_label(name)
    left_out: Counter[str] = Counter()
    for sentence in sentences:
        if not sentence.pronouns or not sentence.occupations:
            left_out["without both a pronoun and an occupation in brackets"] += 1
        elif links := _link_pronouns(sentence, occupations, label):
            yield Document(sentence.text, annotation=Annotation(links=tuple(links)))
        else:
            left_out["with only one of the occupations that the file has in brackets"] += 1
    if sentences and sum(left_out.values()) == len(sentences):
        raise AttnprobeError(
            f"{name} holds no sentence with a pronoun in brackets and two occupations to choose from, one of "
            "them in brackets too; coreference reads such sentences, as WinoBias has them, from text files."
        )
    warn_left_out(name, "sentence", left_out)


@dataclass(frozen=True)
class _Sentence:
    """A sentence without its brackets, and what stood in them, by its last words."""

    text: str
    pronouns: Sequence[Span]
    occupations: Sequence[Span]

    def word(self, span: Span) -> str:
        return self.text[span.start : span.stop].casefold()


def _read_sentence(line: str, where: str) -> _Sentence:
    line = " ".join(_NUMBER.sub("", line, count=1).split())
    text, pronouns, occupations, place = "", [], [], 0
    for bracket in _BRACKET.finditer(line):
        text += line[place : bracket.start()]
        place = bracket.end()
        inside = bracket[1].strip()
        words = list(_WORD.finditer(inside))
        if not words:
            raise AttnprobeError(
                f"{where} has brackets without a word; put a pronoun or an occupation there."
            )
        ends = Span(len(text) + words[-1].start(), len(text) + words[-1].end())
        (pronouns if inside.casefold() in PRONOUNS else occupations).append(ends)
        text += inside
    text += line[place:]
    if not place:
        raise AttnprobeError(
            f"{where} is {shorten(repr(line))}, without brackets: coreference reads WinoBias from text "
            "files, '1 [The nurse] thanked the guard because [she] felt safe.', GAP from .tsv, CorefUD "
            "from .conllu."
        )
    if set(text) & set("[]"):
        raise AttnprobeError(f"{where} has a bracket without its other half; mend {shorten(repr(line))}.")
    return _Sentence(text, pronouns, occupations)


def _link_pronouns(sentence: _Sentence, occupations: Collection[str], label: str) -> list[Link]:
    """Ask each pronoun of a sentence for the occupation that is in brackets.

    Each occupation is a candidate once: where it is in brackets, else where it stands first. "The cook
    thanked [the baker], for [she] was a good baker" asks which of two people is meant.
    """
    places = {sentence.word(span): span for span in sentence.occupations}
    for found in _WORD.finditer(sentence.text):
        if found[0].casefold() in occupations:
            places.setdefault(found[0].casefold(), Span(*found.span()))
    people = [
        Mention(span, word, span in sentence.occupations, NOMINAL)
        for word, span in sorted(places.items(), key=lambda item: item[1].start)
    ]
    pronouns = (Mention(span, sentence.word(span), True, PRONOUN) for span in sentence.pronouns)
    return [link for pronoun in pronouns if (link := link_antecedent(pronoun, people, label)) is not None]


def _read_label(name: str) -> str:
    """Say of a link what the name of its file says, unless it says both."""
    parts = set(re.split("[^a-z]+", PurePath(name).name.lower())) & STEREOTYPES.keys()
    return SEVERAL.join([PRONOUN, *(STEREOTYPES[part] for part in parts)]) if len(parts) == 1 else PRONOUN


Reader = Callable[[Iterable[str], str], Iterator[Document]]

#: Readers by extension. WinoBias is also spread under names such as pro_stereotyped_type1.txt.dev.
READERS: dict[str, Reader] = {".conllu": read_corefud, ".tsv": read_gap, ".txt": read_winobias}
_PARTS = (".dev", ".test", ".train")


def read_coreference(lines: Iterable[str], name: str | PurePath) -> Iterator[Document]:
    """Read documents with a link for every mention that has an antecedent.

    Args:
        lines: Of a file of CorefUD, GAP or WinoBias, or of standard input.
        name: The path of the file, or what errors call it. Without an extension, the first line decides.

    Raises:
        AttnprobeError: When the lines are not in the format that the extension names.
    """
    reader = READERS.get(check_extension(name) or ".txt", read_winobias)
    if reader is read_winobias:
        first, lines = peek_lines(lines)
        if looks_like_conllu(first):
            reader = read_corefud
        elif "\t" in first:
            reader = read_gap
    return reader(lines, str(name))


def check_extension(name: str | PurePath) -> str | None:
    """Give the extension that names the reader, that of packing set aside; None where there is no extension.

    Raises:
        AttnprobeError: When no reader has it.
    """
    path = strip_packing(PurePath(name))
    path = path.with_suffix("") if path.suffix.lower() in _PARTS else path
    extension = path.suffix.lower()
    if extension and extension not in READERS:
        raise AttnprobeError(
            f"{name} has the extension {extension}; coreference reads CorefUD (.conllu), GAP (.tsv) and "
            f"WinoBias (.txt), {EACH_ALSO}. attnprobe links reads links of your own from JSON lines."
        )
    return extension or None
