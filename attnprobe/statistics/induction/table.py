"""The table of ``induction``: scores of heads, and who they make induction or duplicate-token heads."""

import math
from collections.abc import Sequence

import numpy as np

from attnprobe.statistics.induction import FAMILY
from attnprobe.statistics.induction.copying import COPYING
from attnprobe.statistics.induction.scores import DUPLICATE, INDUCTION
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation, head_table
from attnprobe.sums.intervals import reach
from attnprobe.sums.measurement import Measurement
from attnprobe.table.builder import Labels
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import head_names, listed
from attnprobe.table.table import Column

#: A head is named from this score on.
NAMED_FROM = 0.5


def induction_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate heads; a note names those whose interval of a score lies at 0.5 or above.

    Intervals hold for all heads together with 95 % (Bonferroni).
    """
    table = head_table(title, measurement, statistics, labels)
    notes = []
    for statistic, what in ((INDUCTION, "induction"), (DUPLICATE, "duplicate-token")):
        if statistic.name not in table.data:
            continue
        score, error = (np.array(table.data[f"{statistic.name}{end}"], float) for end in ("", "_se"))
        names = head_names(table)
        found = np.flatnonzero(score - reach(error) >= NAMED_FROM)
        found = found[np.argsort(-score[found], kind="stable")]
        said = listed([f"{names[row]} ({score[row]:.2f})" for row in found]) if len(found) else "none"
        notes.append(f"Heads whose whole interval lies at {NAMED_FROM} or above ({what} heads): {said}.")
    if table.data.get("attention") and np.isnan(np.array(table.data[INDUCTION.name], float)).any():
        notes.append("From decoder to encoder, no token comes before another: cross-attention has no scores.")
    if COPYING.name in table.data:
        return HeadTable(table.title, table.columns, table.data, [*notes, *table.notes], table.provenance)
    if reason := labels.provenance.get("asked", {}).get("no copying"):
        notes.append(f"{COPYING.name} is empty: {reason}.")
    more = [Column(COPYING.name, COPYING.unit), Column(f"{COPYING.name}_se", COPYING.unit, role="error")]
    empty = {column.name: [math.nan] * len(table) for column in more}
    return HeadTable(
        table.title,
        [*table.columns, *more],
        {**table.data, **empty},
        [*notes, *table.notes],
        table.provenance,
    )


REPEATED = Tabulation("head, on repeated tokens", induction_table, FAMILY.title)
