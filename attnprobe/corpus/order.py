"""Which documents are read, and in which order: the first, a sample, a part, or all at random.

An item's ``part_of`` names its document; an item without one is a document of its own, named by its place.
"""

import hashlib
import pickle
import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain, islice
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


def select(documents: Any, limit: int | None, sample: int | None, seed: int, part: Part | None = None) -> Any:
    """Give the first ``limit`` documents, or all, or a ``sample`` of those, in order; or a part of these.

    Parts of one document are drawn together and count once; the limit counts parts.
    """
    folder = isinstance(documents, MediaFolder)
    items: Iterable[Any] = documents.items if folder else documents
    chosen = islice(items, None if limit is None else min(limit, sys.maxsize))  # which takes no more
    chosen = chosen if sample is None else draw_documents(chosen, sample, seed)
    chosen = chosen if part is None else take_part(chosen, part)
    return replace(documents, items=tuple(chosen)) if folder else iter(chosen)


def take_part(items: Iterable[Drawn], part: Part) -> Iterator[Drawn]:
    """Take the items of every N-th document, from the K-th on, for part K of N; nothing is read ahead.

    >>> list(take_part("abcdefg", (2, 3)))
    ['b', 'e']
    """
    (number, of), numbers, count = part, DocumentNumbers(), 0
    for item in items:
        place = numbers.number(getattr(item, "part_of", None))
        count = max(count, place + 1)
        if place % of == number - 1:
            yield item
    if count < number:
        there = "there is only 1 document" if count == 1 else f"there are only {count:,} documents"
        raise DataError(f"Part {number}/{of} holds nothing: {there}; give fewer parts.")


def draw_documents(items: Iterable[Drawn], number: int, seed: int) -> list[Drawn]:
    """Draw documents at random, each subset of that size as likely as any other; the items keep their order.

    The documents of the smallest keys win: a larger number adds documents to those of a smaller one.

    References:
        Efraimidis and Spirakis (2006), Weighted random sampling with a reservoir, with equal weights.
    """
    drawn: dict[int, list[tuple[int, Drawn]]] = {}  # by key
    largest: list[int] = []  # negative keys of what is drawn: the largest key first
    for place, item in enumerate(items):
        key = _draw_key(seed, item, place)
        if key not in drawn:
            heappush(largest, -key)
        drawn.setdefault(key, []).append((place, item))
        if len(drawn) > number:
            del drawn[-heappop(largest)]
    return [item for _, item in sorted(chain.from_iterable(drawn.values()), key=lambda entry: entry[0])]


def _draw_key(seed: int, item: Any, place: int) -> int:
    group = getattr(item, "part_of", None)
    name = f"place {place}" if group is None else f"group {group}"
    content = f"{seed}|{name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")


def arrange(documents: Iterable[Document], order: Order) -> Iterator[list[Document]]:
    """Yield documents in a random order, each with all of its parts; they wait in a temporary file."""
    documents = iter(documents)
    first = list(islice(documents, 1))  # a source says with its first document in which order they come
    if order.arranged:
        yield from ([document] for document in chain(first, documents))
        return
    keys, starts = array("Q"), array("Q", [0])
    with Spool("The text") as spool:
        for place, document in enumerate(chain(first, documents)):
            keys.append(_draw_key(order.seed, document, place))
            # Our own objects in a file without a name: nobody else can write to it.
            content = pickle.dumps(document, pickle.HIGHEST_PROTOCOL)
            starts.append(spool.append(content) + len(content))
        drawn = np.array(keys, np.uint64)
        by_key = np.argsort(drawn, kind="stable")
        parts = np.split(by_key, np.flatnonzero(np.diff(drawn[by_key])) + 1) if keys else []
        order.total = len(parts)
        for places in parts:
            ends = ((starts[place], starts[place + 1]) for place in places)
            yield [pickle.loads(spool.read(start, stop - start)) for start, stop in ends]


def arrange_media(folder: MediaFolder, order: Order) -> MediaFolder:
    order.total = len(folder.items)
    keyed = sorted((_draw_key(order.seed, item, place), place) for place, item in enumerate(folder.items))
    return replace(folder, items=tuple(folder.items[place] for _, place in keyed))
