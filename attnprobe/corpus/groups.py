"""Several sources read as one, and groups of documents that are measured apart, such as genres or files."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from attnprobe.corpus.document import Document
from attnprobe.corpus.source import FILE, OpenSource
from attnprobe.corpus.streams import shorten
from attnprobe.errors import AttnprobeWarning, DataError
from attnprobe.table.cells import clean
from attnprobe.table.kinds import ALL_GROUPS

#: Of more groups, tables and sums would grow too large.
MOST = 100


def join_sources(sources: Sequence[OpenSource], column: str | None = None) -> OpenSource:
    """Chain sources of text; where the ``column`` of groups is ``FILE``, each is a group by its name."""
    if len(sources) == 1:
        return sources[0]
    known, names, texts = dict[str, str](), list[str](), list[Iterable[Document]]()
    for source in sources:
        if source.kind != "text":
            raise DataError(f"{source.name} holds {source.kind}; only files of text can be read together.")
        digest = source.described.get("sha256")
        if digest in known:
            raise DataError(f"{source.name} and {known[digest]} are the same file; name it once.")
        known |= {} if digest is None else {digest: source.name}
        again = [other.name for other in sources[: len(names)]].count(source.name)
        names.append(f"{source.name} ({again + 1})" if again and column == FILE else source.name)
        marked = map(partial(replace, group=names[-1]), source.documents)
        texts.append(marked if column == FILE else source.documents)
    name = " + ".join(names)
    described = {"name": name, "sources": [source.described for source in sources]}
    return OpenSource(chain.from_iterable(texts), name, described)


def keep_grouped(documents: Iterable[Document], column: str, name: str) -> Iterator[Document]:
    """Keep the documents that are in a group, and say how many are left out; names lose control codes."""
    known: set[str] = set()
    left = 0
    for document in documents:
        group = clean(document.group or "").strip()
        if not group:
            left += 1
            continue
        known.add(group)
        if len(known) > MOST:
            raise DataError(
                f"{column!r} of {name} has more than {MOST} values, such as {shorten(group)!r}; --by-group "
                f"takes at most {MOST} groups: name a column such as a language, a genre or a source."
            )
        if group == ALL_GROUPS:
            raise DataError(
                f"{column!r} of {name} has the value {ALL_GROUPS!r}, which is what the rows over all groups "
                "are called; give the group another name."
            )
        yield replace(document, group=group)
    if not known:
        raise DataError(
            f"No document of {name} is in a group: {column!r} is empty, or not there, in each; name another "
            "column or comment with --by-group."
        )
    if left:
        sentence = f"Texts of {name} without {shorten(column)!r} are left out: {left:,}."
        warnings.warn(sentence, AttnprobeWarning, stacklevel=2)
