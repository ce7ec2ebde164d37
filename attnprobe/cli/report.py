"""The command that makes a report of a checkpoint."""

from pathlib import Path
from typing import Annotated

import typer

from attnprobe.cli.options import (
    TEXT,
    AnyModelOptions,
    DataOptions,
    FrequencyOptions,
    MetricOptions,
    PictureOptions,
    ReadingOptions,
    TaskOptions,
    pictures_in,
    takes,
)
from attnprobe.cli.session import call, keywords, said_as_written, settle, speaks
from attnprobe.errors import AttnprobeError

_REPORT = "Report"
_OUTPUT = pictures_in("Write this file, whose name ends in .html. Default: a page in the browser.")


@takes(AnyModelOptions, DataOptions, ReadingOptions, FrequencyOptions, TaskOptions, MetricOptions, _OUTPUT)
def report(
    model: AnyModelOptions,
    data: DataOptions,
    reading: ReadingOptions,
    counted: FrequencyOptions,
    task: TaskOptions,
    metric: MetricOptions,
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
            help="Write the tables of the report too, as csv; --from reads them again.",
            rich_help_panel=_REPORT,
        ),
    ] = None,
) -> None:
    """Write one page about a checkpoint: what its heads do, for somebody without Python.

    The page holds what was asked, what stands out, maps and roles of all heads, a card for each head with its
    numbers and what it looks at in three sentences of the data, heads that attend alike, and with a task
    importance and pruning. Choose a head anywhere, and everything shows it. Tables inside can be downloaded.
    It is one file that needs no network and no program but a browser.

    Examples:
      attnprobe report demo -o report.html

      attnprobe report my-classifier -d dev.tsv --label-column label -o report.html --save-tables tables

      attnprobe report --from tables -o report.html
    """
    path = settle(model, output, ("html",), [data.dataset, out_domain, counted.frequencies, from_tables])
    from attnprobe.api.report import report as api
    from attnprobe.cli.browsing import browser_there, shown_in_browser

    if path is None and not browser_there():
        raise AttnprobeError(
            "There is no browser here to show the page in; write it to a file with -o report.html."
        )
    options = keywords(model, data, reading, counted, task, metric)
    options |= {"sections": sections, "out_domain": out_domain, "from_tables": from_tables}
    options |= {"save_tables": save_tables, "overwrite": output.overwrite}
    found = call(api, output, model.model, data.dataset, **options)
    if not speaks():  # the first process writes it
        return
    written = found.save(path, overwrite=True) if path is not None else shown_in_browser(found)
    said_as_written(written, output)
