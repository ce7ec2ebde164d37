"""A run of a command: from options to a call of its function, and from what it makes to where that goes."""

import os
import sys
import tempfile
import webbrowser
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.cli.stopping import stopping
from attnprobe.errors import AttnprobeError, ModelError, UsageError, first_line
from attnprobe.files import reason
from attnprobe.registry import Command, split_names
from attnprobe.reports import streams
from attnprobe.run.process_group import Ranks
from attnprobe.session.session import record_as
from attnprobe.table import destination
from attnprobe.table.cells import clean
from attnprobe.table.formats import FORMATS

if TYPE_CHECKING:
    from attnprobe.table.table import HeadTable

#: What was given on the command line, by the names of its options.
Given = Mapping[str, Any]
#: What stands for standard input as data, and for standard output as a file.
_STREAM = "-"
#: Commands that make a page or a picture, and what the names of their files may end in.
_PAGES = {"view": ("html", "svg", "png", "pdf"), "report": ("html",), "plot": ("svg", "png", "pdf", "html")}


def run_command(command: Command, **given: Any) -> None:
    """Refuse a bad destination, call the function of a command, and write or show what it returns."""
    path, format = _choose_destination(command, given)
    # Threads that spin while they wait for one another stall each other on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    keywords = {one.keyword: given[name] for name, one in command.on_line.items() if one.python}
    keywords |= {"overwrite": given["overwrite"]} if "overwrite" in command.keywords else {}
    first = Ranks.detect().first  # which writes for all
    quiet = given["quiet"] or not first
    bar = sys.stderr.isatty() and not (quiet or given["no_progress"])
    words = record_as(["attnprobe", *stopping.words])
    try:
        with stopping.working(), _StoppableProgress(bar=bar, quiet=quiet) as progress, words:
            keywords |= {"progress": progress} if "progress" in command.keywords else {}
            made = command.function(**keywords)
    except AttnprobeError as error:
        if error.table is not None and command.name in _PAGES:
            raise _keep_tables(str(error), error.table, given["save_tables"]) from error
        if error.table is not None and first:
            _emit(error.table, format, given)
        raise
    if not first:
        return
    if command.name in _PAGES:
        _emit_page(made, path, format, given)
        return
    _emit(made, format, given)
    if command.name == "doctor" and "failed" in (status := list(made["status"])):
        error = ModelError(str(made["detail"][status.index("failed")]))
        error.exit_code = 1
        raise error


class _StoppableProgress(streams.TerminalProgress):
    """Progress that notices a signal which somebody else's code has swallowed."""

    def stage(self, name: str, total: int | None) -> None:
        """Begin a stage, unless the program is to stop; from now on, there may be things to put away."""
        stopping.reraise()
        stopping.cleans_up = True
        super().stage(name, total)

    def advance(self, steps: int) -> None:
        stopping.reraise()
        super().advance(steps)


# Where it goes, which is refused before anything slow is imported


def _choose_destination(command: Command, given: Given) -> tuple[Path | None, str]:
    """Choose a file, None for standard output or a browser, and its format; or refuse the options."""
    output = None if str(given["output"]) == _STREAM else given["output"]
    if output is not None:
        reads = list_inputs(command, given)
        files = [Path(name) for name in reads if name != _STREAM]
        destination.check_not_read(output, files, standard_input=_STREAM in reads)
        if given.get("resume") is not None:
            destination.check_not_state(output, given["resume"])
        if given.get("save") is not None:
            destination.check_outside(output, given["save"], "-o")
    if command.name not in _PAGES:
        from attnprobe.reports.sink import check_output

        chosen = check_output(output, given["overwrite"], given["format"])
        return chosen.path, chosen.format
    format = "svg" if command.name == "plot" else "html"
    if output is not None:
        output = destination.check_free_file(output, _PAGES[command.name], given["overwrite"])
        format = output.suffix.lower().removeprefix(".")
    elif command.name != "plot" and not _is_browser_there():
        raise UsageError("There is no browser here to show the page in; write a file with -o page.html.")
    elif command.name == "plot" and streams.is_terminal():
        raise UsageError("a picture is not for a terminal: name a file with -o heads.svg")
    if command.name == "view":
        from attnprobe.reports.view.view import check_page_look

        check_page_look(format, given["theme"], given["width"])
    if command.name == "plot":
        from attnprobe.reports.picture import warm_up

        warm_up(format)
    return output, format


