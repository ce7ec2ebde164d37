"""CoNLL-style files: a word a line, its labels beside it, a blank line between sentences."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from attnprobe.corpus.formats import Row, Table, TableFormat
from attnprobe.corpus.sources.document import group_parts
from attnprobe.corpus.sources.streams import decode_lines, split_blocks
from attnprobe.errors import DataError

if TYPE_CHECKING:
    from attnprobe.corpus.sources.text import Source

#: What a sentence is as a row: its words, and the labels of the last column.
WORDS, TAGS = "tokens", "tags"

#: Begins a line that stands between documents.
_DOCUMENT = "-DOCSTART-"
#: A comment before a sentence, such as "# id 8f3" or "# sent_id = 12".
_COMMENT = re.compile(r"# (id\s|\w+\s*=)")


def read(stream: BinaryIO, source: "Source") -> Table:
    """Read a sentence a row: column ``tokens`` for the words, ``tags`` for the last column of the file.

    Columns are parted by tabs, in a line that has one, else by blanks. Those between the first and the last
    are called ``column2``, ``column3`` and so on. A document begins behind a line that begins with
    -DOCSTART-. Comments such as ``# id 8f3`` or ``# sent_id = 12`` are passed over.

    References:
        Tjong Kim Sang and De Meulder (2003), Introduction to the CoNLL-2003 shared task.
    """
    rows = (replace(row, group=group) for group, row in group_parts(_read_rows(stream, source.spec)))
    first = next(rows, None)
    if first is None:
        return Table([WORDS, TAGS], iter(()))
    return Table(list(first.cells), chain([first], rows))


def _read_rows(stream: BinaryIO, name: str) -> Iterator[tuple[str | None, str, Row]]:
    begins = False
    for start, lines in split_blocks(decode_lines(stream, name)):
        begins = begins or any(line.startswith(_DOCUMENT) for line in lines)
        read = [_split_cells(line, start + place, name) for place, line in enumerate(lines)]
        cells = [one for one in read if one]
        if not cells:
            continue
        widths = {len(one) for one in cells}
        between = range(1, min(widths) - 1) if len(widths) == 1 else ()
        columns = {WORDS: [one[0] for one in cells]}
        columns |= {f"column{place + 1}": [one[place] for one in cells] for place in between}
        columns[TAGS] = [one[-1] for one in cells]
        opening, begins = _DOCUMENT if begins else None, False
        yield opening, " ".join(columns[WORDS]), Row(f"the sentence at line {start}", columns)


def _split_cells(line: str, number: int, name: str) -> list[str]:
    """Part a line; none at all of one that holds no word."""
    line = line.strip("\r\n")
    if line.startswith(_DOCUMENT) or _COMMENT.match(line):
        return []
    cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
    if len(cells) < 2 or not cells[0] or not cells[-1]:
        raise DataError(
            f"line {number} of {name} does not hold a word and its label; part them by a tab or a blank, and "
            "sentences by a blank line"
        )
    return cells


FORMATS = [TableFormat((".conll", ".bio", ".iob"), read)]
