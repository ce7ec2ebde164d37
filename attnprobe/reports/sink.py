"""Where a table leaves the program: to a file, a terminal or a pipe, or to safety if that fails."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from attnprobe.errors import AttnprobeError, UsageError
from attnprobe.files import reason, write_together
from attnprobe.reports import streams
from attnprobe.table.cells import check_precision
from attnprobe.table.destination import Destination, check_file
from attnprobe.table.formats import FORMATS as OF_FILES
from attnprobe.table.formats import check_installed
from attnprobe.table.table import HeadTable

FORMATS = ("table", *OF_FILES)


def check_output(output: Path | None, overwrite: bool = False, format: str | None = None) -> Destination:
    """Choose where the table goes, with the options of ``write_table``; an ``output`` of ``-`` is a pipe.

    It is called before the work begins: an AttnprobeError for options that don't fit then costs nothing.
    """
    if format is not None and format not in FORMATS:
        raise UsageError(f"unknown format {format!r}: choose one of {', '.join(FORMATS)}")
    if output is not None and str(output) != "-":
        destination = check_file(output, overwrite, format)
    else:
        terminal = streams.is_terminal()
        destination = Destination(format or ("table" if terminal else "csv"))
        if terminal and format in OF_FILES and OF_FILES[format].binary:
            raise UsageError(f"{format} is not for reading on a terminal: name a file with -o heads.{format}")
    if destination.format in OF_FILES:
        check_installed(destination.format)
    return destination


def write_table(
    table: HeadTable,
    *,
    output: Path | None = None,
    format: str | None = None,
    precision: int | None = None,
    overwrite: bool = False,
    no_color: bool = False,
    full: bool = False,
    rows: int | None = None,
) -> list[Path]:
    """Write a table to a file, or to standard output.

    The extension of ``output`` picks the format, and a json beside it holds units, notes and provenance if
    the format does not. Without ``output`` and ``format``, a terminal gets the table and a pipe gets csv.
    ``precision`` is a number of significant digits. ``full`` and ``rows`` say how much a terminal shows.

    Returns the files written, the table first; none for standard output. Raises AttnprobeError if the
    options don't fit together or the file can't be written.
    """
    check_precision(precision)
    destination = check_output(output, overwrite, format)
    if destination.format == "table":
        # rich takes a while to import, and csv into a pipe has no need of it.
        from attnprobe.reports.terminal.console import make_console
        from attnprobe.reports.terminal.show import show

        with streams.ignore_closed_pipe():
            console = make_console(no_color)
            show(table, console, precision, full, rows)
            console.file.flush()
        return []
    if destination.path is not None:
        return table.write(destination, precision)
    streams.write(table.render(destination.format, precision))
    return []


def write_rescued(
    table: HeadTable, output: Path | None, format: str | None, precision: int | None = None
) -> str:
    """Rescue a table whose file could not be written: to standard output, or else to a folder with room.

    Returns where it is, as the end of "the table is ...". Raises AttnprobeError if there is room nowhere.
    """
    output = None if output is None or str(output) == "-" else output
    wanted = format or ("csv" if output is None else output.suffix.lower().removeprefix("."))
    chosen = wanted if wanted in OF_FILES and not OF_FILES[wanted].binary else "csv"
    content, part, name = table.render(chosen, precision), "", f"table.{chosen}"
    if output is not None:
        taken = streams.hand_over(content)
        if taken == len(content):
            return f"on standard output instead, as {chosen}"
        part = ", and standard output holds its beginning only" if taken else ""
    folder = _save_anywhere("table", lambda folder: write_together({folder / name: content}))
    return f"in {folder / name} instead{part}"


def write_rescued_tables(tables: Mapping[str, HeadTable]) -> Path:
    """Rescue the tables of a report that failed to a new folder, by their names, and return the folder."""

    def save(folder: Path) -> None:
        for name, table in tables.items():
            table.save(folder / f"{name}.csv")

    return _save_anywhere("tables", save)


def _save_anywhere(what: str, save: Callable[[Path], None]) -> Path:
    """Save to a new private folder, in the first place that has room, and return it."""
    first: Exception | None = None
    for room in (tempfile.gettempdir, Path.home, Path.cwd):
        with contextlib.ExitStack() as undo:
            try:
                folder = Path(tempfile.mkdtemp(prefix="attnprobe-", dir=room()))
                undo.callback(shutil.rmtree, folder, ignore_errors=True)
                save(folder)
                undo.pop_all()
                return folder
            except (AttnprobeError, OSError, RuntimeError) as error:  # full, closed, or not there
                first = first or error
    why = reason(first) if isinstance(first, OSError) else first
    raise AttnprobeError(f"could not write the {what} anywhere: {why}") from first
