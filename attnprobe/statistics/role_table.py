"""Roles of heads: the criteria, what a head knows of gold links, and the table of ``roles``."""

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
from attnprobe.sums.link_counts import Key, LinkCounts
from attnprobe.table.builder import FEW_DOCUMENTS, Labels, TableBuilder, measure_columns
from attnprobe.table.naming import MIXED
from attnprobe.table.table import Column, HeadTable

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: From where on a head has a role, or a pattern; see ``decide_roles``.
THRESHOLDS: dict[str, float] = {
    "positional": 0.9,
    "delimiter": 0.3,
    "preference": 0.9,
    "rare": 0.5,
    "syntactic": 0.1,
    "coreference": 0.1,
    "induction": 0.5,
    "duplicate": 0.5,
    "broad": 0.6,
    "block": 0.8,
    "links": 0.1,
    "aligns": 0.5,
    "sink": 0.3,
    "pattern": 0.5,
}


@dataclass(frozen=True)
class Criterion:
    """A role or a pattern, and what has to reach which thresholds for it.

    Attributes:
        name: The role.
        measure: The evidence of it, a column of ``RoleEvidence``.
        threshold: Its name among ``THRESHOLDS``.
        also: Further measures with their thresholds, by name or as a number.
        sharp: Whether a head that is broad does not have it.
    """

    name: str
    measure: str
    threshold: str
    also: tuple[tuple[str, str | float], ...] = ()
    sharp: bool = False


BROAD = Criterion("broad", "effective_share", "broad")
POSITIONAL = Criterion("offset", "offset_share", "positional", sharp=True)
#: The roles that come before those by gold links, and those behind them.
FIRST_CRITERIA = (
    Criterion("delimiter", "special_excess", "delimiter", (("special_preference", "preference"),)),
    Criterion("delimiter", "punctuation_excess", "delimiter", (("punctuation_preference", "preference"),)),
    Criterion("rare words", "rarest_excess", "rare", (("rare_lift", 1.0),), sharp=True),
)
LAST_CRITERIA = (
    Criterion("induction", "induction", "induction"),
    Criterion("duplicate", "duplicate", "duplicate"),
    BROAD,
    Criterion("block", "segment_excess", "block"),
    Criterion("aligns", "aligned_excess", "aligns", sharp=True),
    Criterion("sink", "first_token_excess", "sink", (("first_token_preference", "preference"),)),
)
_ABOVE_0 = float(np.nextafter(0, 1))
#: The patterns, in the order in which they are asked for.
PATTERNS = (
    Criterion("vertical", "vertical_excess", "pattern"),
    Criterion("diagonal", "diagonal_excess", "pattern"),
    Criterion(
        "vertical+diagonal",
        "vertical_diagonal_excess",
        "pattern",
        (("vertical_excess", _ABOVE_0), ("diagonal_excess", _ABOVE_0)),
    ),
    Criterion("block", "segment_excess", "block"),
)
HETEROGENEOUS = "heterogeneous"
_NEIGHBOURS = {-1: "previous", 0: "self", 1: "next"}


@dataclass(frozen=True)
class Role:
    """A role that a head has, such as "syntactic: det", and the measure that lies beyond the threshold."""

    name: str
    measure: str
    value: float
    error: float
    threshold: float


@dataclass(frozen=True)
class RoleEvidence:
    """Measures of all heads and their errors, by name: one head after the other, layer by layer.

    ``documents`` is the number of documents of each measure.
    """

    columns: Mapping[str, Sequence[Any]]
    heads: int
    documents: Mapping[str, float]

    def read(self, name: str) -> Floats:
        """Give a column; NaN where it was not measured."""
        cells = self.columns.get(name, [None] * self.heads)
        return np.array([np.nan if cell is None else cell for cell in cells], np.float64)

    def half_width(self, name: str) -> Floats:
        """Give half the width of the interval of each head, all of which hold together with 95 %."""
        return half_width(self.read(f"{name}_se"), self.documents.get(name, 0))

    def reaches(self, name: str, threshold: float) -> Bools:
        """Tell the heads whose whole interval lies at a threshold or above it."""
        return self.read(name) - self.half_width(name) >= threshold

    def meets(self, criterion: Criterion, thresholds: Mapping[str, float]) -> Bools:
        """Tell the heads that meet a criterion."""
        holds = np.ones(self.heads, bool)
        for measure, threshold in ((criterion.measure, criterion.threshold), *criterion.also):
            holds &= self.reaches(measure, thresholds[threshold] if isinstance(threshold, str) else threshold)
        return holds & ~self.meets(BROAD, thresholds) if criterion.sharp else holds

    def lost_when_shuffled(self, threshold: float) -> Bools:
        """Tell the heads that look at one offset in the text, and significantly less with it shuffled."""
        highest = self.read("offset_share_shuffled") + self.half_width("offset_share_shuffled")
        return self.reaches("offset_share", threshold) & (highest < threshold)


