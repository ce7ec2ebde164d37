"""The best head for some links, and the best simple rule: chosen on some documents, and scored on others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.rules import Asking
from attnprobe.sums.crossfit import FOLDS, Contrast, CrossFit, Transferred
from attnprobe.sums.resampling import mcnemar, sign_flip
from attnprobe.sums.tally import CHOOSING, SCORING, Tally


@dataclass(frozen=True)
class Cell:
    """A label and direction, at their place in the tally, as the layers of one kind of attention are asked.

    The kind is None where the model has only one. The position is where a decoder beside an encoder is asked.
    ``far`` is the place of the same links at a distance, if there is any.
    """

    place: int
    label: str
    direction: str
    kind: Kind | None
    layers: Sequence[int]
    position: str = ""
    far: int | None = None


@dataclass(frozen=True)
class Compared:
    """Heads and rules on the scoring half, see ``Tally.disagreement``."""

    error: np.ndarray  # of accuracy, (key, layer, head)
    clusters: np.ndarray
    squares: np.ndarray
    around: np.ndarray
    tally: Tally

    @classmethod
    def of(cls, tally: Tally) -> "Compared":
        return cls(tally.accuracy(SCORING)[1], *tally.disagreement(), tally)

    def chance(self, where: tuple[int, int, int, int]) -> float:
        """Give the p value, one-sided, that a head finds more than a rule: over documents.

        Where each sequence is a document, links are compared, see ``mcnemar``; where some are parts of one,
        documents are, see ``sign_flip``. ``where`` is key, layer, head and rule.
        """
        key, layer, head, rule = where
        tally, squares = self.tally, round(float(self.squares[where]))
        right = int(tally.hits[key, layer, head, SCORING])
        guessed = int(tally.guessed[key, layer, rule, SCORING])
        apart = tally.ahead_by_group(where)
        if not len(apart):
            both = int(tally.both[where])
            return mcnemar(right - both, guessed - both, squares)
        rest = squares - int(np.square(apart).sum())
        return sign_flip(apart, right - guessed - int(apart.sum()), rest)

    def gain_error(self, where: tuple[int, int, int, int], n: int) -> float:
        """Give the standard error of the share of ``n`` links by which a head is ahead of a rule.

        It is that of a ratio over documents, see ``Tally.accuracy``; NaN below two documents.
        """
        clusters = self.clusters[where[:2]].item()
        if clusters < 2:
            return np.nan
        return float((self.around[where] * clusters / (clusters - 1)) ** 0.5 / n)


@dataclass(frozen=True)
class Best:
    """The head that finds most links of a label, and what a rule finds of the ``n`` that are scored."""

    n: int
    layer: int | None = None  # None where nothing could be chosen
    head: int | None = None
    position: str = ""
    accuracy: float = np.nan
    error: float = np.nan
    rule: int | None = None  # None where none ever answers
    baseline: float = np.nan
    gain_error: float = np.nan
    p: float = np.nan
    selected: float = np.nan  # the accuracy that choosing on the scoring half itself would have claimed
    documents: int = 0  # documents of several sequences, or blocks, over which p is; 0 where each is one
    # Of the links whose ends are not neighbours:
    n_far: int = 0
    accuracy_far: float = np.nan
    error_far: float = np.nan
    baseline_far: float = np.nan
    times: int = 0  # in how many folds the head was chosen
    folds: int = 0  # of so many that have links
    runner_up: tuple[int | None, int | None] = (None, None)  # layer and head of the next best
    runner_up_accuracy: float = np.nan
    control: float = np.nan  # what the best heads of a control find
    control_error: float = np.nan
    selectivity: float = np.nan  # by how much the accuracy is above that
    selectivity_error: float = np.nan


def read_numbers(found: Sequence[Best], name: str) -> np.ndarray:
    """Read one number of each, by the name of its field."""
    return np.array([getattr(best, name) for best in found], np.float64)


@dataclass(frozen=True)
class Selection:
    """How heads and rules are chosen, and what the best heads are compared with beside rules.

    Attributes:
        folds: Folds of documents, each of which is scored with what is best on the others; 0 where one half
            chooses and the other is scored.
        tests: How many p values are adjusted together.
        controls: What heads find of links that say nothing, or with random weights, cross-fitted alike.
        compared: Heads and rules on the scored half, where there is one.
    """

    folds: int = FOLDS
    tests: int = 1
    controls: Sequence[Tally] = ()
    compared: Compared | None = None

    @classmethod
    def read(
        cls, asked: Mapping[str, Any], tally: Tally, tests: int, controls: Sequence[Tally]
    ) -> "Selection":
        """Read off the record what was asked for."""
        if asked.get("selection") == "half":
            return cls(0, tests, compared=Compared.of(tally))
        return cls(int(asked.get("folds", FOLDS)), tests, controls)


def choose_and_score(
    tally: Tally, cells: Sequence[Cell], gone: np.ndarray, asking: Asking, selection: Selection
) -> Best:
    """Choose the best head and the best rule for some links, and score both on documents that did not choose.

    Args:
        tally: What was counted.
        cells: Those of the same links, at each position of a decoder that is asked.
        gone: Heads that the checkpoint lacks (layer, head).
        asking: What was asked.
        selection: How they are chosen.
    """
    if selection.compared is not None:
        return _score_half(tally, cells, gone, asking, selection.compared)
    fitted = fit_heads(tally, cells, gone, selection.folds)
    n = 0 if fitted is None else fitted[0].links
    if fitted is None or not fitted[0].possible:
        return Best(n)
    heads, names = fitted
    which, layer, head = names[heads.named]
    order = np.array(asking.preference, np.int64)
    rules = fit_rules(tally, cells[which], asking, selection.folds)
    ahead = Contrast([heads, rules], [1, -1])
    others = heads.without(heads.named)
    runner_up: tuple[int | None, int | None] = (None, None)
    if others.possible:
        left = [name for name in names if name != names[heads.named]]
        runner_up = left[others.named][1:]
    return Best(
        n,
        layer,
        head,
        cells[which].position,
        heads.share,
        Contrast([heads], [1]).error,
        int(order[rules.named]) if rules.hits.any() else None,
        rules.share,
        ahead.error,
        ahead.chance(selection.tests),
        int(heads.hits.sum(1).max()) / n,
        ahead.blocks,
        *_score_links_at_a_distance(heads, rules, tally, cells, gone, order),
        heads.times,
        int(heads.scored.sum()),
        runner_up,
        others.share if others.possible else np.nan,
        **_compare_with_controls(heads, tally, cells, gone, selection),
    )


def _score_links_at_a_distance(
    heads: CrossFit,
    rules: CrossFit,
    tally: Tally,
    cells: Sequence[Cell],
    gone: np.ndarray,
    order: np.ndarray,
) -> tuple[int, float, float, float]:
    """Score the chosen heads and rules on links at a distance: number, accuracy, its error, baseline."""
    if any(cell.far is None for cell in cells):
        return 0, np.nan, np.nan, np.nan
    far, _ = find_answers(tally, [replace(cell, place=cell.far or 0) for cell in cells], gone)
    asked, hits = far
    if not asked.any():
        return 0, np.nan, np.nan, np.nan
    found = Transferred(heads, asked, hits)
    place, kind = cells[0].far, tally.kinds[cells[0].layers[0]]
    baseline = Transferred(rules, asked, tally.blocks.guessed[place, kind][order].astype(np.int64))
    return int(asked.sum()), found.share, Contrast([found], [1]).error, baseline.share


def _compare_with_controls(
    heads: CrossFit, tally: Tally, cells: Sequence[Cell], gone: np.ndarray, selection: Selection
) -> dict[str, float]:
    """Give what the best heads of the controls find on average, and how far the best head is ahead."""
    sides = []
    for control in selection.controls:
        places = {key: place for place, key in enumerate(control.keys)}
        there = [
            replace(cell, place=places[tally.keys[cell.place]])
            for cell in cells
            if tally.keys[cell.place] in places
        ]
        fitted = fit_heads(control, there, gone, selection.folds)
        if fitted is None or not fitted[0].possible:
            return {}
        sides.append(fitted[0])
    if not sides:
        return {}
    weights = [1 / len(sides)] * len(sides)
    alone = Contrast(sides, weights)
    ahead = Contrast([heads, *sides], [1, *(-weight for weight in weights)])
    return {
        "control": alone.value,
        "control_error": alone.error,
        "selectivity": ahead.value,
        "selectivity_error": ahead.error,
    }


def fit_heads(
    tally: Tally, cells: Sequence[Cell], gone: np.ndarray, folds: int
) -> tuple[CrossFit, list[tuple[int, int, int]]] | None:
    """Cross-fit the heads of all positions, and name them by the number of their cell, layer and head.

    None where nothing is asked.
    """
    if not cells:
        return None
    (asked, hits), named = find_answers(tally, cells, gone)
    return CrossFit(asked, hits, folds), named


def fit_rules(tally: Tally, cell: Cell, asking: Asking, folds: int) -> CrossFit:
    """Cross-fit the rules, in the order in which equals are chosen."""
    kind = tally.kinds[cell.layers[0]]
    guessed = tally.blocks.guessed[cell.place, kind][list(asking.preference)].astype(np.int64)
    return CrossFit(tally.blocks.asked[cell.place, kind].astype(np.int64), guessed, folds)


def find_answers(
    tally: Tally, cells: Sequence[Cell], gone: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray], list[tuple[int, int, int]]]:
    """Find links (block,), right answers (head, block), and cell, layer and head of each that is there."""
    layers, places = np.array(cells[0].layers), np.array([cell.place for cell in cells])
    hits = tally.blocks.hits[places[:, None], layers].astype(np.int64)
    asked = tally.blocks.asked[places[0], tally.kinds[layers[0]]].astype(np.int64)
    there = ~np.broadcast_to(gone[layers], hits.shape[:3])
    named = [(int(which), int(layers[at]), int(head)) for which, at, head in np.argwhere(there)]
    return (asked, hits[there]), named


def _score_half(
    tally: Tally, cells: Sequence[Cell], gone: np.ndarray, asking: Asking, compared: Compared
) -> Best:
    """Choose a head and a rule on one half of the documents, and score both on the other."""
    layers, places = np.array(cells[0].layers), [cell.place for cell in cells]
    n = int(tally.asked[places[0], layers[0], SCORING])
    hits = np.where(gone[layers, :, None], -1, tally.hits[np.array(places)[:, None], layers])
    if not n or not tally.asked[places[0], layers[0], CHOOSING] or (hits < 0).all():
        return Best(n)
    which, at, head = np.unravel_index(hits[..., CHOOSING].argmax(), hits.shape[:3])
    cell, layer, right = cells[int(which)], int(layers[at]), int(hits[which, at, head, SCORING])
    by_rule = tally.guessed[cell.place, layer]
    rule = asking.best_rule(by_rule[:, CHOOSING])
    guessed = int(by_rule[rule, SCORING])
    where = cell.place, layer, int(head), rule
    return Best(
        n,
        layer,
        int(head),
        cell.position,
        right / n,
        float(compared.error[where[:3]]),
        rule if by_rule[rule, CHOOSING] else None,
        guessed / n,
        compared.gain_error(where, n),
        compared.chance(where),
        int(hits[..., SCORING].max()) / n,
        compared.clusters[where[:2]].item() if len(tally.groups) else 0,
        *_score_far(tally, cell.far, layer, int(head), rule, compared),
    )


def _score_far(
    tally: Tally, place: int | None, layer: int, head: int, rule: int, compared: Compared
) -> tuple[int, float, float, float]:
    """Score a head and a rule on links at a distance: their number, accuracy, its error, baseline."""
    n = 0 if place is None else int(tally.asked[place, layer, SCORING])
    if not n:
        return 0, np.nan, np.nan, np.nan
    accuracy = int(tally.hits[place, layer, head, SCORING]) / n
    baseline = int(tally.guessed[place, layer, rule, SCORING]) / n
    return n, accuracy, float(compared.error[place, layer, head]), baseline
