"""GAP: snippets in tab-separated columns, each with a pronoun and two names."""

import re
from collections.abc import Iterable, Iterator, Mapping

from attnprobe.corpus.document import SEVERAL, Annotation, Document, Span
from attnprobe.corpus.links import PRONOUN, PROPER, Mention, link_antecedent
from attnprobe.corpus.schema import require
from attnprobe.corpus.streams import shorten, strip_ends
from attnprobe.errors import DataError

#: The columns that are read; a file has two more, an identifier and an address.
_COLUMNS = ("Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref")
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
    rows = ((number, line.split("\t")) for number, line in enumerate(strip_ends(lines), 1) if line.strip())
    _, header = next(rows, (0, []))
    if not header:
        return
    usual = {column.casefold(): column for column in _COLUMNS}  # letter case does not count
    columns = [usual.get(cell.strip().casefold(), cell) for cell in header]
    if missing := [column for column in _COLUMNS if columns.count(column) != 1]:
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
