"""Merging the tables of separate jobs into that of the whole, from the sums in their records."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, product
from pathlib import Path
from typing import Any

from attnprobe.attention.kinds import list_absent_heads, number_layers
from attnprobe.errors import DataError, first_line
from attnprobe.statistics.registry import all_tabulations, families, find_statistic
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.base import Arrays, Measurement, pack, unpack
from attnprobe.table.builder import Labels
from attnprobe.table.destination import find_description, read_description
from attnprobe.table.formats.json import to_json
from attnprobe.table.naming import join_names
from attnprobe.table.reading import identify_table
from attnprobe.table.table import HeadTable

#: No model that parts images into windows has more layers, or heads in one, whatever a record says.
_MOST_LAYERS = _MOST_HEADS = 1000
#: No array has more jobs, whatever a record says.
_MOST_PARTS = 1_000_000
#: How many parts a sentence lists.
_LISTED = 12
#: Parts of the record that must be alike, with their names in errors.
_ALIKE = {"model": "model", "architecture": "architecture", "options": "setting", "asked": "question"}
#: Options that decide which documents are split into parts.
_CHOOSING = ("limit", "sample", "sample_seed")
#: What may differ in the records: how much is read, how fast, and what was noticed meanwhile.
_FREE = {*_CHOOSING, "part", "until", "batch_tokens", "memory", "evidence", "warnings", "threaded"}
#: What identifies a file that was read: its hash, and which of its columns were texts.
_TELLING = ("sha256", "text_column", "pair_column", "label_column")


@dataclass(frozen=True)
class ReadParts:
    """The parts of a corpus that a job has read; all of a corpus is part 1 of 1."""

    corpus: frozenset[str]  # its files, each by its hash and columns, or else its description
    chosen: tuple[Any, ...]  # the limit, the sample and its seed, which chose the documents
    of: int  # the number of parts
    numbers: frozenset[int]  # of the parts that were read, from 1
    described: Mapping[str, Any]  # the dataset on record

    @classmethod
    def read(cls, dataset: Mapping[str, Any], options: Mapping[str, Any]) -> "ReadParts":
        """Read the parts off a record; raises ValueError, KeyError or TypeError if it is damaged."""
        of, listed = 1, [1]
        if (merged := dataset.get("parts")) is not None:
            options, of, listed = merged, int(merged["of"]), merged["read"]
        elif options.get("part") is not None:
            number, of = map(int, str(options["part"]).split("/"))
            listed = [number]
        numbers = frozenset(map(int, listed))
        if not numbers or not 1 <= min(numbers) <= max(numbers) <= of <= _MOST_PARTS:
            raise ValueError(f"it holds no part of {of}")
        described = {name: value for name, value in dataset.items() if name != "parts"}
        files = [file for file in dataset.get("sources") or [dataset] if file.get("sha256")]
        corpus = {"|".join(str(file.get(name)) for name in _TELLING) for file in files}
        if of > 1 and not corpus:
            corpus = {json.dumps(described, sort_keys=True)}
        chosen = tuple(options.get(name) for name in _CHOOSING)
        return cls(frozenset(corpus), chosen, of, numbers, described)

    @property
    def key(self) -> tuple[Any, ...]:
        """What is equal in parts that add up."""
        return self.corpus, self.chosen, self.of

    @property
    def record(self) -> dict[str, Any]:
        """The dataset with its parts, for a record that ``read`` understands."""
        if self.of == 1:
            return dict(self.described)
        parts = {
            "of": self.of,
            "read": sorted(self.numbers),
            **dict(zip(_CHOOSING, self.chosen, strict=True)),
        }
        return {**self.described, "parts": parts}

    def spell(self, numbers: Iterable[int]) -> str:
        """Name parts of the dataset, as in "parts 2 and 3 of 5 of a.txt"."""
        name = self.described.get("name")
        if self.of == 1:
            return f"all of {name}"
        listed = list(map(str, sorted(numbers)))
        return f"part{'s' * (len(listed) != 1)} {join_names(listed, _LISTED)} of {self.of:,} of {name}"

    def check(self, table: str, other: "ReadParts", other_table: str) -> None:
        """Raise DataError if another table has read the same documents, or may have."""
        if not self.corpus & other.corpus:
            return
        if self.key != other.key:
            raise DataError(
                f"{other_table} is {other.spell(other.numbers)}, and {table} is {self.spell(self.numbers)}, "
                "but with other files beside it, another number of parts, or another --limit, --sample or "
                "--seed; the two may hold the same documents."
            )
        if twice := self.numbers & other.numbers:
            raise DataError(
                f"{other_table} and {table} both hold {self.spell(twice)}, which would count twice; give one "
                "of them."
            )


@dataclass(frozen=True)
class Job:
    """One job: its sums and its record."""

    name: str  # of its table, for errors
    title: str
    tabulation: str  # the name of the kind of table
    sums: Arrays
    identities: list[str]  # of the statistics: name and version
    texts: list[str]  # the SHA-256 of each text that it has read
    rarity: str  # a SHA-256 of the tokens that it took for rare
    beside: Mapping[str, list[str]]  # the texts of each statistic that reads others, such as a treebank
    record: Mapping[str, Any]  # the provenance of the table, without the sums
    parts: Sequence[ReadParts]  # of each dataset
    described: Mapping[str, str] = field(default_factory=dict)  # the name and the SHA-256 of its file

    @classmethod
    def read(cls, table: Path | str | HeadTable) -> "Job":
        """Read a job from a table, a table in json, or the json beside a table."""
        if isinstance(table, HeadTable):
            record: Any = to_json(table.provenance)  # as a file would give it
            return cls._read_record(f"the table {table.title!r}", table.title, record)
        path = Path(table)
        path = path if path.suffix == ".json" else find_description(path)
        try:
            text, described = path.read_bytes(), identify_table(path)
        except OSError as error:
            raise DataError(
                f"{path} can't be read: {error.strerror}; tables are merged from the json beside them."
            ) from error
        with _refuse_damage(str(path)):
            content = json.loads(text.decode())
            job = cls._read_record(str(path), content["title"], content["provenance"])
        return replace(job, described=described)

    @classmethod
    def _read_record(cls, name: str, title: Any, record: Mapping[str, Any]) -> "Job":
        with _refuse_damage(name):
            measured, corpus, options = record["measurement"], record["corpus"], record.get("options") or {}
            datasets = record.get("merged") or [record.get("dataset")]
            beside = measured.get("beside", {}).items()
            return cls(
                name,
                str(title),
                tabulation=str(measured["table"]),
                sums=unpack(measured["sums"]),
                identities=[str(identity) for identity in measured["statistics"]],
                texts=[str(text) for text in corpus["texts"]],
                rarity=str(corpus["rarity"]),
                beside={str(statistic): list(map(str, texts)) for statistic, texts in beside},
                record={key: part for key, part in record.items() if key != "measurement"},
                parts=[ReadParts.read(dataset, options) for dataset in datasets if dataset],
            )

    @property
    def telling_texts(self) -> set[str]:
        """The texts that no other job may have; none for a part of a corpus, whose texts may repeat."""
        is_part = len(self.parts) == 1 and self.parts[0].of > 1
        return set() if is_part else set(self.texts)

    def measure(self, statistics: Sequence[Statistic]) -> Measurement:
        with _refuse_damage(self.name):
            return Measurement.from_arrays(self.sums, {each.name: each.sums for each in statistics})


class _MergedJobs:
    """The sum of jobs, which are added one after the other."""

    def __init__(self, first: Job, custom: Sequence[Statistic]) -> None:
        self.jobs = [replace(first, sums={})]
        self.statistics = _find_statistics(first, custom)
        self.measurement = first.measure(self.statistics)
        self.beside = {name: list(seen) for name, seen in first.beside.items()}
        self.dropped = False  # whether a statistic could not be added up
        self._texts, self._custom = first.telling_texts, custom

    def add(self, job: Job) -> None:
        """Add a job, or refuse it; a text that jobs share beside their own, as a treebank, counts once."""
        first = self.jobs[0]
        _check_alike(first, job, self._custom)
        if job.telling_texts & self._texts:
            raise DataError(f"{job.name} is about a text that is there already; it would count twice.")
        for other, parts in product(self.jobs, job.parts):
            for known in other.parts:
                parts.check(job.name, known, other.name)
        left_out = set(job.identities) != set(first.identities)
        if left_out or job.rarity != first.rarity:
            self._drop_rare()
            self.dropped |= left_out
        more, sums = job.measure(self.statistics), {}
        whole = self.measurement.of(statistic.name for statistic in self.statistics)
        for name, total in whole.sums.items():
            known, new = set(self.beside.get(name, ())), set(job.beside.get(name, ()))
            if known & new and not new <= known:
                raise DataError(
                    f"{job.name} shares only some of what {name} was measured on with the tables before it; "
                    "it can't be added up."
                )
            shared = bool(new) and new <= known
            sums[name] = total if shared else total + more.sums[name]
            if new and not shared:
                self.beside[name] += job.beside[name]
        sequences, tokens = whole.sequences + more.sequences, whole.tokens + more.tokens
        self.measurement = Measurement(sums, sequences, tokens, whole.add_groups(more))
        self.jobs.append(replace(job, sums={}))
        self._texts |= job.telling_texts

    def _drop_rare(self) -> None:
        """Drop statistics that count over the corpus, as jobs did not count alike; refuse if none is left."""
        left = [statistic for statistic in self.statistics if not statistic.by_corpus]
        if not left:
            raise DataError(
                "What is rare was counted in each job's own text, so tables on rare tokens don't add up."
            )
        self.dropped |= len(left) < len(self.statistics)
        self.statistics = left
        names = {statistic.name for statistic in left}
        self.beside = {name: seen for name, seen in self.beside.items() if name in names}

    @property
    def parts(self) -> list[ReadParts]:
        """What was read of each corpus, all tables together."""
        added: dict[Any, ReadParts] = {}
        for parts in chain.from_iterable(job.parts for job in self.jobs):
            key = parts.key if parts.of > 1 else len(added)
            known = added.get(key, parts).numbers
            added[key] = replace(parts, numbers=known | parts.numbers)
        return list(added.values())

    @property
    def notes(self) -> Iterator[str]:
        if self.dropped:
            yield "Columns on rare tokens are left out: what is rare was counted in each job's own text."
        for parts in self.parts:
            if missing := set(range(1, parts.of + 1)) - parts.numbers:
                yield f"P{parts.spell(missing)[1:]} {'is' if len(missing) == 1 else 'are'} missing."

    def record(self, command: str | Sequence[str]) -> dict[str, Any]:
        """Make the record of all jobs together, which can be merged again."""
        first = self.jobs[0]
        record = {key: first.record[key] for key in (*_ALIKE, "versions") if key in first.record}
        if "part" in (options := record.get("options") or {}):
            record["options"] = {name: value for name, value in options.items() if name != "part"}
        corpora = [job.record["corpus"] for job in self.jobs]
        names = dict.fromkeys(str(job.record["dataset"]["name"]) for job in self.jobs)
        return record | {
            "command": command,
            "dataset": {"name": " and ".join(names)},
            "corpus": {
                "texts": sorted({text for job in self.jobs for text in job.texts}),
                "rarity": first.rarity,
                "sequences": self.measurement.sequences,
                "clusters": sum(corpus["clusters"] for corpus in corpora),
                "rare_decided": all(corpus.get("rare_decided", True) for corpus in corpora),
            },
            "merged": [parts.record for parts in self.parts],
            "tables": [job.described for job in self.jobs if job.described],
            "measurement": {
                "table": first.tabulation,
                "statistics": [statistic.identity for statistic in self.statistics],
                "sums": pack(self.measurement.arrays()),
                "beside": self.beside,
            },
        }


def merge_tables(
    tables: Sequence[Path | str | HeadTable], command: str | Sequence[str], custom: Iterable[Statistic] = ()
) -> HeadTable:
    """Merge the tables of separate jobs over parts of a corpus; ``command`` goes on record.

    Sums add up exactly, so the result is the table of the whole corpus, up to rounding. What is rare is
    counted in each job's own text; where the counts differ, the columns on rare tokens are left out. One
    table stays as it is. ``custom`` are statistics that no package brings along.

    Raises:
        AttnprobeError: When a file is no such record, or two don't belong together.
    """
    if len(tables) == 1:
        return _read_single(tables[0])
    custom, jobs = list(custom), map(Job.read, tables)
    first, second = next(jobs), next(jobs)
    _check_alike(first, second, custom)  # before the statistics of one of them are looked for
    whole = _MergedJobs(first, custom)
    for job in chain([second], jobs):
        whole.add(job)
    if (tabulation := all_tabulations().get(first.tabulation)) is None:
        raise DataError(f"{first.name} has a row for each {first.tabulation!r}, which is unknown here.")
    labels = _make_labels(whole.record(command))
    table = tabulation.table(first.title, whole.measurement, whole.statistics, labels)
    return replace(table, notes=[*table.notes, *whole.notes])


def _read_single(table: Path | str | HeadTable) -> HeadTable:
    """Read a table from its file, or from the file that its json names; a HeadTable stays as it is."""
    if isinstance(table, HeadTable):
        return table
    path = Path(table)
    named = read_description(path).get("table") if path.suffix == ".json" else None
    return HeadTable.read(path if named is None else path.with_name(Path(str(named)).name))


def _make_labels(record: Mapping[str, Any]) -> Labels:
    architecture = record["architecture"]
    layer_heads = architecture.get("layer_heads", ())
    return Labels(
        str(record["model"]["name"]),
        record["dataset"]["name"],
        record,
        number_layers(architecture["kinds"], architecture.get("numbers", ())),
        {(layer, head) for layer, head in architecture.get("removed", ())},
        tied=list_absent_heads([min(heads, _MOST_HEADS) for heads in layer_heads[:_MOST_LAYERS]]),
    )


@contextmanager
def _refuse_damage(name: str) -> Iterator[None]:
    """Raise DataError for whatever is wrong with a damaged record."""
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError) as error:
        lacking = f"it holds no {error}" if isinstance(error, KeyError) else first_line(error)
        raise DataError(
            f"{name} is no record of a table that can be merged ({lacking}); give the json beside "
            f"tables of {join_names(list_mergeable_commands(), _LISTED)}."
        ) from error


def list_mergeable_commands() -> list[str]:
    """Name the commands that measure a family of statistics, in the order of the families."""
    # The census has no family of its own, and asks all those that no command of their own asks.
    return ["census", *(command for family in families() for command in family.commands or (family.name,))]


def _check_alike(first: Job, other: Job, custom: Sequence[Statistic]) -> None:
    """Raise DataError if two jobs differ in what they measured, in the model or in a setting."""
    if (first.title, first.tabulation) != (other.title, other.tabulation) or not (
        _covers(first, other, custom) and _covers(other, first, custom)
    ):
        raise DataError(f"{first.name} and {other.name} are not tables of the same command.")
    for key, name in _ALIKE.items():
        if _drop_free(first.record.get(key)) != _drop_free(other.record.get(key)):
            raise DataError(f"{first.name} and {other.name} were made with another {name}.")


def _covers(job: Job, other: Job, custom: Sequence[Statistic]) -> bool:
    """Tell whether a job has all statistics of another; a merged one may lack those ``by_corpus``."""
    lacking = set(other.identities) - set(job.identities)
    if lacking and "merged" not in job.record:
        return False
    statistics = _find_statistics(replace(other, identities=sorted(lacking)), custom)
    return all(statistic.by_corpus for statistic in statistics)


def _drop_free(record: Any) -> Any:
    if not isinstance(record, dict):
        return record
    return {key: value for key, value in record.items() if key not in _FREE}


def _find_statistics(job: Job, custom: Iterable[Statistic]) -> list[Statistic]:
    """Find the statistics of a job; raises DataError if one is unknown or has another version."""
    custom, statistics = list(custom), []
    for identity in job.identities:
        name = identity.partition("@")[0]
        try:
            statistic = find_statistic(name, custom)
        except KeyError:
            raise DataError(
                f"{job.name} holds {name!r}, which is no statistic of this version or of a package that is "
                "installed; in Python, give it to merge(statistics=[...])."
            ) from None
        if statistic.identity != identity:
            raise DataError(
                f"{job.name} holds {identity}, and what is installed is {statistic.identity}, which is "
                "another definition."
            )
        statistics.append(statistic)
    return statistics
