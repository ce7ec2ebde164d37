"""The best head for links or alignments, chosen on some documents and scored on others, beside a rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.rules import LinkTask
from attnprobe.sums.crossfit import FOLDS, CrossFit, Difference, Links
from attnprobe.sums.link_counts import FAR, Key, LinkCounts
from attnprobe.table.builder import Labels
from attnprobe.table.table import Column

#: The place of a layer among all, a head, and the position at which it is asked, if there are several.
Candidate = tuple[int, int, str]
#: Said where nothing could be chosen.
ONE_FOLD = (
    "All documents with links lie in one fold of the documents, so that no head can be chosen on one and "
    "scored on another; give more documents, or look at all heads."
)


@dataclass(frozen=True)
class BestHead:
    """Heads that are cross-fitted for some links, and the names of the candidates, in the same order."""

    fit: CrossFit
    candidates: Sequence[Candidate]

    @property
    def selected(self) -> float:
        """The largest share that any head finds over all documents."""
        links = self.fit.links
        return float(links.hits.sum(1).max() / links.number)

    @property
    def chosen(self) -> float:
        """The share of folds that chose the head that is named."""
        return self.fit.agreement

    def name(self, labels: Labels) -> dict[str, Any]:
        """Name the head that most folds chose, as cells of a row."""
        layer, head, position = self.candidates[self.fit.named]
        return {"layer": labels.places[layer].layer, "head": head, "position": position or None}


#: The columns that name the best head, and its position where there are several.
NAME_COLUMNS = (
    Column("layer", role="count"),
    Column("head", role="count"),
    Column("position", role="text"),
)


def score_share(name: str, side: CrossFit | Difference) -> dict[str, float]:
    """Give the share of links that are found, and its error; nothing where there is no link."""
    difference = side if isinstance(side, Difference) else Difference(side)
    if not difference.head.scored.number:
        return {}
    estimate = difference.estimate
    return {name: float(estimate.value), f"{name}_se": float(estimate.error)}


def score_gain(head: CrossFit, rule: CrossFit, tests: int) -> dict[str, float]:
    """Give how far a head is ahead of a rule, with error and p; see ``Difference.p`` for ``tests``."""
    gain = Difference(head, rule)
    return {**score_share("gain", gain), "p": gain.p(tests)}


def read_folds(labels: Labels) -> int:
    return int(labels.provenance.get("asked", {}).get("folds", FOLDS))


def note_one_fold(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say that nothing could be chosen, where there are rows and none has a head."""
    return [ONE_FOLD] if rows and all(row.get("head") is None for row in rows) else []


def mark_removed(places: Sequence[tuple[int, int]], layers: int, heads: int) -> np.ndarray:
    """Mark heads that are not to be chosen, (layer, head)."""
    gone = np.zeros((layers, heads), bool)
    for place in places:
        gone[place] = True
    return gone


# Links


@dataclass(frozen=True)
class LinkCondition:
    """Links of a label that are asked in one direction of one kind of attention.

    ``positions`` are those of a decoder beside an encoder; the empty one elsewhere.
    """

    label: str
    direction: str
    kind: Kind | None
    layers: Sequence[int]
    positions: Sequence[str] = ("",)

    def key(self, position: str, *, far: bool = False) -> Key:
        """Give what its links are counted by, or those of them that lie at a distance."""
        parts = (self.label, self.direction, position, FAR if far else "")
        return tuple(part for part in parts if part)


@dataclass(frozen=True)
class LinkAnswers:
    """Links of a condition in each block of documents, and right answers.

    Attributes:
        links: Those of each head at each position.
        rules: (rule, block) those of each rule, and last those of chance.
        candidates: Names of heads.
    """

    links: Links
    rules: np.ndarray
    candidates: Sequence[Candidate]


def read_answers(
    counts: LinkCounts, condition: LinkCondition, gone: np.ndarray, *, far: bool = False
) -> LinkAnswers | None:
    """Read the answers to the links of a condition; None where there are no such links.

    Args:
        counts: Of all documents, or of a group of them.
        condition: Which links.
        gone: (layer, head) heads that are removed.
        far: Whether only links at a distance count.
    """
    places = {key: place for place, key in enumerate(counts.keys)}
    keys = [condition.key(position, far=far) for position in condition.positions]
    if any(key not in places for key in keys):
        return None
    at, layers = np.array([places[key] for key in keys]), np.array(condition.layers)
    kind = counts.kinds[layers[0]]
    asked = counts.asked[at[0], kind].astype(np.int64)
    if not asked.any():
        return None
    hits = counts.hits[at[:, None], layers].astype(np.int64)
    there = np.broadcast_to(~gone[layers], hits.shape[:3])
    return LinkAnswers(
        Links(asked, hits[there]),
        np.concatenate([counts.guessed[at[0], kind], counts.chance[at[0], kind][None]]),
        [
            (condition.layers[layer], head, condition.positions[position])
            for position, layer, head in np.argwhere(there).tolist()
        ],
    )


@dataclass(frozen=True)
class BestLinkHead:
    """The head that finds most links of a condition, and the best rule over all of them.

    ``best`` and ``rule`` are None where there are no two folds with links.
    """

    condition: LinkCondition
    gone: np.ndarray
    best: BestHead | None = None
    rule: int | None = None

    @classmethod
    def choose(
        cls, counts: LinkCounts, condition: LinkCondition, gone: np.ndarray, task: LinkTask, folds: int
    ) -> "BestLinkHead":
        answers = read_answers(counts, condition, gone)
        if answers is None:
            return cls(condition, gone)
        fit = CrossFit(answers.links, folds)
        if not fit.possible:
            return cls(condition, gone)
        rule = task.best_rule(answers.rules.sum(-1))
        return cls(condition, gone, BestHead(fit, answers.candidates), rule)

    def score(self, counts: LinkCounts, labels: Labels, tests: int, *, whole: bool = True) -> dict[str, Any]:
        """Score what was chosen on the documents that it was chosen on, the ``whole``, or on a group of them.

        ``tests`` says how many p values are adjusted together.
        """
        row: dict[str, Any] = {"n": 0, "n_far": 0}
        answers = read_answers(counts, self.condition, self.gone)
        if answers is None:
            return row
        row["n"] = answers.links.number
        if self.best is None or self.rule is None:
            return row
        fit = self.best.fit
        head = fit if whole else fit.keep_choice(answers.links)
        rule = CrossFit.fixed(answers.links.asked, answers.rules[self.rule])
        row |= self.best.name(labels) | score_share("accuracy", head) | score_gain(head, rule, tests)
        row |= {"baseline": rule.share, "rule": self.rule if rule.share else None}
        if whole:
            row |= {"accuracy_selected": self.best.selected, "chosen": self.best.chosen}
        far = read_answers(counts, self.condition, self.gone, far=True)
        if far is not None:
            head = fit.transfer(far.links) if whole else fit.keep_choice(far.links)
            row |= {"n_far": far.links.number, **score_share("accuracy_far", head)}
            row["baseline_far"] = float(far.rules[self.rule].sum() / far.links.number)
        return row

    def score_control(self, counts: LinkCounts, folds: int) -> dict[str, float]:
        """Score the best heads for the links of a control, cross-fitted alike, beside the best head."""
        answers = read_answers(counts, self.condition, self.gone)
        if answers is None or self.best is None:
            return {}
        control = CrossFit(answers.links, folds)
        if not control.possible:
            return {}
        ahead = Difference(self.best.fit, control)
        return score_share("control", control) | score_share("selectivity", ahead)
