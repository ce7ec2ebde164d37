"""Where a table goes, which rows it has, and where the state of a run is kept."""

from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from attnprobe.cli.options.panels import OUTPUT
from attnprobe.table.formats import FORMATS, either

if TYPE_CHECKING:
    _FORMAT = str
else:
    _FORMAT = Literal["table", *FORMATS]

_Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", rich_help_panel=OUTPUT)
]
_Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show the traceback of an error.", rich_help_panel=OUTPUT)
]
_NoProgress = Annotated[
    bool, typer.Option("--no-progress", help="Show no progress bar.", rich_help_panel=OUTPUT)
]


@dataclass(frozen=True)
class OutputOptions:
    """Where the table goes, and how much is said."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help=f"Write a file; {either(FORMATS, before='.')} picks the format.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    format: Annotated[
        _FORMAT | None,
        typer.Option(help="Default: a table on a terminal, csv in a pipe.", rich_help_panel=OUTPUT),
    ] = None
    precision: Annotated[
        int | None, typer.Option(help="Significant digits.", min=1, max=17, rich_help_panel=OUTPUT)
    ] = None
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that exist.", rich_help_panel=OUTPUT)
    ] = False
    bom: Annotated[
        bool,
        typer.Option("--bom", help="Begin csv with a byte order mark, for Excel.", rich_help_panel=OUTPUT),
    ] = False
    quiet: _Quiet = False
    verbose: _Verbose = False
    no_progress: _NoProgress = False


@dataclass(frozen=True)
class PictureOptions:
    """Where a picture or a page goes, and how much is said."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Write a file, whose ending picks the format.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that exists.", rich_help_panel=OUTPUT)
    ] = False
    quiet: _Quiet = False
    verbose: _Verbose = False
    no_progress: _NoProgress = False


def pictures_in(help: str) -> type[PictureOptions]:
    """Give these options, of a command that says for itself which formats it writes.

    Args:
        help: What ``--help`` says of ``-o``.
    """
    output = Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PATH", help=help, rich_help_panel=OUTPUT)
    ]
    return make_dataclass("PictureOptions", [("output", output, None)], bases=(PictureOptions,), frozen=True)


@dataclass(frozen=True)
class LayerOptions:
    """Which rows the table has."""

    layers: Annotated[
        str | None,
        typer.Option(
            metavar="0,3-5",
            help="Only rows of these layers, counted from 0. All layers are measured.",
            rich_help_panel=OUTPUT,
        ),
    ] = None


@dataclass(frozen=True)
class ResumeOptions:
    """Whether a run can be stopped."""

    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="STATE",
            help="Keep the state of the run in this file, and go on from it: after Ctrl-C or a crash, give "
            "the same command again.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
