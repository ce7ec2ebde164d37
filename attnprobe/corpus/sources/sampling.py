"""Which documents are read: the first ones, or some that are drawn at random."""

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from heapq import heappush, heappushpop
from itertools import chain, islice
from operator import attrgetter
from typing import TypeVar, overload

from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.media import MediaFolder

Item = TypeVar("Item")


@overload
def select(documents: MediaFolder, limit: int | None, sample: int | None, seed: int) -> MediaFolder: ...
@overload
def select(
    documents: Iterable[Document], limit: int | None, sample: int | None, seed: int
) -> Iterator[Document]: ...
def select(
    documents: Iterable[Document] | MediaFolder, limit: int | None, sample: int | None, seed: int
) -> Iterator[Document] | MediaFolder:
    """Give the first ``limit`` documents, or all, or a ``sample`` of those, in their order.

    Parts of one document, such as the sentences of a treebank with ``# newdoc`` or the rows with one value of
    ``--document-column``, are drawn together and count once, wherever they stand; the limit counts parts.
    """
    if isinstance(documents, MediaFolder):
        found = documents.first(limit)
        return (
            found
            if sample is None
            else replace(found, items=tuple(draw_documents(found.items, sample, seed)))
        )
    first = islice(documents, None if limit is None else min(limit, sys.maxsize))  # which takes no more
    return first if sample is None else iter(draw_documents(first, sample, seed, attrgetter("group")))


def draw_documents(
    items: Iterable[Item], number: int, seed: int, document: Callable[[Item], str | None] = lambda _: None
) -> list[Item]:
    """Draw documents at random, each subset of that size as likely as any other; all, if there are no more.

    Each document has a key, the BLAKE2b of the seed and its name, and the smallest keys win. A document that
    is not in the draw can't come back later, so the draw holds what it gives and no more, wherever the parts
    of a document stand. It depends on nothing but the seed and the names, and a larger number adds documents
    to those of a smaller one.

    Args:
        items: Read once, and held only as long as they are in the draw.
        number: How many documents.
        seed: From what.
        document: Names the document that an item is a part of; None of one that is whole, which is named by
            its place.

    Returns:
        The items in their order.

    References:
        Efraimidis and Spirakis (2006), Weighted random sampling with a reservoir, with equal weights.
    """
    drawn: dict[str, list[tuple[int, Item]]] = {}
    largest: list[tuple[int, str]] = []  # negative keys of what is drawn: the largest key first
    for place, item in enumerate(items):
        group = document(item)
        name = f"place {place}" if group is None else f"group {group}"
        if name not in drawn:
            content = f"{seed}|{name}".encode("utf-8", "surrogatepass")
            entry = (-int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big"), name)
            if len(drawn) < number:
                heappush(largest, entry)
            elif (out := heappushpop(largest, entry)) == entry:
                continue
            else:
                del drawn[out[1]]
            drawn[name] = []
        drawn[name].append((place, item))
    return [item for _, item in sorted(chain.from_iterable(drawn.values()), key=lambda one: one[0])]
