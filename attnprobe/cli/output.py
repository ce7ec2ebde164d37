"""A run of a command: from options to a call of its function, and from what it makes to where that goes."""

import os
import sys
import tempfile
import webbrowser
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.cli.stopping import stopping
from attnprobe.errors import AttnprobeError, ModelError, UsageError, first_line
from attnprobe.files import reason
from attnprobe.registry import Command, split_names
from attnprobe.reports import streams
from attnprobe.run.process_group import Ranks
from attnprobe.table.cells import clean

if TYPE_CHECKING:
    from attnprobe.table.table import HeadTable

#: What was given on the command line, by the names of its options.
Given = Mapping[str, Any]
#: What stands for standard input as data, and for standard output as a file.
_STREAM = "-"
#: Where the class of a page or a picture is that a command makes.
_PAGES = {
    "view": "attnprobe.reports.view.view:View",
    "report": "attnprobe.reports.report.report:Report",
    "plot": "attnprobe.reports.picture:Picture",
}


def run_command(command: Command, **given: Any) -> None:
    """Refuse a bad destination, call the function of a command, and put what it makes where it goes."""
    page = command.name in _PAGES
    path, format = _choose_file(command, given) if page else (None, _choose_format(command, given))
    # Threads that spin while they wait for one another stall each other on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from attnprobe.session.session import record_as

    keywords = {one.keyword: given[name] for name, one in command.on_line.items() if one.python}
    keywords |= {"overwrite": given["overwrite"]} if "overwrite" in command.keywords else {}
    quiet = given["quiet"] or not Ranks.detect().first
    bar = sys.stderr.isatty() and not (quiet or given["no_progress"])
    words = record_as(["attnprobe", *stopping.words])
    try:
        with stopping.working(), _StoppableProgress(bar=bar, quiet=quiet) as progress, words:
            keywords |= {"progress": progress} if "progress" in command.keywords else {}
            made = command.function(**keywords)
    except AttnprobeError as error:
        if page and error.table is not None:
            raise _keep_tables(str(error), error.table, given["save_tables"]) from error
        if error.table is not None:
            _emit(error.table, format, given)
        raise
    if not Ranks.detect().first:  # which writes for all
        return
    if page:
        _emit_page(made, path, format, given)
        return
    _emit(made, format, given)
    if command.name == "doctor":
        _check_findings(made)


class _StoppableProgress(streams.TerminalProgress):
    """Progress that notices a signal which somebody else's code has swallowed."""

    def stage(self, name: str, total: int | None) -> None:
        """Begin a stage, unless the program is to stop; from now on, there may be things to put away."""
        stopping.reraise()
        stopping.gentle = True
        super().stage(name, total)

    def advance(self, steps: int) -> None:
        stopping.reraise()
        super().advance(steps)


# Where it goes, which is refused before anything slow is imported


def _choose_format(command: Command, given: Given) -> str:
    """Choose the format of a table, or refuse where it would go."""
    from attnprobe.reports.sink import check_output
    from attnprobe.table.destination import check_apart, check_apart_from_state, check_outside

    output = given["output"]
    if output is not None and str(output) != _STREAM:
        reads = list_inputs(command, given)
        check_apart(
            output, [Path(name) for name in reads if name != _STREAM], standard_input=_STREAM in reads
        )
        if given.get("resume") is not None:
            check_apart_from_state(output, given["resume"])
        if given.get("save") is not None:
            check_outside(output, given["save"], "-o")
    return check_output(output, given["overwrite"], given["format"]).format


def _choose_file(command: Command, given: Given) -> tuple[Path | None, str]:
    """Choose the file of a page or a picture, None for a browser or standard output, and its format."""
    from attnprobe.table.destination import check_apart, check_free_file

    module, name = _PAGES[command.name].split(":")
    output, endings = given["output"], getattr(import_module(module), name).endings
    path, format = None, "svg" if command.name == "plot" else "html"
    if output is not None and str(output) != _STREAM:
        path = check_free_file(output, endings, given["overwrite"])
        check_apart(path, [Path(name) for name in list_inputs(command, given) if name != _STREAM])
        format = path.suffix.lower().removeprefix(".")
    elif command.name != "plot" and not is_browser_there():
        raise UsageError("There is no browser here to show the page in; write a file with -o page.html.")
    elif command.name == "plot" and streams.is_terminal():
        raise UsageError("a picture is not for a terminal: name a file with -o heads.svg")
    if command.name == "view":
        from attnprobe.reports.view.view import check_page_look

        check_page_look(format, given["theme"], given["width"])
    if command.name == "plot":
        from attnprobe.reports.picture import warm_up

        warm_up(format)
    return path, format


