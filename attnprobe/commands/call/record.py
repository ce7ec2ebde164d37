"""What goes on record as the command, and what is on record of a table or a page."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnprobe.corpus.sources.text import EMBEDDED, STDIN
from attnprobe.errors import AttnprobeError, first_line
from attnprobe.run.record import (
    Difference,
    compare_checkpoint,
    compare_data,
    compare_machine,
    compare_versions,
)
from attnprobe.table.cells import clean
from attnprobe.table.destination import find_description, is_description, read_description
from attnprobe.table.formats import FORMATS, READABLE, extension
from attnprobe.table.head_table import HeadTable

_PAGES = {".html", ".htm"}
#: Tables that are read with the json beside them.
_READ = {name for name in READABLE if not FORMATS[name].stands_alone}
#: Where a record has data.
_DATA = ("dataset", "in_domain", "out_domain", "order", "frequencies")


_words: ContextVar[Sequence[str] | None] = ContextVar("attnprobe_command", default=None)


@contextmanager
def record_as(words: Sequence[str]) -> Iterator[None]:
    """Record these words as the command of the functions that are called inside."""
    token = _words.set(words)
    try:
        yield
    finally:
        _words.reset(token)


def describe_call(name: str) -> str | Sequence[str]:
    """Describe a call for the record: by the words of the command line, or the name of the function."""
    return _words.get() or f"attnprobe.{name}"


@dataclass(frozen=True)
class Record:
    """What a table or a page says of how it was made.

    Attributes:
        path: Where it was read.
        said: All that is on record, as it stands in the file: anybody may have written it.
        table: The table on record; None for a page, or where only the record lies here.
        tables: Those of a page, by their names.
    """

    path: Path
    said: Mapping[str, Any] = field(repr=False)  # with all sums, it would fill a screen
    table: HeadTable | None = None
    tables: Mapping[str, HeadTable] = field(default_factory=dict, repr=False)

    @property
    def command(self) -> tuple[str, ...] | str:
        """The words of the command line, or the name of the function.

        Raises:
            AttnprobeError: When neither is on record.
        """
        match self.said.get("command"):
            case str() as function if function:
                return clean(function)
            case [*words] if words and all(isinstance(word, str) for word in words):
                return tuple(words)
        raise AttnprobeError(f"{clean(str(self.path))} has no command on record, so it can't be made again.")

    @property
    def versions(self) -> dict[str, str]:
        return {clean(str(name)): clean(str(one)) for name, one in _mapping(self.said, "versions").items()}

    @property
    def checkpoints(self) -> list[tuple[str | None, str | None, Mapping[str, Any]]]:
        """What is on record of each checkpoint: what the command called it, its revision, its hashes.

        The first two are None where the record leaves them to the command.
        """
        for several in ("steps", "checkpoints"):
            found = [one for one in _list(self.said, several) if isinstance(one.get("checkpoint"), str)]
            if found:
                return [(one["checkpoint"], _word(one, "revision"), _mapping(one, "model")) for one in found]
        both = _mapping(self.said, "model"), _mapping(_mapping(self.said, "other"), "model")
        return [(None, None, one) for one in both if one]

    @property
    def data(self) -> list[Mapping[str, Any]]:
        """What is on record of each file or dataset that was read."""
        tables = [_mapping(one, "provenance") for one in _list(self.said, "tables")]  # of a page
        within = [self.said, *_list(self.said, "steps")[:1], *tables]
        found = [_mapping(one, name) for one in within for name in _DATA]
        found += [_mapping(_mapping(one, "pruning"), "rank_data") for one in within]
        others = [one for part in within for one in _mapping(part, "other_datasets").values()]
        found += [one for one in others if isinstance(one, Mapping)]
        found += [one for one in _list(self.said, "tables") if "sha256" in one]
        parts = [part for one in found for part in (_list(one, "sources") or [one]) if part]
        return [part for place, part in enumerate(parts) if part not in parts[:place]]

    def differences(
        self,
        models: "Sequence[str | tuple[str, str | None]]" = (),
        data: Sequence[str | Path] = (),
        *,
        device: str = "auto",
        threads: int | None = None,
        offline: bool = False,
        cache_dir: Path | None = None,
    ) -> list[Difference]:
        """Say what differs here: versions, the machine, and the checkpoints and the data that are named.

        Args:
            models: Checkpoints in the order of the command, each a name, or a name and its revision.
            data: Files of data.
            device: The device that would be asked for.
            threads: The number of threads that would be asked for; None for all.
            offline: Ask the hub for nothing.
            cache_dir: Folder of the hub's cache.

        Returns:
            The differences, each with a sentence; ``decisive`` are those of checkpoints and data.
        """
        found = list(compare_versions(self.versions))
        found += compare_machine(self.said, device, threads)
        if models:
            from attnprobe.model.location import LoadOptions

            named = [(one, None) if isinstance(one, str) else one for one in models]
            for name, revision, recorded in self._pair_checkpoints(named, found):
                options = LoadOptions(revision=revision, offline=offline, cache_dir=cache_dir)
                found += compare_checkpoint(recorded, name, options)
        found += self._compare_data([str(one) for one in data])
        return found

    def _pair_checkpoints(
        self, named: "Sequence[tuple[str, str | None]]", found: list[Difference]
    ) -> Iterator[tuple[str, str | None, Mapping[str, Any]]]:
        """Pair the checkpoints that are named with those on record; add a difference for each without one."""
        recorded = self.checkpoints
        called = [(name, revision) for name, revision, _ in recorded if name is not None]
        if not called:
            for (name, revision), (*_, one) in zip(named, recorded, strict=False):
                yield name, revision, one
            found += [_make_unknown(name) for name, _ in named[len(recorded) :]]
            return
        usual = named[0][1]
        for name, revision, one in recorded:
            assert name is not None
            yield name, revision or usual, one
        known = {name for name, _ in called}
        names = dict.fromkeys(name for name, _ in named)
        found += [_make_unknown(name) for name in names if name not in known]

    def _compare_data(self, named: Sequence[str]) -> Iterator[Difference]:
        """Compare data by their names; what is named and not on record is not opened."""
        known: dict[str, list[Mapping[str, Any]]] = {}
        for one in self.data:
            if isinstance(name := one.get("name"), str):
                known.setdefault(name, []).append(one)
        for recorded in known.get(EMBEDDED, []):
            yield from compare_data(recorded, None)
        waiting = {name: list(several) for name, several in known.items()}
        for spec in dict.fromkeys(named):
            names = (spec, "stdin" if spec == STDIN else Path(spec).name)
            name = next((one for one in names if one in known), "")
            if spec == EMBEDDED:
                continue
            if not name:
                yield _make_unknown(spec)
            elif waiting[name]:
                yield from compare_data(waiting[name].pop(0), spec)
            else:  # one more of that name, which may be the same once more
                found = [list(compare_data(one, spec)) for one in known[name]]
                yield from min(found, key=len)
        for name, rest in waiting.items():  # files that the command names once, and the record several times
            spec = next((one for one in named if Path(one).name == name), None)
            for recorded in rest if spec is not None and len(rest) < len(known[name]) else ():
                yield from compare_data(recorded, spec)


def _make_unknown(name: str) -> Difference:
    return Difference(f"{clean(name)} is read by the command, and is not on record.", decisive=True)


def record(path: Path | str) -> Record:
    """Read what is on record of a table, or of a page that ``attnprobe report`` wrote.

    The command ``attnprobe rerun`` runs the command on record again.

    Args:
        path: A table (such as csv, parquet, xlsx, json), the json beside it, or a page.

    Raises:
        AttnprobeError: When there is no such file, or nothing is on record.

    Examples:
        >>> import tempfile
        >>> from attnprobe import entropy
        >>> table = entropy("demo", ["The parcel came late."])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = table.save(f"{folder}/entropy.json")
        ...     found = record(f"{folder}/entropy.json")
        >>> found.command, [one.sentence for one in found.differences(["demo"])]
        ('attnprobe.entropy', [])
    """
    path = Path(path)
    if path.suffix.lower() in _PAGES:
        from attnprobe.reports.page import read_page

        said, packed = read_page(path)
        found = Record(path, said, tables=_read_tables(path, packed))
    elif (beside := _find_description(path)) is not None:
        table = path.with_name(str(read_description(beside)["table"]))
        readable = extension(table) in _READ and table.is_file()
        said = _mapping(read_description(beside), "provenance")
        found = Record(path, said, _read(table) if readable else None)
    else:
        table = _read(path)
        found = Record(path, table.provenance, table)
    if not found.said:
        raise AttnprobeError(
            f"{clean(str(path))} has no record of how it was made: it is missing from the file, and no json "
            "of its own lies beside it."
        )
    return found


def _read(path: Path) -> HeadTable:
    try:
        return HeadTable.read(path)
    except RecursionError as error:
        raise AttnprobeError(f"{clean(str(path))} can't be read as a table: {first_line(error)}.") from error


def _read_tables(page: Path, packed: Mapping[str, bytes]) -> dict[str, HeadTable]:
    found: dict[str, HeadTable] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, content) in enumerate(packed.items()):
            path = Path(folder) / f"{number}.csv"
            path.write_bytes(content)
            try:
                found[name] = _read(path)
            except AttnprobeError as error:
                raise AttnprobeError(f"The table {clean(name)} of {clean(str(page))} is damaged.") from error
    return found


def _find_description(path: Path) -> Path | None:
    """Find the json that describes a table; None where a table can be read with what describes it."""
    if extension(path) in _READ or not path.is_file():
        return None
    if path.suffix.lower() == ".json":
        about = read_description(path)
        name = about.get("table")
        own = isinstance(name, str) and name == Path(name).name and not isinstance(about.get("rows"), list)
        return path if own else None
    beside = find_description(path)
    return beside if is_description(beside, path) else None


def _word(said: Mapping[str, Any], name: str) -> str | None:
    found = said.get(name)
    return found if isinstance(found, str) else None


def _mapping(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = said.get(name)
    return found if isinstance(found, Mapping) else {}


def _list(said: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = said.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list | tuple) else []
