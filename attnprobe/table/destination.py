"""In which file a table goes, refused early and written whole: no long run ends in a refusal."""

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
    """Choose the files of a table, of a format that its extension says, or raise UsageError."""
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
    """Tell the format of a file from its name; raises AttnprobeError for one that is none of ``endings``."""
    ending = extension(output)
    if ending not in endings:
        raise UsageError(f"can't tell the format of {output}: end it in {either(endings, before='.')}")
    return ending


def check_free_file(output: Path, endings: Sequence[str], overwrite: bool = False) -> Path:
    """Choose the file of a picture or a page, or raise UsageError before any work is done."""
    find_format(output, endings)
    return _check_path(output, overwrite)


def read_description(path: Path) -> dict[str, Any]:
    """Read what a json says of a table; nothing where it is no such thing."""
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
    """Follow links to a file, and name its description beside it."""
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
    """Refuse to write a table over anything that the same command reads, standard input included.

    In folders that are read, an earlier table of ours may be replaced. What is not there is passed over.
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
    """Refuse to write a table where the state of the run is kept, or that of one of several processes."""
    for written in _resolve(output):
        rank = written.name.removeprefix(f"{state.name}.")
        of_a_process = rank.isdecimal() and same_file(written.with_name(state.name), state)
        if of_a_process or same_file(written, state):
            raise UsageError("--resume and -o name the same file; give the state a name of its own.")


def check_outside(output: Path, folder: Path, what: str) -> None:
    """Refuse an output, named by the option ``what``, in the folder that ``--save`` writes as a whole."""
    if lies_in(output, folder):
        raise UsageError(f"{what} lies in the folder of --save, which is written as a whole: {_OTHER}")


def _is_standard_input(path: Path) -> bool:
    with suppress(OSError, ValueError, AttributeError):
        return os.path.samestat(path.stat(), os.fstat(sys.stdin.fileno()))
    return False


def _is_table(path: Path) -> bool:
    """Tell a table of ours, or what describes one, from whatever else lies in a folder."""
    format = FORMATS.get(extension(path))
    if format is None or not format.stands_alone:
        return format is not None and (format.binary or _is_description(find_description(path), path))
    return {"provenance", "rows"} <= read_description(path).keys()


class Saveable(ABC):
    """A picture or a page: what renders itself in one of several formats, and goes into a file."""

    endings: ClassVar[Sequence[str]]  # of the names of its files

    @abstractmethod
    def render(self, format: str) -> bytes:
        """Give it as bytes of a format, one of ``endings``."""

    def save(self, path: Path | str, *, overwrite: bool = False) -> Path:
        """Write it in the format that the name of the file ends in; return the file, behind links.

        The file appears whole or not at all; one that exists is only replaced with ``overwrite``.
        """
        file = check_free_file(Path(path), self.endings, overwrite)
        write_together({file: self.render(find_format(file, self.endings))})
        return file
