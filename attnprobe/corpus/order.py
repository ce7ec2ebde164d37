"""Which documents are read, and in which order: the first, a sample, a part, or all at random.

Each is the same for the same seed, however far it is read.
"""

import hashlib
import pickle
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from heapq import heappush, heappushpop
from itertools import chain, islice
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from attnprobe.corpus.document import Document, DocumentNumbers
from attnprobe.corpus.media import MediaFolder
from attnprobe.corpus.source import Order
from attnprobe.corpus.store import Spool
from attnprobe.errors import DataError

#: Which part of the documents, counted from 1, and of how many.
Part = tuple[int, int]

Drawn = TypeVar("Drawn")


def _whole(_: object) -> None:
    """Say of an item that it is a document of its own."""


def select(documents: Any, limit: int | None, sample: int | None, seed: int, part: Part | None = None) -> Any:
    """Give the first ``limit`` documents, or all, or a ``sample`` of those, in order; or a part of these.

    Parts of one document, such as the sentences of a treebank with ``# newdoc`` or the rows with one value of
    ``--document-column``, are drawn together and count once, wherever they stand; the limit counts parts.
    """
    folder = isinstance(documents, MediaFolder)
    items: Iterable[Any] = documents.items if folder else documents
    name = _whole if folder else attrgetter("part_of")
    chosen = islice(items, None if limit is None else min(limit, sys.maxsize))  # which takes no more
    chosen = chosen if sample is None else draw_documents(chosen, sample, seed, name)
    chosen = chosen if part is None else take_part(chosen, part, name)
    return replace(documents, items=tuple(chosen)) if folder else iter(chosen)


def take_part(
    items: Iterable[Drawn], part: Part, document: Callable[[Drawn], str | None] = _whole
) -> Iterator[Drawn]:
    """Take the items of every N-th document, from the K-th on, for part K of N.

    Documents are numbered as they come, so nothing is read ahead, each is in one part, and parts are alike in
    size to one document. ``document`` is as for ``draw_documents``.

    >>> list(take_part("abcdefg", (2, 3)))
    ['b', 'e']
    """
    (number, of), numbers, count = part, DocumentNumbers(), 0
    for item in items:
        place = numbers.number(document(item))
        count = max(count, place + 1)
        if place % of == number - 1:
            yield item
    if count < number:
        there = "there is only 1 document" if count == 1 else f"there are only {count:,} documents"
        raise DataError(f"Part {number}/{of} holds nothing: {there}; give fewer parts.")


def draw_documents(
    items: Iterable[Drawn], number: int, seed: int, document: Callable[[Drawn], str | None] = _whole
) -> list[Drawn]:
    """Draw documents at random, each subset of that size as likely as any other; all, if there are no more.

    Each document has a key, the BLAKE2b of the seed and its name, and the smallest keys win; so the draw
    holds what it gives and no more, wherever the parts of a document stand, and a larger number adds
    documents to those of a smaller one.

    ``document``: names the document that an item is a part of; None of one that is whole, which is named by
    its place. The items come in their order.

    References:
        Efraimidis and Spirakis (2006), Weighted random sampling with a reservoir, with equal weights.
    """
    drawn: dict[str, list[tuple[int, Drawn]]] = {}
    largest: list[tuple[int, str]] = []  # negative keys of what is drawn: the largest key first
    for place, item in enumerate(items):
        name = _name(document(item), place)
        if name not in drawn:
            entry = (-_draw_key(seed, name), name)
            if len(drawn) < number:
                heappush(largest, entry)
            elif (out := heappushpop(largest, entry)) == entry:
                continue
            else:
                del drawn[out[1]]
            drawn[name] = []
        drawn[name].append((place, item))
    return [item for _, item in sorted(chain.from_iterable(drawn.values()), key=lambda entry: entry[0])]


def _draw_key(seed: int, name: str) -> int:
    """Draw the key of a document by its name, in 64 bits: documents are read by their keys, ascending."""
    content = f"{seed}|{name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")


def _name(group: str | None, place: int) -> str:
    """Name a document: by its place, if it is whole, or by what names it in its source."""
    return f"place {place}" if group is None else f"group {group}"


def arrange(documents: Iterable[Document], order: Order) -> Iterator[list[Document]]:
    """Yield documents in a random order, each with all of its parts.

    What no index can be made of is read once, to a temporary file; in memory are 16 bytes for each part.
    Parts of one document, wherever they stand, come together, in their own order.
    """
    documents = iter(documents)
    first = list(islice(documents, 1))  # a source says with its first document in which order they come
    if order.arranged:
        yield from ([document] for document in chain(first, documents))
        return
    keys, starts, pictures = array("Q"), array("Q", [0]), {}
    with Spool("The text") as spool:
        for place, document in enumerate(chain(first, documents)):
            keys.append(_draw_key(order.seed, _name(document.part_of, place)))
            if document.image is not None:  # which may hold an open file
                pictures[place] = document.image
                document = replace(document, image=None)  # noqa: PLW2901 - it is the same text
            # Our own objects in a file without a name: nobody else can write to it.
            content = pickle.dumps(document, pickle.HIGHEST_PROTOCOL)
            starts.append(spool.append(content) + len(content))
        drawn = np.array(keys, np.uint64)
        by_key = np.argsort(drawn, kind="stable")  # parts of a document keep their order
        parts = np.split(by_key, np.flatnonzero(np.diff(drawn[by_key])) + 1)
        order.total = len(parts) if keys else 0
        for places in parts if keys else ():
            yield [
                replace(
                    pickle.loads(spool.read(starts[place], starts[place + 1] - starts[place])),
                    image=pictures.get(place),
                )
                for place in places.tolist()
            ]


def arrange_media(folder: MediaFolder, order: Order) -> MediaFolder:
    """Put the files of a folder in a random order."""
    order.total = len(folder.items)
    places = sorted(range(order.total), key=lambda place: _draw_key(order.seed, _name(None, place)))
    return replace(folder, items=tuple(folder.items[place] for place in places))
