"""Tables of alignment error rates: by head, by layer, and of what is best on other documents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.alignment import (
    AER,
    AER_OF_MEAN,
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
from attnprobe.statistics.rules import INPUT, OUTPUT, SAME_PLACE, TESTED
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.crossfit import FOLDS, Contrast, CrossFit, Transferred
from attnprobe.sums.folds import RatioByBlock
from attnprobe.sums.groups import Ratio
from attnprobe.sums.resampling import SIGNIFICANT, adjust
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

Ints = NDArray[np.int64]
#: Layer, head and way.
Cell = tuple[int, int, int]
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
    """Heads, or means over the heads of a layer, that are chosen on the folds that they are not scored on.

    Attributes:
        cells: The candidates.
        found: Right links of each, counted as the error rate does: |A & S| + |A & P| of |A| + |S|.
        counts: (candidate, block, number) what is counted, see ``align_by_head``.
    """

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

    None where there are no two folds with pairs of texts, or no candidate.

    Args:
        counts: Cells (layer, head, way).
        direction: Which layers and ways there are.
        gone: (layer, head) what can't be chosen.
        folds: How many folds there are.
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
    """A row of a table of the best alignments.

    Attributes:
        alignment: What it is read off.
        direction: Who asks whom.
        kind: The kind of attention; None where the model has only one.
        n: Pairs of texts that are scored.
        layer: Which most folds chose; None where none could be chosen, or none is named, and so is the head.
        head: Which most folds chose.
        position: Where a decoder beside an encoder is asked.
        rates: (rate, value and error) as ``RATES`` names them; NaN where nothing is scored.
        place: The error rate of the words at the same relative place.
        gain: By how much that is higher, its error, and p; NaN where there are not as many links.
        selected: The least error rate of any over all documents.
        chosen: The share of folds that chose it.
        folds: How many folds have pairs of texts.
        runner_up: Layer and head of the next best.
        runner_up_rate: Its error rate.
        label: What its head is called in a note.
        next: What the next best is called there.
        model: What its model is called; that of the table by default.
    """

    alignment: str
    direction: str
    kind: Kind | None = None
    n: int = 0
    layer: int | None = None
    head: int | None = None
    position: str = ""
    rates: NDArray[np.float64] = field(default_factory=lambda: np.full((len(RATES), 2), np.nan))
    place: float = np.nan
    gain: tuple[float, float, float] = (np.nan, np.nan, np.nan)
    selected: float = np.nan
    chosen: float = np.nan
    folds: int = 0
    runner_up: tuple[int | None, int | None] = (None, None)
    runner_up_rate: float = np.nan
    label: str = ""
    next: str = ""
    model: str = ""

    @property
    def rate(self) -> float:
        return float(self.rates[0, 0])


def make_row(
    alignment: str, direction: Direction, fitted: Fitted | None, pairs: int, tests: int, labels: Labels
) -> Row:
    """Make the row of heads, or of means over the heads of a layer, that were chosen and scored.

    Errors and p are over blocks of documents, and choose anew with every draw, see ``Contrast``.

    Args:
        alignment: What is chosen.
        direction: Who asks whom.
        fitted: Who was chosen; None where none could be.
        pairs: How many pairs of texts there are.
        tests: How many p values are adjusted together.
        labels: What heads are called.
    """
    if fitted is None:
        return Row(alignment, direction.name, direction.kind)
    found, of_head = fitted.found, alignment != LAYER_MEAN
    at_place = fitted.counts[:1, :, [PLACE_IN_SURE, PLACE_IN_POSSIBLE]].sum(-1)
    place = CrossFit(found.asked, at_place, found.folds)
    shares = (found, fitted.transfer(IN_POSSIBLE, PROPOSED), fitted.transfer(IN_SURE, SURE))
    rates = np.array(
        [(one.share, Contrast([one], [1]).error) if one.asked.any() else (np.nan, np.nan) for one in shares]
    )
    rates[0, 0] = 1 - rates[0, 0]
    ahead = Contrast([found, place], [1, -1])
    others = found.without(found.named)
    left = [cell for at, cell in enumerate(fitted.cells) if at != found.named]
    next_best = left[others.named] if left else None

    def name(cell: Cell) -> str:
        position = direction.positions[direction.ways.index(cell[2])]
        return labels.places[cell[0]].head(cell[1]) + (position and f" at {position}")

    def identify(cell: Cell) -> tuple[int | None, int | None]:
        return labels.places[cell[0]].layer, cell[1] if of_head else None

    named = fitted.cells[found.named]
    return Row(
        alignment,
        direction.name,
        direction.kind,
        pairs,
        *identify(named),
        direction.positions[direction.ways.index(named[2])],
        rates,
        1 - place.share,
        (ahead.value, ahead.error, ahead.chance(tests)),
        1 - int(found.hits.sum(1).max()) / found.links,
        found.times / int(found.scored.sum()),
        int(found.scored.sum()),
        (None, None) if next_best is None else identify(next_best),
        np.nan if next_best is None else 1 - others.share,
        name(named),
        "" if next_best is None else name(next_best),
    )


def best_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate the head, and the mean over the heads of a layer, with the least alignment error rate.

    Both are cross-fitted as ``by_label_table`` does it: for each of K folds of the documents (``folds``),
    what has the least error rate on the others is scored on it, so that all ``n`` pairs of texts count, and
    none by what it chose. Of a decoder beside an encoder, ``position`` is chosen with them. ``chosen`` is the
    share of folds that chose what is named, and ``runner_up_aer`` the error rate without it.
    ``baseline`` is the error rate of the words at the same relative place, and ``gain`` by how much it is
    higher. Errors and p are over blocks of documents, and choose anew with every draw.
    ``aer_selected`` is the least error rate of any head, or mean, over all documents, which choosing and
    scoring on the same would have claimed.
    """
    heads: RatioByBlock = measurement.sums[AER.name]
    means: RatioByBlock = measurement.sums[AER_OF_MEAN.name]
    gone = np.zeros(heads.blocks.shape[1:3], bool)
    for place in labels.absent:
        gone[place] = True
    none = np.zeros(means.blocks.shape[1:3], bool)
    folds = int(labels.provenance.get("asked", {}).get("folds", FOLDS))
    fitted = [
        (what, direction, fit_cells(counts, direction, left_out, folds), counts.whole.count)
        for direction in list_directions(heads, labels)
        for what, counts, left_out in ((HEAD, heads, gone), (LAYER_MEAN, means, none))
    ]
    rows = [
        make_row(what, direction, one, 0 if one is None else int(pairs[one.cells[0]]), len(fitted), labels)
        for what, direction, one, pairs in fitted
    ]
    return tabulate_rows(title, rows, labels, folds, list(_note_left_out(heads, labels)))


