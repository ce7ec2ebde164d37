"""Schemas: the columns of each task's data, a class each, and from a row to a ``Document``.

A column is the one that a user names, by its name or its number, or else the first of the usual names that is
there, in any letter case.
"""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from attnprobe.corpus import cells
from attnprobe.corpus.cells import PEEK_ROWS, Row, Table
from attnprobe.corpus.document import Contrast, Document, Label, Value
from attnprobe.corpus.links import LINKS, TEXT_COLUMNS, WORD_COLUMNS, list_texts, read_annotation
from attnprobe.corpus.media import Picture
from attnprobe.corpus.source import Source
from attnprobe.corpus.streams import check_unicode, shorten
from attnprobe.errors import AttnprobeWarning, DataError

#: The usual names of columns. The first sentence of sentence1/sentence2 and the like is read alone: a pair
#: has to be asked for.
TEXT = ("text", "sentence", "sentence1", "content", "document", "premise", "question")
WORDS = ("tokens", "words")
LABEL = ("label", "labels", "class", "target")
TAGS = ("ner_tags", "tags", "pos_tags", "upos", "labels", "label")
QUESTION, CONTEXT, ANSWERS = ("question",), ("context",), ("answers",)
PICTURE = ("image", "images", "image_path", "file_name", "img", "jpg", "png")
#: The same of contrasts; the second are those of BLiMP.
CLEAN, CORRUPTED = ("clean", "sentence_good"), ("corrupted", "sentence_bad")
ANSWER = ("answer", "label", "labels", "target")
OTHER = ("other", "other_answer", "answer_corrupted")
#: Stands for the name of no column of images.
NO_IMAGES = "none"
#: Columns that an error lists.
_LISTED = 20
#: How pandas calls the columns of an index without a name in parquet.
_INDEX = "__index_level_"


def read_table(table: Table, source: Source) -> Iterator[Document]:
    """Yield a document, or a part of one, for each row whose text is not blank."""
    return choose_schema(source).read(table)


def choose_schema(source: Source) -> "Texts":
    """Choose a schema by what is wanted of a source."""
    if source.contrasts:
        return Contrasts(source)
    if source.annotated:
        return GoldLinks(source)
    if source.usual:
        return RelatedTexts(source)
    return LabelledTexts(source) if source.find_labels else Texts(source)


