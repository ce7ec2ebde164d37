"""Schemas: the columns of each task's data, and the documents of their rows.

A column is the one that a user names, by name or number, or else the first of the usual names that is there,
in any letter case.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

from attnprobe.corpus import cells
from attnprobe.corpus.cells import PEEK_ROWS, Row, Table
from attnprobe.corpus.document import Contrast, Document, Label, Value
from attnprobe.corpus.links import LINKS, TEXT_COLUMNS, WORD_COLUMNS, list_texts, read_annotation
from attnprobe.corpus.media import Picture
from attnprobe.corpus.source import OPTIONS, Source
from attnprobe.corpus.streams import check_unicode, shorten
from attnprobe.errors import AttnprobeWarning, DataError

#: The usual names of columns. Of sentence1/sentence2 and the like, the first is read alone unless a pair is
#: named.
TEXT = ("text", "sentence", "sentence1", "content", "document", "premise", "question")
WORDS = ("tokens", "words")
LABEL = ("label", "labels", "class", "target")
TAGS = ("ner_tags", "tags", "pos_tags", "upos", "labels", "label")
QUESTION, CONTEXT, ANSWERS = ("question",), ("context",), ("answers",)
PICTURE = ("image", "images", "image_path", "file_name", "img", "jpg", "png")
#: Those of contrasts; the second ones are BLiMP's.
CLEAN, CORRUPTED = ("clean", "sentence_good"), ("corrupted", "sentence_bad")
ANSWER = ("answer", "label", "labels", "target")
OTHER = ("other", "other_answer", "answer_corrupted")


def read_table(table: Table, source: Source) -> Iterator[Document]:
    """Yield a document for each row whose text is not blank."""
    schema = LabelledTexts if source.find_labels and not source.usual else Texts
    if source.contrasts or source.annotated:
        schema = Contrasts if source.contrasts else GoldLinks
    first = list(islice(table.rows, PEEK_ROWS))
    if first:
        yield from schema(source, table, first).read()


def list_usual(source: Source) -> set[str]:
    """List the usual names, in lower case, of columns other than that of the text."""
    usual = source.usual or ((LABEL, TAGS, ANSWERS) if source.find_labels else ())
    return {name for names in usual for name in names}


def list_kept(source: Source, columns: Sequence[str]) -> set[str]:
    """Give the columns of links and words, or else of images, which hold neither texts nor numbers."""
    if source.annotated:
        return {LINKS, *WORD_COLUMNS.values()} & set(columns)
    image = find_image(source, columns, source.spec)
    return set() if image is None else {image}


def find_image(source: Source, columns: Sequence[str], name: str) -> str | None:
    """Find the column of images: a named one, or one of a usual name if the model reads images."""
    if source.image_column is not None:
        return None if source.image_column == "none" else find_column(source.image_column, columns, name)
    column = find_usual(PICTURE, columns)
    return column if column is not None and source.sees is not None and source.sees() else None


class Texts:
    """Texts, or pairs that are read together, perhaps with an image; with a label if its column is named.

    Rows with the same value in the column of documents are parts of one document; others are whole ones.
    """

    #: The usual names of further columns; if they include the text's, text and pair are required.
    usual: ClassVar[dict[str, tuple[str, ...]]] = {}

    def __init__(self, source: Source, table: Table, first: Sequence[Row]) -> None:
        """Choose the columns; ``first`` are the first rows, already taken from the table."""
        self._source, self._table, self._first = source, table, first
        named = (source.text_column, source.pair_column, source.label_column, source.other_column)
        beside = (source.document_column, source.group_column)
        self.text, self.pair, self.label, self.other, self.parts, self.group = (
            None if column is None else find_column(column, table.columns, table.name)
            for column in (*named, *beside)
        )
        self.image = find_image(source, table.columns, table.name)
        if self.image is not None and source.image_column is None:
            seen = any(Picture.may_be(row.cells.get(self.image)) for row in first)
            self.image = self.image if seen else None
        taken = {self.parts, self.group} - {self.text, self.pair, self.label} | {self.image}
        self._free = [column for column in table.columns if column not in taken]
        self.choose()
        usual = dict(zip(("text", "pair", "label"), source.usual, strict=False)) or self.usual
        for role, names in usual.items():
            if getattr(self, role) is None:
                setattr(self, role, self.find(names))
            if getattr(self, role) is None and "text" in usual and role in {"text", "pair"}:
                raise DataError(
                    f"{table.name} has no column called {' or '.join(names[:3])}; name one with "
                    f"{OPTIONS[f'{role}_column']}: its columns are {list_columns(table.columns)}"
                )
        if self.text is None:
            self.text = self._choose_text()
        for column in (self.text, self.pair, self.label, self.other):
            if column is not None:
                require(column, table.columns, table.name)
        self._words = self.most_are(cells.read_words, self.text)

    def choose(self) -> None:
        """Choose columns by their content."""

    def find(self, names: Sequence[str]) -> str | None:
        """Find a column of a usual name among those that are not chosen yet."""
        chosen = (self.text, self.pair, self.label, self.other)
        return find_usual(names, [column for column in self._free if column not in chosen])

    def most_are(self, read: Callable[[Any], Any], column: str) -> bool:
        """Tell whether most cells of a column in the first rows can be read."""
        there = [cell for row in self._first if (cell := row.cells.get(column)) is not None]
        return 2 * sum(read(cell) is not None for cell in there) > len(there)

    def read(self) -> Iterator[Document]:
        """Yield a document for each row that has a text and, where images have a column, an image."""
        table, known, blind = self._table, dict[str, str](), 0
        for row in chain(self._first, table.rows):
            if (document := self.read_row(row)) is None:
                continue
            if self.image is not None:
                folder = Path(self._source.spec).parent
                if (picture := Picture.of_cell(row.cells.get(self.image), folder, row.where)) is None:
                    blind += 1
                    continue
                document = replace(document, image=picture)
            advice = "choose a column of strings or numbers with"
            group = cells.read_cell(row, self.group, f"{advice} --by-group")
            name = cells.read_cell(row, self.parts, f"{advice} --document-column")
            part_of = row.part_of if self.parts is None else None
            if name is not None:
                # With its first row: 17 is another document in another file, and the same in a part of it.
                part_of = known.setdefault(str(name), f"{name}\0{document.digest:x}")
            yield replace(document, group=None if group is None else str(group), part_of=part_of)
        if blind:
            sentence = f"{blind:,} row{'s' * (blind > 1)} of {table.name} without an image left out."
            warnings.warn(sentence, AttnprobeWarning, stacklevel=2)

    def read_row(self, row: Row) -> Document | None:
        text = self.read_text(row)
        return None if text is None else Document(text, cells.read_text(row, self.pair), self.read_label(row))

    def read_text(self, row: Row) -> str | None:
        """Read a text, or words joined by blanks."""
        assert self.text is not None
        words = cells.read_words(row.cells.get(self.text)) if self._words else None
        if words is None:
            return cells.read_text(row, self.text)
        text = " ".join(word for word in words if word.strip())
        return check_unicode(text, f"{row.where} (column {self.text!r})") or None

    def read_label(self, row: Row) -> Label | None:
        return self.read_value(row, self.label)

    def read_value(self, row: Row, column: str | None) -> Value | None:
        """Read a string or a number as the file spells it."""
        advice = "choose a column of strings or numbers, or of lists of them, with --label-column"
        cell = cells.read_cell(row, column, advice)
        return int(cell) if isinstance(cell, bool) else cell

    def _choose_text(self) -> str:
        if (column := self.find(TEXT)) is not None:
            return column
        words = self.find(WORDS)
        if words is not None and self.most_are(cells.read_words, words):
            return words
        free = [column for column in self._free if column not in (self.pair, self.label)]
        strings = []
        for column in free:
            filled = [cell for row in self._first if (cell := row.cells.get(column)) not in (None, "")]
            text = filled and all(isinstance(cell, str) for cell in filled)
            index = column.startswith("__index_level_")  # of pandas, in parquet
            if text and not index and not all(map(cells.is_number, filled)):
                strings.append(column)
        # A number in a line of names means that it is data, such as words and frequencies.
        if len(strings) == 1 and not (self._table.header and any(map(cells.is_number, self._free))):
            return strings[0]
        advice = " (--no-header where the first line is data)" if self._table.header else ""
        raise DataError(
            f"which column of {self._table.name} holds the text is not clear; pass --text-column with one of "
            f"{list_columns(self._free)}, or with its number, from 1{advice}"
        )


class LabelledTexts(Texts):
    """Texts with a label or a list of labels, words with a label each, or questions with their answers."""

    usual: ClassVar = {"label": LABEL}
    _context: str | None = None
    _tags = False

    def choose(self) -> None:
        """Choose the columns of questions and answers, or of words and labels, if most first rows fit."""

        def get_object(cell: Any) -> Any:
            return cell if isinstance(cell, Mapping) else None

        answers, question = self.label or self.find(ANSWERS), self.text or self.find(QUESTION)
        context, words = self.pair or self.find(CONTEXT), self.text or self.find(WORDS)
        # If only one of its two texts is named, and no answers, it is not read as a question.
        usual = self.label is not None or (self.text is None) == (self.pair is None)
        known = question and context and question != context and usual
        if answers and known and self.most_are(get_object, answers):
            self.text, self.label, self._context = question, answers, context
        elif self.pair is None and words is not None and self.most_are(cells.read_words, words):
            lists = [column for column in self._free if column != words and self._are_aligned(words, column)]
            tags = self.label or find_usual(TAGS, lists)
            if tags in lists:
                self.text, self.label, self._tags = words, tags, True

    def read_label(self, row: Row) -> Label | None:
        """Read the answers to a question, the tags of words, a list of labels or one; None for no label."""
        if self.label is None or self.text is None:
            return None
        cell, classes = row.cells.get(self.label), self._table.classes.get(self.label, ())
        if self._context is not None:
            return cells.read_answers(cells.read_text(row, self._context), cell, row.where)
        words = cells.read_words(row.cells.get(self.text)) if self._tags else None
        if words is not None:
            return cells.read_tags(words, cell, classes, row.where)
        if isinstance(cell, list):
            return cells.read_labels(cell, classes, row.where)
        return super().read_label(row)

    def _are_aligned(self, words: str, tags: str) -> bool:
        """Tell whether most lists of labels have one for each word; others are labels of the text."""
        rows = [(row.cells.get(words), row.cells.get(tags)) for row in self._first]
        lists = [(ours, labels) for ours, labels in rows if isinstance(labels, list)]
        alike = [isinstance(ours, list) and len(ours) == len(labels) for ours, labels in lists]
        return 2 * sum(alike) > len(alike)


class GoldLinks(Texts):
    """Texts with words and gold links; usual names are those of a pair and of a decoder's text, too."""

    usual: ClassVar = {"pair": (TEXT_COLUMNS["pair"],), "label": (TEXT_COLUMNS["target"],)}

    def choose(self) -> None:
        if not list_kept(self._source, self._table.columns):
            require(LINKS, self._table.columns, f"{self._table.name} holds no gold links: it")

    def read_row(self, row: Row) -> Document | None:
        text, pair = self.read_text(row), cells.read_text(row, self.pair)
        target = cells.read_text(row, self.label, "--target-column")
        if text is None:
            return None
        annotation = read_annotation(row.cells, row.where, list_texts(text, pair, target))
        return Document(text, pair, target, annotation)


