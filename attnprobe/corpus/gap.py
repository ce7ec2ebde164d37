"""GAP: snippets in tab-separated columns, each with a pronoun and two names."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from attnprobe.corpus.document import SEVERAL, Annotation, Document, Span
from attnprobe.corpus.links import PRONOUN, PROPER, Mention, link_antecedent
from attnprobe.corpus.schema import require
from attnprobe.corpus.streams import shorten, strip_ends
from attnprobe.errors import DataError

#: The columns that are read; a file has two more, an identifier and an address.
COLUMNS = ("Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref")
#: The gender of each pronoun, as GAP's scorer has it.
GENDERS = {
    **dict.fromkeys(("she", "her", "hers"), "feminine"),
    **dict.fromkeys(("he", "him", "his"), "masculine"),
}
_NAMES = ("A", "B")


def read_gap(lines: Iterable[str], name: str, group: str | None = None) -> Iterator[Document]:
    """Read the snippets of a GAP file, each with a link from its pronoun to the right one of two names.

    A name stands for its last word. The link is labelled ``pronoun`` and with the pronoun's gender. Rows in
    which neither name is right are left out. ``group`` is the column of the group that a snippet counts in.

    References:
        Webster et al. (2018), Mind the GAP: a balanced corpus of gendered ambiguous pronouns.
    """
    number, document = 1, None
    for number, cells in _read_rows(lines, name):
        if (found := _read_document(cells, f"line {number} of {name}")) is not None:
            document = found
            yield found if group is None else replace(found, stratum=_read_stratum(cells, group, name))
    if number > 1 and document is None:
        raise DataError(
            f"{name} holds no row in which A or B is the antecedent and both are words of their own; give "
            "rows that do."
        )


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
            raise DataError(
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
        raise DataError(
            f"{name} is no file of GAP, the only table that coreference reads: it has no column "
            f"{missing[0]!r}, or two of it. attnprobe links reads links of your own from JSON lines."
        )
    return found


def _read_stratum(cells: Mapping[str, str], column: str, name: str) -> str | None:
    require(column, list(cells), name)
    return cells[column].strip() or None


def _read_document(cells: Mapping[str, str], where: str) -> Document | None:
    """Make a document of a row; None where neither name is right, or both share words with the pronoun."""
    text, word = cells["Text"], cells["Pronoun"]
    right = {name for name in _NAMES if _read_truth(cells, f"{name}-coref", where)}
    if not right:
        return None
    source = Mention(_read_span(cells, "Pronoun", where), word, True, PRONOUN)
    heads = {name: _find_last_word(text, _read_span(cells, name, where)) for name in _NAMES}
    names = [
        Mention(head, cells[name].split()[-1], name in right, PROPER, text=" ".join(cells[name].split()))
        for name, head in heads.items()
    ]
    gender = GENDERS.get(word.casefold())
    label = PRONOUN if gender is None else f"{PRONOUN}{SEVERAL}{gender}"
    link = link_antecedent(source, sorted(names, key=lambda one: one.head.start), label)
    return None if link is None else Document(text, annotation=Annotation(links=(link,)))


def _read_truth(cells: Mapping[str, str], column: str, where: str) -> bool:
    cell = cells[column].strip().casefold()
    if cell not in {"true", "false"}:
        raise DataError(f"{where} has {shorten(repr(cells[column]))} for {column}; write TRUE or FALSE.")
    return cell == "true"


def _read_span(cells: Mapping[str, str], column: str, where: str) -> Span:
    """Find a pronoun or a name where its offset says, and nowhere else."""
    words, offset = cells[column], cells[f"{column}-offset"].strip()
    start = int(offset) if re.fullmatch("[0-9]{1,9}", offset) else -1
    if start < 0 or not words.strip() or not cells["Text"].startswith(words, start):
        raise DataError(
            f"{where} has {shorten(repr(words))} for {column}, which does not stand at {shorten(offset)} in "
            "its text; offsets count Unicode code points from 0."
        )
    return Span(start, start + len(words))


def _find_last_word(text: str, name: Span) -> Span:
    words = list(re.finditer(r"\S+", text[name.start : name.stop]))
    worded = [word for word in words if any(map(str.isalnum, word[0]))] or words
    return Span(name.start + worded[-1].start(), name.start + worded[-1].end())
