"""Heads that find gold links or alignments: the best, chosen on other documents than scored on; and all."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.sums.links import FAR, FOLDS, CrossFit, Difference, Key, LinkCounts, Links
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.table import Column, HeadTable

#: The place of a layer among all, a head, and the position at which it is asked, if there are several.
Candidate = tuple[int, int, str]
#: The columns that name the best head, and its position where there are several.
NAME_COLUMNS = (
    Column("layer", role="count"),
    Column("head", role="count"),
    Column("position", role="text"),
)


@dataclass(frozen=True)
class LinkCondition:
    """Links of a label that are asked in one direction of one kind of attention."""

    label: str
    direction: str
    kind: Kind | None
    layers: Sequence[int]
    keys: Sequence[Key]  # what they are counted by: one for each position of a decoder beside an encoder
    links: int = 0  # as many at every position


def list_conditions(counts: LinkCounts, labels: Labels) -> list[LinkCondition]:
    """List the conditions with links, one kind of attention after the other."""
    kinds, conditions = [place.kind for place in labels.places], list[LinkCondition]()
    for kind in (kind for kind in (None, *Kind) if kind in kinds):
        layers = [layer for layer, other in enumerate(kinds) if other is kind]
        links = dict(zip(counts.keys, counts.links[:, layers[0]].tolist(), strict=True))
        by_label = dict[Key, list[Key]]()
        for key in counts.near:
            if links[key]:
                by_label.setdefault(key[:2], []).append(key)
        for (label, direction), keys in by_label.items():
            conditions.append(LinkCondition(label, direction, kind, layers, keys, links[keys[0]]))
    return conditions


def name_condition(condition: LinkCondition) -> dict[str, Any]:
    kind = None if condition.kind is None else str(condition.kind)
    return {"attention": kind, "direction": condition.direction}


@dataclass(frozen=True)
class LinkAnswers(Links):
    """Right answers of heads, at each position, and of rules to the links of some keys."""

    rules: np.ndarray  # (rule, block) those of each rule, and last those of chance
    candidates: Sequence[Candidate]


def read_answers(
    counts: LinkCounts,
    keys: Sequence[Key],
    layers: Sequence[int],
    removed: Collection[tuple[int, int]] = (),
    *,
    far: bool = False,
) -> LinkAnswers:
    """Read the answers to links that are asked at several positions, or to those of them at a distance.

    ``layers`` are of one kind of attention; heads that are ``removed``, as (layer, head), are no candidates.
    """
    wanted, heads = [(*key, FAR) if far else key for key in keys], counts.shape[1]
    places = {key: place for place, key in enumerate(counts.keys)}
    if not places.keys() >= set(wanted):  # nobody asked
        counts = LinkCounts.empty(wanted, counts.kinds.tolist(), heads, counts.guessed.shape[2])
        places = {key: place for place, key in enumerate(wanted)}
    at, kind = [places[key] for key in wanted], counts.kinds[layers[0]]
    candidates = [
        (place, layer, head)
        for place in range(len(keys))
        for layer in layers
        for head in range(heads)
        if (layer, head) not in removed
    ]
    place, layer, head = np.array(candidates, np.int64).reshape(-1, 3).T
    return LinkAnswers(
        counts.number[at[0], kind].astype(np.int64),
        counts.hits[np.array(at)[place], layer, head].astype(np.int64),
        np.concatenate([counts.guessed[at[0], kind], counts.chance[at[0], kind][None]]),
        [(layer, head, "".join(keys[place][2:])) for place, layer, head in candidates],
    )


# The best head


def cross_fit(links: Links, labels: Labels) -> CrossFit | None:
    """Choose heads by as many folds as were asked for; None where there are no two with links."""
    fit = CrossFit(links, int(labels.provenance.get("asked", {}).get("folds", FOLDS)))
    return fit if fit.possible else None


def score_share(name: str, head: CrossFit, baseline: CrossFit | None = None) -> dict[str, float]:
    """Give the share of links that are found, or how far it is ahead, and its error; {} for no links."""
    if not head.scored.total:
        return {}
    estimate = Difference(head, baseline).estimate
    return {name: float(estimate.value), f"{name}_se": float(estimate.error)}


def score_best(
    name: str,
    fit: CrossFit,
    rule: CrossFit,
    candidates: Sequence[Candidate],
    labels: Labels,
    tests: int,
    part: Links | None = None,
) -> dict[str, Any]:
    """Give cells: the head that most folds chose, and scores of each fold's head, on ``part`` if given."""
    head = fit if part is None else fit.keep_choice(part)
    layer, number, position = candidates[fit.named]
    row = {"layer": labels.places[layer].layer, "head": number, "position": position or None}
    row |= score_share(name, head) | score_share("gain", head, rule)
    row |= {"baseline": rule.share, "p": Difference(head, rule).p(tests)}
    if part is None:
        row |= {f"{name}_selected": float(fit.links.shares.max()), "chosen": fit.agreement}
    return row


def tabulate_best(
    title: str,
    labels: Labels,
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    notes: Sequence[str],
) -> HeadTable:
    """Tabulate the best heads; kinds of attention and positions only where there are some."""
    build = TableBuilder(labels, len(rows))
    absent = {name for name in ("attention", "position") if not any(row.get(name) for row in rows)}
    build.rows([column for column in columns if column.name not in absent], rows)
    one_fold = (
        "All documents with links lie in one fold of the documents, so that no head can be chosen on one and "
        "scored on another; give more documents, or look at all heads."
    )
    nothing = bool(rows) and all(row.get("head") is None for row in rows)
    return build.table(title, [one_fold, *notes] if nothing else notes)


# All heads


def tabulate_heads(
    title: str,
    labels: Labels,
    columns: Sequence[Column],
    conditions: Sequence[LinkCondition],
    heads: int,
    measure: Callable[[Key, int], Mapping[str, Any]],
    notes: Sequence[str],
    label: str | None = None,
) -> HeadTable:
    """Tabulate all heads; ``measure`` gives the cells of a key and a layer, one for all heads or for each.

    ``label`` is the column that names the label of a key, if there is one.
    """
    cells = [
        (key, layer, {name: np.broadcast_to(of, heads).tolist() for name, of in measure(key, layer).items()})
        for condition in conditions
        for key in condition.keys
        for layer in condition.layers
    ]
    keys = [key for key, *_ in cells for _ in range(heads)]
    build = TableBuilder(labels, len(keys))
    if label is not None:
        build.key(label, [key[0] for key in keys])
    build.key("direction", [key[1] for key in keys])
    if any(key[2:] for key in keys):
        build.key("position", ["".join(key[2:]) for key in keys])
    build.layers([layer for _, layer, _ in cells for _ in range(heads)])
    build.key("head", [*range(heads)] * len(cells))
    rows = [{name: of[head] for name, of in cell.items()} for *_, cell in cells for head in range(heads)]
    build.rows(columns, rows)
    return build.table(title, notes)
