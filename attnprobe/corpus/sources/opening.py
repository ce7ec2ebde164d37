"""Opening whatever a user names (text, or images or sound), and choosing which of it is read."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heappush, heappushpop
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import TypeVar, overload

from attnprobe.corpus.sources.document import Document, DocumentNumbers
from attnprobe.corpus.sources.media import (
    MediaFolder,
    find_media,
    is_media,
)
from attnprobe.corpus.sources.order import draw_key, name_group, name_place
from attnprobe.corpus.sources.pictures import BOTH, open_captioned
from attnprobe.corpus.sources.relations import is_benchmark, open_benchmark
from attnprobe.corpus.sources.text import EMBEDDED, STDIN, OpenSource, Source, holds_text, open_source
from attnprobe.errors import DataError

Drawn = TypeVar("Drawn")


def open_anything(source: Source) -> OpenSource:
    """Open a source; a bad name is refused at once."""
    if source.spec in {EMBEDDED, STDIN} or source.coreference:
        return open_source(source)
    path = Path(source.spec)
    try:
        media = path.exists() and is_media(path) and not _holds_only_text(path)
        benchmark = is_benchmark(path)
    except (OSError, ValueError):  # a name too long, or with a NUL in it, which is told elsewhere
        media = benchmark = False
    if benchmark:
        return _open_benchmark(path, source)
    if not media:
        return open_source(source)
    if source.annotated:
        raise DataError(
            f"{source.spec} is {'a folder' if path.is_dir() else 'an image or sound'}, and gold links are "
            "between words of text; name a file that has them."
        )
    if source.text_column is not None and path.is_dir() and source.sees is not None:
        return _open_captioned(path, source)
    folder = MediaFolder.open(path, source.label_column)
    if source.image_column is not None:
        raise DataError(
            f"{source.spec} holds images or sound; leave out --image-column, or name the column of captions "
            "with --text-column."
        )
    _refuse_options(source, "images or sound", split=source.split, label=None)
    described = folder.described | {"label_column": source.label_column}
    return OpenSource(folder, str(described["name"]), described, folder.kind)


def _open_captioned(path: Path, source: Source) -> OpenSource:
    column, others = source.text_column, replace(source, text_column=None)
    assert column is not None
    _refuse_options(others, "images", split=source.split, label=source.label_column)
    described = MediaFolder.open(path).described | {"kind": BOTH, "text_column": column}
    return OpenSource(open_captioned(path, column), str(described["name"]), described, BOTH)


def _holds_only_text(path: Path) -> bool:
    return path.is_dir() and holds_text(path) and next(find_media(path), None) is None


def _open_benchmark(path: Path, source: Source) -> OpenSource:
    """Open a folder of queries and passages, for a task."""
    if not source.find_labels:
        raise DataError(
            f"{source.spec} is a folder of queries and passages, which are for --objective retrieval; give "
            "one file of it, such as corpus.jsonl."
        )
    _refuse_options(source, "queries and passages", split=None, label=source.label_column)
    return open_benchmark(path, source.split)


def _refuse_options(source: Source, holds: str, *, split: str | None, label: str | None) -> None:
    """Refuse options of tables and of the hub; ``split`` and ``label`` are None where they mean something."""
    given = {
        "--split": split,
        "--dataset-config": source.config,
        "--text-column": source.text_column,
        "--text-pair-column": source.pair_column,
        "--label-column": label,
        "--document-column": source.document_column,
    }
    for option, value in given.items():
        if value is not None:
            raise DataError(f"{source.spec} holds {holds}; leave out {option}.")


def join_sources(sources: Sequence[OpenSource]) -> OpenSource:
    """Chain sources of text; one alone is given back as it is.

    The name joins theirs by " + ", and the record has under ``sources`` what each of them has there.
    """
    if len(sources) == 1:
        return sources[0]
    known: dict[str, str] = {}
    for source in sources:
        if source.kind != "text":
            raise DataError(f"{source.name} holds {source.kind}; only files of text can be read together.")
        digest = source.described.get("sha256")
        if digest in known:
            other = known[digest]
            twice = f"{source.name} is" if other == source.name else f"{source.name} and {other} are"
            raise DataError(f"{twice} the same file named twice; name it once.")
        if digest is not None:
            known[digest] = source.name
    name = " + ".join(source.name for source in sources)
    described = {"name": name, "sources": [source.described for source in sources]}
    return OpenSource(chain.from_iterable(source.documents for source in sources), name, described)


#: Which part of the documents, counted from 1, and of how many.
Turn = tuple[int, int]


@overload
def select(
    documents: MediaFolder, limit: int | None, sample: int | None, seed: int, part: Turn | None = None
) -> MediaFolder: ...
@overload
def select(
    documents: Iterable[Document],
    limit: int | None,
    sample: int | None,
    seed: int,
    part: Turn | None = None,
) -> Iterator[Document]: ...
def select(
    documents: Iterable[Document] | MediaFolder,
    limit: int | None,
    sample: int | None,
    seed: int,
    part: Turn | None = None,
) -> Iterator[Document] | MediaFolder:
    """Give the first ``limit`` documents, or all, or a ``sample`` of those, in order; or a part of these.

    Parts of one document, such as the sentences of a treebank with ``# newdoc`` or the rows with one value of
    ``--document-column``, are drawn together and count once, wherever they stand; the limit counts parts.
    """
    if isinstance(documents, MediaFolder):
        found = documents.first(limit)
        if sample is not None:
            found = replace(found, items=tuple(draw_documents(found.items, sample, seed)))
        return found if part is None else replace(found, items=tuple(take_part(found.items, part)))
    first = islice(documents, None if limit is None else min(limit, sys.maxsize))  # which takes no more
    group = attrgetter("group")
    chosen = first if sample is None else iter(draw_documents(first, sample, seed, group))
    return chosen if part is None else take_part(chosen, part, group)


def take_part(
    items: Iterable[Drawn], part: Turn, document: Callable[[Drawn], str | None] = lambda _: None
) -> Iterator[Drawn]:
    """Take the items of every N-th document, from the K-th on, for part K of N.

    Documents are numbered as they come, so nothing is read ahead, each is in one part, and parts are alike in
    size to one document. ``document`` is as for ``draw_documents``.

    >>> list(take_part("abcdefg", (2, 3)))
    ['b', 'e']
    """
    (number, of), numbers, found = part, DocumentNumbers(), -1
    for item in items:
        place = numbers.number(document(item))
        found = max(found, place)
        if place % of == number - 1:
            yield item
    if found + 1 < number:
        there = "there is only 1 document" if found == 0 else f"there are only {found + 1:,} documents"
        raise DataError(f"Part {number}/{of} holds nothing: {there}; give fewer parts.")


def draw_documents(
    items: Iterable[Drawn], number: int, seed: int, document: Callable[[Drawn], str | None] = lambda _: None
) -> list[Drawn]:
    """Draw documents at random, each subset of that size as likely as any other; all, if there are no more.

    Each document has a key, the BLAKE2b of the seed and its name, and the smallest keys win. A document that
    is not in the draw can't come back later, so the draw holds what it gives and no more, wherever the parts
    of a document stand. It depends on nothing but the seed and the names, and a larger number adds documents
    to those of a smaller one.

    ``items``: read once, and held only as long as they are in the draw.
    ``document``: names the document that an item is a part of; None of one that is whole, which is named by
    its place.

    Returns:
        The items in their order.

    References:
        Efraimidis and Spirakis (2006), Weighted random sampling with a reservoir, with equal weights.
    """
    drawn: dict[str, list[tuple[int, Drawn]]] = {}
    largest: list[tuple[int, str]] = []  # negative keys of what is drawn: the largest key first
    for place, item in enumerate(items):
        group = document(item)
        name = name_place(place) if group is None else name_group(group)
        if name not in drawn:
            entry = (-draw_key(seed, name), name)
            if len(drawn) < number:
                heappush(largest, entry)
            elif (out := heappushpop(largest, entry)) == entry:
                continue
            else:
                del drawn[out[1]]
            drawn[name] = []
        drawn[name].append((place, item))
    return [item for _, item in sorted(chain.from_iterable(drawn.values()), key=lambda one: one[0])]
