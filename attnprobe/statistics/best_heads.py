"""The best head for links or alignments, chosen on some documents and scored on others, beside a rule."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnprobe.sums.crossfit import FOLDS, CrossFit, Difference, Links
from attnprobe.sums.link_counts import FAR, Key, LinkCounts
from attnprobe.table.builder import Labels
from attnprobe.table.table import Column

#: The place of a layer among all, a head, and the position at which it is asked, if there are several.
Candidate = tuple[int, int, str]


#: The columns that name the best head, and its position where there are several.
NAME_COLUMNS = (
    Column("layer", role="count"),
    Column("head", role="count"),
    Column("position", role="text"),
)


def cross_fit(links: Links, labels: Labels) -> CrossFit | None:
    """Choose heads by as many folds as were asked for; None where there are no two with links."""
    fit = CrossFit(links, int(labels.provenance.get("asked", {}).get("folds", FOLDS)))
    return fit if fit.possible else None


def score_share(name: str, head: CrossFit, baseline: CrossFit | None = None) -> dict[str, float]:
    """Give the share of links that are found, or how far it is ahead, and its error; nothing of no links."""
    if not head.scored.total:
        return {}
    estimate = Difference(head, baseline).estimate
    return {name: float(estimate.value), f"{name}_se": float(estimate.error)}


def score_gain(head: CrossFit, rule: CrossFit, tests: int) -> dict[str, float]:
    """Give how far a head is ahead of a rule, with error and p; see ``Difference.p`` for ``tests``."""
    return {**score_share("gain", head, rule), "p": Difference(head, rule).p(tests)}


def name_best(fit: CrossFit, candidates: Sequence[Candidate], labels: Labels) -> dict[str, Any]:
    """Name the head that most folds chose, as cells of a row."""
    layer, head, position = candidates[fit.named]
    return {"layer": labels.places[layer].layer, "head": head, "position": position or None}


def note_one_fold(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say that nothing could be chosen, where there are rows and none has a head."""
    if not rows or any(row.get("head") is not None for row in rows):
        return []
    return [
        "All documents with links lie in one fold of the documents, so that no head can be chosen on one and "
        "scored on another; give more documents, or look at all heads."
    ]


@dataclass(frozen=True)
class LinkAnswers(Links):
    """Right answers of heads, at each position, and of rules to the links of some keys.

    Attributes:
        rules: (rule, block) right answers of each rule, and last those of chance.
        candidates: Names of heads.
    """

    rules: np.ndarray
    candidates: Sequence[Candidate]


def read_answers(
    counts: LinkCounts,
    keys: Sequence[Key],
    layers: Sequence[int],
    removed: Collection[tuple[int, int]] = (),
    *,
    far: bool = False,
) -> LinkAnswers | None:
    """Read the answers to links that are asked at several positions; None where there are no such links.

    ``layers`` are of one kind of attention; heads that are ``removed``, as (layer, head), are no candidates.
    ``far`` reads those of links at a distance.
    """
    places = {key: place for place, key in enumerate(counts.keys)}
    at, kind = [places.get((*key, FAR) if far else key) for key in keys], counts.kinds[layers[0]]
    if None in at or not counts.number[at[0], kind].any():
        return None
    candidates = [
        (place, layer, head)
        for place in range(len(keys))
        for layer in layers
        for head in range(counts.shape[1])
        if (layer, head) not in removed
    ]
    place, layer, head = np.array(candidates, np.int64).reshape(-1, 3).T
    return LinkAnswers(
        counts.number[at[0], kind].astype(np.int64),
        counts.hits[np.array(at)[place], layer, head].astype(np.int64),
        np.concatenate([counts.guessed[at[0], kind], counts.chance[at[0], kind][None]]),
        [(layer, head, "".join(keys[place][2:])) for place, layer, head in candidates],
    )
