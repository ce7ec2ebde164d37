"""The table of ``roles``: one word a head, and why."""

from collections.abc import Iterator, Sequence

import numpy as np

from attnprobe.statistics.links import coreference, syntax
from attnprobe.statistics.roles import FAMILY
from attnprobe.statistics.roles.deciding import Heads, Role, found_by, lost_when_shuffled, roles_of
from attnprobe.statistics.roles.thresholds import THRESHOLDS
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.measurement import Measurement
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.roles import LETTERS, MIXED, kind_of
from attnprobe.table.table import Column

#: So many heads of a role are named in the notes.
_NAMED = 6


def role_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate the role of each head with its evidence, and its other roles."""
    layers, heads = len(labels.places), _heads_of(measurement, statistics)
    measured = TableBuilder(labels, layers * heads)
    for statistic in statistics:
        if statistic.rows == "head":
            statistic.columns(statistic, measurement.sums[statistic.name], measured)
    every = Heads(measured.data, layers * heads)
    thresholds = THRESHOLDS | dict(labels.provenance.get("asked", {}).get("thresholds", {}))
    found: list[list[Role]] = [[] for _ in range(layers * heads)]
    for what, asking, name in (
        (syntax.SYNTAX, syntax.ASKING, "syntactic"),
        (coreference.COREFERENCE, coreference.ASKING, "coreference"),
    ):
        if what.name in measurement.sums:
            more = found_by(measurement.sums[what.name], asking, name, thresholds[name])
            found = [[*one, *another] for one, another in zip(found, more, strict=True)]
    roles = roles_of(every, thresholds, found)

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
    notes = [*_named(roles, heads, labels), *_lost(every, thresholds["positional"], heads, labels)]
    return build.table(title, notes)


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


def _name(at: int, heads: int, labels: Labels) -> str:
    return labels.places[at // heads].head(at % heads)


ROLES = Tabulation("role", role_table, FAMILY.title)
