"""Pairs of a clean and a corrupted text, with the answer that they are asked for; of any table."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from attnprobe.corpus.formats import PEEK_ROWS, Row, Table
from attnprobe.corpus.sources.columns import find_column, find_usual
from attnprobe.corpus.sources.document import Contrast, Document
from attnprobe.corpus.sources.streams import check_unicode, shorten
from attnprobe.errors import DataError

#: The usual names of the columns, in any letter case; the second are those of BLiMP.
CLEAN, CORRUPTED = ("clean", "sentence_good"), ("corrupted", "sentence_bad")
ANSWERS = ("answer", "label", "labels", "target")
OTHERS = ("other", "other_answer", "answer_corrupted")

Answer = str | int | float


@dataclass(frozen=True)
class ContrastColumns:
    """Which columns of a table are read; None takes the usual names."""

    clean: str | None = None
    corrupted: str | None = None
    answer: str | None = None
    other: str | None = None
    document: str | None = None

    def read(self, table: Table, name: str) -> Iterator[Document]:
        """Yield the clean text of each row, labelled with a ``Contrast``.

        A row that lacks either text has a contrast with an empty text, which is left out, and counted, where
        it is tokenised.
        """
        first = list(islice(table.rows, PEEK_ROWS))
        if not first:
            return
        clean = self._find(self.clean, CLEAN, table.columns, name, "--text-column")
        corrupted = self._find(self.corrupted, CORRUPTED, table.columns, name, "--text-pair-column")
        answer, other, document = (
            find_usual(usual, table.columns) if column is None else find_column(column, table.columns, name)
            for column, usual in ((self.answer, ANSWERS), (self.other, OTHERS), (self.document, ()))
        )
        known: dict[str, str] = {}
        for row in chain(first, table.rows):
            texts = [_read_text(row, column, name) for column in (clean, corrupted)]
            answers = [
                None if column is None else _read_answer(row, column, name) for column in (answer, other)
            ]
            found = Document(texts[0], label=Contrast(texts[1], *answers))
            cell = None if document is None else row.cells.get(document)
            if _is_missing(cell) or not isinstance(cell, str | int | float):
                yield found
                continue
            group = known.setdefault(str(cell), f"{cell}\0{found.digest:x}")
            yield Document(found.text, label=found.label, group=group)

    @staticmethod
    def _find(
        column: str | None, usual: Sequence[str], columns: Sequence[str], name: str, option: str
    ) -> str:
        if column is not None:
            return find_column(column, columns, name)
        found = find_usual(usual, columns)
        if found is None:
            listed = ", ".join(repr(shorten(one)) for one in columns[:8]) or "none"
            raise DataError(
                f"{name} has no column {usual[0]!r} (or {usual[1]!r}, as in BLiMP); name it with {option}: "
                f"its columns are {listed}."
            )
        return find_column(found, columns, name)


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def _read_text(row: Row, column: str, name: str) -> str:
    cell = row.cells.get(column)
    if _is_missing(cell):
        return ""
    if not isinstance(cell, str):
        raise DataError(
            f"{row.where} of {name} has no text in column {column!r}, but {shorten(repr(cell))}; name the "
            "columns of both texts with --text-column and --text-pair-column."
        )
    return check_unicode(cell, f"{row.where} of {name} (column {column!r})") if cell.strip() else ""


def _read_answer(row: Row, column: str, name: str) -> Answer | None:
    cell = row.cells.get(column)
    if _is_missing(cell):
        return None
    if isinstance(cell, bool):
        return int(cell)
    if isinstance(cell, str):
        return check_unicode(cell, f"{row.where} of {name} (column {column!r})") if cell.strip() else None
    if isinstance(cell, int | float):
        return cell
    raise DataError(
        f"{row.where} of {name} has no answer in column {column!r}, but {shorten(repr(cell))}; an answer is "
        "a word, a label or a target text."
    )