def list_inputs(command: Command, given: Given) -> list[str]:
    """List what is read, as the options name it."""
    names: list[str] = []
    for name, option in command.on_line.items():
        value = given.get(name)
        values = [str(one) for one in value] if isinstance(value, list) else [str(value)] if value else []
        reads = option.reads
        if reads == "side":
            reads = "data" if given.get("model") else "table"
        if reads == "order":  # FILE:COLUMN
            values = [one.rpartition(":")[0] for one in values]
        if reads == "table":
            from attnprobe.table.destination import add_descriptions

            values = [str(one) for one in add_descriptions(map(Path, values))]
        if reads or option.keyword == "model":
            names += filter(None, values)
    return names


def is_browser_there() -> bool:
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
    """Write the table where the options say; a terminal shows what stands below it too.

    Raises:
        AttnprobeError: When the file can't be written, and the table is then on standard output; or when a
            column that is to be written is not there, and then all are written.
    """
    if not Ranks.detect().first:
        return
    with stopping.working(gentle=True):
        try:
            chosen = table.take(split_names(given["only"]), given["rows"])
        except AttnprobeError as error:  # a wrong name is not to cost a long run
            _write(table, format, given)
            raise UsageError(f"{str(error).rstrip('.')}; all columns were written.") from error
        _write(chosen, format, given)
        if format == "table" and table.below is not None:
            print()
            _write(replace(table.below().take(rows=given["rows"]), notes=[]), format, given)


def _write(table: "HeadTable", format: str, given: Given) -> None:
    from attnprobe.reports.sink import write_rescued, write_table
    from attnprobe.table.formats import FORMATS

    options = ("output", "format", "precision", "overwrite", "full", "rows")
    try:
        written = write_table(table, **{name: given[name] for name in options})
    except AttnprobeError as error:
        where = write_rescued(table, given["output"], given["format"], given["precision"])
        _print_notes(table, given)
        raise AttnprobeError(f"{str(error).rstrip('.')}; the table is {where}.") from error
    for path in written:
        _print_written(path, given)
    stopping.outcome = f"{written[0] if written else 'the table'} was written"
    if written or (format != "table" and not FORMATS[format].holds_notes):  # a terminal has shown them
        _print_notes(table, given)


def _print_notes(table: "HeadTable", given: Given) -> None:
    if not given["quiet"]:
        from attnprobe.reports.findings import state_effects

        for note in [*state_effects(table), *table.notes]:
            print(f"attnprobe: {note}", file=sys.stderr)


def _print_written(path: Path, given: Given) -> None:
    stopping.outcome = f"{path} was written"
    if not given["quiet"]:
        here = Path.cwd()
        name = path.relative_to(here) if path.is_relative_to(here) else path
        print(f"attnprobe: wrote {clean(str(name))}", file=sys.stderr)


def _check_findings(table: "HeadTable") -> None:
    """End with exit code 1 where a check of doctor failed."""
    for status, detail in zip(table["status"], table["detail"], strict=True):
        if status == "failed":
            error = ModelError(str(detail))
            error.exit_code = 1
            raise error


# Pages and pictures


def _emit_page(page: Any, path: Path | None, format: str, given: Given) -> None:
    """Write a page or a picture into its file or a pipe, or show it; a report leaves its tables at least."""
    try:
        if path is not None:
            _print_written(page.save(path, overwrite=given["overwrite"]), given)
        elif format == "html":
            _print_written(_open_browser(page.rendered(format)), given)
        else:
            streams.write(page.rendered(format))
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
        raise AttnprobeError(
            f"could not write the page into the temporary folder: {reason(error)}."
        ) from error
    path = Path(file.name)
    if not webbrowser.open(path.as_uri()):
        raise AttnprobeError(f"The browser did not open the page; it is in {path}.")
    return path


def _keep_tables(why: str, tables: "Mapping[str, HeadTable]", folder: Path | None) -> AttnprobeError:
    """Keep the tables of a report that failed, and say where they are."""
    kept = folder is not None and all((folder / f"{name}.csv").is_file() for name in tables)
    if not kept and Ranks.detect().first:
        from attnprobe.reports.sink import write_rescued_tables

        folder = write_rescued_tables(tables)
    text = why.rstrip(".")
    if folder is not None:
        text += (
            f". The tables are in {folder}: `attnprobe report --from {folder} -o report.html` makes a page"
        )
    return AttnprobeError(f"{text}.")
