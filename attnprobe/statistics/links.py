"""What heads find: gold links between words, and how often a head's most attended word is their other end.

The best head for each label is chosen on some documents and scored on others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.best_heads import (
    NAME_COLUMNS,
    BestLinkHead,
    LinkCondition,
    mark_removed,
    note_one_fold,
    read_folds,
)
from attnprobe.statistics.questions import questions_of
from attnprobe.statistics.rules import (
    ALL,
    FIRST,
    INPUT,
    OF_PARTS_OF_SPEECH,
    OFFSETS,
    SAME_CONTEXT,
    SAME_LEFT_CONTEXT,
    SAME_PLACE,
    SAME_TEXT,
    LinkTask,
    offsets_to,
)
from attnprobe.statistics.statistic import Family, Statistic
from attnprobe.statistics.tabulation import Tabulation, sort_groups, stack_groups
from attnprobe.sums.base import Measurement
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.link_counts import LinkCounts
from attnprobe.table.builder import Labels, TableBuilder, measure_columns, p_columns
from attnprobe.table.naming import join_names
from attnprobe.table.numbers import format_number
from attnprobe.table.table import Column, HeadTable

FAMILY = Family("links", "what heads find", 7, commands=("syntax", "coreference", "links"))

UNIT = "share of links"
#: Labels of fewer links say too little of a head to be shown.
FEWEST = 20
#: With fewer blocks of documents, no p can be small.
_FEW_BLOCKS = 15


# Which links have a row


def list_conditions(
    counts: LinkCounts, labels: Labels, task: LinkTask
) -> tuple[list[LinkCondition], list[str]]:
    """List what is shown, all links first, then labels by their number of links; and notes on what is not."""
    if not counts.keys:
        return [], ["No text has a link that is asked for.", *_note_left_out(counts)]
    asked = labels.provenance.get("asked", {})
    fewest, chosen = int(asked.get("min_links", FEWEST)), asked.get("labels") is not None
    kinds, links = [place.kind for place in labels.places], counts.links
    named = sorted({label for label, *_ in counts.keys} - {ALL})
    most, rare = dict[str, int](), dict[str, int]()
    conditions = list[LinkCondition]()
    for kind in dict.fromkeys(kinds):
        layers = [layer for layer, other in enumerate(kinds) if other is kind]
        numbers, positions = dict[tuple[str, str], int](), dict[tuple[str, str], list[str]]()
        for place, (label, direction, *position) in enumerate(counts.near):
            if number := int(links[place, layers[0]]):
                numbers[label, direction] = number  # the same at every position
                positions.setdefault((label, direction), []).extend(position or [""])
        for (label, direction), number in numbers.items():
            alone = len(named) == 1 and numbers.get((named[0], direction)) == number
            if label == ALL and named and (chosen or alone):  # the one label says the same
                continue
            if label != ALL and number < fewest:
                rare[label] = max(number, rare.get(label, 0))
                continue
            most[label] = max(number, most.get(label, 0))
            at = sorted(positions[label, direction], key=INPUT.__eq__)
            conditions.append(LinkCondition(label, direction, kind, layers, at))
    directions = [task.forward, task.backward]
    conditions.sort(
        key=lambda one: (
            list(Kind).index(one.kind) if one.kind else 0,
            one.label != ALL,
            -most[one.label],
            one.label,
            directions.index(one.direction),
        )
    )
    left_out = sorted((label for label in rare if label not in most), key=lambda label: (-rare[label], label))
    notes = [f"Left out, with fewer than {fewest} links: {join_names(left_out, 8)}."] if left_out else []
    return conditions, [*notes, *_note_left_out(counts)]


def _note_left_out(counts: LinkCounts) -> Iterator[str]:
    same, unseen, certain = counts.left_out.tolist()
    for number, reason in (
        (same, "both ends of the link have the same tokens"),
        (unseen, "a decoder sees only what comes before a word, and the answer comes after it"),
        (certain, "every candidate in sight is right"),
    ):
        if number:
            yield f"{number:,} {'question was' if number == 1 else 'questions were'} left out: {reason}."


# The best head for each label


_BEST_COLUMNS = [
    Column("direction", role="key"),
    Column("attention", role="key"),
    Column("n", "links", role="count"),
    *NAME_COLUMNS,
    *measure_columns("accuracy", UNIT, "links found by the heads that the folds chose", headline=True),
    Column("baseline", UNIT, title="links that the best rule finds"),
    Column("baseline_offset", "words", role="count"),
    Column("baseline_rule", role="text"),
    *measure_columns("gain", UNIT, "gain over the best rule"),
    *p_columns(),
    Column("accuracy_selected", UNIT, title="links found where the head was chosen"),
    Column("n_far", "links", role="count"),
    *measure_columns("accuracy_far", UNIT, "links with a word between their ends that it finds"),
    Column("baseline_far", UNIT, title="links with a word between their ends that the rule finds"),
    Column("chosen", "share", title="folds that chose the head"),
    *measure_columns("control", UNIT, "links that the best head of the control finds"),
    *measure_columns("selectivity", UNIT, "accuracy less that of the control"),
]


@dataclass(frozen=True)
class _BestHeads:
    """The best head and rule of each row, and notes on what has no row."""

    task: LinkTask
    labels: Labels
    rows: Sequence[BestLinkHead]
    notes: Sequence[str]

    @classmethod
    def choose(cls, counts: LinkCounts, labels: Labels, task: LinkTask) -> "_BestHeads":
        conditions, notes = list_conditions(counts, labels, task)
        gone, folds = mark_removed([*labels.removed], *counts.shape), read_folds(labels)
        heads = [BestLinkHead.choose(counts, one, gone, task, folds) for one in conditions]
        blocks = max((one.best.fit.links.blocks for one in heads if one.best is not None), default=BLOCKS)
        if blocks < _FEW_BLOCKS:
            least = format_number(0.5**blocks, digits=2)
            notes = [f"Few documents: no p is below {least}, as there are {blocks} blocks of them.", *notes]
        return cls(task, labels, heads, notes)

    def score(self, counts: LinkCounts, *, whole: bool = True) -> list[dict[str, Any]]:
        """Score them on the documents that they were chosen on, the ``whole``, or on a group of them."""
        return [one.score(counts, self.labels, len(self.rows), whole=whole) for one in self.rows]

    def tabulate(self, title: str, scores: Sequence[dict[str, Any]], *, with_control: bool) -> HeadTable:
        conditions = [one.condition for one in self.rows]
        task, rows = self.task, list[dict[str, Any]]()
        for condition, score in zip(conditions, scores, strict=True):
            row = score | {task.label: condition.label, "direction": condition.direction}
            row["attention"] = None if condition.kind is None else str(condition.kind)
            if (rule := score.get("rule")) is not None:
                row["baseline_rule"] = task.name_of(rule)
                row["baseline_offset"] = task.offsets[rule] if rule < len(task.offsets) else None
            rows.append(row)
        absent = {
            "direction": not task.backward,
            "attention": not any(condition.kind for condition in conditions),
            "position": not any(any(condition.positions) for condition in conditions),
            "baseline_offset": not task.offsets,
            "control": not with_control,
            "selectivity": not with_control,
        }
        columns = [one for one in _BEST_COLUMNS if not absent.get(one.name.removesuffix("_se"))]
        build = TableBuilder(self.labels, len(rows))
        build.rows([Column(task.label, role="key"), *columns], rows)
        return build.table(title, [*note_one_fold(rows), *self.notes])


def by_label_table(
    statistic: Statistic,
    task: LinkTask,
    title: str,
    measurement: Measurement,
    _: Sequence[Statistic],
    labels: Labels,
) -> HeadTable:
    """Tabulate the best head for each label and direction, beside the best rule.

    For each of K folds of the documents (``folds``, 5 by default), the head with most right answers on
    the other folds is scored on it; of equals, the first. ``accuracy`` is right answers of all folds, divided
    by ``n``. ``layer`` and ``head`` name the head that most folds chose, and ``chosen`` is the share of them.
    ``baseline`` is the share of all links that the best rule finds (``baseline_offset``, ``baseline_rule``).
    It is chosen over all links, so that it is too high if anything; where links name candidates, it is chance
    among them at least. ``n_far`` counts links with a word between their ends, ``accuracy_far`` and
    ``baseline_far`` are shares of these; two texts know no distance. ``accuracy_selected`` is the largest
    accuracy of any head over all documents.

    A decoder beside an encoder is asked where it predicts a word (``position`` is ``output``) and where it
    reads it (``input``); the better is chosen. ``gain`` is accuracy less baseline. Errors and ``p`` are over
    blocks of documents (``Difference``); heads are chosen anew with every draw.

    With ``control="links"``, ``control`` is the accuracy of the best heads for moved links (``move_links``),
    cross-fitted alike, and ``selectivity`` accuracy less control, with its paired error.
    """
    counts: LinkCounts = measurement.sums[statistic.name]
    best = _BestHeads.choose(counts, labels, task)
    scores = best.score(counts)
    control = measurement.sums.get(make_control(statistic).name)
    if control is not None:
        beside = [one.score_control(control, read_folds(labels)) for one in best.rows]
        scores = [score | of_control for score, of_control in zip(scores, beside, strict=True)]
    return best.tabulate(title, scores, with_control=control is not None)


def by_label_and_group_table(
    statistic: Statistic,
    task: LinkTask,
    title: str,
    measurement: Measurement,
    statistics: Sequence[Statistic],
    labels: Labels,
) -> HeadTable:
    """Tabulate each label and direction over all groups of documents, and below it in each group.

    Heads and rules are those of all groups, so that right answers of the groups add up. ``p`` is of the
    group, given what was chosen, and ``p_adjusted`` counts its rows.
    """
    table = by_label_table(statistic, task, title, measurement, statistics, labels)
    best = _BestHeads.choose(measurement.sums[statistic.name], labels, task)
    groups = {}
    for name in sort_groups(measurement.strata):
        scores = best.score(measurement.strata[name].sums[statistic.name], whole=False)
        groups[name] = best.tabulate(title, scores, with_control="control" in table.data)
    stacked = stack_groups(table, groups, measurement.strata)
    # All parts have the same rows; those of one label and direction stand together.
    order = sorted(range(len(stacked)), key=lambda row: row % len(table))
    data = {name: [cells[row] for row in order] for name, cells in stacked.data.items()}
    return replace(stacked, data=data)


# All heads


def by_head_table(
    statistic: Statistic,
    task: LinkTask,
    title: str,
    measurement: Measurement,
    _: Sequence[Statistic],
    labels: Labels,
) -> HeadTable:
    """Tabulate every label, direction and head, over all documents.

    ``position`` is where a decoder beside an encoder was asked: ``output`` or ``input``.
    """
    counts: LinkCounts = measurement.sums[statistic.name]
    conditions, notes = list_conditions(counts, labels, task)
    heads = range(counts.shape[1])
    rows = [
        (condition, position, layer, head)
        for condition in conditions
        for position in condition.positions
        for layer in condition.layers
        for head in heads
    ]
    layers, columns = (np.array([row[place] for row in rows], np.int64) for place in (2, 3))
    build = TableBuilder(labels, len(rows))
    build.key(task.label, [condition.label for condition, *_ in rows])
    build.key("direction", [condition.direction for condition, *_ in rows])
    if any(position for _, position, *_ in rows):
        build.key("position", [position for _, position, *_ in rows])
    build.layers(layers.tolist())
    build.key("head", columns)
    places, links, accuracy = {key: at for at, key in enumerate(counts.keys)}, counts.links, counts.accuracy()
    for far, end, title_of in (
        (False, "", "links found"),
        (True, "_far", "links with a word between their ends that are found"),
    ):
        keys = [condition.key(position, far=far) for condition, position, *_ in rows]
        at = np.array([places.get(key, -1) for key in keys], np.int64)
        build.count(f"n{end}", np.where(at < 0, 0, links[at, layers]), "links")
        share, error = (np.where(at < 0, np.nan, one[at, layers, columns]) for one in accuracy)
        build.measure(f"accuracy{end}", UNIT, share, error, headline=not far, title=title_of)
    return build.table(title, notes)


# Tasks


#: The rules that a head has to beat, as the guesses of links name them.
NEAREST, SAME_LAST_WORD = "nearest", "same last word"
SAME_HEAD_WORD, SAME_STRING = "same head word", "same string"
NEAREST_OF_KIND = ("nearest pronoun", "nearest proper", "nearest nominal")
#: A fixed offset looks so many words far at most.
FURTHEST_LINK = 48

SYNTAX_TASK = LinkTask(
    "dependent_to_head",
    "head_to_dependent",
    (*OFFSETS, SAME_TEXT, *OF_PARTS_OF_SPEECH),
    label="relation",
    least=len(OFFSETS),
)
COREFERENCE_TASK = LinkTask(
    "mention_to_antecedent",
    "",
    (NEAREST, SAME_LAST_WORD, SAME_HEAD_WORD, SAME_STRING, FIRST, *NEAREST_OF_KIND),
    label="mention",
    noun="kind of mention",
    least=2,
)
_RULES = (
    *offsets_to(FURTHEST_LINK),
    SAME_TEXT,
    SAME_CONTEXT,
    SAME_LEFT_CONTEXT,
    SAME_PLACE,
    *OF_PARTS_OF_SPEECH,
)
LINKS_TASK = LinkTask("source_to_target", "target_to_source", _RULES, label="label")


def _define(
    name: str, task: LinkTask, title: str, noun: str, order: int
) -> tuple[Statistic, Tabulation, Tabulation]:
    statistic = Statistic(
        name, "share of links", partial(questions_of, task=task), scope="links", rows="label",
        sums=LinkCounts, version=4, family=FAMILY, title=title, order=order,
    )  # fmt: skip
    by_label = partial(by_label_table, statistic, task)
    best = f"{name}: the best head for each {task.noun or task.label}"
    return (
        statistic,
        Tabulation(
            task.label,
            by_label,
            best,
            partial(by_label_and_group_table, statistic, task),
            stacked=True,
        ),
        Tabulation(
            f"{task.label} and head",
            partial(by_head_table, statistic, task),
            f"{name}: how often each head finds {noun}",
            stacked=True,
        ),
    )


SYNTAX, BY_RELATION, BY_RELATION_AND_HEAD = _define(
    "syntax", SYNTAX_TASK, "dependencies found", "a relation", 0
)
COREFERENCE, BY_MENTION, BY_MENTION_AND_HEAD = _define(
    "coreference", COREFERENCE_TASK, "antecedents found", "an antecedent", 1
)
LINKED, BY_LABEL, BY_LABEL_AND_HEAD = _define("links", LINKS_TASK, "links found", "a label", 2)


@cache
def make_control(statistic: Statistic) -> Statistic:
    """Make the control of what heads find: the same of links that were moved. No rule is asked."""
    of_links: Any = statistic.function
    task = replace(of_links.keywords["task"], rules=())
    function = partial(questions_of, task=task, moved=True)
    return replace(statistic, name=f"{statistic.name}_moved", function=function)


def find_control(name: str) -> Statistic | None:
    """Find the control of that name, if it is one."""
    every = map(make_control, (SYNTAX, COREFERENCE, LINKED))
    return next((one for one in every if one.name == name), None)
