"""The command that adds up the tables of separate jobs."""

from pathlib import Path
from typing import Annotated

import typer

from attnprobe.cli.options import OutputOptions, takes
from attnprobe.cli.session import check_destination, command_line, emit


@takes(OutputOptions)
def merge(
    output: OutputOptions,
    tables: Annotated[
        list[Path],
        typer.Argument(metavar="TABLE...", help="The json beside each table, or the table itself."),
    ],
) -> None:
    """Add up the tables of separate jobs to the table of the whole.

    For a corpus that is cut over several jobs, such as a Slurm array: each job writes its part with -o, and
    merge adds up the sums in the json files beside them. Tables of census and of its parts, rank, induction,
    mixing, syntax, coreference, links and roles can be merged, of the same model with the same options; what
    is rare is counted in each job's own text, so the columns on rare tokens are left out. Documents that two
    tables have in common are refused or counted in a note.

    Examples:
      attnprobe census demo -d part1.txt -o part1.csv

      attnprobe merge part1.json part2.json > whole.csv
    """
    from attnprobe.table.destination import add_descriptions

    check_destination(output, None, add_descriptions(tables))
    from attnprobe.api.commands import recorded_as
    from attnprobe.api.merge import merge as merge_tables

    with recorded_as(command_line()):
        emit(merge_tables(tables), output)
