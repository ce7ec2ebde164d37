"""A random order of documents: the same for the same seed, however far it is read."""

import hashlib
import pickle
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice

import numpy as np

from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.media import MediaFolder
from attnprobe.corpus.store import Spool

#: Documents that are written to disk at a time.
_CHUNK = 256
#: Rows of a hub dataset that a stream holds, and draws the next one from.
SHUFFLE_BUFFER = 10_000


def draw_key(seed: int, name: str) -> int:
    """Draw the key of a document by its name, in 64 bits: documents are read by their keys, ascending."""
    content = f"{seed}|{name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")


def name_place(place: int) -> str:
    """Name a document that is whole by its place."""
    return f"place {place}"


def name_group(group: str) -> str:
    """Name a document of several parts by what names it in its source."""
    return f"group {group}"


@dataclass
class Order:
    """A random order of documents, and what is known of it."""

    seed: int
    whole: bool = True
    total: int | None = None
    arranged: bool = False


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
    keys, starts, pictures = array("Q"), array("Q"), {}
    groups: dict[str, int] = {}
    with Spool("The text") as spool:
        chunk: list[bytes] = []
        end = 0
        for place, document in enumerate(chain(first, documents)):
            if document.group is None:
                keys.append(draw_key(order.seed, name_place(place)))
            else:
                name = name_group(document.group)
                if name not in groups:
                    groups[name] = draw_key(order.seed, name)
                keys.append(groups[name])
            if document.image is not None:  # which may hold an open file
                pictures[place] = document.image
                document = replace(document, image=None)  # noqa: PLW2901 - it is the same text
            # Our own objects in a file without a name: nobody else can write to it.
            content = pickle.dumps(document, pickle.HIGHEST_PROTOCOL)
            starts.append(end)
            end += len(content)
            chunk.append(content)
            if len(chunk) == _CHUNK:
                spool.append(b"".join(chunk))
                chunk = []
        spool.append(b"".join(chunk))
        drawn = np.array(keys, np.uint64)
        by_key = np.argsort(drawn, kind="stable")  # parts of a document keep their order
        begins = np.flatnonzero(np.diff(drawn[by_key], prepend=drawn[by_key][:1] + np.uint64(1)))
        order.total = len(begins)
        starts.append(end)
        for some in np.split(by_key, begins[1:]):
            parts = []
            for place in some.tolist():
                found = pickle.loads(spool.read(starts[place], starts[place + 1] - starts[place]))
                parts.append(replace(found, image=pictures[place]) if place in pictures else found)
            yield parts


def arrange_media(folder: MediaFolder, order: Order) -> MediaFolder:
    """Put the files of a folder in a random order."""
    keys = [draw_key(order.seed, name_place(place)) for place in range(len(folder.items))]
    order.total = len(keys)
    by_key = np.argsort(np.array(keys, np.uint64), kind="stable")
    return replace(folder, items=tuple(folder.items[place] for place in by_key.tolist()))