def decide_roles(
    evidence: RoleEvidence, thresholds: Mapping[str, float], by_links: Sequence[list[Role]]
) -> list[list[Role]]:
    """Give the roles of each head, the one that names it first.

    A role holds if the interval of its evidence lies beyond the threshold. Intervals hold for all heads
    together with 95 % (Student's t over documents, Bonferroni). Thresholds are on what lies beyond uniform
    attention to the same keys, since a mass depends on the length of a text.

    - previous, next, self, offset: for ``positional`` of the queries, the most attended token is at that one
      offset, and still is with the tokens shuffled; and the head is not broad.
    - delimiter: ``delimiter`` is on special tokens, or on punctuation; and of the attention to one such token
      and one other, ``preference`` goes to the first.
    - rare words: for ``rare`` of the queries beyond chance, the most attended token is the rarest, rare
      tokens get more than their share, and the head is not broad.
    - syntactic, coreference, links: see ``role_table.find_known_relations``.
    - induction, duplicate: the score on random tokens, repeated, is ``induction`` or ``duplicate``.
    - broad: rows are as broad as ``broad`` of the keys in sight.
    - block: of two texts, ``block`` is within the query's own.
    - aligns: from decoder to encoder, for ``aligns`` of the queries beyond chance, the most attended token is
      at the same relative place; and the head is not broad.
    - sink: of a text that begins with no special token, what ``delimiter`` is of special tokens, with
      ``sink`` of the attention on the first token.

    Args:
        evidence: What was measured.
        thresholds: See ``THRESHOLDS``.
        by_links: The roles by gold links of each head.

    References:
        Voita et al. (2019), sections 5.1 to 5.3; Clark et al. (2019); Kovaleva et al. (2019);
        Olsson et al. (2022); Xiao et al. (2024).
    """
    every: list[list[Role]] = [[] for _ in range(evidence.heads)]

    def give(criterion: Criterion, holds: Bools, names: Sequence[str]) -> None:
        value, error = evidence.read(criterion.measure), evidence.read(f"{criterion.measure}_se")
        for head in np.flatnonzero(holds).tolist():
            if all(role.name != names[head] for role in every[head]):
                threshold = thresholds[criterion.threshold]
                every[head].append(Role(names[head], criterion.measure, value[head], error[head], threshold))

    stays = ~evidence.lost_when_shuffled(thresholds[POSITIONAL.threshold])
    offsets = evidence.read("offset")
    stays &= ~np.isnan(offsets)
    places = [_NEIGHBOURS.get(offset, f"offset {offset:+d}") for offset in np.nan_to_num(offsets).astype(int)]
    give(POSITIONAL, evidence.meets(POSITIONAL, thresholds) & stays, places)
    for criterion in FIRST_CRITERIA:
        give(criterion, evidence.meets(criterion, thresholds), [criterion.name] * evidence.heads)
    for head, roles in enumerate(by_links):
        every[head] += roles
    for criterion in LAST_CRITERIA:
        give(criterion, evidence.meets(criterion, thresholds), [criterion.name] * evidence.heads)
    return every


def name_patterns(evidence: RoleEvidence, thresholds: Mapping[str, float]) -> list[str | None]:
    """Name the pattern of each head's maps; None where nothing was measured, or on one document alone.

    With V what lies on special tokens and on the first token, D what lies on the token itself and on its
    neighbours, E what lies on either, B what stays within one of two texts, all beyond uniform attention, the
    first of these holds, by the whole interval:

    - vertical: V of ``pattern`` or more.
    - diagonal: D of ``pattern`` or more.
    - vertical+diagonal: E of ``pattern`` or more, and V and D above 0.
    - block: B of ``block`` or more.
    - heterogeneous: none of these.

    References:
        Kovaleva et al. (2019), section 4.1.
    """
    known = np.any([~np.isnan(evidence.read(f"{pattern.measure}_se")) for pattern in PATTERNS], 0)
    names = [HETEROGENEOUS if one else None for one in known]
    for pattern in reversed(PATTERNS):
        for head in np.flatnonzero(evidence.meets(pattern, thresholds)).tolist():
            names[head] = pattern.name
    return names


