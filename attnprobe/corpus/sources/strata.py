"""Groups of documents that are measured apart, such as genres: which there are, and whether they can be."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace

from attnprobe.corpus.formats import FILE
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.streams import shorten
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.errors import AttnprobeWarning, DataError
from attnprobe.table.cells import clean
from attnprobe.table.kinds import ALL_GROUPS

#: Of more groups, tables and sums would grow too large.
MOST = 100


def name_files(sources: Iterable[OpenSource]) -> list[OpenSource]:
    """Let the documents of each of several files count in a group of their own, by the name of the file."""
    return [replace(source, documents=_mark(source.documents, source.name)) for source in tell_apart(sources)]


def tell_apart(sources: Iterable[OpenSource]) -> list[OpenSource]:
    """Number sources of one name, such as those of files in several folders: dev.txt, dev.txt (2)."""
    seen: dict[str, int] = {}
    found = []
    for source in sources:
        number = seen[source.name] = seen.get(source.name, 0) + 1
        found.append(source if number == 1 else replace(source, name=f"{source.name} ({number})"))
    return found


def _mark(documents: Iterable[Document], stratum: str) -> Iterator[Document]:
    return (replace(document, stratum=stratum) for document in documents)


def check_strata(documents: Iterable[Document], column: str, name: str) -> Iterator[Document]:
    """Keep the documents that are in a group; what steers a terminal is no part of its name, nor are blanks.

    How many are left out is said at the end.

    ``column``: the column or the comment that names the groups, for errors.
    """
    known: set[str] = set()
    left = 0
    for document in documents:
        stratum = clean(document.stratum or "").strip()
        if not stratum:
            left += 1
            continue
        if stratum not in known:
            known.add(stratum)
            _check_names(known, stratum, column, name)
        yield replace(document, stratum=stratum)
    if not known:
        raise DataError(
            f"No document of {name} is in a group: {column!r} is empty, or not there, in each; name another "
            "column or comment with --by-group."
        )
    if left:
        texts = "1 text" if left == 1 else f"{left:,} texts"
        sentence = f"{texts} of {name} without {shorten(column)!r} {'is' if left == 1 else 'are'} left out."
        warnings.warn(sentence, AttnprobeWarning, stacklevel=2)


def _check_names(known: set[str], stratum: str, column: str, name: str) -> None:
    if len(known) > MOST:
        raise DataError(
            f"{column!r} of {name} has more than {MOST} values, such as {shorten(stratum)!r}; --by-group "
            f"takes at most {MOST} groups: name a column such as a language, a genre or a source."
        )
    if stratum == ALL_GROUPS:
        raise DataError(
            f"{column!r} of {name} has the value {ALL_GROUPS!r}, which is what the rows over all groups are "
            "called; give the group another name."
        )


def is_file(column: str | None, files: int) -> bool:
    """Tell whether groups are several files, each by its name."""
    return column == FILE and files > 1
