"""Tables of alignment error rates: by head, by layer, and of what is best on other documents."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.alignment import AER, AER_OF_MEAN, AHEAD, AT_PLACE, CUT, FOUND
from attnprobe.statistics.rules import INPUT, OUTPUT, SAME_PLACE, TESTED
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.folds import FIRST_HALF, SECOND_HALF, RatioByFold
from attnprobe.sums.groups import Ratio
from attnprobe.sums.resampling import SIGNIFICANT, adjust, sign_flip
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

#: Folds on which something is chosen, and those on which it is scored.
Split = tuple[Sequence[int], Sequence[int]]
HALVES: tuple[Split, ...] = ((FIRST_HALF, SECOND_HALF),)
#: What an alignment is read off.
HEAD, LAYER_MEAN = "head", "layer mean"
FORWARD, BACKWARD = "source_to_target", "target_to_source"
_PAIRS = "pairs of texts"


@dataclass(frozen=True)
class Direction:
    """Who asks whom in one kind of attention, and the ways that is asked in, each with its position."""

    kind: Kind | None
    layers: Sequence[int]
    name: str
    ways: Sequence[int]
    positions: Sequence[str]


def list_directions(found: RatioByFold, labels: Labels) -> list[Direction]:
    """List the kinds of attention and the directions in which some pair of texts was asked."""
    kinds = [place.kind for place in labels.places]
    listed = []
    for kind in dict.fromkeys(kinds):
        layers = [layer for layer, other in enumerate(kinds) if other is kind]
        several = (
            [(BACKWARD, (0, 1), (OUTPUT, INPUT))]
            if kind is Kind.CROSS
            else [(BACKWARD, (0,), ("",)), (FORWARD, (1,), ("",))]
        )
        count = found.count[layers]
        listed += [
            Direction(kind, layers, *one) for one in several if count[..., list(one[1])].max(initial=0) > 0
        ]
    return listed


@dataclass(frozen=True)
class Scored:
    """What was chosen, and the numbers (number,) of the texts on which it is scored.

    Attributes:
        cell: Layer, head and way; None where nothing could be chosen.
        found: Of the texts that did not choose.
        selected: The least error rate of any, which choosing on the scored texts would have claimed.
    """

    cell: tuple[int, int, int] | None = None
    found: Ratio | None = None
    selected: float = np.nan


def choose_and_score(
    counts: RatioByFold, direction: Direction, gone: NDArray[np.bool_], splits: Sequence[Split] = HALVES
) -> Scored:
    """Choose what has the least error rate on some folds, and score it on others; of a tie, the first.

    Args:
        counts: Cells (layer, head, way).
        direction: Which layers and ways there are.
        gone: (layer, head) what can't be chosen.
        splits: The folds of each choice. Of several, the numbers of all that are scored add up, and ``cell``
            is what was chosen most often.
    """
    chosen: list[tuple[int, int, int]] = []
    parts: list[Ratio] = []
    best: list[float] = []
    here = np.zeros(counts.total.shape[1:-1], bool)
    here[np.ix_(direction.layers, range(here.shape[1]), direction.ways)] = True
    here &= ~gone[..., None]
    for choosing, scoring in splits:
        rate, scored = (
            np.where(here, counts.select(folds).of_totals(FOUND)[0], np.nan) for folds in (choosing, scoring)
        )
        if np.isnan(rate).all() or np.isnan(scored).all():
            continue
        layer, head, way = map(int, np.unravel_index(np.nanargmax(rate), rate.shape))
        chosen.append((layer, head, way))
        parts.append(pick_cell(counts.select(scoring), chosen[-1]))
        best.append(float(np.nanmax(scored)))
    if not parts:
        return Scored()
    return Scored(Counter(chosen).most_common(1)[0][0], reduce(add, parts), 1 - float(np.mean(best)))


def pick_cell(found: Ratio, cell: tuple[int, ...]) -> Ratio:
    """Give the totals of one cell."""
    groups = found.groups
    within = (slice(None), *cell)
    one = type(groups)(groups.keys, groups.count[within], groups.total[within])
    return Ratio(found.alone[cell], found.total[cell], found.products[cell], one)


def find_gain(found: Ratio) -> tuple[float, float, float]:
    """Give by how much the error rate is below that at the same relative place, its error, and p.

    The p value is one-sided, of Student's t: gain over its error, which pairs both in each document; where
    texts are parts of documents, of the sign-flip test over documents.
    """
    gain, error = map(float, found.of_totals(AHEAD))
    if not np.isfinite(error):
        return gain, error, np.nan
    if len(found.groups):
        apart, ahead, squares = (part.round().astype(np.int64) for part in found.part(AHEAD))
        return gain, error, sign_flip(apart, int(ahead), int(squares))
    if error == 0:
        return gain, error, 0.0 if gain > 0 else 1.0
    from scipy.stats import t  # takes a second to import

    return gain, error, float(t.sf(gain / error, found.clusters - 1))


def best_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate the head, and the mean over the heads of a layer, with the least alignment error rate.

    Both are chosen on one half of the documents and scored on the other, and ``n`` counts the pairs of texts
    of that half; of a decoder beside an encoder, ``position`` is chosen with them. ``baseline`` is the error
    rate of the words at the same relative place, and ``gain`` by how much it is higher, paired by document.
    ``aer_selected`` is the least error rate of any head, or mean, on the scored half.
    """
    heads: RatioByFold = measurement.sums[AER.name]
    means: RatioByFold = measurement.sums[AER_OF_MEAN.name]
    gone = np.zeros(heads.total.shape[1:3], bool)
    for place in labels.absent:
        gone[place] = True
    none = np.zeros(means.total.shape[1:3], bool)
    directions = list_directions(heads, labels)
    rows = [(direction, what) for direction in directions for what in (HEAD, LAYER_MEAN)]
    scored = [
        choose_and_score(heads, one, gone) if what == HEAD else choose_and_score(means, one, none)
        for one, what in rows
    ]
    build = TableBuilder(labels, len(rows))
    build.key("alignment", [what for _, what in rows])
    if any(one.kind for one, _ in rows):
        build.key("attention", [str(one.kind) for one, _ in rows])
    build.key("direction", [one.name for one, _ in rows])
    build.count("n", np.array([0 if one.found is None else one.found.count for one in scored]), _PAIRS)
    cells = [one.cell for one in scored]
    layers = [None if cell is None else labels.places[cell[0]].layer for cell in cells]
    build.add(Column("layer", role="count"), layers)
    numbers = [
        None if cell is None or what == LAYER_MEAN else cell[1]
        for cell, (_, what) in zip(cells, rows, strict=True)
    ]
    build.add(Column("head", role="count"), numbers)
    if any("".join(one.positions) for one, _ in rows):
        positions = [
            "" if cell is None else one.positions[one.ways.index(cell[2])]
            for cell, (one, _) in zip(cells, rows, strict=True)
        ]
        build.add(Column("position", role="text"), positions)
    nothing = Ratio.of(np.zeros((1, CUT + 1)))
    AER.columns(AER, [one.found or nothing for one in scored], build)
    gain, error, p = np.array([find_gain(one.found or nothing) for one in scored]).reshape(-1, 3).T
    build.measure("gain", AER.unit, gain, error, title=f"gain over the {SAME_PLACE}")
    build.add(Column("p", title="p"), p)
    adjusted = adjust(p)
    build.add(Column("p_adjusted", title="adjusted p"), adjusted)
    selected = np.array([one.selected for one in scored])
    build.add(Column("aer_selected", AER.unit, title="error rate where it was chosen"), selected)
    notes = [
        *_note_best(rows, scored, adjusted, labels),
        *_note_halves(scored, selected),
        *_note_left_out(heads, labels),
    ]
    return build.table(title, notes)


