"""Tables of alignment error rates: of every head, and of the best head for each direction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.alignment import (
    AER,
    AT_PLACE,
    BOTH,
    CUT,
    IN_POSSIBLE,
    IN_SURE,
    PROPOSED,
    SURE,
    list_rate_columns,
    rate_columns,
)
from attnprobe.statistics.best_heads import (
    NAME_COLUMNS,
    BestHead,
    mark_removed,
    note_one_fold,
    read_folds,
    score_gain,
    score_share,
)
from attnprobe.statistics.rules import INPUT, OUTPUT, SAME_PLACE
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.crossfit import CrossFit, Links
from attnprobe.table.builder import Labels, TableBuilder, measure_columns, p_columns
from attnprobe.table.table import Column, HeadTable

#: What an alignment is read off.
HEAD = "head"
FORWARD, BACKWARD = "source_to_target", "target_to_source"
_PAIRS = "pairs of texts"


@dataclass(frozen=True)
class Direction:
    """Which text asks the other in one kind of attention, and the position of each way it is asked in."""

    kind: Kind | None
    layers: Sequence[int]
    name: str
    positions: dict[int, str]


def list_directions(counts: Blocked, labels: Labels) -> list[Direction]:
    """List the kinds of attention and the directions in which some pair of texts was asked."""
    kinds = [place.kind for place in labels.places]
    directions = []
    for kind in dict.fromkeys(kinds):
        layers = [layer for layer, other in enumerate(kinds) if other is kind]
        directions_asked = [(BACKWARD, {0: ""}), (FORWARD, {1: ""})]
        if kind is Kind.CROSS:
            directions_asked = [(BACKWARD, {0: OUTPUT, 1: INPUT})]
        for name, positions in directions_asked:
            if counts.count[layers][..., list(positions), BOTH].max(initial=0) > 0:
                directions.append(Direction(kind, layers, name, positions))
    return directions


def score_best_head(
    counts: Blocked, direction: Direction, gone: NDArray[np.bool_], labels: Labels, tests: int
) -> dict[str, Any]:
    """Score the head with the least error rate, cross-fitted; of a tie, the first.

    No more than the number 0 where there are no two folds with pairs of texts, or no candidate but those that
    are ``gone`` (layer, head). ``tests`` says how many p values are adjusted together.
    """
    layers, heads, ways, _ = counts.total.shape
    there = np.zeros((layers, heads, ways), bool)
    there[np.ix_(direction.layers, range(heads), list(direction.positions))] = True
    there &= ~gone[..., None] & (counts.total[..., BOTH] > 0)
    candidates = np.argwhere(there).tolist()
    if not candidates:
        return {"n": 0}
    numbers = counts.totals[:, there].round().astype(np.int64)  # (block, candidate, number)
    of, right = numbers[:, 0], numbers.transpose(2, 1, 0)
    fit = CrossFit(Links(of[:, BOTH], right[IN_SURE] + right[IN_POSSIBLE]), read_folds(labels))
    if not fit.possible:
        return {"n": 0}
    best = BestHead(fit, [(layer, head, direction.positions[way]) for layer, head, way in candidates])
    place = CrossFit.fixed(of[:, BOTH], of[:, AT_PLACE].sum(-1))
    row: dict[str, Any] = {
        "n": int(counts.count[*candidates[0], BOTH]),
        **best.name(labels),
        **score_share("aer", fit),
        **score_share("precision", fit.transfer(Links(of[:, PROPOSED], right[IN_POSSIBLE]))),
        **score_share("recall", fit.transfer(Links(of[:, SURE], right[IN_SURE]))),
        **score_gain(fit, place, tests),
        "baseline": 1 - place.share,
        "aer_selected": 1 - best.selected,
        "chosen": best.chosen,
    }
    row["aer"] = 1 - row["aer"]
    return row


def best_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate the head with the least alignment error rate for each direction.

    It is cross-fitted as in ``by_label_table``, in a decoder beside an encoder with its ``position``.
    ``baseline`` is the error rate of the words at the same relative place, and ``gain`` by how much that is
    higher. Errors and p are over blocks of documents. ``aer_selected`` is the least error rate of any head
    over all documents.
    """
    counts: Blocked = measurement.sums[AER.name]
    gone = mark_removed([*labels.absent], *counts.total.shape[:2])
    directions = list_directions(counts, labels)
    rows = [
        {
            "alignment": HEAD,
            "attention": None if direction.kind is None else str(direction.kind),
            "direction": direction.name,
            **score_best_head(counts, direction, gone, labels, len(directions)),
        }
        for direction in directions
    ]
    columns = [
        Column("alignment", role="key"),
        Column("attention", role="key"),
        Column("direction", role="key"),
        Column("n", _PAIRS, role="count"),
        *NAME_COLUMNS,
        *list_rate_columns(),
        *measure_columns("gain", AER.unit, f"gain over the {SAME_PLACE}"),
        *p_columns(),
        Column("aer_selected", AER.unit, title="error rate where the head was chosen"),
        Column("chosen", "share", title="folds that chose the head"),
    ]
    build = TableBuilder(labels, len(rows))
    absent = {name for name in ("attention", "position") if not any(row.get(name) for row in rows)}
    build.rows([column for column in columns if column.name not in absent], rows)
    return build.table(title, [*note_one_fold(rows), *_note_left_out(counts)])


def _note_left_out(counts: Blocked) -> Iterator[str]:
    if not counts.count[..., BOTH].any():
        yield (
            "No sequence holds a pair of texts, with words in both: error rates are of alignments between a "
            "text and a target that a decoder reads, or a second text."
        )
    if cut := int(counts.total[..., CUT].max(initial=0)):
        pairs = "1 pair was" if cut == 1 else f"{cut:,} pairs were"
        yield f"{pairs} left out: only a part of one of the two texts is in the sequence."


def by_head_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate the alignment error rate of every head, over all documents."""
    counts: Blocked = measurement.sums[AER.name]
    rows = [
        (direction.name, position, layer, head, way)
        for direction in list_directions(counts, labels)
        for way, position in direction.positions.items()
        for layer in direction.layers
        for head in range(counts.total.shape[1])
    ]
    names, positions, layers, heads, _ways = zip(*rows, strict=True) if rows else ((),) * 5
    cells = tuple(np.array([row[2:] for row in rows], np.int64).reshape(-1, 3).T)
    build = TableBuilder(labels, len(rows))
    build.key("direction", names)
    if any(positions):
        build.key("position", positions)
    build.layers(layers)
    build.key("head", heads)
    build.count("n", counts.count[..., BOTH][cells], _PAIRS)
    rate_columns(AER, counts[cells], build)
    return build.table(title, list(_note_left_out(counts)))


BEST_ALIGNMENTS = Tabulation(
    "alignment", best_table, "links: the alignments with the fewest errors", stacked=True
)
BY_HEAD = Tabulation("alignment and head", by_head_table, "links: the alignment of each head", stacked=True)
