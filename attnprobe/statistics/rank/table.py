"""The table of ``rank``: how wide heads are, how much of that they use, and whether that is too little."""

from collections.abc import Iterator, Sequence

import numpy as np

from attnprobe.statistics.rank import FAMILY
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation, head_table
from attnprobe.sums.measurement import Measurement
from attnprobe.table.builder import Labels
from attnprobe.table.head_table import HeadTable

_MEANING = (
    "Only sequences longer than a head is wide, together with a share near 1, speak of a bottleneck; a low "
    "share does not prove that wider heads are useless.",
    "The logits are those of all keys, without position biases, soft caps and masks; W_Q W_K^T is without "
    "biases and rotations.",
)


def rank_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate heads; notes say how many sequences are longer, and which layer uses most of its width."""
    table = head_table(title, measurement, statistics, labels)
    notes = [*rank_notes(table), *table.notes]
    return HeadTable(table.title, table.columns, table.data, notes, table.provenance)


def rank_notes(table: HeadTable) -> list[str]:
    """Say what ranks answer and what they do not prove, if a table has them."""
    return [*_answers(table), *_MEANING] if "logit_rank" in table.data else []


def _answers(table: HeadTable) -> Iterator[str]:
    layers, width, longer, share = (
        np.array(table.data[name], float) for name in ("layer", "head_width", "longer", "logit_rank_share")
    )
    kinds = np.array(table.data.get("attention", [""] * len(table)), str)
    for kind in dict.fromkeys(kinds.tolist()):
        of_kind = kinds == kind
        defined = of_kind & np.isfinite(share)
        if not defined.any():
            continue
        least, most = width[of_kind].min(), width[of_kind].max()
        wide = f"{least:.0f}" if least == most else f"{least:.0f} to {most:.0f}"
        begin = f"{kind.capitalize()}: at" if kind else "At"
        means = {layer: share[defined & (layers == layer)].mean() for layer in layers[defined].tolist()}
        first = max(means, key=lambda layer: means[layer])
        yield (
            f"{begin} these lengths {longer[of_kind].mean():.0%} of sequences are longer than the heads are "
            f"wide ({wide}). Layer {first:.0f} uses the largest share of its width: {means[first]:.2f} on "
            "average over its heads."
        )


RANK = Tabulation("head, with ranks", rank_table, FAMILY.title)
