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
from attnprobe.sums.resampling import SIGNIFICANT, adjust, find_gain
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
        back = Direction(kind, layers, BACKWARD, (0,), ("",))
        forth = Direction(kind, layers, FORWARD, (1,), ("",))
        across = Direction(kind, layers, BACKWARD, (0, 1), (OUTPUT, INPUT))
        for one in (across,) if kind is Kind.CROSS else (back, forth):
            if found.count[list(layers)][..., list(one.ways)].max(initial=0) > 0:
                listed.append(one)
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
    layers, heads, ways = counts.total.shape[1:-1]
    here = np.zeros((layers, heads, ways), bool)
    here[np.ix_(list(direction.layers), range(heads), list(direction.ways))] = True
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


@dataclass(frozen=True)
class Row:
    """A row of a table of the best alignments.

    Attributes:
        alignment: What it is read off.
        direction: Who asks whom.
        kind: The kind of attention; None where the model has only one.
        layer: Which was chosen; None where none could be, or none is named, and so is the head.
        head: Which was chosen.
        position: Where a decoder beside an encoder is asked.
        found: The numbers of the texts on which it is scored; None where there are none.
        selected: The least error rate of any there.
        compared: Whether the words at the same relative place make an alignment of as many links.
        label: What its head is called in a note.
        model: What its model is called; that of the table by default.
    """

    alignment: str
    direction: str
    kind: Kind | None = None
    layer: int | None = None
    head: int | None = None
    position: str = ""
    found: Ratio | None = None
    selected: float = np.nan
    compared: bool = False
    label: str = ""
    model: str = ""

    @property
    def rate(self) -> float:
        """Its error rate; NaN where it is not scored."""
        return np.nan if self.found is None else 1 - float(self.found.of_totals(FOUND)[0])


def make_row(alignment: str, direction: Direction, scored: Scored, labels: Labels) -> Row:
    """Make the row of a head, or of the mean over the heads of a layer, that was chosen and scored."""
    if scored.cell is None:
        return Row(alignment, direction.name, direction.kind)
    layer, head, way = scored.cell
    position, place = direction.positions[direction.ways.index(way)], labels.places[layer]
    return Row(
        alignment,
        direction.name,
        direction.kind,
        place.layer,
        None if alignment == LAYER_MEAN else head,
        position,
        scored.found,
        scored.selected,
        compared=True,
        label=place.head(head) + (position and f" at {position}"),
    )


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
    rows = [
        make_row(what, direction, choose_and_score(counts, direction, left_out), labels)
        for direction in list_directions(heads, labels)
        for what, counts, left_out in ((HEAD, heads, gone), (LAYER_MEAN, means, none))
    ]
    return tabulate_rows(title, rows, labels, list(_note_left_out(heads, labels)))


def tabulate_rows(title: str, rows: Sequence[Row], labels: Labels, notes: Sequence[str]) -> HeadTable:
    """Tabulate what was chosen and scored, with notes on it before others."""
    build = TableBuilder(labels, len(rows))
    build.data["model"] = [row.model or labels.model for row in rows]
    build.key("alignment", [row.alignment for row in rows])
    if any(row.kind for row in rows):
        build.key("attention", [str(row.kind) for row in rows])
    build.key("direction", [row.direction for row in rows])
    build.count("n", np.array([0 if row.found is None else row.found.count for row in rows]), _PAIRS)
    build.add(Column("layer", role="count"), [row.layer for row in rows])
    build.add(Column("head", role="count"), [row.head for row in rows])
    if any(row.position for row in rows):
        build.add(Column("position", role="text"), [row.position or None for row in rows])
    nothing = Ratio.of(np.zeros((1, CUT + 1)))
    found = [row.found or nothing for row in rows]
    AER.columns(AER, found, build)
    compared = np.array([row.compared for row in rows], bool)
    build.data["baseline"] = np.where(compared, build.data["baseline"], np.nan).tolist()
    gain, error, p = np.where(
        compared, np.array([find_gain(one, AHEAD) for one in found]).reshape(-1, 3).T, np.nan
    )
    build.measure("gain", AER.unit, gain, error, title=f"gain over the {SAME_PLACE}")
    build.add(Column("p", title="p"), p)
    adjusted = adjust(p)
    build.add(Column("p_adjusted", title="adjusted p"), adjusted)
    selected = [row.selected for row in rows]
    build.add(Column("aer_selected", AER.unit, title="error rate where it was chosen"), selected)
    return build.table(title, [*_note_best(rows, adjusted), *_note_halves(rows), *notes])


def _note_best(rows: Sequence[Row], adjusted: NDArray[np.float64]) -> Iterator[str]:
    for row, p in zip(rows, adjusted, strict=True):
        if row.head is None or row.found is None:
            continue
        place = 1 - float(row.found.of_totals(AT_PLACE)[0])
        sure = "significantly lower than" if p < SIGNIFICANT else "not significantly lower than"
        of = f" of {row.model}" if row.model else ""
        yield (
            f"The alignment of head {row.label}{of} ({row.direction}) has the error rate {row.rate:.2f}, "
            f"{sure} the {place:.2f} of the {SAME_PLACE} {TESTED}."
        )


def _note_halves(rows: Sequence[Row]) -> Iterator[str]:
    less = [row.rate - row.selected for row in rows if row.compared]
    if rows and not less:
        yield (
            "All documents with pairs of texts lie in one half of the documents, so that nothing can be "
            "chosen on one and scored on the other; give more documents, or look at all heads."
        )
    elif less:
        lower = f"lower by {np.mean(less):.3f} on average, and by {max(less):.3f} at most"
        yield (
            "Heads and layers were chosen on one half of the documents and scored on the other. Chosen and "
            f"scored on the same half, the error rate would be {lower if any(less) else 'the same'} "
            "(aer_selected)."
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