def _note_best(
    rows: Sequence[tuple[Direction, str]],
    scored: Sequence[Scored],
    adjusted: NDArray[np.float64],
    labels: Labels,
) -> Iterator[str]:
    for (direction, what), one, p in zip(rows, scored, adjusted, strict=True):
        if what != HEAD or one.cell is None or one.found is None:
            continue
        layer, head, way = one.cell
        position = direction.positions[direction.ways.index(way)]
        name = labels.places[layer].head(head) + (position and f" at {position}")
        rate, place = (1 - float(one.found.of_totals(some)[0]) for some in (FOUND, AT_PLACE))
        sure = "significantly lower than" if p < SIGNIFICANT else "not significantly lower than"
        yield (
            f"The alignment of head {name} ({direction.name}) has the error rate {rate:.2f}, {sure} the "
            f"{place:.2f} of the {SAME_PLACE} {TESTED}."
        )


def _note_halves(scored: Sequence[Scored], selected: NDArray[np.float64]) -> Iterator[str]:
    rates = [1 - float(one.found.of_totals(FOUND)[0]) for one in scored if one.found is not None]
    if scored and not rates:
        yield (
            "All documents with pairs of texts lie in one half of the documents, so that nothing can be "
            "chosen on one and scored on the other; give more documents, or look at all heads."
        )
    elif rates:
        less = np.array(rates) - selected[np.isfinite(selected)]
        yield (
            "Heads and layers were chosen on one half of the documents and scored on the other. Chosen and "
            f"scored on the same half, the error rate would be lower by {less.mean():.3f} on average, and by "
            f"{less.max():.3f} at most (aer_selected)."
        )