def find_known_relations(counts: LinkCounts, task: LinkTask, name: str, gain: float) -> list[list[Role]]:
    """Give the relations of which each head finds more than the best simple rule, head by head.

    The rule is the one that finds most links over all documents, as in ``syntax``, and errors are over blocks
    of documents. The interval of the difference has to lie beyond ``gain`` (Student's t), for all heads and
    relations together with 95 % (Bonferroni), and the difference has to be above 0 by signs over blocks
    (``sign_flip``). Relations of fewer than 20 links are not tried. Links of which none has a label are tried
    together. The role with the largest gain comes first; its name is ``name`` and the relation.

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
        links, hits = answers.number, answers.hits
        accuracy, ahead = find_share(hits, links), find_share(hits - best, links)
        low, _ = ahead.interval(tests)
        ways = [direction.replace("_", " ")] if task.backward else []
        measure = ", ".join(["accuracy", *ways, *position])
        for head in np.flatnonzero(low >= gain).tolist():
            if sign_flip(hits[head] - best) > (1 - CONFIDENCE) / 2 / tests:
                continue
            threshold = accuracy.value[head] - ahead.value[head] + gain
            numbers = map(float, (accuracy.value[head], accuracy.error[head], threshold))
            role = Role(f"{name}: {label}", measure, *numbers)
            gains.append((float(ahead.value[head]), layer * heads + head, role))
    # Of a relation from either end, or at either position, a head keeps the one with the largest gain.
    roles: list[dict[str, Role]] = [{} for _ in range(layers * heads)]
    for _, head, role in sorted(gains, key=lambda one: -one[0]):
        roles[head].setdefault(role.name, role)
    return [list(of_head.values()) for of_head in roles]


def _list_relations(counts: LinkCounts, task: LinkTask) -> Iterator[tuple[Key, int, LinkAnswers]]:
    """List the relations of which there are enough links, layer by layer, and who finds them."""
    only_all = all(label == ALL for label, *_ in counts.near)
    for key in counts.near:
        for layer in range(counts.shape[0]) if only_all or key[0] != ALL else ():
            answers = read_answers(counts, [key], [layer])
            if answers is not None and answers.total >= FEWEST:
                yield key, layer, answers


def role_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate the role of each head with its evidence, and its other roles."""
    measured = [statistic for statistic in statistics if statistic.rows == "head"]
    heads = measurement.sums[measured[0].name].count.shape[1]
    corpus, asked = (labels.provenance.get(name, {}) for name in ("corpus", "asked"))
    thresholds = THRESHOLDS | dict(asked.get("thresholds", {}))
    evidence = _collect_evidence(measurement, measured, labels, len(labels.places) * heads)
    by_links: list[list[Role]] = [[] for _ in range(evidence.heads)]
    for statistic, task, threshold, name in (
        (links.SYNTAX, links.SYNTAX_TASK, "syntactic", "syntactic"),
        (links.COREFERENCE, links.COREFERENCE_TASK, "coreference", "coreference"),
        (links.LINKED, links.LINKS_TASK, "links", str(asked.get("links", "links"))),
    ):
        if statistic.name in measurement.sums:
            known = find_known_relations(measurement.sums[statistic.name], task, name, thresholds[threshold])
            by_links = [[*one, *more] for one, more in zip(by_links, known, strict=True)]
    rows = [
        {**_describe_roles(roles), "pattern": pattern}
        for roles, pattern in zip(
            decide_roles(evidence, thresholds, by_links), name_patterns(evidence, thresholds), strict=True
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
    build = TableBuilder(labels, len(rows))
    build.heads(heads)
    build.rows(columns, rows)
    return build.table(title, list(_note_few(corpus.get("clusters", FEW_DOCUMENTS))))


def _describe_roles(roles: Sequence[Role]) -> dict[str, Any]:
    if not roles:
        return {"role": MIXED}
    first, *others = roles
    return {
        "role": first.name,
        "measure": first.measure,
        "value": first.value,
        "value_se": first.error,
        "threshold": first.threshold,
        "also": "; ".join(role.name for role in others) or None,
    }


def _collect_evidence(
    measurement: Measurement, statistics: Sequence[Statistic], labels: Labels, heads: int
) -> RoleEvidence:
    """Give what was measured of all heads, and of how many documents."""
    build, documents = TableBuilder(labels, heads), dict[str, float]()
    for statistic in statistics:
        sums, before = measurement.sums[statistic.name], set(build.data)
        statistic.columns(statistic, sums, build)
        documents |= dict.fromkeys(build.data.keys() - before, float(sums.documents or 0))
    # Where types tie that occur once, the text can't say which of them are rare.
    if not labels.provenance.get("corpus", {}).get("rare_decided", True):
        build.data.pop("rarest_excess", None)
    return RoleEvidence(build.data, heads, documents)


def _note_few(documents: int) -> Iterator[str]:
    """Say that documents are few, of which nothing can be told but what is very clear."""
    if documents < FEW_DOCUMENTS:
        yield (
            f"Only {documents} {'document' if documents == 1 else 'documents'}: intervals are wide, and few "
            "heads have a role for sure."
        )


ROLES = Tabulation("role", role_table, FAMILY.title)
