"""The function that adds up the tables of separate jobs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attnprobe.api.commands import command
from attnprobe.findings.merge import merge_tables
from attnprobe.spelling import speaks_python
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from attnprobe.statistics.statistic import Statistic


@speaks_python
def merge(tables: Sequence[HeadTable | Path | str], *, statistics: "Sequence[Statistic]" = ()) -> HeadTable:
    """Add up the tables of separate jobs to the table of the whole.

    Args:
        tables: Tables of ``census`` and of its parts, ``rank``, ``induction``, ``mixing``, ``syntax``,
            ``coreference``, ``links`` or ``roles``, or the json files beside them; of the same model, with
            the same options, of different texts or other random tokens. If two have documents in common, a
            note says how many; if one has all documents of the other, they are refused.
        statistics: Those of one's own that the tables hold, and that no package brings along.

    Returns:
        The table of all texts together, up to rounding. Columns on rare tokens are left out where the jobs
        took different tokens for rare.

    Raises:
        AttnprobeError: When something is no such table, or two don't belong together.

    Examples:
        >>> from attnprobe.api.census import entropy
        >>> one, two = (entropy("demo", [text]) for text in ("The parcel came late.", "Who rang?"))
        >>> merge([one, two])["n"][0]
        np.int64(2)
    """
    return merge_tables(tables, command("merge"), statistics)
