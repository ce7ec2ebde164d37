"""The table of ``roles``: what each head does, by its evidence and by gold links, and how sure that is."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics import links
from attnprobe.statistics.best_heads import Compared
from attnprobe.statistics.links import FEWEST
from attnprobe.statistics.role_evidence import (
    Heads,
    Role,
    decide_roles,
    find_nearest,
    lost_when_shuffled,
    name_patterns,
)
from attnprobe.statistics.roles import FAMILY, THRESHOLDS, as_column
from attnprobe.statistics.rules import ALL, Asking
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.groups import ByFold
from attnprobe.sums.resampling import CONFIDENCE
from attnprobe.sums.tally import CHOOSING, SCORING, Tally
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import LETTERS, MIXED, find_role_kind, join_names
from attnprobe.table.table import Column

Floats = NDArray[np.float64]

#: Roles that folds of documents do not decide again.
_DECIDED_ONCE = {"syntactic", "coreference", "links", "part of speech", "induction", "duplicate"}
#: So many heads of a role are named in the notes.
_NAMED = 6
#: A name is stable from this share of folds on.
_STABLE = 0.9


def find_known_relations(tally: Tally, asking: Asking, name: str, gain: float) -> list[list[Role]]:
    """Give the relations that each head knows: those of which it finds more than the best simple rule.

    On one half of the documents, heads are tried that are ahead of the best rule of that half by ``gain``. On
    the other half, the interval of the difference has to lie beyond ``gain`` (Student's t over documents).
    So that a few documents of uneven size don't decide it, the difference also has to be significant by
    ``Compared.chance``.
    Intervals hold for all that are tried together with 95 % (Bonferroni), and for as many as there are heads
    at least. Relations of fewer than 20 links in either half are not tried. Links of which none has a label
    are tried together.

    Args:
        tally: What was counted.
        asking: What was asked.
        name: What a role is called, before the relation.
        gain: By how much a head has to be ahead.

    Returns:
        For each head, layer by layer, its roles, the one with the largest gain first.

    References:
        Voita et al. (2019), section 5.2.
    """
    from scipy.stats import t as student  # takes a second to import

    compared, layers, heads = Compared.of(tally), *tally.hits.shape[1:3]
    tried = [
        (place, layer, head, rule, label, measure)
        for place, layer, rule, label, measure, ahead in _list_asked(tally, asking)
        for head in np.flatnonzero(ahead >= gain)
    ]
    tail = (1 - CONFIDENCE) / 2 / max(len(tried), layers * heads)
    found: list[tuple[float, int, Role]] = []
    for place, layer, head, rule, label, measure in tried:
        n = int(tally.asked[place, layer, SCORING])
        clusters = compared.clusters[place, layer].item()
        if clusters < 2:
            continue
        accuracy = tally.hits[place, layer, head, SCORING] / n
        baseline = tally.guessed[place, layer, rule, SCORING] / n
        where = (place, layer, int(head), rule)
        error = compared.gain_error(where, n)
        if compared.chance(where) > tail:
            continue
        if accuracy - baseline - float(student.isf(tail, clusters - 1)) * error >= gain:
            spread = float(compared.error[place, layer, head])
            role = Role(f"{name}: {label}", measure, accuracy, spread, baseline + gain)
            found.append((accuracy - baseline, layer * heads + int(head), role))
    # Of a relation from either end, or at either position, a head keeps the one with the largest gain.
    roles: list[dict[str, Role]] = [{} for _ in range(layers * heads)]
    for _, head, role in sorted(found, key=lambda one: -one[0]):
        roles[head].setdefault(role.name, role)
    return [list(held.values()) for held in roles]


def find_nearest_relation(tally: Tally, asking: Asking, name: str, gain: float) -> list[Role | None]:
    """Give the relation that each head is nearest to, chosen on one half: the largest gain times sqrt(n).

    The gain is accuracy less that of the rule, of n links; times sqrt(n), so that a relation of few links
    does not win by chance. How near it is, by the other half: the gain there over ``gain``. The arguments are
    those of ``find_known_relations``.

    Returns:
        For each head, layer by layer; None where no relation has 20 links in either half.
    """
    layers, heads = tally.hits.shape[1:3]
    best: list[tuple[float, Role] | None] = [None] * (layers * heads)
    for place, layer, rule, label, measure, ahead in _list_asked(tally, asking):
        tried, n = tally.asked[place, layer].tolist()
        accuracy = tally.hits[place, layer, :, SCORING] / n
        baseline = tally.guessed[place, layer, rule, SCORING] / n
        for head in range(heads):
            held, lead = best[at := layer * heads + head], float(ahead[head]) * tried**0.5
            if held is None or lead > held[0]:
                found = float(accuracy[head])
                way = (found - baseline) / gain
                best[at] = lead, Role(f"{name}: {label}", measure, found, np.nan, baseline + gain, way)
    return [None if held is None else held[1] for held in best]


def _list_asked(tally: Tally, asking: Asking) -> Iterator[tuple[int, int, int, str, str, Floats]]:
    """List what there are enough links of in both halves: key, layer, the best rule of the choosing half.

    Then the label, how it is called as a measure, and by how much each head is ahead of the rule, (head,).
    """
    only_all = all(label == ALL for label, *_ in tally.compared)
    for place, (label, direction, *position) in enumerate(tally.compared):
        if label == ALL and not only_all:
            continue
        asked_as = [*([direction.replace("_", " ")] if asking.backward else []), *position]
        measure = ", ".join(["accuracy", *asked_as])
        for layer, asked in enumerate(tally.asked[place]):
            if asked.min() < FEWEST:
                continue
            by_rule = tally.guessed[place, layer, : asking.least, CHOOSING]
            rule = asking.best_rule(by_rule)
            ahead = (tally.hits[place, layer, :, CHOOSING] - by_rule[rule]) / asked[CHOOSING]
            yield place, layer, rule, label, measure, ahead


def role_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate the role of each head with its evidence, and its other roles."""
    layers = len(labels.places)
    name = next(statistic.name for statistic in statistics if statistic.rows == "head")
    heads = measurement.sums[name].count.shape[1]
    every, *folds = _collect_heads(measurement, statistics, labels, layers * heads)
    asked = labels.provenance.get("asked", {})
    thresholds = THRESHOLDS | dict(asked.get("thresholds", {}))
    # Where types tie that occur once, the text can't say which of them are rare.
    decided = bool(labels.provenance.get("corpus", {}).get("rare_decided", True))
    found: list[list[Role]] = [[] for _ in range(layers * heads)]
    near: list[list[Role | None]] = []
    for what, asking, threshold, name in (
        (links.SYNTAX, links.ASKING_SYNTAX, "syntactic", "syntactic"),
        (links.COREFERENCE, links.ASKING_COREFERENCE, "coreference", "coreference"),
        (links.LINKED, links.ASKING_LINKS, "links", str(asked.get("links", "links"))),
    ):
        if what.name in measurement.sums:
            given = measurement.sums[what.name], asking, name, thresholds[threshold]
            more = find_known_relations(*given)
            found = [[*one, *another] for one, another in zip(found, more, strict=True)]
            near.append(find_nearest_relation(*given))
    roles = decide_roles(every, thresholds, found, rare=decided)
    in_folds = [_first_names(decide_roles(fold, thresholds, found, rare=decided)) for fold in folds]
    nearest = find_nearest(every, thresholds, near, rare=decided)
    nearest = [None if held else one for held, one in zip(roles, nearest, strict=True)]

    build = TableBuilder(labels, layers * heads)
    build.heads(heads)
    first = [held[0] if held else Role(MIXED, "", np.nan, np.nan, np.nan) for held in roles]
    build.add(Column("role", role="text"), [role.name for role in first])
    build.add(Column("measure", role="text"), [role.measure or None for role in first])
    value, error = (np.array([getattr(role, name) for role in first], float) for name in ("value", "error"))
    build.measure("value", "", value, error, title="value of the measure")
    build.add(Column("threshold", title="threshold of the role"), [role.threshold for role in first])
    also = ["; ".join(role.name for role in held[1:]) or None for held in roles]
    build.add(Column("also", role="text"), also)
    same = stability(_first_names(roles), in_folds)
    build.add(Column("stability", "share", title="folds of documents with the same name"), same)
    build.add(Column("pattern", role="text"), name_patterns(every, thresholds))
    build.add(Column("nearest", role="text"), [role and role.name for role in nearest])
    build.add(Column("nearest_measure", role="text"), [role and role.measure for role in nearest])
    for part in ("value", "threshold"):
        cells = [np.nan if role is None else getattr(role, part) for role in nearest]
        build.add(Column(f"nearest_{part}", title=f"{part} of the nearest role"), cells)

    names = [place.head(head) for place in labels.places for head in range(heads)]
    there = np.array([divmod(at, heads) not in labels.absent for at in range(len(names))], bool)
    notes = [
        *_note_roles(roles, nearest, names, there),
        _note_stability(same[there], len(folds)),
        *_note_lost(every, thresholds["positional"], names),
    ]
    if not decided:
        without = decide_roles(every, thresholds, found)
        some = [
            names[at]
            for at in np.flatnonzero(there).tolist()
            if any(r.name == "rare words" for r in without[at])
        ]
        notes += _note_undecided(some)
    return build.table(title, notes, "roles")


def _collect_heads(
    measurement: Measurement, statistics: Sequence[Statistic], labels: Labels, number: int
) -> list[Heads]:
    """Give what was measured of all heads: on all documents, and then in each fold of them.

    A fold decides by its means alone: its errors are those of fewer documents, and would say how many they
    are. What is no question to the text, as what a head does with random tokens, is the same in each.
    """
    sums = {one: measurement.sums[one.name] for one in statistics if one.rows == "head"}
    by_fold = {one: found for one, found in sums.items() if isinstance(found, ByFold)}
    filled = np.flatnonzero(np.any([found.filled for found in by_fold.values()], 0))
    folds = {one: found.folds for one, found in by_fold.items()}
    every = [sums | {one: found.whole for one, found in by_fold.items()}]
    every += [sums | {one: some[fold] for one, some in folds.items()} for fold in filled]
    built = []
    for some in every:
        build = TableBuilder(labels, number)
        for one, found in some.items():
            as_column(one).columns(as_column(one), found, build)
        built.append(Heads(build.data, number))
    whole, *parts = built
    return [whole, *(part.without_errors for part in parts)]


def _first_names(roles: Sequence[Sequence[Role]]) -> list[str]:
    return [held[0].name if held else MIXED for held in roles]


def stability(names: Sequence[str], in_folds: Sequence[Sequence[str]]) -> Floats:
    """Give the share of folds of documents in which each head has the name that it has on all.

    Documents are sorted into 8 folds, by the same rule as into blocks. In each, heads are named again by the
    means of its documents, without intervals, which would say how few documents a fold has.

    Limits: 0 to 1. Undefined where fewer than two folds have a document, and for heads that are named by
    what is not decided again in each fold: gold links, a part of speech, induction or duplicate.

    Args:
        names: On all documents, head by head.
        in_folds: In each fold that has a document.
    """
    if len(in_folds) < 2:
        return np.full(len(names), np.nan)
    same = np.mean([[one == name for one, name in zip(fold, names, strict=True)] for fold in in_folds], 0)
    return np.where([find_role_kind(name) in _DECIDED_ONCE for name in names], np.nan, same)


def _note_stability(same: Floats, folds: int) -> str:
    """Say how much of a name is the text's."""
    if folds < 2:
        return "stability is empty: it takes documents in two folds at least."
    known = same[~np.isnan(same)]
    number = int((known < _STABLE).sum())
    return (
        f"Of {len(known)} heads whose name folds of the documents can decide, {number} "
        f"{'has' if number == 1 else 'have'} another name in one or more of {folds} folds (stability below "
        f"{_STABLE}). The names hold for texts like this "
        "one; on texts of another length or kind, heads may have other names."
    )


def _note_roles(
    roles: Sequence[Sequence[Role]],
    nearest: Sequence[Role | None],
    names: Sequence[str],
    there: NDArray[np.bool_],
) -> Iterator[str]:
    """Name the heads that have each role, first or also, in the order of the roles; count the others."""
    by_role: dict[str, list[str]] = {}
    for at in np.flatnonzero(there).tolist():
        for role in dict.fromkeys(role.name for role in roles[at]):
            by_role.setdefault(role, []).append(names[at])
    listed = []
    for role in sorted(by_role, key=lambda role: (list(LETTERS).index(find_role_kind(role)), role)):
        some = by_role[role]
        shown = ", ".join(some) if len(some) <= _NAMED else f"{len(some)} heads"
        listed.append(f"{role.removeprefix('syntactic: ')}: {shown}")
    if listed:
        explained = []
        if any(len(some) <= _NAMED for some in by_role.values()):
            explained.append("layer-head, counted from 0")
        if any(len({role.name for role in roles[at]}) > 1 for at in np.flatnonzero(there).tolist()):
            explained.append("a head may have several roles")
        how = f" ({'; '.join(explained)})" if explained else ""
        yield f"{'; '.join(listed)}{how}."
    if mixed := [at for at in np.flatnonzero(there).tolist() if not roles[at]]:
        kinds = Counter(find_role_kind(one.name) for at in mixed if (one := nearest[at]) is not None)
        near = [f"{kind} ({number})" for kind, number in kinds.most_common()]
        more = f"; the nearest {'is' if len(near) == 1 else 'are'} {join_names(near)}" if near else ""
        yield f"{'1 head has' if len(mixed) == 1 else f'{len(mixed)} heads have'} none of these roles{more}."


def _name_some(named: Sequence[str]) -> str:
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"{', '.join(named[:_NAMED])}{more}"


def _note_lost(every: Heads, threshold: float, names: Sequence[str]) -> Iterator[str]:
    lost = np.flatnonzero(lost_when_shuffled(every, threshold))
    if len(lost):
        share, then = every.of("offset_share")[0], every.of("offset_share_shuffled")[0]
        named = _name_some([f"{names[at]} ({share[at]:.2f} to {then[at]:.2f})" for at in lost.tolist()])
        yield (
            "These heads look most at one offset, but not with the tokens shuffled: they look at what stands "
            f"there, not at a place: {named}."
        )


def _note_undecided(some: Sequence[str]) -> Iterator[str]:
    """Name the heads that would be called rare words, if the text were large enough to say what is rare."""
    if some:
        yield (
            f"{_name_some(some)} {'looks' if len(some) == 1 else 'look'} most at what is rarest here, and no "
            "head is called rare words: too many types occur once in this text to say which are rare."
        )


ROLES = Tabulation("role", role_table, FAMILY.title)