class Texts:
    """Texts, or pairs that are read together, perhaps with an image; a label where its column is named.

    Rows with one value in the column of documents are parts of one document, others documents of their own.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.text, self.pair, self.label = source.text_column, source.pair_column, source.label_column
        self._words = False  # whether the text is a list of words
        self._table = Table(source.spec, (), iter(()))
        self._free: list[str] = []  # columns that may still be chosen
        self._first: list[Row] = []

    def usual(self) -> set[str]:
        """The usual names by which columns are looked for beside that of the text, in lower case."""
        return set()

    def keep(self, columns: Sequence[str]) -> Collection[str]:
        """Choose the columns that are wanted although they hold neither text nor numbers."""
        source = self._source
        if source.image_column is not None:
            return [source.image_column]
        images = [name for name in columns if name.lower() in PICTURE]
        return images if images and source.sees is not None and source.sees() else ()

    def read(self, table: Table) -> Iterator[Document]:
        """Yield a document for each row that holds a text; rows without an image are left out, if any has."""
        self._table, self._first = table, list(islice(table.rows, PEEK_ROWS))
        if not self._first:
            return
        source = self._source
        self.text, self.pair, self.label, parts, group = (
            None if column is None else find_column(column, table.columns, table.name)
            for column in (self.text, self.pair, self.label, source.document_column, source.group_column)
        )
        image, blind = self._find_image(), 0
        taken = {parts, group} - {self.text, self.pair, self.label} | {image}
        self._free = [column for column in table.columns if column not in taken]
        self.choose()
        known: dict[str, str] = {}
        for row in chain(self._first, table.rows):
            document = self.read_row(row)
            if document is not None and image is not None:
                picture = Picture.of_cell(row.cells.get(image), Path(source.spec).parent, row.where)
                blind += picture is None
                document = None if picture is None else replace(document, image=picture)
            if document is None:
                continue
            if group is not None:
                name = cells.read_name(row.cells.get(group), row.where, group, "--by-group")
                document = replace(document, group=name)
            part_of = row.part_of
            if parts is not None:
                part_of = cells.read_name(row.cells.get(parts), row.where, parts, "--document-column")
                if part_of is not None:
                    # By its first row too: 17 is another document in another file, and the same in a part.
                    part_of = known.setdefault(part_of, f"{part_of}\0{document.digest:x}")
            yield document if part_of is None else replace(document, part_of=part_of)
        if blind:
            sentence = f"{blind:,} row{'s' * (blind > 1)} of {table.name} without an image left out."
            warnings.warn(sentence, AttnprobeWarning, stacklevel=2)

    def choose(self) -> None:
        """Choose the columns that are not named."""
        if self.label is not None and self.label in (self.text, self.pair):
            both = f"the column {self.label!r} of {self._table.name} can't be both text and label"
            raise DataError(f"{both}; name two columns")
        if self.text is None:
            self.text = self._choose_text()
        self._words = self.most_are(cells.read_words, self.text)

    def read_row(self, row: Row) -> Document | None:
        if (text := self._read_text(row)) is None:
            return None
        return Document(text, self.read_cell(row, self.pair), self.read_label(row))

    def read_label(self, row: Row) -> Label | None:
        return self.read_value(row, self.label)

    def read_value(self, row: Row, column: str | None) -> Value | None:
        return None if column is None else cells.read_label(row.cells.get(column), row.where, column)

    def read_cell(self, row: Row, column: str | None, **option: str) -> str | None:
        return None if column is None else cells.read_text(row.cells.get(column), row.where, column, **option)

    def find(self, names: Sequence[str], *but: str | None) -> str | None:
        """Find a column by its usual names among those that are free."""
        column = find_usual(names, [column for column in self._free if column not in but])
        if column is not None:
            require(column, self._table.columns, self._table.name)
        return column

    def need(self, column: str | None, names: Sequence[str], option: str, *but: str | None) -> str:
        """Find a column that the task can't do without."""
        column = column if column is not None else self.find(names, *but)
        if column is None:
            raise DataError(
                f"{self._table.name} has no column called {' or '.join(names[:3])}; name one with {option}: "
                f"its columns are {list_columns(self._table.columns)}"
            )
        return column

    def most_are(self, read: Callable[[Any], Any], column: str) -> bool:
        """Tell whether most cells of the first rows can be read."""
        there = [cell for row in self._first if (cell := row.cells.get(column)) is not None]
        return 2 * sum(read(cell) is not None for cell in there) > len(there)

    def _read_text(self, row: Row) -> str | None:
        """Read a text, or words, which are joined by blanks."""
        assert self.text is not None
        words = cells.read_words(row.cells.get(self.text)) if self._words else None
        if words is None:
            return self.read_cell(row, self.text)
        text = " ".join(word for word in words if word.strip())
        return check_unicode(text, f"{row.where} (column {self.text!r})") or None

    def _find_image(self) -> str | None:
        source, table = self._source, self._table
        if source.image_column is not None:
            named = source.image_column
            return None if named == NO_IMAGES else find_column(named, table.columns, table.name)
        column = None if source.sees is None else find_usual(PICTURE, table.columns)
        if column is None or not any(Picture.may_be(row.cells.get(column)) for row in self._first):
            return None
        return column if source.sees is not None and source.sees() else None

    def _choose_text(self) -> str:
        name, header = self._table.name, self._table.header
        free = [column for column in self._free if column not in (self.pair, self.label)]
        if (column := self.find(TEXT, self.pair, self.label)) is not None:
            if others := [c for c in free if c != column and c.lower() in TEXT]:
                sentence = (
                    f"the text of {name} is taken from its column {shorten(column)!r}, not from "
                    f"{list_columns(others)}; name another with --text-column."
                )
                warnings.warn(sentence, AttnprobeWarning, stacklevel=2)
            return column
        words = self.find(WORDS, self.pair, self.label)
        if words is not None and self.most_are(cells.read_words, words):
            return words
        strings = [c for c in free if self._holds_text(c) and not c.startswith(_INDEX)]
        # A number in a line of names means that it is data: words and frequencies, say.
        if len(strings) != 1 or (header and any(map(cells.is_number, self._free))):
            advice = " (--no-header where the first line is data)" if header else ""
            raise DataError(
                f"which column of {name} holds the text is not clear; pass --text-column with one of "
                f"{list_columns(self._free)}, or with its number, from 1{advice}"
            )
        return strings[0]

    def _holds_text(self, column: str) -> bool:
        filled = [cell for row in self._first if (cell := row.cells.get(column)) not in (None, "")]
        strings = all(isinstance(cell, str) for cell in filled)
        return bool(filled) and strings and not all(map(cells.is_number, filled))