def tabulate_rows(
    title: str, rows: Sequence[Row], labels: Labels, folds: int, notes: Sequence[str]
) -> HeadTable:
    """Tabulate what was chosen and scored, with notes on it before others."""
    build = TableBuilder(labels, len(rows))
    build.data["model"] = [row.model or labels.model for row in rows]
    build.key("alignment", [row.alignment for row in rows])
    if any(row.kind for row in rows):
        build.key("attention", [str(row.kind) for row in rows])
    build.key("direction", [row.direction for row in rows])
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
    adjusted = adjust(p)
    build.add(Column("p_adjusted", title="adjusted p"), adjusted)
    selected = [row.selected for row in rows]
    build.add(Column("aer_selected", AER.unit, title="error rate where it was chosen"), selected)
    build.add(Column("chosen", "share", title="folds that chose it"), [row.chosen for row in rows])
    build.add(Column("runner_up_layer", role="count"), [row.runner_up[0] for row in rows])
    build.add(Column("runner_up_head", role="count"), [row.runner_up[1] for row in rows])
    second = Column("runner_up_aer", AER.unit, title="error rate of the next best")
    build.add(second, [row.runner_up_rate for row in rows])
    said = [*_note_best(rows, adjusted), *_note_folds(rows, folds), *_note_ties(rows)]
    return build.table(title, [*said, *notes])


def _note_best(rows: Sequence[Row], adjusted: NDArray[np.float64]) -> Iterator[str]:
    for row, p in zip(rows, adjusted, strict=True):
        if row.head is None or not row.folds:
            continue
        sure = "significantly lower than" if p < SIGNIFICANT else "not significantly lower than"
        of = f" of {row.model}" if row.model else ""
        yield (
            f"The alignment of head {row.label}{of} ({row.direction}) has the error rate {row.rate:.2f}, "
            f"{sure} the {row.place:.2f} of the {SAME_PLACE} {TESTED}."
        )


def _note_folds(rows: Sequence[Row], folds: int) -> Iterator[str]:
    less = [row.rate - row.selected for row in rows if row.folds]
    if rows and not less:
        yield (
            "All documents with pairs of texts lie in one fold of the documents, so that nothing can be "
            "chosen on one and scored on another; give more documents, or look at all heads."
        )
    elif less:
        lower = f"lower by {np.mean(less):.3f} on average, and by {max(less):.3f} at most"
        yield (
            f"The documents are in {folds} folds, and heads and layers of each were chosen on the others. "
            "Chosen and scored on the same documents, the error rate would be "
            f"{lower if any(less) else 'the same'} (aer_selected)."
        )


def _note_ties(rows: Sequence[Row]) -> Iterator[str]:
    torn = [row for row in rows if row.folds and row.chosen < 1]
    listed = [
        f"{row.alignment} {row.label} ({round(row.chosen * row.folds)} of {row.folds} folds, next {row.next})"
        for row in torn
    ]
    if listed:
        yield f"Not all folds choose the same where several are about as good: {', '.join(listed)}."


def _note_left_out(found: RatioByBlock, labels: Labels) -> Iterator[str]:
    if not found.whole.count.any():
        yield (
            "No sequence holds a pair of texts, with words in both: error rates are of alignments between a "
            "text and a target that a decoder reads, or a second text."
        )
    if cut := int(found.whole.totals[..., CUT].max(initial=0)):
        pairs = "1 pair was" if cut == 1 else f"{cut:,} pairs were"
        yield f"{pairs} left out: only a part of one of the two texts is in the sequence."


def _list_cells(
    found: RatioByBlock, labels: Labels
) -> tuple[list[tuple[Direction, str]], list[tuple[int, int, int]]]:
    """List direction, position and cell of every row of a table that shows all."""
    rows = [
        (direction, position, (layer, head, way))
        for direction in list_directions(found, labels)
        for way, position in zip(direction.ways, direction.positions, strict=True)
        for layer in direction.layers
        for head in range(found.blocks.shape[2])
    ]
    return [(direction, position) for direction, position, _ in rows], [cell for *_, cell in rows]


def all_table(statistic: Statistic, title: str, measurement: Measurement, labels: Labels) -> HeadTable:
    """Tabulate every head, or the mean over heads of every layer, over all documents."""
    found: RatioByBlock = measurement.sums[statistic.name]
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
