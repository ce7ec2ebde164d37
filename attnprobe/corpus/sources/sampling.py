"""Which documents are read: the first ones, or some that are drawn at random."""

import hashlib
import sys
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from heapq import heappush, heappushpop
from itertools import chain, groupby, islice
from typing import TypeVar, overload

from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.folder import MediaFolder

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
    """Give the first documents, or a sample of them, in their order.

    Parts that follow one another and belong to one document, such as the sentences of a treebank with
    ``# newdoc``, are drawn together and count once; the limit counts parts.

    Args:
        documents: Texts, which are read once; or a folder of images or sound.
        limit: Read so many only, or all.
        sample: Draw so many of those, or take all.
        seed: From what.
    """
    if isinstance(documents, MediaFolder):
        found = documents.first(limit)
        return found if sample is None else replace(found, items=tuple(draw(found.items, sample, seed)))
    first = islice(documents, None if limit is None else min(limit, sys.maxsize))  # which takes no more
    return first if sample is None else _parts(first, sample, seed)


def draw(items: Iterable[Item], number: int, seed: int) -> list[Item]:
    """Draw items at random, each subset of that size as likely as any other; all, where there are no more.

    The draw holds as many items as it gives, however many there are: each place has a key, the BLAKE2b of
    the seed and the place, and the smallest keys win. So it depends on nothing but the seed and the places,
    and a larger number adds items to those of a smaller one.

    Args:
        items: Read once, and held only as long as they are in the draw.
        number: How many.
        seed: From what.

    Returns:
        The items in their order.

    References:
        Efraimidis and Spirakis (2006), Weighted random sampling with a reservoir, with equal weights.
    """
    held: list[tuple[int, int, Item]] = []  # the largest key first; a place is there once only
    for place, item in enumerate(items):
        key = hashlib.blake2b(f"{seed}|{place}".encode(), digest_size=8).digest()
        entry = (-int.from_bytes(key, "big"), -place, item)
        if len(held) < number:
            heappush(held, entry)
        else:
            heappushpop(held, entry)
    return [item for _, _, item in sorted(held, key=lambda entry: -entry[1])]


def _parts(documents: Iterable[Document], sample: int, seed: int) -> Iterator[Document]:
    whole = (list(parts) for _, parts in groupby(documents, _group_of))
    yield from chain.from_iterable(draw(whole, sample, seed))


def _group_of(document: Document) -> Hashable:
    """Name the document that a part belongs to; what is whole is unlike all others."""
    return object() if document.group is None else document.group
