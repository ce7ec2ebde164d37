"""The table of ``roles``: one word a head, and why."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics.links import links
from attnprobe.statistics.roles import FAMILY
from attnprobe.statistics.roles.deciding import (
    THRESHOLDS,
    Heads,
    Role,
    found_by,
    lost_when_shuffled,
    roles_of,
)
from attnprobe.statistics.roles.masses import as_column
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.folds import ByFold
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.roles import LETTERS, MIXED, kind_of
from attnprobe.table.table import Column

#: So many heads of a role are named in the notes.
_NAMED = 6
#: A name is stable from this share of folds on.
_STABLE = 0.9
#: Roles that folds of documents do not decide again.
_DECIDED_ONCE = {"syntactic", "coreference", "induction", "duplicate"}


def role_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate the role of each head with its evidence, and its other roles."""
    layers, heads = len(labels.places), _heads_of(measurement, statistics)
    every, *folds = _measured(measurement, statistics, labels, layers * heads)
    thresholds = THRESHOLDS | dict(labels.provenance.get("asked", {}).get("thresholds", {}))
    # Where types tie that occur once, the text can't say which of them are rare.
    decided = bool(labels.provenance.get("corpus", {}).get("rare_decided", True))
    found: list[list[Role]] = [[] for _ in range(layers * heads)]
    for what, asking, name in (
        (links.SYNTAX, links.ASKING_SYNTAX, "syntactic"),
        (links.COREFERENCE, links.ASKING_COREFERENCE, "coreference"),
    ):
        if what.name in measurement.sums:
            more = found_by(measurement.sums[what.name], asking, name, thresholds[name])
            found = [[*one, *another] for one, another in zip(found, more, strict=True)]
    roles = roles_of(every, thresholds, found, rare=decided)
    names = [_first(held) for held in roles]
    in_folds = [[_first(held) for held in roles_of(fold, thresholds, found, rare=decided)] for fold in folds]

    build = TableBuilder(labels, layers * heads)
    build.heads(heads)
    first = [held[0] if held else Role(MIXED, "", np.nan, np.nan, np.nan) for held in roles]
    build.add(Column("role", role="text"), [role.name for role in first])
    build.add(Column("measure", role="text"), [role.measure or None for role in first])
    value, error = (np.array([getattr(role, name) for role in first], float) for name in ("value", "error"))
    build.measure("value", "", value, error, title="value of the measure")
    build.add(
        Column("threshold", title="threshold of the role"), np.array([role.threshold for role in first])
    )
    build.add(
        Column("also", role="text"), ["; ".join(role.name for role in held[1:]) or None for held in roles]
    )
    same = stability(names, in_folds)
    build.add(Column("stability", "share", title="folds of documents with the same name"), same)
    notes = [
        *_named(roles, heads, labels),
        *_unstable(same, len(folds), heads, labels),
        *_lost(every, thresholds["positional"], heads, labels),
        *([] if decided else _undecided(roles_of(every, thresholds, found), heads, labels)),
    ]
    return build.table(title, notes)


def _measured(
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


def _first(held: Sequence[Role]) -> str:
    return held[0].name if held else MIXED


def stability(names: Sequence[str], in_folds: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """Give the share of folds of documents in which each head has the name that it has on all.

    Documents are sorted into 8 folds, by the same rule as into blocks. In each, heads are named again by the
    means of its documents, without intervals, which would say how few documents a fold has.

    Limits: 0 to 1. Undefined where fewer than two folds have a document, and for heads that are named by
    what is not decided again in each fold: a relation, coreference, induction or duplicate.

    Args:
        names: On all documents, head by head.
        in_folds: In each fold that has a document.
    """
    if len(in_folds) < 2:
        return np.full(len(names), np.nan)
    same = np.mean([[one == name for one, name in zip(fold, names, strict=True)] for fold in in_folds], 0)
    return np.where([kind_of(name) in _DECIDED_ONCE for name in names], np.nan, same)


def _unstable(same: NDArray[np.float64], folds: int, heads: int, labels: Labels) -> Iterator[str]:
    """Say how much of a name is the text's."""
    gone = np.array([divmod(at, heads) in labels.removed for at in range(len(same))], bool)
    there = ~gone & ~np.isnan(same)
    if folds < 2:
        yield "stability is empty: it takes documents in two folds at least."
        return
    number = int((same[there] < _STABLE).sum())
    yield (
        f"Of {there.sum()} heads whose name folds of the documents can decide, {number} "
        f"{'has' if number == 1 else 'have'} another name in one or more of {folds} folds (stability below "
        f"{_STABLE}). The names hold for texts like this "
        "one; on texts of another length or kind, heads may have other names."
    )


def _heads_of(measurement: Measurement, statistics: Sequence[Statistic]) -> int:
    name = next(statistic.name for statistic in statistics if statistic.rows == "head")
    return measurement.sums[name].count.shape[1]


def _named(roles: Sequence[Sequence[Role]], heads: int, labels: Labels) -> Iterator[str]:
    """Name the heads that have each role, first or also, in the order of the roles."""
    by_role: dict[str, list[str]] = {}
    mixed = 0
    for at, held in enumerate(roles):
        if divmod(at, heads) in labels.removed:
            continue
        mixed += not held
        for name in dict.fromkeys(role.name for role in held):
            by_role.setdefault(name, []).append(_name(at, heads, labels))
    listed = [
        f"{_short(role)}: {', '.join(names)}"
        if len(names) <= _NAMED
        else f"{_short(role)}: {len(names)} heads"
        for role, names in sorted(by_role.items(), key=lambda one: _order(one[0]))
    ]
    if listed:
        yield f"{'; '.join(listed)} (layer-head, counted from 0; a head may have several roles)."
    if mixed:
        yield f"{'1 head has' if mixed == 1 else f'{mixed} heads have'} none of these roles."


def _short(role: str) -> str:
    """Give the relation alone, where a role is one."""
    return role.removeprefix("syntactic: ")


def _order(role: str) -> tuple[int, str]:
    return list(LETTERS).index(kind_of(role)), role


def _lost(every: Heads, threshold: float, heads: int, labels: Labels) -> Iterator[str]:
    lost = np.flatnonzero(lost_when_shuffled(every, threshold))
    if len(lost):
        share, then = every.of("offset_share")[0], every.of("offset_share_shuffled")[0]
        named = [f"{_name(at, heads, labels)} ({share[at]:.2f} to {then[at]:.2f})" for at in lost[:_NAMED]]
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        yield (
            "These heads look most at one offset, but not with the tokens shuffled: they look at what stands "
            f"there, not at a place: {', '.join(named)}{more}."
        )


def _undecided(roles: Sequence[Sequence[Role]], heads: int, labels: Labels) -> Iterator[str]:
    """Name the heads that would be called rare words, if the text were large enough to say what is rare."""
    known = [at for at in range(len(roles)) if divmod(at, heads) not in labels.removed]
    some = [_name(at, heads, labels) for at in known if any(one.name == "rare words" for one in roles[at])]
    if some:
        verb = "looks" if len(some) == 1 else "look"
        named = ", ".join(some[:_NAMED]) + (f" and {len(some) - _NAMED} more" if len(some) > _NAMED else "")
        yield (
            f"{named} {verb} most at what is rarest here, and no head is called rare words: too many types "
            "occur once in this text to say which are rare."
        )


def _name(at: int, heads: int, labels: Labels) -> str:
    return labels.places[at // heads].head(at % heads)


ROLES = Tabulation("role", role_table, FAMILY.title)
