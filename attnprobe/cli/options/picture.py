"""Where a picture of one sequence goes, and how much is said."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from attnprobe.cli.options.panels import OUTPUT


@dataclass(frozen=True)
class ViewOutputOptions:
    """Where a picture of one sequence goes, and how much is said."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Write a file: .html for a page to look around in, .svg or .pdf for a vector graphic. "
            "Default: a page in the browser.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that exists.", rich_help_panel=OUTPUT)
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", rich_help_panel=OUTPUT)
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the traceback of an error.", rich_help_panel=OUTPUT)
    ] = False
    no_progress: Annotated[
        bool, typer.Option("--no-progress", help="Show no progress bar.", rich_help_panel=OUTPUT)
    ] = False
