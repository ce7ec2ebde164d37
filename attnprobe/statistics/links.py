"""What heads find: gold links between words, and how often a head's most attended word is their other end.

The best head for each label is chosen on some documents and scored on others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.best_heads import (
    BestLinkHead,
    LinkCondition,
    mark_removed,
    name_columns,
    note_one_fold,
    read_folds,
)
from attnprobe.statistics.by_group import Part, sort_groups, stack_groups
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
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.link_counts import LinkCounts
from attnprobe.table.builder import Labels, TableBuilder, measure_columns
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import join_names
from attnprobe.table.numbers import format_number
from attnprobe.table.table import Column

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


def choose_heads(counts: LinkCounts, labels: Labels, task: LinkTask) -> tuple[list[BestLinkHead], list[str]]:
    """Choose the best head and rule of each row, and note what has none."""
    conditions, notes = list_conditions(counts, labels, task)
    gone = mark_removed([*labels.removed], *counts.shape)
    folds = read_folds(labels)
    return [BestLinkHead.choose(counts, one, gone, task, folds) for one in conditions], notes


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
    chosen, notes = choose_heads(counts, labels, task)
    control = measurement.sums.get(make_control(statistic).name)
    rows = [
        one.score(counts, labels, len(chosen))
        | ({} if control is None else one.score_control(control, read_folds(labels)))
        for one in chosen
    ]
    blocks = [int((one.best.fit.links.asked > 0).sum()) for one in chosen if one.best is not None]
    if blocks and max(blocks) < _FEW_BLOCKS:
        least = format_number(0.5 ** max(blocks), digits=2)
        notes.insert(0, f"Few documents: no p is below {least}, as there are {max(blocks)} blocks of them.")
    notes = [*note_one_fold(rows), *notes]
    return _tabulate(title, chosen, rows, task, labels, notes, with_control=control is not None)


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
    group, given what was chosen, and ``p_adjusted`` counts its rows. The test of groups is of ``accuracy``.
    """
    table = by_label_table(statistic, task, title, measurement, statistics, labels)
    whole = Part.of(table, measurement)
    chosen, _ = choose_heads(measurement.sums[statistic.name], labels, task)
    groups = {}
    for name in sort_groups([*measurement.strata]):
        group = measurement.strata[name]
        counts: LinkCounts = group.sums[statistic.name]
        rows = [one.score(counts, labels, len(chosen), whole=False) for one in chosen]
        part = _tabulate(title, chosen, rows, task, labels, [], with_control="control" in table.data)
        blocks = dict(zip(counts.keys, counts.blocks, strict=True))
        by_row = {}
        for key, one in zip(whole.places, chosen, strict=True):
            condition = one.condition
            of_layers = blocks.get(condition.key(condition.positions[0]))
            by_row[key] = 0 if of_layers is None else int(of_layers[condition.layers[0]])
        groups[name] = replace(Part.of(part, group), by_row=by_row)
    return stack_groups(whole, groups, ("accuracy",))


def _tabulate(
    title: str,
    chosen: Sequence[BestLinkHead],
    rows: Sequence[dict[str, Any]],
    task: LinkTask,
    labels: Labels,
    notes: Sequence[str],
    *,
    with_control: bool,
) -> HeadTable:
    conditions = [one.condition for one in chosen]
    for row, condition in zip(rows, conditions, strict=True):
        row |= {task.label: condition.label, "direction": condition.direction}
        row["attention"] = None if condition.kind is None else str(condition.kind)
        if (rule := row.get("rule")) is not None:
            row["baseline_rule"] = task.name_of(rule)
            row["baseline_offset"] = task.offsets[rule] if rule < len(task.offsets) else None
    columns = [Column(task.label, role="key")]
    if task.backward:
        columns.append(Column("direction", role="key"))
    if any(condition.kind for condition in conditions):
        columns.append(Column("attention", role="key"))
    columns += [
        Column("n", "links", role="count"),
        *name_columns(position=any(any(condition.positions) for condition in conditions)),
        *measure_columns("accuracy", UNIT, "links found by the heads that the folds chose", headline=True),
        Column("baseline", UNIT, title="links that the best rule finds"),
    ]
    if task.offsets:
        columns.append(Column("baseline_offset", "words", role="count"))
    columns += [
        Column("baseline_rule", role="text"),
        *measure_columns("gain", UNIT, "gain over the best rule"),
        Column("p", title="p"),
        Column("p_adjusted", title="adjusted p"),
        Column("accuracy_selected", UNIT, title="links found where the head was chosen"),
        Column("n_far", "links", role="count"),
        *measure_columns("accuracy_far", UNIT, "links with a word between their ends that it finds"),
        Column("baseline_far", UNIT, title="links with a word between their ends that the rule finds"),
        Column("chosen", "share", title="folds that chose the head"),
    ]
    if with_control:
        columns += measure_columns("control", UNIT, "links that the best head of the control finds")
        columns += measure_columns("selectivity", UNIT, "accuracy less that of the control")
    build = TableBuilder(labels, len(rows))
    build.rows(columns, rows)
    return build.table(title, notes, "best heads")


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
