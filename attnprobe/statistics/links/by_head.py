"""How often every head finds the links of every label."""

from collections.abc import Sequence

import numpy as np

from attnprobe.statistics.links.asking import Asking
from attnprobe.statistics.links.cells import cells_of
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.measurement import Measurement
from attnprobe.sums.tally import Tally
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable


def by_head_table(
    statistic: Statistic,
    asking: Asking,
    title: str,
    measurement: Measurement,
    _: Sequence[Statistic],
    labels: Labels,
) -> HeadTable:
    """Tabulate every label, direction and head, over all documents.

    ``position`` says where a decoder beside an encoder was asked: where it predicts a word (``output``), or
    where it reads it, one place later (``input``). It is empty for an encoder.
    """
    tally: Tally = measurement.sums[statistic.name]
    cells, notes = cells_of(tally, labels, asking)
    heads = range(tally.hits.shape[2])
    rows = [(cell, layer, head) for cell in cells for layer in cell.layers for head in heads]
    at = tuple(np.array([(cell.place, layer, head) for cell, layer, head in rows], np.int64).reshape(-1, 3).T)
    build = TableBuilder(labels, len(rows))
    build.key(asking.label, [cell.label for cell, _, _ in rows])
    build.key("direction", [cell.direction for cell, _, _ in rows])
    if any(cell.position for cell in cells):
        build.key("position", [cell.position for cell, _, _ in rows])
    build.layers([layer for _, layer, _ in rows])
    build.key("head", [head for _, _, head in rows])
    build.count("n", tally.asked.sum(-1)[at[:2]], "links")
    share, error = tally.accuracy()
    build.measure("accuracy", "share of links", share[at], error[at], headline=True, title="links found")
    return build.table(title, notes)
