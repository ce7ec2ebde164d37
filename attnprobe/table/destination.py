"""The files that a table goes to, checked before a long run begins."""

import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from attnprobe.errors import UsageError
from attnprobe.files import lies_in, reason, same_file, write_together
from attnprobe.table.formats import FORMATS, either, extension

_OTHER = "choose another name"


@dataclass(frozen=True)
class Destination:
    """Where a table goes."""

    format: str  # one of ``FORMATS``
    path: Path | None = None  # None for standard output
    description: Path | None = None  # the json beside it, where its format does not hold units and notes


def check_file(output: Path, overwrite: bool = False, format: str | None = None) -> Destination:
    """Choose the files of a table by its extension and format; raises UsageError if they can't be written."""
    ending = extension(output)
    chosen = format or find_format(output, list(FORMATS))
    if chosen == "table":
        raise UsageError(f"--format table is for the terminal: for a file choose {either(FORMATS)}")
    if ending in FORMATS and ending != chosen:
        raise UsageError(f"{output} ends in .{ending}, but --format is {chosen}: leave --format out")
    path = _check_path(output, overwrite)
    if FORMATS[chosen].stands_alone:
        return Destination(chosen, path)
    description = find_description(path)
    _check_path(description, overwrite)
    if description.exists() and not _is_description(description, path):  # --overwrite was said of the table
        raise UsageError(
            f"{description} is not the description of {path.name} and would be replaced: {_OTHER}"
        )
    return Destination(chosen, path, description)


def find_format(output: Path, endings: Sequence[str]) -> str:
    """Tell the format of a file by its extension; raises UsageError unless it is one of ``endings``."""
    ending = extension(output)
    if ending not in endings:
        raise UsageError(f"can't tell the format of {output}: end it in {either(endings, before='.')}")
    return ending


def check_free_file(output: Path, endings: Sequence[str], overwrite: bool = False) -> Path:
    """Choose the file of a picture or a page; raises UsageError if it can't be written."""
    find_format(output, endings)
    return _check_path(output, overwrite)


def read_description(path: Path) -> dict[str, Any]:
    """Read the description of a table from a json; empty if the file is anything else."""
    with suppress(OSError, ValueError, RecursionError):
        about = json.loads(path.read_bytes())
        return about if isinstance(about, dict) else {}
    return {}


def find_description(path: Path) -> Path:
    """Name the file of a table's units, notes and provenance: ``x.csv.json`` for ``x.csv``."""
    return path.parent / f"{path.name}.json"


def add_descriptions(tables: Iterable[Path]) -> list[Path]:
    return [path for table in tables for path in (table, find_description(table))]


def _is_description(description: Path, path: Path) -> bool:
    return read_description(description).get("table") == path.name


def _resolve(output: Path) -> tuple[Path, Path]:
    """Follow links to a file, and name its description beside it; or refuse a path that no file can have."""
    try:
        path = output.resolve()
        for file in add_descriptions([path]):
            with suppress(FileNotFoundError):
                file.stat()
    except (OSError, RuntimeError, ValueError) as error:  # too long, a link in circles, a NUL
        why = reason(error) if isinstance(error, OSError) else error
        raise UsageError(f"can't write to {str(output)!r}: {why}") from error
    return path, find_description(path)


def _check_path(output: Path, overwrite: bool) -> Path:
    """Resolve the path of a file; raises UsageError unless it is free, or may be replaced, and writable."""
    path, _ = _resolve(output)
    if not path.parent.is_dir():
        raise UsageError(f"can't write {path}: the folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"can't write {path}: you have no permission to write in {path.parent}")
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file in it")
    if path.exists() and not path.is_file():  # a device such as /dev/null must not become a file
        raise UsageError(f"{path} is not an ordinary file: name another file")
    if path.exists() and not overwrite:
        raise UsageError(f"{path} already exists: {_OTHER}, or add --overwrite to replace it")
    return path


def check_not_read(output: Path, reads: Iterable[Path], *, standard_input: bool = False) -> None:
    """Raise UsageError if a table would be written over a file that the same command reads.

    In a folder that is read, an earlier table may be replaced. Paths that don't exist are ignored.
    """
    for written in filter(Path.exists, _resolve(output)):
        for read in reads:
            with suppress(OSError, ValueError):  # no path at all
                inside = read.is_dir() and lies_in(written, read) and not _is_table(written)
                if read.exists() and (inside or same_file(written, read)):
                    raise UsageError(f"-o would write over {written}, which this command reads: {_OTHER}")
        if standard_input and _is_standard_input(written):
            raise UsageError(f"-o would write over {written}, which is standard input: {_OTHER}")


def check_not_state(output: Path, state: Path) -> None:
    """Raise UsageError if a table would be written over the state of the run, or of one of its processes."""
    for written in _resolve(output):
        rank = written.name.removeprefix(f"{state.name}.")
        of_a_process = rank.isdecimal() and same_file(written.with_name(state.name), state)
        if of_a_process or same_file(written, state):
            raise UsageError("--resume and -o name the same file; give the state a name of its own.")


def check_outside(output: Path, folder: Path, what: str) -> None:
    """Raise UsageError for a file inside the folder of ``--save``; ``what`` names the file."""
    if lies_in(output, folder):
        raise UsageError(f"{what} lies in the folder of --save, which is written as a whole: {_OTHER}")


def _is_standard_input(path: Path) -> bool:
    with suppress(OSError, ValueError, AttributeError):
        return os.path.samestat(path.stat(), os.fstat(sys.stdin.fileno()))
    return False


def _is_table(path: Path) -> bool:
    """Tell whether a file is a table that attnprobe wrote, or the description of one."""
    format = FORMATS.get(extension(path))
    if format is None or not format.stands_alone:
        return format is not None and (format.binary or _is_description(find_description(path), path))
    return {"provenance", "rows"} <= read_description(path).keys()


class Saveable(ABC):
    """A picture or a page, which can be rendered in several formats and saved to a file."""

    endings: ClassVar[Sequence[str]]  # of the names of its files

    @abstractmethod
    def render(self, format: str) -> bytes:
        """Render it as bytes of a format, one of ``endings``."""

    def save(self, path: Path | str, *, overwrite: bool = False) -> Path:
        """Write it to a file, whose extension is the format; returns the path, with links resolved.

        The file appears whole or not at all. An existing file is only replaced with ``overwrite``.
        """
        file = check_free_file(Path(path), self.endings, overwrite)
        write_together({file: self.render(find_format(file, self.endings))})
        return file
