"""The one place where a table leaves the program."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from attnprobe.errors import AttnprobeError
from attnprobe.files import reason, write_together
from attnprobe.reports import streams
from attnprobe.table.cells import check_precision
from attnprobe.table.destination import Destination, check_file
from attnprobe.table.formats import FORMATS as OF_FILES
from attnprobe.table.formats import check_installed
from attnprobe.table.table import HeadTable

FORMATS = ("table", *OF_FILES)


def check_output(output: Path | None, overwrite: bool = False, format: str | None = None) -> Destination:
    """Choose where the table goes; called early, so that no long run ends in a refusal.

    The options are those of ``write_table``; an ``output`` of ``-`` is standard output too. Raises
    AttnprobeError in one sentence that says what to do instead.
    """
    if format is not None and format not in FORMATS:
        raise AttnprobeError(f"unknown format {format!r}: choose one of {', '.join(FORMATS)}")
    destination = (
        _choose_stream_format(format)
        if output is None or str(output) == "-"
        else check_file(output, overwrite, format)
    )
    if destination.format in OF_FILES:
        check_installed(destination.format)
    return destination


def _choose_stream_format(format: str | None) -> Destination:
    terminal = streams.is_terminal()
    if format in OF_FILES and OF_FILES[format].binary and terminal:
        raise AttnprobeError(f"{format} is not for reading on a terminal: name a file with -o heads.{format}")
    return Destination(format or ("table" if terminal else "csv"))


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

    - ``output``: The file, whose extension picks the format. A json beside it holds the units, notes
      and provenance where the format itself does not.
    - ``format``: One of ``FORMATS``. Without it and without a file, a terminal gets the table, a pipe csv.
    - ``precision``: Significant digits; None for all of them, or for what suits a terminal.
    - ``overwrite``: Whether files that exist may be replaced.
    - ``full``: Whether a terminal shows all that the table has, however many lines that takes.
    - ``rows``: How many rows of a list a terminal shows.

    Returns the files written, the table first; none for standard output. Raises AttnprobeError if the
    options don't fit together or the file can't be written.
    """
    check_precision(precision)
    destination = check_output(output, overwrite, format)
    if destination.format == "table":
        _show(table, precision, no_color, full, rows)
        return []
    if destination.path is not None:
        return table.write(destination, precision)
    streams.write(table.render(destination.format, precision))
    return []


def write_rescued(
    table: HeadTable, output: Path | None, format: str | None, precision: int | None = None
) -> str:
    """Write a table that did not get to its file to standard output, or else to a folder with room.

    Returns where it is, to stand behind "the table is". Raises AttnprobeError if there is room nowhere.
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
    """Write the tables of a report that got nowhere, by their names, to a new folder where there is room.

    Returns the folder. Raises AttnprobeError if they could be written nowhere.
    """

    def save(folder: Path) -> None:
        for name, table in tables.items():
            table.save(folder / f"{name}.csv")

    return _save_anywhere("tables", save)


def _save_anywhere(what: str, save: Callable[[Path], None]) -> Path:
    """Save into a new folder where there is room: the temporary folder, the user's own, or this one.

    Returns that folder, which nobody else may read. Raises AttnprobeError if there is no room anywhere.
    """
    first: Exception | None = None
    for room in (tempfile.gettempdir, Path.home, Path.cwd):
        with contextlib.ExitStack() as undo:
            try:
                folder = Path(tempfile.mkdtemp(prefix="attnprobe-", dir=room()))
                undo.callback(shutil.rmtree, folder, ignore_errors=True)
                save(folder)
            except (AttnprobeError, OSError, RuntimeError) as error:  # full, closed, or not there
                first = first or error
                continue
            undo.pop_all()
            return folder
    why = reason(first) if isinstance(first, OSError) else first
    raise AttnprobeError(f"could not write the {what} anywhere: {why}") from first


def _show(table: HeadTable, precision: int | None, no_color: bool, full: bool, rows: int | None) -> None:
    # rich takes a while to import, and csv into a pipe has no need of it.
    from attnprobe.reports.terminal.console import make_console
    from attnprobe.reports.terminal.show import show

    with streams.ignore_closed_pipe():
        console = make_console(no_color)
        show(table, console, precision, full, rows)
        console.file.flush()
