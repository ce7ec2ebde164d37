"""What jobs have read, off their records: files, texts and parts of corpora, each of which counts once."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
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
class ReadParts:
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
    def read(cls, dataset: Mapping[str, Any], options: Mapping[str, Any]) -> "ReadParts | None":
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

        >>> ReadParts((), (), 100, frozenset([1]), {"name": "a.txt"}).spell([17, 3, 18, 19])
        'parts 3 and 17 to 19 of 100 of a.txt'
        """
        numbers = self.numbers if numbers is None else set(numbers)
        listed = join_names(_list_ranges(numbers, " to "), _LISTED)
        return f"part{'s' * (len(numbers) != 1)} {listed} of {self.of:,} of {self.name}"


def list_files(dataset: Mapping[str, Any]) -> set[str]:
    """Name the files of a dataset, each by its SHA-256 and the columns that were read."""
    files = dataset.get("sources") or [dataset]
    return {"|".join(str(file.get(name)) for name in _TELLING) for file in files if file.get("sha256")}


@dataclass
class _Corpus:
    """What is known so far of a corpus that is read in parts: the first parts, and who read each."""

    first: ReadParts
    readers: dict[int, str] = field(default_factory=dict)

    @property
    def parts(self) -> ReadParts:
        """What was read of it, all tables together."""
        return replace(self.first, numbers=frozenset(self.readers))

    @property
    def example(self) -> str:
        """Name a part that was read, and the table that read it."""
        number, table = next(iter(self.readers.items()))
        return f"{table} is {self.first.spell([number])}"

    def check(self, table: str, parts: ReadParts) -> None:
        """Refuse what another table has read of it, too, or may have read."""
        both = f"{self.example}, and {table} is {parts.spell()}"
        if self.first.of != parts.of:
            raise AttnprobeError(
                f"{both}; the two may hold the same documents, so give tables of one number of parts."
            )
        if self.first != replace(parts, numbers=self.first.numbers):
            raise AttnprobeError(
                f"{both}, but with other files beside it, or another --limit, --sample or --seed; the two "
                "may hold the same documents."
            )
        if twice := parts.numbers & self.readers.keys():
            raise AttnprobeError(
                f"{self.readers[min(twice)]} and {table} both hold {parts.spell(twice)}, which would count "
                "twice; give one of them."
            )


class AllRead:
    """What several tables have read: each text, file and part of a corpus once, or it is refused."""

    def __init__(self) -> None:
        self._readers: dict[str, str] = {}  # of texts, and of files that were read as a whole
        self._corpora: dict[tuple[str, ...], _Corpus] = {}

    def add_whole(self, table: str, texts: Iterable[str], files: Iterable[str]) -> None:
        """Add texts by their SHA-256, and the files that were read as a whole, see ``list_files``.

        Raises:
            AttnprobeError: When another table has read one of them, or a part of it.
        """
        texts, files = list(texts), list(files)
        if any(text in self._readers for text in texts):
            raise AttnprobeError(f"{table} is about a text that is there already; it would count twice.")
        for file in files:
            if file in self._readers:
                raise AttnprobeError(
                    f"{self._readers[file]} and {table} read the same file, which would count twice; give "
                    "each job a file of its own, or a part of it (--part)."
                )
            for corpus in self._find_corpora([file]):
                raise AttnprobeError(
                    f"{corpus.example}, and {table} holds all of it, which would count twice."
                )
        self._readers |= dict.fromkeys((*texts, *files), table)

    def add_parts(self, table: str, parts: ReadParts) -> None:
        """Add parts of a corpus. They have no document in common, though two documents may say the same.

        Raises:
            AttnprobeError: When another table has read one of them, or the corpus was parted otherwise.
        """
        if whole := [self._readers[file] for file in parts.corpus if file in self._readers]:
            raise AttnprobeError(
                f"{table} is {parts.spell()}, and {whole[0]} holds all of it, which would count twice."
            )
        for corpus in self._find_corpora(parts.corpus):
            corpus.check(table, parts)
        corpus = self._corpora.setdefault(parts.corpus, _Corpus(parts))
        corpus.readers |= dict.fromkeys(parts.numbers, table)

    def _find_corpora(self, files: Iterable[str]) -> list[_Corpus]:
        """Find the corpora that were read in parts and have some of the files."""
        files = set(files)
        return [corpus for corpus in self._corpora.values() if not files.isdisjoint(corpus.first.corpus)]

    @property
    def parts(self) -> list[ReadParts]:
        """What was read of each corpus that was read in parts."""
        return [corpus.parts for corpus in self._corpora.values()]

    def note_missing(self) -> Iterator[str]:
        """Say which parts are missing."""
        for parts in self.parts:
            if missing := parts.missing:
                spelled = parts.spell(missing)
                yield f"{spelled[0].upper()}{spelled[1:]} {'is' if len(missing) == 1 else 'are'} missing."


def _list_ranges(numbers: Iterable[int], between: str) -> list[str]:
    """List numbers, those of three or more that follow each other by the first and the last.

    >>> _list_ranges([9, 1, 2, 3, 5, 6], "-")
    ['1-3', '5', '6', '9']
    """
    ranges: list[str] = []
    for _, run in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        following = [number for _, number in run]
        short = len(following) < _RANGE
        ranges += map(str, following) if short else [f"{following[0]}{between}{following[-1]}"]
    return ranges


def _parse_numbers(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = int(first), int(last or first)
        if not 1 <= begin <= end <= _MOST:
            raise ValueError(f"{part} is no range of parts")
        yield from range(begin, end + 1)
