"""Tables of mixing: a row a head, a layer, or a pair."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics.depth import trend
from attnprobe.statistics.mixing import FAMILY
from attnprobe.statistics.mixing.contributions import CANCELLATION, COSINE
from attnprobe.statistics.mixing.logits import CORRELATION, SHUFFLED, effective_heads
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation, head_table, heads_of
from attnprobe.sums.measurement import Measurement
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import head_names, listed

#: Heads of which others explain at least so much are named.
FOLLOWS = 0.9
#: What the null is, for notes.
NULL = "special tokens and the first token alone"


def by_head_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate what others explain of each head, and how much it adds.

    A note gives the means over heads, and names the heads that follow from others by .9 or more.
    """
    shown = [one for one in statistics if one in (CORRELATION, SHUFFLED) or one.rows == "head"]
    table = head_table(title, measurement, shown, labels)
    return replace(table, notes=[*explained_notes(table), *table.notes])


def explained_notes(table: HeadTable) -> Iterator[str]:
    """Say how much others explain on average, and which heads follow from others, if a table has that."""
    if "explained_by_others" not in table.data:
        return
    share, null = (
        np.array(table.data[f"explained_by_others{end}"], float) for end in ("", "_null")
    )  # NaN where a layer has one head
    if np.isnan(share).all():
        yield _no_share(table)
        return
    yield (
        f"On average over heads, the other heads of the layer explain {np.nanmean(share):.2f} of a head's "
        f"logits; through {NULL} they would explain {np.nanmean(null):.2f} (explained_by_others_null)."
    )
    follows = np.flatnonzero(np.nan_to_num(share) >= FOLLOWS)
    follows = follows[np.argsort(-share[follows], kind="stable")]
    names = head_names(table)
    said = listed([f"{names[row]} ({share[row]:.2f})" for row in follows]) if len(follows) else "none"
    yield f"Heads that others explain by {FOLLOWS} or more: {said}."


def _no_share(table: HeadTable) -> str:
    """Say why nothing is explained of any head."""
    if not any(table.data["head"]):
        return "No layer has two heads, so that none follows from others."
    return (
        "explained_by_others is empty: in no sequence do two heads of a layer prefer any of their keys. Read "
        "longer texts; of a single token, or of keys that are all the same, there is nothing to explain."
    )


def by_layer_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate how many heads of each layer differ, and whether what they add cancels.

    The notes say whether they rise or fall with depth.
    """
    sums = measurement.sums
    found = sums[CORRELATION.name]
    layers = found.count.shape[0]
    build = TableBuilder(labels, layers)
    build.layers(range(layers))
    build.count("n", np.full(layers, measurement.sequences))
    columns: dict[str, NDArray[Any]] = {}
    for name, one in (("effective_heads", found), ("effective_heads_null", sums[SHUFFLED.name])):
        average, error = one.made(effective_heads)
        title_of = "heads of the layer that differ" + (" beside sinks" if one is not found else "")
        build.measure(name, "heads", average, error, headline=one is found, title=title_of)
        if one is found:
            columns[name] = average
    if CANCELLATION.name in sums:
        CANCELLATION.columns(CANCELLATION, sums[CANCELLATION.name], build)
        columns[CANCELLATION.name] = sums[CANCELLATION.name].average.ravel()
    notes = [
        "effective_heads goes from 1 (copies) to the number of heads; effective_heads_null is the same where "
        f"{NULL} could make heads similar."
    ]
    kinds = [place.kind for place in labels.places]
    for kind in dict.fromkeys(kinds):
        some = np.array([other is kind for other in kinds])
        said = f" ({kind})" if kind else ""
        for name, values in columns.items():
            notes += trend(f"{name}{said}", values[some])
    return build.table(title, notes)


def by_pair_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate how alike two heads of a layer are in their logits, and in what they add."""
    sums = measurement.sums
    found = sums[CORRELATION.name]
    layers, heads = found.count.shape[0], heads_of(found.count.shape[1])
    pairs = [(layer, *pair) for layer in range(layers) for pair in combinations(range(heads), 2)]
    build = TableBuilder(labels, len(pairs))
    build.layers([layer for layer, _, _ in pairs])
    for side, name in enumerate("ab", start=1):
        build.key(f"head_{name}", [pair[side] for pair in pairs])
    # Heads that prefer nothing have no correlation, and contribute all the same.
    build.count("n", np.full(len(pairs), measurement.sequences))
    for statistic in (CORRELATION, SHUFFLED, COSINE):
        if statistic.name in sums:
            one = sums[statistic.name]
            build.measure(
                statistic.name,
                statistic.unit,
                one.average.ravel(),
                one.standard_error.ravel(),
                headline=statistic.headline,
                title=statistic.title,
            )
    return build.table(title, [] if pairs else ["No layer has two heads, so that there are no pairs."])


BY_HEAD = Tabulation("head, mixing", by_head_table, FAMILY.title)
BY_LAYER = Tabulation("layer, mixing", by_layer_table, "how heads mix within layers")
BY_PAIR = Tabulation("pair, mixing", by_pair_table, "how similar heads of a layer are")
