"""The command that adds up the tables of separate jobs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attnprobe.commands.output import Output
from attnprobe.commands.registry import command
from attnprobe.option import Option

if TYPE_CHECKING:
    from attnprobe.statistics.statistic import Statistic
    from attnprobe.table.head_table import HeadTable


@command(Output, guesses=("join", "concat", "combine", "add"))
def merge(
    tables: Annotated[
        "Sequence[HeadTable | Path | str]",
        Option(
            "The json beside each table, or the table itself.",
            doc="Tables, or the json files beside them. If two have documents in common, a note says how "
            "many; if one has all documents of the other, they are refused.",
            metavar="TABLE...",
            line=list[Path],
            argument=True,
            reads="table",
        ),
    ],
    *,
    statistics: Annotated[
        "Sequence[Statistic]",
        Option(doc="Those of one's own that the tables hold, and that no package brings along."),
    ] = (),
) -> "HeadTable":
    """Add up the tables of separate jobs to the table of the whole.

    For a corpus that is cut over several jobs, such as a Slurm array: each job writes its part with -o, and
    merge adds up the sums in the json files beside them. Tables of census and of its parts, rank, induction,
    mixing, syntax, coreference, links and roles can be merged, of the same model with the same options; what
    is rare is counted in each job's own text, so the columns on rare tokens are left out. Documents that two
    tables have in common are refused or counted in a note.

    Examples:
      attnprobe census demo -d part1.txt -o part1.csv

      attnprobe merge part1.json part2.json > whole.csv

    Returns:
        The table of all texts together, up to rounding. Columns on rare tokens are left out where the jobs
        took different tokens for rare.

    Raises:
        AttnprobeError: When something is no such table, or two don't belong together.

    >>> from attnprobe import entropy
    >>> one, two = (entropy("demo", [text]) for text in ("The parcel came late.", "Who rang?"))
    >>> merge([one, two])["n"][0]
    np.int64(2)
    """
    from attnprobe.commands.call.record import describe_call
    from attnprobe.findings.merge import merge_tables

    return merge_tables(tables, describe_call("merge"), statistics)