def list_inputs(command: Command, given: Given) -> list[str]:
    """List the model and the files that a command reads, with descriptions of tables; - is standard input."""
    names: list[str] = []
    for name, option in command.on_line.items():
        value, reads = given.get(name), option.reads
        values = list(map(str, value)) if isinstance(value, list) else [str(value or "")]
        if reads == "order":  # FILE:COLUMN
            values = [one.rpartition(":")[0] for one in values]
        if reads == "table" or (reads == "side" and not given.get("model")):
            values = [str(path) for path in destination.add_descriptions(map(Path, filter(None, values)))]
        if reads or option.keyword == "model":
            names += filter(None, values)
    return names


def _is_browser_there() -> bool:
    """Tell whether there is a browser with a window; one in a terminal shows no pictures."""
    windows = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform not in ("win32", "darwin") and not any(map(os.environ.get, windows)):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


# Tables


def _emit(table: "HeadTable", format: str, given: Given) -> None:
    """Write the columns and rows chosen where the options say; a terminal shows the table ``below`` it too.

    Raises AttnprobeError when the file can't be written, and the table is then on standard output; or when a
    column that is to be written is not there, and then all are written.
    """
    with stopping.working(cleans_up=True):
        try:
            chosen = table.take(split_names(given["only"]), given["rows"])
        except AttnprobeError as error:  # a wrong name is not to cost a long run
            _write_or_rescue(table, format, given)
            raise UsageError(f"{str(error).rstrip('.')}; all columns were written.") from error
        _write_or_rescue(chosen, format, given)
        if format == "table" and table.below is not None:
            print()
            _write_or_rescue(replace(table.below().take(rows=given["rows"]), notes=[]), format, given)


def _write_or_rescue(table: "HeadTable", format: str, given: Given) -> None:
    """Write a table; print where, and its notes unless standard output holds them, to standard error.

    If it can't be written there, it is rescued, and the AttnprobeError that is raised says where it is.
    """
    from attnprobe.reports.sink import write_rescued, write_table

    options = ("output", "format", "precision", "overwrite", "full", "rows")
    try:
        written = write_table(table, **{name: given[name] for name in options})
    except AttnprobeError as error:
        where = write_rescued(table, given["output"], given["format"], given["precision"])
        _print_notes(table, given)
        raise AttnprobeError(f"{str(error).rstrip('.')}; the table is {where}.") from error
    for path in written:
        _print_written(path, given)
    stopping.outcome = clean(f"{written[0] if written else 'the table'} was written")
    if written or (format != "table" and not FORMATS[format].holds_notes):  # a terminal has shown them
        _print_notes(table, given)


def _print_notes(table: "HeadTable", given: Given) -> None:
    if not given["quiet"]:
        from attnprobe.reports.findings import state_effects

        for note in [*state_effects(table), *table.notes]:
            print(f"attnprobe: {clean(note)}", file=sys.stderr)


def _print_written(path: Path, given: Given) -> None:
    stopping.outcome = clean(f"{path} was written")
    if not given["quiet"]:
        here = Path.cwd()
        name = path.relative_to(here) if path.is_relative_to(here) else path
        print(f"attnprobe: wrote {clean(str(name))}", file=sys.stderr)


# Pages and pictures


def _emit_page(page: Any, path: Path | None, format: str, given: Given) -> None:
    """Write a page or a picture to a file or a pipe, or show it; a report that fails leaves its tables."""
    try:
        if path is not None:
            _print_written(page.save(path, overwrite=given["overwrite"]), given)
        elif format == "html":
            _print_written(_open_browser(page.render(format)), given)
        else:
            streams.write(page.render(format))
    except Exception as error:
        if "save_tables" not in given:
            raise
        known = isinstance(error, AttnprobeError)
        why = str(error) if known else f"The page could not be made ({first_line(error)})"
        raise _keep_tables(why, page.tables, given["save_tables"] or given["from_tables"]) from error


def _open_browser(page: bytes) -> Path:
    try:
        with tempfile.NamedTemporaryFile(prefix="attnprobe-", suffix=".html", delete=False) as file:
            file.write(page)
    except OSError as error:
        raise AttnprobeError(f"could not write into the temporary folder: {reason(error)}") from error
    path = Path(file.name)
    if not webbrowser.open(path.as_uri()):
        raise AttnprobeError(f"The browser did not open the page; it is in {path}.")
    return path


def _keep_tables(why: str, tables: "Mapping[str, HeadTable]", folder: Path | None) -> AttnprobeError:
    """Save the tables of a failed report unless ``folder`` has them; return the error, which says where."""
    text = why.rstrip(".")
    kept = folder is not None and all((folder / f"{name}.csv").is_file() for name in tables)
    if not kept and Ranks.detect().first:
        from attnprobe.reports.sink import write_rescued_tables

        folder = write_rescued_tables(tables)
    if folder is not None:
        how = f"attnprobe report --from {folder} -o report.html"
        text += f". The tables are in {folder}: `{how}` makes a page"
    return AttnprobeError(f"{text}.")
