"""Where a table or a picture goes, and how much is said: options that the command line alone has."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from attnprobe.option import Group, Option
from attnprobe.options import OUTPUT
from attnprobe.table.formats import FORMATS, either

if TYPE_CHECKING:
    _FORMAT = str
else:
    _FORMAT = Literal["table", *FORMATS]


class Saying(Group, panel=OUTPUT, python=False):
    """How much is said."""

    quiet: Annotated[bool, Option("Say nothing but errors.", flags=("--quiet", "-q"), place=True)] = False
    verbose: Annotated[
        bool,
        Option(
            "Show the traceback of an error.",
            flags=("--verbose", "-v"), place=True, hidden=True,
        ),
    ] = False  # fmt: skip
    no_progress: Annotated[bool, Option("Show no progress bar.", place=True, hidden=True)] = False


class Output(Group, panel=OUTPUT, python=False):
    """Where the table goes."""

    output: Annotated[
        Path | None,
        Option(
            f"Write a file: {either(FORMATS, before='.')}.",
            flags=("--output", "-o"), metavar="PATH", place=True,
        ),
    ] = None  # fmt: skip
    format: Annotated[
        _FORMAT | None,
        Option(
            f"table, {either(FORMATS)}. Default: a table on a terminal, csv in a pipe.",
            metavar="NAME",
            place=True,
            hidden=True,
        ),
    ] = None
    only: Annotated[
        str | None,
        Option(
            "Write these columns alone, with errors and keys.",
            metavar="COLUMN,...", place=True,
        ),
    ] = None  # fmt: skip
    rows: Annotated[int | None, Option("Write the first N rows alone.", low=1, place=True)] = None
    precision: Annotated[int | None, Option("Significant digits.", low=1, high=17, hidden=True)] = None
    overwrite: Annotated[
        bool,
        Option("Replace files that exist.", place=True),
    ] = False
    full: Annotated[
        bool,
        Option("Show all of a long table on a terminal.", place=True),
    ] = False


def picture_output(help: str) -> type[Group]:
    """Make the options of where a picture goes; ``help`` is that of ``-o``."""

    class Picture(Group, panel=OUTPUT, python=False):
        output: Annotated[Path | None, Option(help, flags=("--output", "-o"), metavar="PATH", place=True)] = (
            None
        )
        overwrite: Annotated[bool, Option("Replace a file that exists.", place=True)] = False

    Picture.options += Saying.options
    return Picture


Output.options += Saying.options
