"""Tables of alignment error rates: of every head, and of the best head for each direction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.alignment import (
    AER,
    BOTH,
    CUT,
    IN_POSSIBLE,
    IN_SURE,
    PLACE_IN_POSSIBLE,
    PLACE_IN_SURE,
    PROPOSED,
    RATES,
    SURE,
    add_rates,
)
from attnprobe.statistics.links import ONE_FOLD
from attnprobe.statistics.rules import INPUT, OUTPUT, SAME_PLACE
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.crossfit import FOLDS, Contrast, CrossFit, Transferred
from attnprobe.sums.folds import Ratio, RatioByBlock
from attnprobe.sums.inference import adjust
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

Ints = NDArray[np.int64]
#: Layer, head and way.
Cell = tuple[int, int, int]
#: What an alignment is read off.
HEAD = "head"
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


def list_directions(found: RatioByBlock, labels: Labels) -> list[Direction]:
    """List the kinds of attention and the directions in which some pair of texts was asked."""
    kinds = [place.kind for place in labels.places]
    listed = []
    for kind in dict.fromkeys(kinds):
        layers = [layer for layer, other in enumerate(kinds) if other is kind]
        back = Direction(kind, layers, BACKWARD, (0,), ("",))
        forth = Direction(kind, layers, FORWARD, (1,), ("",))
        across = Direction(kind, layers, BACKWARD, (0, 1), (OUTPUT, INPUT))
        for one in (across,) if kind is Kind.CROSS else (back, forth):
            if found.whole.count[list(layers)][..., list(one.ways)].max(initial=0) > 0:
                listed.append(one)
    return listed


@dataclass(frozen=True)
class Fitted:
    """Candidates, cross-fitted by |A & S| + |A & P| of |A| + |S|; counts (candidate, block, number)."""

    cells: Sequence[Cell]
    found: CrossFit
    counts: Ints

    def transfer(self, right: int, asked: int) -> Transferred:
        """Give the share of one number in another, of those whom each fold has chosen."""
        return Transferred(self.found, self.counts[0, :, asked], self.counts[..., right])


def fit_cells(
    counts: RatioByBlock, direction: Direction, gone: NDArray[np.bool_], folds: int
) -> Fitted | None:
    """Choose for each fold of the documents what has the least error rate on the others; of a tie, the first.

    None where there are no two folds with pairs of texts, or no candidate but those ``gone`` (layer, head).
    """
    layers, heads, ways = counts.blocks.shape[1:-1]
    here = np.zeros((layers, heads, ways), bool)
    here[np.ix_(list(direction.layers), range(heads), list(direction.ways))] = True
    here &= ~gone[..., None] & (counts.blocks[..., BOTH].sum(0) > 0)
    cells = [(layer, head, way) for layer, head, way in np.argwhere(here).tolist()]
    if not cells:
        return None
    numbers = counts.blocks[:, here].transpose(1, 0, 2).round().astype(np.int64)
    found = CrossFit(numbers[0, :, BOTH], numbers[..., IN_SURE] + numbers[..., IN_POSSIBLE], folds)
    return Fitted(cells, found, numbers) if found.possible else None


def pick_cell(found: Ratio, cell: tuple[int, ...]) -> Ratio:
    """Give the totals of one cell."""
    groups = found.groups
    within = (slice(None), *cell)
    one = type(groups)(groups.keys, groups.count[within], groups.total[within])
    return Ratio(found.alone[cell], found.total[cell], found.products[cell], one)


@dataclass(frozen=True)
class Row:
    """A row of the table of best heads; ``rates`` (rate, value and error), ``gain`` with its error and p."""

    direction: Direction
    n: int = 0
    layer: int | None = None
    head: int | None = None
    position: str = ""
    rates: NDArray[np.float64] = field(default_factory=lambda: np.full((len(RATES), 2), np.nan))
    place: float = np.nan
    gain: tuple[float, float, float] = (np.nan, np.nan, np.nan)
    selected: float = np.nan
    chosen: float = np.nan


def make_row(direction: Direction, fitted: Fitted | None, pairs: int, tests: int, labels: Labels) -> Row:
    """Make the row of what was chosen; ``tests`` says how many p values are adjusted together."""
    if fitted is None:
        return Row(direction)
    found = fitted.found
    at_place = fitted.counts[:1, :, [PLACE_IN_SURE, PLACE_IN_POSSIBLE]].sum(-1)
    place = CrossFit(found.asked, at_place, found.folds)
    shares = (found, fitted.transfer(IN_POSSIBLE, PROPOSED), fitted.transfer(IN_SURE, SURE))
    rates = np.array(
        [(one.share, Contrast([one], [1]).error) if one.asked.any() else (np.nan, np.nan) for one in shares]
    )
    rates[0, 0] = 1 - rates[0, 0]
    ahead = Contrast([found, place], [1, -1])
    layer, head, way = fitted.cells[found.named]
    return Row(
        direction,
        pairs,
        labels.places[layer].layer,
        head,
        direction.positions[direction.ways.index(way)],
        rates,
        1 - place.share,
        (ahead.value, ahead.error, ahead.chance(tests)),
        1 - int(found.hits.sum(1).max()) / found.links,
        found.times / int(found.scored.sum()),
    )


def best_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate the head with the least alignment error rate for each direction.

    It is cross-fitted as in ``by_label_table``, in a decoder beside an encoder with its ``position``.
    ``baseline`` is the error rate of the words at the same relative place, and ``gain`` by how much that is
    higher. Errors and p are over blocks of documents. ``aer_selected`` is the least error rate of any head
    over all documents.
    """
    heads: RatioByBlock = measurement.sums[AER.name]
    gone = np.zeros(heads.blocks.shape[1:3], bool)
    for place in labels.absent:
        gone[place] = True
    folds = int(labels.provenance.get("asked", {}).get("folds", FOLDS))
    directions = list_directions(heads, labels)
    rows = []
    for direction in directions:
        fitted = fit_cells(heads, direction, gone, folds)
        pairs = 0 if fitted is None else int(heads.whole.count[fitted.cells[0]])
        rows.append(make_row(direction, fitted, pairs, len(directions), labels))
    build = TableBuilder(labels, len(rows))
    build.key("alignment", [HEAD] * len(rows))
    if any(row.direction.kind for row in rows):
        build.key("attention", [str(row.direction.kind) for row in rows])
    build.key("direction", [row.direction.name for row in rows])
    build.count("n", np.array([row.n for row in rows], np.int64), _PAIRS)
    build.add(Column("layer", role="count"), [row.layer for row in rows])
    build.add(Column("head", role="count"), [row.head for row in rows])
    if any(row.position for row in rows):
        build.add(Column("position", role="text"), [row.position or None for row in rows])
    rates = np.array([row.rates for row in rows]).reshape(-1, len(RATES), 2)
    add_rates(AER, rates, np.array([row.place for row in rows]), build)
    gain, error, p = np.array([row.gain for row in rows], np.float64).reshape(-1, 3).T
    build.measure("gain", AER.unit, gain, error, title=f"gain over the {SAME_PLACE}")
    build.add(Column("p", title="p"), p)
    build.add(Column("p_adjusted", title="adjusted p"), adjust(p))
    selected = [row.selected for row in rows]
    build.add(Column("aer_selected", AER.unit, title="error rate where the head was chosen"), selected)
    build.add(Column("chosen", "share", title="folds that chose the head"), [row.chosen for row in rows])
    notes = list(_note_left_out(heads, labels))
    if rows and all(row.layer is None for row in rows):
        notes.insert(0, ONE_FOLD)
    return build.table(title, notes)


