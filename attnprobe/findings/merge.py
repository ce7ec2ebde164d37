"""Merging the tables of separate jobs into that of the whole, from the sums in their records."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from attnprobe.attention.kinds import list_lacking, number_layers
from attnprobe.errors import AttnprobeError, first_line
from attnprobe.findings.parts import AllRead, ReadParts, list_files
from attnprobe.statistics.registry import all_tabulations, families, find_statistic
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Arrays, Measurement, pack, unpack
from attnprobe.table.builder import Labels
from attnprobe.table.destination import find_description, read_description
from attnprobe.table.formats.json import to_json
from attnprobe.table.reading import describe_table
from attnprobe.table.table import HeadTable

#: No model that parts images into windows has more layers, or heads in one, whatever a record says.
_MOST_LAYERS = _MOST_HEADS = 1000
#: What must be alike in the records, and what a person calls it.
_ALIKE = {"model": "model", "architecture": "architecture", "options": "setting", "asked": "question"}
#: Options that say how much is read or how fast, not what is measured.
_FREE = {"limit", "sample", "sample_seed", "part", "until", "batch_tokens", "memory"}


@dataclass(frozen=True)
class Job:
    """One job: its sums and what is on record about it.

    Attributes:
        name: What the user calls its table.
        title: The title of the table.
        tabulation: What a row of the table is.
        sums: The sums of what was measured.
        identities: What was measured, by name and version.
        texts: Which texts it has seen, by their SHA-256.
        rarity: Which tokens it took for rare, by a SHA-256.
        beside: For each statistic that was measured on other texts than those, such as a treebank, these.
        record: The provenance of the table, without the sums.
        parts: Which parts of corpora it has read; None for each dataset of which it has read all.
        described: The name and the SHA-256 of its file.
    """

    name: str
    title: str
    tabulation: str
    sums: Arrays
    identities: list[str]
    texts: list[str]
    rarity: str
    beside: Mapping[str, list[str]]
    record: Mapping[str, Any]
    parts: Sequence[ReadParts | None]
    described: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, table: Path | str | HeadTable) -> "Job":
        """Read the json that lies beside a table, a table in json, or a table at hand."""
        if isinstance(table, HeadTable):
            record: Any = to_json(table.provenance)  # as a file would give it
            return cls._read_record(f"the table {table.title!r}", table.title, record)
        path = Path(table)
        path = path if path.suffix == ".json" else find_description(path)
        try:
            text, described = path.read_bytes(), describe_table(path)
        except OSError as error:
            raise AttnprobeError(
                f"{path} can't be read: {error.strerror}; tables are merged from the json beside them."
            ) from error
        with _refuse_damage(str(path)):
            content = json.loads(text.decode())
            job = cls._read_record(str(path), content["title"], content["provenance"])
        return replace(job, described=described)

    @classmethod
    def _read_record(cls, name: str, title: Any, record: Mapping[str, Any]) -> "Job":
        with _refuse_damage(name):
            measured, corpus = record["measurement"], record["corpus"]
            options = record.get("options") or {}
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
                parts=[
                    ReadParts.read(dataset, options) if dataset else None
                    for dataset in _list_datasets(record)
                ],
            )

    @property
    def datasets(self) -> list[Any]:
        """The datasets that it has read as a whole."""
        every = zip(_list_datasets(self.record), self.parts, strict=True)
        return [dataset for dataset, parts in every if parts is None]

    def note_read(self, read: AllRead) -> None:
        """Add what it has read to what others have, or refuse what would count twice."""
        # Two parts of a corpus may say the same; which they are tells them apart.
        texts = self.texts if self.datasets or len(self.parts) > 1 else ()
        files = {file for dataset in self.datasets if dataset for file in list_files(dataset)}
        read.add_whole(self.name, texts, files)
        for parts in self.parts:
            if parts is not None:
                read.add_parts(self.name, parts)

    def measure(self, statistics: Sequence[Statistic]) -> Measurement:
        with _refuse_damage(self.name):
            return Measurement.from_arrays(self.sums, {each.name: each.sums for each in statistics})


class _Whole:
    """What jobs add up to, one after the other, of which only the sums of all are kept.

    Attributes:
        jobs: The jobs, without their sums.
        statistics: What is left of what was measured, see ``_drop_rare``.
        measurement: The sums.
        beside: Of each statistic that was measured beside the texts, on what.
        read: What all of them have read.
        dropped: Whether anything could not be added up.
    """

    def __init__(self, first: Job, custom: Sequence[Statistic]) -> None:
        self.jobs = [replace(first, sums={})]
        self.statistics = _find_statistics(first, custom)
        self.measurement = first.measure(self.statistics)
        self.beside = {name: list(seen) for name, seen in first.beside.items()}
        self.read = AllRead()
        self.dropped = False
        self._custom = custom
        first.note_read(self.read)

    def add(self, job: Job) -> None:
        """Add a job; what jobs share, such as a treebank beside their texts, counts once."""
        first = self.jobs[0]
        _check_alike(first, job, self._custom)
        left_out = set(job.identities) != set(first.identities)
        if left_out or job.rarity != first.rarity:
            self._drop_rare()
            self.dropped |= left_out
        more, sums = job.measure(self.statistics), {}
        whole = self.measurement.of(statistic.name for statistic in self.statistics)
        for name, total in whole.sums.items():
            known, new = set(self.beside.get(name, ())), set(job.beside.get(name, ()))
            if known & new and not new <= known:
                raise AttnprobeError(
                    f"{job.name} shares only some of what {name} was measured on with the tables before it; "
                    "it can't be added up."
                )
            shared = bool(new) and new <= known
            sums[name] = total if shared else total + more.sums[name]
            if new and not shared:
                self.beside[name] += job.beside[name]
        sequences, tokens = whole.sequences + more.sequences, whole.tokens + more.tokens
        self.measurement = Measurement(sums, sequences, tokens, whole.add_strata(more))
        job.note_read(self.read)
        self.jobs.append(replace(job, sums={}))

    def _drop_rare(self) -> None:
        """Drop what depends on counts over the corpus, since the jobs did not count alike."""
        left = [statistic for statistic in self.statistics if not statistic.by_corpus]
        if not left:
            raise AttnprobeError(
                "What is rare was counted in each job's own text, so tables on rare tokens don't add up."
            )
        self.dropped |= len(left) < len(self.statistics)
        self.statistics = left
        names = {statistic.name for statistic in left}
        self.beside = {name: seen for name, seen in self.beside.items() if name in names}

    @property
    def notes(self) -> list[str]:
        rare = "Columns on rare tokens are left out: what is rare was counted in each job's own text."
        return [*([rare] if self.dropped else []), *self.read.note_missing()]

    def record(self, command: str | Sequence[str]) -> dict[str, Any]:
        """Make the record of all jobs together, which can be merged again."""
        first = self.jobs[0]
        record = {key: first.record[key] for key in (*_ALIKE, "versions") if key in first.record}
        if "part" in (options := record.get("options") or {}):
            record["options"] = {name: value for name, value in options.items() if name != "part"}
        corpora = [job.record["corpus"] for job in self.jobs]
        datasets = [dataset for job in self.jobs for dataset in job.datasets]
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
            "merged": [*datasets, *(parts.record for parts in self.read.parts)],
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
        return _read_whole(tables[0])
    custom, jobs = list(custom), map(Job.read, tables)
    first, second = next(jobs), next(jobs)
    _check_alike(first, second, custom)  # before the statistics of one of them are looked for
    whole = _Whole(first, custom)
    for job in chain([second], jobs):
        whole.add(job)
    record = whole.record(command)
    tabulation = _find_tabulation(first)
    table = tabulation.table(first.title, whole.measurement, whole.statistics, _make_labels(record))
    return replace(table, notes=[*table.notes, *whole.notes])


def _read_whole(table: Path | str | HeadTable) -> HeadTable:
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
        architecture["grid"] is not None,
        {(layer, head) for layer, head in architecture.get("removed", ())},
        tied=list_lacking([min(heads, _MOST_HEADS) for heads in layer_heads[:_MOST_LAYERS]]),
    )


def _list_datasets(record: Mapping[str, Any]) -> list[Any]:
    """List the dataset of a job's texts; of a table that was merged, those of every job."""
    return record.get("merged") or [record.get("dataset")]