def _note_left_out(found: RatioByFold, labels: Labels) -> Iterator[str]:
    if not found.count.any():
        yield (
            "No sequence holds a pair of texts, with words in both: error rates are of alignments between a "
            "text and a target that a decoder reads, or a second text."
        )
    if cut := int(found.whole.totals[..., CUT].max(initial=0)):
        pairs = "1 pair was" if cut == 1 else f"{cut:,} pairs were"
        yield f"{pairs} left out: only a part of one of the two texts is in the sequence."


def _list_cells(
    found: RatioByFold, labels: Labels
) -> tuple[list[tuple[Direction, str]], list[tuple[int, int, int]]]:
    """List direction, position and cell of every row of a table that shows all."""
    rows = [
        (direction, position, (layer, head, way))
        for direction in list_directions(found, labels)
        for way, position in zip(direction.ways, direction.positions, strict=True)
        for layer in direction.layers
        for head in range(found.total.shape[2])
    ]
    return [(direction, position) for direction, position, _ in rows], [cell for *_, cell in rows]


def all_table(statistic: Statistic, title: str, measurement: Measurement, labels: Labels) -> HeadTable:
    """Tabulate every head, or the mean over heads of every layer, over all documents."""
    found: RatioByFold = measurement.sums[statistic.name]
    rows, cells = _list_cells(found, labels)
    build = TableBuilder(labels, len(rows))
    build.key("direction", [direction.name for direction, _ in rows])
    if any(position for _, position in rows):
        build.key("position", [position for _, position in rows])
    build.layers([layer for layer, *_ in cells])
    if statistic.rows == "head":
        build.key("head", [head for _, head, _ in cells])
    whole = found.whole
    each = [pick_cell(whole, cell) for cell in cells]
    build.count("n", np.array([one.count for one in each]), _PAIRS)
    AER.columns(AER, each, build)
    return build.table(title, list(_note_left_out(found, labels)))


def by_head_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate the alignment error rate of every head, over all documents."""
    return all_table(AER, title, measurement, labels)


def by_layer_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate that of the mean over the heads of every layer, over all documents."""
    return all_table(AER_OF_MEAN, title, measurement, labels)


BEST_ALIGNMENTS = Tabulation(
    "alignment", best_table, "links: the alignments with the fewest errors", stacked=True
)
BY_HEAD = Tabulation("alignment and head", by_head_table, "links: the alignment of each head", stacked=True)
BY_LAYER = Tabulation(
    "alignment and layer", by_layer_table, "links: the alignment of each layer's mean", stacked=True
)