def _note_left_out(found: RatioByBlock, labels: Labels) -> Iterator[str]:
    if not found.whole.count.any():
        yield (
            "No sequence holds a pair of texts, with words in both: error rates are of alignments between a "
            "text and a target that a decoder reads, or a second text."
        )
    if cut := int(found.whole.totals[..., CUT].max(initial=0)):
        pairs = "1 pair was" if cut == 1 else f"{cut:,} pairs were"
        yield f"{pairs} left out: only a part of one of the two texts is in the sequence."


def _list_cells(found: RatioByBlock, labels: Labels) -> tuple[list[tuple[Direction, str]], list[Cell]]:
    rows = [
        (direction, position, (layer, head, way))
        for direction in list_directions(found, labels)
        for way, position in zip(direction.ways, direction.positions, strict=True)
        for layer in direction.layers
        for head in range(found.blocks.shape[2])
    ]
    return [(direction, position) for direction, position, _ in rows], [cell for *_, cell in rows]


def by_head_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate the alignment error rate of every head, over all documents."""
    found: RatioByBlock = measurement.sums[AER.name]
    rows, cells = _list_cells(found, labels)
    build = TableBuilder(labels, len(rows))
    build.key("direction", [direction.name for direction, _ in rows])
    if any(position for _, position in rows):
        build.key("position", [position for _, position in rows])
    build.layers([layer for layer, *_ in cells])
    build.key("head", [head for _, head, _ in cells])
    each = [pick_cell(found.whole, cell) for cell in cells]
    build.count("n", np.array([one.count for one in each]), _PAIRS)
    AER.columns(AER, each, build)
    return build.table(title, list(_note_left_out(found, labels)))


BEST_ALIGNMENTS = Tabulation(
    "alignment", best_table, "links: the alignments with the fewest errors", stacked=True
)
BY_HEAD = Tabulation("alignment and head", by_head_table, "links: the alignment of each head", stacked=True)