@contextmanager
def _refuse_damage(name: str) -> Iterator[None]:
    """Refuse a record that is not what a command writes, whatever is wrong with it."""
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError) as error:
        known = list_mergeable_commands()
        lacking = f"it holds no {error}" if isinstance(error, KeyError) else first_line(error)
        raise AttnprobeError(
            f"{name} is no record of a table that can be merged ({lacking}); give the json beside "
            f"tables of {', '.join(known[:-1])} or {known[-1]}."
        ) from error


def list_mergeable_commands() -> list[str]:
    """Name the commands that measure a family of statistics, in the order of the families."""
    # The census has no family of its own, and asks all those that no command of their own asks.
    return ["census", *(command for family in families() for command in family.commands or (family.name,))]


def _check_alike(first: Job, other: Job, custom: Sequence[Statistic]) -> None:
    if (first.title, first.tabulation) != (other.title, other.tabulation) or not (
        _leaves_out_counts(first, other, custom) and _leaves_out_counts(other, first, custom)
    ):
        raise AttnprobeError(f"{first.name} and {other.name} are not tables of the same command.")
    for key, name in _ALIKE.items():
        ours, theirs = (_drop_free(job.record.get(key)) for job in (first, other))
        if ours != theirs:
            raise AttnprobeError(f"{first.name} and {other.name} were made with another {name}.")


def _leaves_out_counts(job: Job, other: Job, custom: Sequence[Statistic]) -> bool:
    """Tell whether a job holds all that another measured, but for what merging leaves out (``by_corpus``)."""
    lacking = set(other.identities) - set(job.identities)
    if lacking and "merged" not in job.record:
        return False
    statistics = _find_statistics(replace(other, identities=sorted(lacking)), custom)
    return all(statistic.by_corpus for statistic in statistics)


def _drop_free(record: Any) -> Any:
    """Drop what may differ: what was found on the way, and how much was read."""
    if not isinstance(record, dict):
        return record
    free = {*_FREE, "evidence", "warnings", "threaded"}
    return {key: value for key, value in record.items() if key not in free}


def _find_tabulation(job: Job) -> Tabulation:
    known = all_tabulations()
    if job.tabulation not in known:
        raise AttnprobeError(
            f"{job.name} has a row for each {job.tabulation!r}, which this version does not know."
        )
    return known[job.tabulation]


def _find_statistics(job: Job, custom: Iterable[Statistic]) -> list[Statistic]:
    custom, statistics = list(custom), []
    for identity in job.identities:
        name = identity.partition("@")[0]
        try:
            statistic = find_statistic(name, custom)
        except KeyError:
            raise AttnprobeError(
                f"{job.name} holds {name!r}, which is no statistic of this version or of a package that is "
                "installed; in Python, give it to merge(statistics=[...])."
            ) from None
        if statistic.identity != identity:
            raise AttnprobeError(
                f"{job.name} holds {identity}, and what is installed is {statistic.identity}, which is "
                "another definition."
            )
        statistics.append(statistic)
    return statistics