class Contrasts(Texts):
    """A clean and a corrupted text, either of which may be empty, the answer and another one."""

    usual: ClassVar = {"text": CLEAN, "pair": CORRUPTED, "label": ANSWER, "other": OTHER}

    def read_row(self, row: Row) -> Document:
        clean, corrupted = (cells.read_text(row, column) or "" for column in (self.text, self.pair))
        answer, other = (self.read_value(row, column) for column in (self.label, self.other))
        return Document(clean, label=Contrast(corrupted, answer, other))


def find_column(column: str, columns: Sequence[str], name: str) -> str:
    """Find a column by its name, or else by its number, counted from 1."""
    if column not in columns and column.isdecimal() and 0 < int(column) <= len(columns):
        column = columns[int(column) - 1]
    require(column, columns, name)
    return column


def find_usual(names: Sequence[str], columns: Sequence[str]) -> str | None:
    """Find the first of the usual names among columns, in any letter case, preferring the exact one."""
    for usual in names:
        alike = [column for column in columns if column.lower() == usual]
        if alike:
            return usual if usual in alike else alike[0]
    return None


def require(column: str, columns: Sequence[str], name: str) -> None:
    """Refuse a column that is missing, or there twice."""
    if column not in columns:
        raise DataError(f"{name} has no column {column!r}; its columns are {list_columns(columns)}")
    if columns.count(column) > 1:
        raise DataError(f"{name} has more than one column {column!r}; give each its own name")


def list_columns(columns: Sequence[str]) -> str:
    # repr, since a hostile header may hold escape sequences for the terminal.
    names = ", ".join(repr(shorten(column)) for column in columns[:20])
    return f"{names} and {len(columns) - 20} more" if len(columns) > 20 else names
