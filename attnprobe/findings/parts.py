"""Which parts of a corpus jobs have read: read off their records, refused where two are one, added up."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from attnprobe.errors import AttnprobeError
from attnprobe.table.naming import join_names

#: What tells a file that was read from others: its hash, and which columns of it are texts.
_TELLING = ("sha256", "text_column", "pair_column", "label_column")
#: What decides which documents there are to be parted.
_CHOOSING = ("limit", "sample", "sample_seed")
#: So many numbers and ranges of numbers are listed in a sentence.
_LISTED = 12
#: From so many on, numbers that follow each other are a range.
_RANGE = 3
#: No array has more jobs, whatever a record says.
_MOST = 1_000_000


@dataclass(frozen=True)
class Parts:
    """What was read of a corpus, of which each job reads a part.

    Attributes:
        corpus: What tells the corpus: its files, see ``list_files``, or its description where none is known.
        chosen: Which of its documents were parted: the limit, the sample and its seed.
        of: The number of parts.
        numbers: Those that were read, from 1.
        described: The dataset as it is on record.
    """

    corpus: tuple[str, ...]
    chosen: tuple[Any, ...]
    of: int
    numbers: frozenset[int]
    described: Mapping[str, Any] = field(compare=False, repr=False)

    @classmethod
    def read(cls, dataset: Mapping[str, Any], options: Mapping[str, Any]) -> "Parts | None":
        """Read which parts are on record, of a table or of tables that were merged; None for all of a corpus.

        Raises:
            ValueError: When it is nothing of the kind; or a KeyError, or a TypeError.
        """
        if (merged := dataset.get("parts")) is not None:
            of, numbers = int(merged["of"]), frozenset(_parse_numbers(str(merged["read"])))
            options = merged
        elif options.get("part") is not None:
            number, of = map(int, str(options["part"]).split("/"))
            numbers = frozenset([number])
        else:
            return None
        if not numbers or not 1 <= min(numbers) <= max(numbers) <= of <= _MOST:
            raise ValueError(f"it holds no part of {of}")
        described = {name: value for name, value in dataset.items() if name != "parts"}
        corpus = tuple(sorted(list_files(dataset))) or (json.dumps(described, sort_keys=True),)
        return cls(corpus, tuple(options.get(name) for name in _CHOOSING), of, numbers, described)

    @property
    def name(self) -> str:
        return str(self.described.get("name"))

    @property
    def missing(self) -> list[int]:
        return sorted(set(range(1, self.of + 1)) - self.numbers)

    @property
    def record(self) -> dict[str, Any]:
        """The dataset with its parts, as ``read`` takes it."""
        chosen = {
            name: value for name, value in zip(_CHOOSING, self.chosen, strict=True) if value is not None
        }
        read = ",".join(_list_ranges(self.numbers, "-"))
        return {**self.described, "parts": {"of": self.of, "read": read, **chosen}}

    def spell(self, numbers: Iterable[int] | None = None) -> str:
        """Name parts in a sentence; by default those that were read.

        >>> Parts((), (), 100, frozenset([1]), {"name": "a.txt"}).spell([17, 3, 18, 19])
        'parts 3 and 17 to 19 of 100 of a.txt'
        """
        numbers = self.numbers if numbers is None else set(numbers)
        listed = join_names(_list_ranges(numbers, " to "), _LISTED)
        return f"part{'s' * (len(numbers) != 1)} {listed} of {self.of:,} of {self.name}"


def list_files(dataset: Mapping[str, Any]) -> set[str]:
    """Name the files of a dataset, each by its SHA-256 and the columns that were read."""
    files = [one for one in dataset.get("sources") or [dataset] if one.get("sha256")]
    return {"|".join(str(file.get(name)) for name in _TELLING) for file in files}


@dataclass
class _Known:
    """What is known so far of a corpus: who read each part, the first of them for all."""

    parts: Parts
    readers: dict[int, str]


class PartsRead:
    """The parts of corpora that several tables have read: each is read once, or refused."""

    def __init__(self) -> None:
        self._corpora: dict[tuple[str, ...], _Known] = {}
        self._by_file: dict[str, tuple[str, ...]] = {}

    def add(self, table: str, parts: Parts) -> None:
        """Add what a table has read.

        Raises:
            AttnprobeError: When another table has read the same part, or the corpus was parted otherwise.
        """
        for file in parts.corpus:
            known = self._corpora.get(self._by_file.setdefault(file, parts.corpus))
            if known is not None:
                _check_apart(known, table, parts)
        known = self._corpora.setdefault(parts.corpus, _Known(parts, {}))
        known.readers |= dict.fromkeys(parts.numbers, table)

    def find_reader(self, file: str) -> tuple[str, str] | None:
        """Find who has read parts of a file, and which."""
        known = self._corpora.get(self._by_file.get(file, ()))
        if known is None:
            return None
        number, table = next(iter(known.readers.items()))
        return table, known.parts.spell([number])

    def list(self) -> list[Parts]:
        """List what was read of each corpus, all tables together."""
        return [
            Parts(
                one.parts.corpus, one.parts.chosen, one.parts.of, frozenset(one.readers), one.parts.described
            )
            for one in self._corpora.values()
        ]

    def notes(self) -> Iterator[str]:
        """Say which parts are missing."""
        for parts in self.list():
            if missing := parts.missing:
                said, are = parts.spell(missing), "is" if len(missing) == 1 else "are"
                yield f"{said[0].upper()}{said[1:]} {are} missing."


def _check_apart(known: _Known, table: str, parts: Parts) -> None:
    number, other = next(iter(known.readers.items()))
    read = f"{other} is {known.parts.spell([number])}, and {table} is {parts.spell()}"
    if known.parts.of != parts.of:
        raise AttnprobeError(
            f"{read}; the two may hold the same documents, so give tables of one number of parts."
        )
    if (known.parts.corpus, known.parts.chosen) != (parts.corpus, parts.chosen):
        raise AttnprobeError(
            f"{read}, but with other files beside it, or another --limit, --sample or --seed; the two may "
            "hold the same documents."
        )
    if both := parts.numbers & known.readers.keys():
        raise AttnprobeError(
            f"{known.readers[min(both)]} and {table} both hold {parts.spell(both)}, which would count twice; "
            "give one of them."
        )


def _list_ranges(numbers: Iterable[int], between: str) -> list[str]:
    """List numbers, those of three or more that follow each other by the first and the last.

    >>> _list_ranges([9, 1, 2, 3, 5, 6], "-")
    ['1-3', '5', '6', '9']
    """
    found: list[str] = []
    for _, run in groupby(enumerate(sorted(numbers)), key=lambda one: one[1] - one[0]):
        some = [number for _, number in run]
        found += map(str, some) if len(some) < _RANGE else [f"{some[0]}{between}{some[-1]}"]
    return found


def _parse_numbers(said: str) -> Iterator[int]:
    for part in said.split(","):
        first, _, last = part.partition("-")
        begin, end = int(first), int(last or first)
        if not 1 <= begin <= end <= _MOST:
            raise ValueError(f"{part} is no range of parts")
        yield from range(begin, end + 1)
