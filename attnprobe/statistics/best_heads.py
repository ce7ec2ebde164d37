"""The best head for some links, chosen on some documents and scored on others; and the best simple rule."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.rules import Asking
from attnprobe.sums.crossfit import CrossFit, Difference, Links
from attnprobe.sums.link_counts import FAR, LinkCounts


@dataclass(frozen=True)
class LinkCondition:
    """A label and direction, their place in the counts, that of ``far`` links, and who is asked where."""

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

    def locate(self, counts: LinkCounts) -> "LinkCondition | None":
        """Give the same condition in other counts; None where these have no such link."""
        places = {key: place for place, key in enumerate(counts.keys)}
        if self.key not in places:
            return None
        return replace(self, place=places[self.key], far=places.get((*self.key, FAR)))


@dataclass(frozen=True)
class BestHead:
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


def read_numbers(rows: Sequence[BestHead], name: str) -> np.ndarray:
    return np.array([getattr(row, name) for row in rows], np.float64)


@dataclass(frozen=True)
class Choice:
    """Cross-fitted heads with names (condition, layer, head), and the best rule; the last is chance."""

    counts: LinkCounts
    heads: CrossFit
    names: Sequence[tuple[int, int, int]]
    conditions: Sequence[LinkCondition]
    rule: int


def choose(
    counts: LinkCounts, conditions: Sequence[LinkCondition], gone: np.ndarray, asking: Asking, folds: int
) -> Choice | None:
    """Choose the best heads and the best rule for some links; None where there are no two folds with links.

    ``conditions`` are of the same links, at each position of a decoder; ``gone`` are removed (layer, head).
    """
    links, names = find_links(counts, conditions, gone)
    heads = CrossFit(links, folds)
    if not heads.possible:
        return None
    condition = conditions[names[heads.named][0]]
    rule = asking.best_rule(answer_by_rules(counts, condition.place, condition.layers[0]).sum(-1))
    return Choice(counts, heads, names, conditions, rule)


def score(choice: Choice, counts: LinkCounts, gone: np.ndarray, tests: int) -> BestHead:
    """Score the chosen heads and the rule on all documents that were counted, or on a group of them.

    ``tests`` says how many p values are adjusted together.
    """
    located = [condition.locate(counts) for condition in choice.conditions]
    conditions = [condition for condition in located if condition is not None]
    if len(conditions) < len(located):
        return BestHead()
    links, _ = find_links(counts, conditions, gone)
    if not links.number:
        return BestHead()
    heads, whole = choice.heads, counts is choice.counts
    which, layer, head = choice.names[heads.named]
    condition = conditions[which]
    by_rule = answer_by_rules(counts, condition.place, condition.layers[0])[choice.rule]
    side = heads if whole else CrossFit.fixed(links.asked, heads.answers_of(links.hits))
    rule = CrossFit.fixed(links.asked, by_rule)
    gain = Difference(side, rule)
    row = BestHead(
        n=links.number,
        layer=layer,
        head=head,
        position=condition.position,
        accuracy=side.share,
        error=float(Difference(side).estimate.error),
        rule=choice.rule if by_rule.any() else None,
        baseline=rule.share,
        gain_error=float(gain.estimate.error),
        p=gain.p(tests),
    )
    if whole:
        selected = int(links.hits.sum(1).max()) / links.number
        row = replace(row, selected=selected, chosen=heads.agreement)
    far = [replace(condition, place=condition.far) for condition in conditions if condition.far is not None]
    if len(far) < len(conditions):
        return row
    links, _ = find_links(counts, far, gone)
    if not links.number:
        return row
    transferred = heads.transfer(links)
    if not whole:
        transferred = CrossFit.fixed(links.asked, heads.answers_of(links.hits))
    by_rule = answer_by_rules(counts, far[which].place, layer)[choice.rule]
    return replace(
        row,
        n_far=links.number,
        accuracy_far=transferred.share,
        error_far=float(Difference(transferred).estimate.error),
        baseline_far=float(by_rule.sum()) / links.number,
    )


def compare_with_control(
    best: BestHead, choice: Choice, control: LinkCounts, gone: np.ndarray, folds: int
) -> BestHead:
    """Add what the best heads of a control find, cross-fitted alike, and how far the best head is ahead."""
    located = [condition.locate(control) for condition in choice.conditions]
    conditions = [condition for condition in located if condition is not None]
    if not conditions:
        return best
    side = CrossFit(find_links(control, conditions, gone)[0], folds)
    if not side.possible:
        return best
    alone, ahead = Difference(side), Difference(choice.heads, side)
    return replace(
        best,
        control=alone.value,
        control_error=float(alone.estimate.error),
        selectivity=ahead.value,
        selectivity_error=float(ahead.estimate.error),
    )


def answer_by_rules(counts: LinkCounts, place: int, layer: int) -> np.ndarray:
    """Give right answers of each rule, and last those of chance, (rule, block), as a layer is asked."""
    kind = counts.kinds[layer]
    return np.concatenate([counts.guessed[place, kind], counts.chance[place, kind][None]])


def find_links(
    counts: LinkCounts, conditions: Sequence[LinkCondition], gone: np.ndarray
) -> tuple[Links, list[tuple[int, int, int]]]:
    """Find links with right answers of all heads that are there, and condition, layer and head of each."""
    layers = np.array(conditions[0].layers)
    places = np.array([condition.place for condition in conditions])
    hits = counts.hits[places[:, None], layers].astype(np.int64)
    asked = counts.asked[places[0], counts.kinds[layers[0]]].astype(np.int64)
    there = ~np.broadcast_to(gone[layers], hits.shape[:3])
    names = [(int(which), int(layers[at]), int(head)) for which, at, head in np.argwhere(there)]
    return Links(asked, hits[there]), names
