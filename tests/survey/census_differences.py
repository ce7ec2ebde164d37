"""A table of the census beside the samples that ``by_definition`` gives, column by column."""

import numpy as np
from by_definition import FURTHEST_STEP, Sample, largest_difference

from attnprobe.statistics import census_statistics
from attnprobe.table.table import HeadTable


def differences(expected: dict[str, Sample], table: HeadTable, sequences: int) -> dict[str, float]:
    """Compare every column of the census; the largest difference of each."""
    off = dict[str, float]()
    for statistic in census_statistics():
        if statistic.name == "offset_share" or (statistic.about == "patches" and "above" not in expected):
            continue
        sample = expected[statistic.name]
        off[statistic.name] = largest_difference(table[statistic.name], sample.mean)
        off[f"{statistic.name}_se"] = largest_difference(table[f"{statistic.name}_se"], sample.error)
        if statistic.own_count:
            off[f"{statistic.name}_n"] = largest_difference(table[f"{statistic.name}_n"], sample.count)
    return off | offset_differences(expected, table, sequences)


def offset_differences(expected: dict[str, Sample], table: HeadTable, sequences: int) -> dict[str, float]:
    """Compare the share at the best offset, and where that is: the nearest of those that are as good."""
    shares = expected["offsets"]
    layers, heads, number = shares.mean.shape
    steps = {"offset": np.arange(number) - number // 2}
    if "above" in expected:
        side = 2 * FURTHEST_STEP + 1
        steps = {
            "offset_rows": np.arange(number) // side - FURTHEST_STEP,
            "offset_columns": np.arange(number) % side - FURTHEST_STEP,
        }
    off = dict.fromkeys([*steps, "offset_share", "offset_share_se"], 0.0)
    for row, (layer, head) in enumerate(np.ndindex(layers, heads)):
        competing = 2 * shares.count[layer, head] >= sequences
        share = np.where(competing, shares.mean[layer, head], -1)
        if share.max() < 0:  # places in different sequences don't compare
            assert all(table[name][row] is None for name in steps)
            assert np.isnan(table["offset_share"].astype(float)[row])
            continue
        best = np.flatnonzero(share >= share.max() - 1e-9)
        place = min(best, key=lambda b: (sum(s[b] ** 2 for s in steps.values()), b))
        for name, places in steps.items():
            off[name] = max(off[name], abs(table[name][row] - places[place]))
        for column, values in (("offset_share", shares.mean), ("offset_share_se", shares.error)):
            off[column] = max(off[column], largest_difference(table[column][row], values[layer, head, place]))
    return off