class LabelledTexts(Texts):
    """Texts with a label or a list of labels, words with a label each, or questions with their answers."""

    _context: str | None = None
    _tags = False

    def usual(self) -> set[str]:
        return {*LABEL, *TAGS, *ANSWERS}

    def choose(self) -> None:
        if self._choose_question() or self._choose_words():
            return
        if self.label is None:
            self.label = self.find(LABEL, self.text, self.pair)
        super().choose()

    def read_label(self, row: Row) -> Label | None:
        if self.label is None or self.text is None:
            return None
        cell, classes = row.cells.get(self.label), self._table.classes.get(self.label, ())
        if self._context is not None:
            return cells.read_answers(self.read_cell(row, self._context), cell, row.where)
        words = cells.read_words(row.cells.get(self.text)) if self._tags else None
        if words is not None:
            return cells.read_tags(words, cell, classes, row.where)
        return (
            cells.read_labels(cell, classes, row.where) if isinstance(cell, list) else super().read_label(row)
        )

    def _choose_question(self) -> bool:
        answers = self.label if self.label is not None else self.find(ANSWERS)
        if answers is None or not self.most_are(_as_answers, answers):
            return False
        if self.label is None and (self.text is None) != (self.pair is None):
            return False  # one of the texts alone was asked for
        question = self.text if self.text is not None else self.find(QUESTION)
        context = self.pair if self.pair is not None else self.find(CONTEXT)
        if question is None or context is None or question == context:
            if self.label is None:
                return False
            raise DataError(
                f"the column {self.label!r} of {self._table.name} holds answers, which need a question and a "
                "context; name them with --text-column and --text-pair-column"
            )
        self.text, self.label, self._context = question, answers, context
        return True

    def _choose_words(self) -> bool:
        words = self.text if self.text is not None else self.find(WORDS, self.label)
        if self.pair is not None or words is None or not self.most_are(cells.read_words, words):
            return False
        lists = [c for c in self._free if c != words and self.most_are(_as_list, c)]
        tags = self.label if self.label is not None else find_usual(TAGS, lists)
        if tags not in lists or not self._are_aligned(words, tags):
            return False
        require(tags, self._table.columns, self._table.name)
        self.text, self.label, self._words, self._tags = words, tags, True, True
        return True

    def _are_aligned(self, words: str, tags: str) -> bool:
        """Tell whether most lists of labels are as long as the words beside them: others are of the text."""
        rows = ((row.cells.get(words), row.cells.get(tags)) for row in self._first)
        alike = [
            len(texts) == len(labels)
            for texts, labels in rows
            if isinstance(texts, list) and isinstance(labels, list)
        ]
        return 2 * sum(alike) > len(alike)


