"""Texts that can be read once only, read again."""

from collections.abc import Iterable, Iterator
from typing import Any


class Again:
    """Items that can be read once, kept as they are read, so that they can be read again."""

    def __init__(self, items: Iterable[Any]) -> None:
        """Keep what was read of some items."""
        self._rest = iter(items)
        self._kept: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        """Give what was kept, and then what is left."""
        place = 0
        while True:
            while place < len(self._kept):
                yield self._kept[place]
                place += 1
            try:
                self._kept.append(next(self._rest))
            except StopIteration:
                return


def again(items: Any) -> Any:
    """Keep what an iterator gives."""
    return Again(items) if isinstance(items, Iterator) else items
