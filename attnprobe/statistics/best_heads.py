"""The best head for some links, chosen on some documents and scored on others; and the best simple rule."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.rules import Asking
from attnprobe.sums.crossfit import Contrast, CrossFit, Fixed, Transferred
from attnprobe.sums.tally import FAR, Tally


@dataclass(frozen=True)
class Cell:
    """A label and direction, their place in the tally, that of ``far`` links, and who is asked where."""

    place: int
    label: str
    direction: str
    kind: Kind | None
    layers: Sequence[int]
    position: str = ""
    far: int | None = None

    @property
    def key(self) -> tuple[str, ...]:
        return (self.label, self.direction, *([self.position] if self.position else []))

    def in_tally(self, tally: Tally) -> "Cell | None":
        """Give the same cell in another tally; None where that has no such link."""
        places = {key: place for place, key in enumerate(tally.keys)}
        if self.key not in places:
            return None
        return replace(self, place=places[self.key], far=places.get((*self.key, FAR)))


@dataclass(frozen=True)
class Best:
    """The head that finds most links of a label, and what a rule finds of the ``n`` that are scored."""

    n: int = 0
    layer: int | None = None  # None where nothing could be chosen
    head: int | None = None
    position: str = ""
    accuracy: float = np.nan
    error: float = np.nan
    rule: int | None = None  # None where none ever answers rightly
    baseline: float = np.nan
    gain_error: float = np.nan
    p: float = np.nan
    selected: float = np.nan  # the largest accuracy of any head over all documents
    # Of the links whose ends are not neighbours:
    n_far: int = 0
    accuracy_far: float = np.nan
    error_far: float = np.nan
    baseline_far: float = np.nan
    chosen: float = np.nan  # the share of folds that chose the head
    control: float = np.nan  # what the best heads of a control find
    control_error: float = np.nan
    selectivity: float = np.nan  # by how much the accuracy is above that
    selectivity_error: float = np.nan


def read_numbers(found: Sequence[Best], name: str) -> np.ndarray:
    return np.array([getattr(best, name) for best in found], np.float64)


@dataclass(frozen=True)
class Choice:
    """Cross-fitted heads with names (cell, layer, head), and the best rule; behind the last is chance."""

    tally: Tally
    heads: CrossFit
    names: Sequence[tuple[int, int, int]]
    cells: Sequence[Cell]
    rule: int


def choose(
    tally: Tally, cells: Sequence[Cell], gone: np.ndarray, asking: Asking, folds: int
) -> Choice | None:
    """Choose the best heads and the best rule for some links; None where there are no two folds with links.

    ``cells`` are those of the same links, at each position of a decoder; ``gone`` are removed (layer, head).
    """
    (asked, hits), names = find_answers(tally, cells, gone)
    heads = CrossFit(asked, hits, folds)
    if not heads.possible:
        return None
    cell = cells[names[heads.named][0]]
    rule = asking.best_rule(answer_by_rules(tally, cell.place, cell.layers[0]).sum(-1))
    return Choice(tally, heads, names, cells, rule)


def score(choice: Choice, tally: Tally, gone: np.ndarray, tests: int) -> Best:
    """Score the chosen heads and the rule on all documents that were counted, or on a group of them.

    ``tests`` says how many p values are adjusted together.
    """
    there = [cell.in_tally(tally) for cell in choice.cells]
    cells = [cell for cell in there if cell is not None]
    if len(cells) < len(there):
        return Best()
    (asked, hits), _ = find_answers(tally, cells, gone)
    n = int(asked.sum())
    if not n:
        return Best()
    heads, whole = choice.heads, tally is choice.tally
    which, layer, head = choice.names[heads.named]
    side = heads if whole else Fixed(asked, heads.answers_of(hits))
    rule = Fixed(asked, answer_by_rules(tally, cells[which].place, cells[which].layers[0])[choice.rule])
    ahead = Contrast([side, rule], [1, -1])
    found = Best(
        n,
        layer,
        head,
        cells[which].position,
        side.share,
        Contrast([side], [1]).error,
        choice.rule if rule.hits.any() else None,
        rule.share,
        ahead.error,
        ahead.chance(tests),
    )
    if whole:
        found = replace(
            found, selected=int(heads.hits.sum(1).max()) / n, chosen=heads.times / int(heads.scored.sum())
        )
    far_cells = [replace(cell, place=cell.far) for cell in cells if cell.far is not None]
    if len(far_cells) < len(cells):
        return found
    (asked, hits), _ = find_answers(tally, far_cells, gone)
    if not (n_far := int(asked.sum())):
        return found
    far = Transferred(heads, asked, hits) if whole else Fixed(asked, heads.answers_of(hits))
    guessed = answer_by_rules(tally, far_cells[which].place, layer)[choice.rule]
    return replace(
        found,
        n_far=n_far,
        accuracy_far=far.share,
        error_far=Contrast([far], [1]).error,
        baseline_far=float(guessed.sum()) / n_far,
    )


def compare_with_control(best: Best, choice: Choice, control: Tally, gone: np.ndarray, folds: int) -> Best:
    """Add what the best heads of a control find, cross-fitted alike, and how far the best head is ahead."""
    there = [cell.in_tally(control) for cell in choice.cells]
    cells = [cell for cell in there if cell is not None]
    if not cells:
        return best
    side = CrossFit(*find_answers(control, cells, gone)[0], folds)
    if not side.possible:
        return best
    alone, ahead = Contrast([side], [1]), Contrast([choice.heads, side], [1, -1])
    return replace(
        best,
        control=alone.value,
        control_error=alone.error,
        selectivity=ahead.value,
        selectivity_error=ahead.error,
    )


def answer_by_rules(tally: Tally, place: int, layer: int) -> np.ndarray:
    """Give right answers of each rule, and last those of chance, (rule, block), as a layer is asked."""
    kind, blocks = tally.kinds[layer], tally.blocks
    return np.concatenate([blocks.guessed[place, kind], blocks.chance[place, kind][None]])


def find_answers(
    tally: Tally, cells: Sequence[Cell], gone: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray], list[tuple[int, int, int]]]:
    """Find links (block,), right answers (head, block), and cell, layer and head of each that is there."""
    layers, places = np.array(cells[0].layers), np.array([cell.place for cell in cells])
    hits = tally.blocks.hits[places[:, None], layers].astype(np.int64)
    asked = tally.blocks.asked[places[0], tally.kinds[layers[0]]].astype(np.int64)
    there = ~np.broadcast_to(gone[layers], hits.shape[:3])
    names = [(int(which), int(layers[at]), int(head)) for which, at, head in np.argwhere(there)]
    return (asked, hits[there]), names
