"""The command that makes a report of a checkpoint."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnprobe.cli.options import (
    TEXT,
    AnyModelOptions,
    DataOptions,
    FrequencyOptions,
    MetricOptions,
    PictureOptions,
    ReadingOptions,
    ResumeOptions,
    RoleGoldOptions,
    TaskOptions,
    pictures_in,
    takes,
)
from attnprobe.cli.session import call, keywords, made, said_as_written, settle, speaks
from attnprobe.cli.stopping import stopping
from attnprobe.errors import AttnprobeError, UnfinishedError, first_line
from attnprobe.files import same_file

if TYPE_CHECKING:
    from attnprobe.table.head_table import HeadTable

_REPORT = "Report"
_OUTPUT = pictures_in("Write this file, whose name ends in .html. Default: a page in the browser.")


@dataclass(frozen=True)
class ReportOptions:
    """All that its sections take, and a run that can be stopped."""

    data: DataOptions = field(default_factory=DataOptions)
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    counted: FrequencyOptions = field(default_factory=FrequencyOptions)
    gold: RoleGoldOptions = field(default_factory=RoleGoldOptions)
    task: TaskOptions = field(default_factory=TaskOptions)
    metric: MetricOptions = field(default_factory=MetricOptions)
    stopping: ResumeOptions = field(default_factory=ResumeOptions)


@takes(AnyModelOptions, ReportOptions, _OUTPUT)
def report(
    model: AnyModelOptions,
    asked: ReportOptions,
    output: PictureOptions,
    sections: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="Measure only these: census, roles, sentences, importance, distance, prune, correlate. "
            "Default: census, roles, sentences, distance; with --label-column or --objective also importance "
            "and prune; with --out-domain also correlate.",
            rich_help_panel=_REPORT,
        ),
    ] = None,
    out_domain: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Other data: do the same heads matter there?",
            rich_help_panel=TEXT,
        ),
    ] = None,
    from_tables: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Make the report from the tables in this folder, which any command wrote there. Nothing is "
            "measured.",
            rich_help_panel=_REPORT,
        ),
    ] = None,
    save_tables: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the tables of the report too, as csv, each as soon as it is measured, and the "
            "sentences; --from reads them again.",
            rich_help_panel=_REPORT,
        ),
    ] = None,
) -> None:
    """Write one page about a checkpoint: what its heads do, for somebody without Python.

    The page holds what was asked, the outliers, maps and roles of all heads, a card for each head with its
    numbers and what it looks at in three sentences of the data, heads with similar attention, and with a task
    importance and pruning. Choose a head anywhere, and everything shows it. Tables inside can be downloaded.
    It is one file that needs no network and no program but a browser. Census, roles and pairs of heads share
    a pass over the data, and all numbers are those of the single commands. [bold]--resume[/bold] keeps the
    sections that are done; where the page can't be written, the tables are.

    Examples:
      attnprobe report demo -o report.html

      attnprobe report my-bert -d dev.tsv --save-tables tables -o report.html

      attnprobe report gpt2 -d corpus.txt --resume state -o report.html

      attnprobe report --from tables -o report.html
    """
    reads = [asked.data.dataset, out_domain, asked.counted.frequencies, from_tables, *asked.gold.files]
    path = settle(model, output, ("html",), reads)
    state = asked.stopping.resume
    _check_apart(path, state, save_tables)
    from attnprobe.api.report import report as api
    from attnprobe.cli.browsing import browser_there, shown_in_browser

    if path is None and not browser_there():
        raise AttnprobeError(
            "There is no browser here to show the page in; write it to a file with -o report.html."
        )
    options = keywords(model, asked)
    options |= {"sections": sections, "out_domain": out_domain, "from_tables": from_tables}
    options |= {"save_tables": save_tables, "overwrite": output.overwrite}
    try:
        with _left_in(save_tables, state):
            found = call(api, output, model.model, asked.data.dataset, **options)
    except UnfinishedError as error:
        raise _with_tables(error, str(error), error.table, save_tables, state) from error
    made(found.tables)
    if not speaks():  # the first process writes it
        return
    try:
        written = found.save(path, overwrite=True) if path is not None else shown_in_browser(found)
    except Exception as error:
        if from_tables is not None:
            raise
        why = str(error)
        if not isinstance(error, AttnprobeError):
            why = f"The page could not be made ({first_line(error)})"
        raise _with_tables(error, why, found.tables, None if found.unsaved else save_tables, state) from error
    said_as_written(written, output)
    if found.unsaved:
        raise AttnprobeError(found.unsaved)


def _check_apart(path: Path | None, state: Path | None, folder: Path | None) -> None:
    """Refuse a page and tables that go where the state of the run is kept."""
    from attnprobe.table.destination import check_apart_from_state

    if state is None:
        return
    if path is not None:
        check_apart_from_state(path, state)
    if folder is not None and same_file(folder, state):
        raise AttnprobeError(
            "--resume and --save-tables name the same place; give the state a name of its own."
        )


@contextmanager
def _left_in(folder: Path | None, state: Path | None) -> Iterator[None]:
    """Say what a run that is stopped leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        if state is None and folder is not None and any(folder.glob("*.csv")):
            stopping.left = f"the tables that were done are in {folder}"
        raise


def _with_tables(
    error: Exception, why: str, tables: "Mapping[str, HeadTable]", folder: Path | None, state: Path | None
) -> AttnprobeError:
    """Say where the tables are that were measured before something went wrong."""
    where = folder
    if where is None and state is None and speaks():
        from attnprobe.reports.sink import write_rescued_tables

        where = write_rescued_tables(tables)
    text = why.rstrip(".")
    if where is not None:
        text += f". The tables are in {where}: `attnprobe report --from {where} -o report.html` makes a page"
    elif state is not None and not isinstance(error, UnfinishedError):
        text += ". The tables are kept: give the same command again, with another -o"
    raised = AttnprobeError(f"{text}.")
    raised.exit_code = getattr(error, "exit_code", raised.exit_code)
    return raised
