"""No table goes where the same command reads, or keeps its state: refused early, ``--overwrite`` or not."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from attnprobe.errors import AttnprobeError
from attnprobe.files import lies_in, same_file
from attnprobe.table.destination import describes, description_path, resolved, said_in
from attnprobe.table.formats import FORMATS, extension

_OTHER = "choose another name"


def check_apart(
    output: Path, reads: Iterable[Path], *, standard_input: bool = False, option: str = "-o"
) -> None:
    """Refuse to write a table over anything that the same command reads; ``--overwrite`` was not said of it.

    - ``output``: The file of the table.
    - ``reads``: Files; and folders, in which an earlier table of ours may be replaced, and nothing else.
      What is not there, such as the id of a hub dataset, is passed over.
    - ``standard_input``: Whether standard input is read, which may be a file.
    - ``option``: What names the file.

    Raises AttnprobeError in one sentence that says what to do instead.
    """
    path = resolved(output)
    for written in {path: None, description_path(path): None}:
        if not written.exists():
            continue
        for read in filter(_exists, reads):
            inside = read.is_dir() and lies_in(written, read) and not _is_table(written)
            if inside or same_file(written, read):
                raise AttnprobeError(
                    f"{option} would write over {_named(written, path)}, which this command reads: {_OTHER}"
                )
        if standard_input and _is_standard_input(written):
            raise AttnprobeError(f"-o would write over {written}, which is standard input: {_OTHER}")


def check_apart_from_state(output: Path, state: Path) -> None:
    """Refuse to write a table where the state of the run is kept; each of several processes keeps its own."""
    path = resolved(output)
    for written in (path, description_path(path)):
        rank = written.name.removeprefix(f"{state.name}.")
        of_a_process = rank.isdecimal() and same_file(written.with_name(state.name), state)
        if of_a_process or same_file(written, state):
            raise AttnprobeError("--resume and -o name the same file; give the state a name of its own.")


def check_outside(output: Path, folder: Path, what: str) -> None:
    """Refuse a file in a folder that the command writes as a whole.

    - ``output``: The file.
    - ``folder``: The folder of ``--save``.
    - ``what``: The option that names the file.
    """
    if lies_in(output, folder):
        raise AttnprobeError(f"{what} lies in the folder of --save, which is written as a whole: {_OTHER}")


def with_descriptions(tables: Iterable[Path]) -> list[Path]:
    """Give tables, and the json beside each."""
    return [path for table in tables for path in (table, description_path(table))]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # no path at all
        return False


def _named(written: Path, path: Path) -> str:
    return str(written) if written == path else f"{written} (which describes {path.name})"


def _is_standard_input(path: Path) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(sys.stdin.fileno()))
    except (OSError, ValueError, AttributeError):
        return False


def _is_table(path: Path) -> bool:
    """Tell a table of ours, or what describes one, from whatever else lies in a folder."""
    format = FORMATS.get(extension(path))
    if format is not None and format.stands_alone:
        about = said_in(path)
        return "provenance" in about and "rows" in about
    return format is not None and (format.binary or describes(description_path(path), path))