class GoldLinks(Texts):
    """Texts with words and gold links: the second text of a pair and what a decoder reads have names too."""

    def keep(self, columns: Sequence[str]) -> Collection[str]:
        return {LINKS, *WORD_COLUMNS.values()} & set(columns)

    def choose(self) -> None:
        if not self.keep(self._table.columns):
            require(LINKS, self._table.columns, f"{self._table.name} holds no gold links: it")
        self.pair = self.pair if self.pair is not None else self.find((TEXT_COLUMNS["pair"],))
        self.label = self.label if self.label is not None else self.find((TEXT_COLUMNS["target"],))
        super().choose()

    def read_row(self, row: Row) -> Document | None:
        text, pair = self._read_text(row), self.read_cell(row, self.pair)
        target = self.read_cell(row, self.label, option="--target-column")
        if text is None:
            return None
        annotation = read_annotation(row.cells, row.where, list_texts(text, pair, target))
        return Document(text, pair, target, annotation)


class RelatedTexts(Texts):
    """A text, a text beside it and what is said of both, which each have the usual names of their task."""

    def usual(self) -> set[str]:
        return {name for names in self._source.usual for name in names}

    def choose(self) -> None:
        texts, pairs, labels = self._source.usual
        named = self.text, self.pair, self.label
        self.text = self.need(self.text, texts, "--text-column", *named)
        self.pair = self.need(self.pair, pairs, "--text-pair-column", *named, self.text)
        if self.label is None:
            self.label = self.find(labels, self.text, self.pair)
        super().choose()


class Contrasts(Texts):
    """A clean and a corrupted text, the answer that they are asked for and what it is compared with.

    A row that lacks either text has a contrast with an empty text, which is left out, and counted, where it
    is tokenised.
    """

    _other: str | None = None

    def choose(self) -> None:
        named = self._source.other_column
        self.text = self.need(self.text, CLEAN, "--text-column")
        self.pair = self.need(self.pair, CORRUPTED, "--text-pair-column")
        self.label = self.label if self.label is not None else self.find(ANSWER)
        columns = self._table.columns
        self._other = self.find(OTHER) if named is None else find_column(named, columns, self._table.name)

    def read_row(self, row: Row) -> Document:
        clean, corrupted = (self.read_cell(row, column) or "" for column in (self.text, self.pair))
        answer, other = (self.read_value(row, column) for column in (self.label, self._other))
        return Document(clean, label=Contrast(corrupted, answer, other))


def find_column(column: str, columns: Sequence[str], name: str) -> str:
    """Find a column by its name, or else by its number, counted from 1."""
    if column not in columns and column.isdecimal() and 0 < int(column) <= len(columns):
        column = columns[int(column) - 1]
    require(column, columns, name)
    return column


def find_usual(names: Sequence[str], columns: Sequence[str]) -> str | None:
    """Find the first of the usual names among columns, in any letter case but the exact one first."""
    for usual in names:
        alike = [column for column in columns if column.lower() == usual]
        if alike:
            return usual if usual in alike else alike[0]
    return None


def require(column: str, columns: Sequence[str], name: str) -> None:
    """Refuse a column that is not there, or there twice."""
    if column not in columns:
        raise DataError(f"{name} has no column {column!r}; its columns are {list_columns(columns)}")
    if columns.count(column) > 1:
        raise DataError(f"{name} has more than one column {column!r}; give each its own name")


def list_columns(columns: Sequence[str]) -> str:
    # repr, since a hostile header may hold escape sequences that a terminal would obey.
    names = ", ".join(repr(shorten(column)) for column in columns[:_LISTED])
    more = len(columns) - _LISTED
    return f"{names} and {more} more" if more > 0 else names


def _as_list(cell: Any) -> list[Any] | None:
    return cell if isinstance(cell, list) else None


def _as_answers(cell: Any) -> Any:
    """Take an object, or a list of objects, for answers; an empty list may be one of labels."""
    if isinstance(cell, list):
        return cell if all(isinstance(part, Mapping) for part in cell) else None
    return cell if isinstance(cell, Mapping) else None
