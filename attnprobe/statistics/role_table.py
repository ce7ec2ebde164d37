"""Roles of heads: how they are decided, what a head knows of gold links, and the table of ``roles``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics import links
from attnprobe.statistics.best_heads import LinkAnswers, read_answers
from attnprobe.statistics.links import FEWEST
from attnprobe.statistics.roles import FAMILY
from attnprobe.statistics.rules import ALL, LinkTask
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.blocked import find_share
from attnprobe.sums.inference import CONFIDENCE, half_width, sign_flip
from attnprobe.sums.links import Key, LinkCounts
from attnprobe.table.builder import FEW_DOCUMENTS, Labels, TableBuilder, measure_columns
from attnprobe.table.naming import (
    BLOCK,
    BROAD,
    CRITERIA,
    MIXED,
    OFFSET,
    ROLE_MARKS,
    THRESHOLDS,
    Criterion,
    find_role_kind,
)
from attnprobe.table.table import Column, HeadTable

Floats = NDArray[np.float64]
#: A role that a head has, such as "syntactic: det", with the evidence: what a table shows of it.
Role = dict[str, Any]

_ABOVE_0 = float(np.nextafter(0, 1))
#: The patterns, in the order in which they are tried.
PATTERNS = (
    Criterion("vertical", {"vertical_excess": "pattern"}),
    Criterion("diagonal", {"diagonal_excess": "pattern"}),
    Criterion(
        "vertical+diagonal",
        {"vertical_diagonal_excess": "pattern", "vertical_excess": _ABOVE_0, "diagonal_excess": _ABOVE_0},
    ),
    BLOCK,
)
HETEROGENEOUS = "heterogeneous"
SHUFFLED = "offset_share_shuffled"
_NEIGHBOURS = {-1: "previous", 0: "self", 1: "next"}


@dataclass(frozen=True)
class RoleEvidence:
    """Measures of all heads and their errors, by name, layer by layer, and the documents of each measure."""

    columns: Mapping[str, Sequence[Any]]
    heads: int
    documents: Mapping[str, float]

    def read(self, name: str) -> Floats:
        """Give a column; NaN where it was not measured."""
        return np.array(self.columns.get(name, [None] * self.heads), np.float64)

    def half_width(self, name: str) -> Floats:
        """Give half the width of the interval of each head, all of which hold together with 95 %."""
        return half_width(self.read(f"{name}_se"), self.documents.get(name, 0))

    def meets(self, criterion: Criterion, thresholds: Mapping[str, float]) -> NDArray[np.bool_]:
        """Tell the heads whose whole intervals reach the thresholds; if ``sharp``, broad ones do not."""
        holds = np.ones(self.heads, bool)
        for measure, bound in criterion.bounds.items():
            threshold = thresholds[bound] if isinstance(bound, str) else bound
            holds &= self.read(measure) - self.half_width(measure) >= threshold
        return holds & ~self.meets(BROAD, thresholds) if criterion.sharp else holds


def decide_roles(
    evidence: RoleEvidence, thresholds: Mapping[str, float], by_links: Sequence[list[Role]]
) -> list[list[Role]]:
    """Decide the roles of each head, the naming one first; ``by_links`` are roles by gold links.

    A role holds if the interval of its measure lies beyond its threshold; the table shows both for the first
    role. Intervals are 95 % for all heads together (Student's t over documents, Bonferroni). Thresholds are
    for attention beyond uniform attention to the same keys, since a sum of attention depends on the length of
    a text.

    - previous, next, self, offset: for a share ``positional`` of the queries, the most attended token is at
      that offset, also with shuffled tokens; and the head is not broad.
    - delimiter: a share ``delimiter`` goes to special tokens, or to punctuation; and of the attention to one
      such token and one other, ``preference`` goes to the first.
    - rare words: for a share ``rare`` of the queries beyond chance, the most attended token is the rarest,
      rare tokens get more than their share, and the head is not broad.
    - syntactic, coreference, links: see ``role_table.find_known_relations``.
    - induction, duplicate: the score on repeated random tokens is ``induction`` or ``duplicate``.
    - broad: ``effective_share`` is ``broad``.
    - block: of two texts, a share ``block`` stays within the query's own.
    - aligns: from decoder to encoder, for a share ``aligns`` of the queries beyond chance, the most attended
      token is at the same relative place; and the head is not broad.
    - sink: in a text that begins with no special token, as for ``delimiter``, with a share ``sink`` on the
      first token.

    References:
        Voita et al. (2019), sections 5.1 to 5.3; Clark et al. (2019); Kovaleva et al. (2019);
        Olsson et al. (2022); Xiao et al. (2024).
    """
    every: list[dict[str, Role]] = [{role["role"]: role for role in roles} for roles in by_links]
    offsets = np.nan_to_num(evidence.read("offset")).astype(int)
    for criterion in CRITERIA:
        measure, bound = next(iter(criterion.bounds.items()))
        holds, threshold = evidence.meets(criterion, thresholds), thresholds[str(bound)]
        names = [criterion.name] * evidence.heads
        if criterion is OFFSET:  # and not significantly less with the tokens shuffled
            holds &= ~(evidence.read(SHUFFLED) + evidence.half_width(SHUFFLED) < threshold)
            names = [_NEIGHBOURS.get(offset, f"offset {offset:+d}") for offset in offsets]
        value, error = evidence.read(measure), evidence.read(f"{measure}_se")
        for head in np.flatnonzero(holds).tolist():
            role = _make_role(names[head], measure, value[head], error[head], threshold)
            every[head].setdefault(names[head], role)
    places = {kind: place for place, kind in enumerate(ROLE_MARKS)}
    return [sorted(roles.values(), key=lambda role: places[find_role_kind(role["role"])]) for roles in every]


def _make_role(name: str, measure: str, value: float, error: float, threshold: float) -> Role:
    return {"role": name, "measure": measure, "value": value, "value_se": error, "threshold": threshold}


def name_patterns(evidence: RoleEvidence, thresholds: Mapping[str, float]) -> list[str | None]:
    """Name the pattern of each head's maps; None without measurements, or for a single document.

    It is the first of these whose whole interval holds, beyond uniform attention:

    - vertical: ``pattern`` or more goes to special tokens and to the first token.
    - diagonal: ``pattern`` or more goes to the token itself and to its neighbours.
    - vertical+diagonal: ``pattern`` or more goes to either, and more than 0 to each.
    - block: ``block`` or more stays within one of two texts.
    - heterogeneous: none of these.

    References:
        Kovaleva et al. (2019), section 4.1.
    """
    measures = [next(iter(pattern.bounds)) for pattern in PATTERNS]
    known = np.any([~np.isnan(evidence.read(f"{measure}_se")) for measure in measures], 0)
    names = np.where(known, HETEROGENEOUS, np.array(None))
    for pattern in reversed(PATTERNS):
        names[evidence.meets(pattern, thresholds)] = pattern.name
    return names.tolist()


def find_known_relations(counts: LinkCounts, task: LinkTask, name: str, gain: float) -> list[list[Role]]:
    """List for each head, layer by layer, the relations that it finds better than the best simple rule.

    The rule is the best over all documents, as in ``syntax``. The interval of the difference, over blocks of
    documents, must begin at ``gain`` or above (Student's t, 95 % for all heads and relations together,
    Bonferroni), and the difference must be above 0 by a sign-flip test (``sign_flip``). Relations with fewer
    than 20 links are not tried. The role with the largest gain comes first. Of a relation from either end, or
    at either position, a head keeps the one with the largest gain.

    References:
        Voita et al. (2019), section 5.2.
    """
    layers, heads = counts.shape
    relations = list(_list_relations(counts, task))
    tests = max(1, len(relations) * heads)
    tried = [*range(len(task.rules[: task.least])), len(task.rules)]
    gains: list[tuple[float, int, Role]] = []
    for (label, direction, *position), layer, answers in relations:
        best = answers.rules[tried[task.best_rule(answers.rules[tried].sum(-1))]]
        number, hits = answers.number, answers.hits
        accuracy, ahead = find_share(hits, number), find_share(hits - best, number)
        low, _ = ahead.interval(tests)
        ways = [direction.replace("_", " ")] if task.backward else []
        measure = ", ".join(["accuracy", *ways, *position])
        for head in np.flatnonzero(low >= gain).tolist():
            if sign_flip(hits[head] - best) > (1 - CONFIDENCE) / 2 / tests:
                continue
            value, gained = accuracy.value[head], ahead.value[head]
            role = _make_role(f"{name}: {label}", measure, value, accuracy.error[head], value - gained + gain)
            gains.append((gained, layer * heads + head, role))
    roles: list[dict[str, Role]] = [{} for _ in range(layers * heads)]
    for _, head, role in sorted(gains, key=lambda each: -each[0]):
        roles[head].setdefault(role["role"], role)
    return [list(of_head.values()) for of_head in roles]


def _list_relations(counts: LinkCounts, task: LinkTask) -> Iterator[tuple[Key, int, LinkAnswers]]:
    """Yield relations with enough links, layer by layer, with the answers of heads and rules."""
    only_all = all(label == ALL for label, *_ in counts.near)
    for key in counts.near:
        for layer in range(counts.shape[0]) if only_all or key[0] != ALL else ():
            answers = read_answers(counts, [key], [layer])
            if answers.total >= FEWEST:
                yield key, layer, answers


def role_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate the role of each head with its evidence, and its other roles."""
    sums = measurement.sums
    measured = [statistic for statistic in statistics if statistic.rows == "head"]
    heads = sums[measured[0].name].count.shape[1]
    corpus, request = (labels.provenance.get(name, {}) for name in ("corpus", "asked"))
    thresholds = THRESHOLDS | dict(request.get("thresholds", {}))
    number = len(labels.places) * heads
    by_links: list[list[Role]] = [[] for _ in range(number)]
    for statistic, task, threshold, name in (
        (links.SYNTAX, links.SYNTAX_TASK, "syntactic", "syntactic"),
        (links.COREFERENCE, links.COREFERENCE_TASK, "coreference", "coreference"),
        (links.LINKED, links.LINKS_TASK, "links", str(request.get("links", "links"))),
    ):
        if statistic.name in sums:
            known = find_known_relations(sums[statistic.name], task, name, thresholds[threshold])
            by_links = [[*roles, *more] for roles, more in zip(by_links, known, strict=True)]
    evidence = TableBuilder(labels, number)
    for statistic in measured:
        statistic.columns(statistic, sums[statistic.name], evidence)
    documents = {statistic.name: float(sums[statistic.name].documents or 0) for statistic in measured}
    # Where types tie that occur once, the text can't say which of them are rare.
    if not corpus.get("rare_decided", True):
        evidence.data.pop("rarest_excess", None)
    of_heads = RoleEvidence(evidence.data, number, documents)
    rows = [
        {"role": MIXED, **next(iter(roles), {}), "pattern": pattern}
        | {"also": "; ".join(each["role"] for each in roles[1:]) or None}
        for roles, pattern in zip(
            decide_roles(of_heads, thresholds, by_links), name_patterns(of_heads, thresholds), strict=True
        )
    ]
    columns = [
        Column("role", role="text"),
        Column("measure", role="text"),
        *measure_columns("value", title="value of the measure"),
        Column("threshold", title="threshold of the role"),
        Column("also", role="text"),
        Column("pattern", role="text"),
    ]
    build = TableBuilder(labels, number)
    build.heads(heads)
    build.rows(columns, rows)
    few = corpus.get("clusters", FEW_DOCUMENTS)
    say = f"Only {few} document{'s' * (few != 1)}: intervals are wide, and few heads have a role for sure."
    return build.table(title, [say] if few < FEW_DOCUMENTS else [])


ROLES = Tabulation("role", role_table, FAMILY.title)
