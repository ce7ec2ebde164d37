"""Commands that make pages and pictures: into a file, a browser, or a pipe."""

import os
import sys
import tempfile
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from attnprobe.cli.session import Given, call, is_first_process, prepare_picture, print_written
from attnprobe.cli.stopping import stopping
from attnprobe.errors import AttnprobeError, first_line
from attnprobe.files import reason
from attnprobe.registry import Command

if TYPE_CHECKING:
    from attnprobe.reports.report.report import Report
    from attnprobe.reports.view.view import View
    from attnprobe.table.table import HeadTable


def view(command: Command, given: Given) -> None:
    """Show one sentence, in a browser or in a file."""
    from attnprobe.reports.theme import check_theme, parse_width
    from attnprobe.reports.view.view import FORMATS, check_page_look
    from attnprobe.table.destination import find_format

    path = prepare_picture(command, given, FORMATS)
    look = given["theme"], given["width"]
    check_theme(look[0])
    parse_width(look[1])
    check_page_look("html" if path is None else find_format(path, FORMATS), *look)
    _check_browser(path, "view.html")
    text = given["text"]
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", errors="replace").strip()
    found = call(command, given, text=text)
    if is_first_process():  # it writes for all
        print_written(_write(found, path), given)


def report(command: Command, given: Given) -> None:
    """Make a report; where the page can't be written, the tables are."""
    path, folder = prepare_picture(command, given, ("html",)), given["save_tables"]
    _check_browser(path, "report.html")
    try:
        with _note_left(folder):
            found = call(command, given)
    except AttnprobeError as error:
        if error.table is None:
            raise
        raise _keep_tables(error, str(error), error.table, folder) from error
    if not is_first_process():  # which writes for all
        return
    try:
        written = _write(found, path)
    except Exception as error:
        if given["from_tables"] is not None:
            raise
        why = str(error)
        if not isinstance(error, AttnprobeError):
            why = f"The page could not be made ({first_line(error)})"
        raise _keep_tables(error, why, found.tables, None if found.unsaved else folder) from error
    print_written(written, given)
    if found.unsaved:
        raise AttnprobeError(found.unsaved)


def plot(command: Command, given: Given) -> None:
    """Draw tables, into a file or a pipe."""
    from attnprobe.reports import streams
    from attnprobe.reports.picture import FORMATS, warm_up
    from attnprobe.table.destination import (
        add_descriptions,
        check_apart,
        check_free_file,
        find_format,
    )

    tables, overwrite = given["tables"], given["overwrite"]
    for table in tables:
        if table.is_dir():
            raise AttnprobeError(f"{table} is a folder; name the tables in it, such as {table / 'heads.csv'}")
    path = None if str(given["output"]) in {"None", "-"} else given["output"]
    if path is None:
        if streams.is_terminal():
            raise AttnprobeError("a picture is not for a terminal: name a file with -o heads.svg")
        format = "svg"
    else:
        format = find_format(path, list(FORMATS))
        check_free_file(path, list(FORMATS), overwrite)
        check_apart(path, add_descriptions(tables))
    warm_up(format)
    picture = call(command, given)
    if path is None:
        streams.write(picture.rendered(format))
    else:
        print_written(picture.save(path, overwrite=overwrite), given)


def _check_browser(path: Path | None, example: str) -> None:
    """Refuse to show a page where there is no browser with a window; one in a terminal shows no pictures."""
    if path is None and not is_browser_there():
        raise AttnprobeError(
            f"There is no browser here to show the page in; write it to a file with -o {example}."
        )


def is_browser_there() -> bool:
    windows = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform not in ("win32", "darwin") and not any(map(os.environ.get, windows)):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def _write(page: "Report | View", path: Path | None) -> Path:
    if path is not None:
        return page.save(path, overwrite=True)
    content = page.html.encode()
    try:
        with tempfile.NamedTemporaryFile(prefix="attnprobe-", suffix=".html", delete=False) as file:
            file.write(content)
    except OSError as error:
        raise AttnprobeError(
            f"could not write the page into the temporary folder: {reason(error)}."
        ) from error
    path = Path(file.name)
    if not webbrowser.open(path.as_uri()):
        raise AttnprobeError(f"The browser did not open the page; it is in {path}.")
    return path


@contextmanager
def _note_left(folder: Path | None) -> Iterator[None]:
    """Note what a run that is stopped leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        if folder is not None and any(folder.glob("*.csv")):
            stopping.outcome = f"the tables that were done are in {folder}"
        raise


def _keep_tables(
    error: Exception, why: str, tables: "Mapping[str, HeadTable]", folder: Path | None
) -> AttnprobeError:
    where = folder
    if where is None and is_first_process():
        from attnprobe.reports.sink import write_rescued_tables

        where = write_rescued_tables(tables)
    text = why.rstrip(".")
    if where is not None:
        text += f". The tables are in {where}: `attnprobe report --from {where} -o report.html` makes a page"
    raised = AttnprobeError(f"{text}.")
    raised.exit_code = getattr(error, "exit_code", raised.exit_code)
    return raised
