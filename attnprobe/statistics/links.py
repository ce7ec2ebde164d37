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
    cross_fit,
    name_best,
    note_one_fold,
    read_answers,
    score_gain,
    score_share,
)
from attnprobe.statistics.questions import questions_of
from attnprobe.statistics.rules import (
    ALL,
    FIRST,
    OF_PARTS_OF_SPEECH,
    OFFSETS,
    SAME_CONTEXT,
    SAME_LEFT_CONTEXT,
    SAME_PLACE,
    SAME_TEXT,
    LinkTask,
)
from attnprobe.statistics.statistic import Family, Statistic
from attnprobe.statistics.tabulation import Tabulation, sort_groups, stack_groups
from attnprobe.sums.base import Measurement
from attnprobe.sums.crossfit import CrossFit
from attnprobe.sums.link_counts import FAR, Key, LinkCounts
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


@dataclass(frozen=True)
class LinkCondition:
    """Links of a label that are asked in one direction of one kind of attention.

    ``keys`` are what they are counted by: one for each position of a decoder beside an encoder.
    """

    label: str
    direction: str
    kind: Kind | None
    layers: Sequence[int]
    keys: Sequence[Key]


def list_asked(counts: LinkCounts, labels: Labels) -> Iterator[tuple[LinkCondition, int]]:
    """List what is asked in each kind of attention, with the number of links."""
    kinds = [place.kind for place in labels.places]
    for kind in (kind for kind in (None, *Kind) if kind in kinds):
        layers = [layer for layer, other in enumerate(kinds) if other is kind]
        links = dict(zip(counts.keys, counts.links[:, layers[0]].tolist(), strict=True))
        keys = [key for key in counts.near if links[key]]
        for label, direction in dict.fromkeys(key[:2] for key in keys):
            of_label = [key for key in keys if key[:2] == (label, direction)]
            # There are as many at every position.
            yield LinkCondition(label, direction, kind, layers, of_label), links[of_label[0]]


def list_conditions(
    counts: LinkCounts, labels: Labels, task: LinkTask
) -> tuple[list[LinkCondition], list[str]]:
    """List what is shown, all links first, then labels by their number of links; and notes on what is not."""
    if not counts.keys:
        return [], ["No text has a link that is asked for.", *_note_left_out(counts)]
    wanted, every = labels.provenance.get("asked", {}), list(list_asked(counts, labels))
    fewest, named = int(wanted.get("min_links", FEWEST)), {label for label, *_ in counts.keys} - {ALL}
    most = dict[str, int]()
    for condition, number in every:
        most[condition.label] = max(number, most.get(condition.label, 0))
    alike = {(one.kind, one.direction, number) for one, number in every if {one.label} == named}

    def is_shown(condition: LinkCondition, number: int) -> bool:
        if condition.label != ALL:
            return number >= fewest
        # One label says the same as all.
        return not named or (
            wanted.get("labels") is None and (condition.kind, condition.direction, number) not in alike
        )

    shown = [condition for condition, number in every if is_shown(condition, number)]
    kinds, directions = list(dict.fromkeys(one.kind for one in shown)), [task.forward, task.backward]
    shown.sort(
        key=lambda one: (
            kinds.index(one.kind),
            one.label != ALL,
            -most[one.label],
            one.label,
            directions.index(one.direction),
        )
    )
    rare = sorted((-number, label) for label, number in most.items() if label != ALL and number < fewest)
    notes = list(_note_left_out(counts))
    if rare:
        names = join_names([label for _, label in rare], 8)
        notes.insert(0, f"Left out, with fewer than {fewest} links: {names}.")
    return shown, notes


def _note_left_out(counts: LinkCounts) -> Iterator[str]:
    reasons = (
        "both ends of the link have the same tokens",
        "a decoder sees only what comes before a word, and the answer comes after it",
        "every candidate in sight is right",
    )
    for number, reason in zip(counts.left_out.tolist(), reasons, strict=True):
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


def score_best_head(
    counts: LinkCounts,
    condition: LinkCondition,
    task: LinkTask,
    labels: Labels,
    tests: int,
    *,
    part: LinkCounts | None = None,
    control: LinkCounts | None = None,
) -> dict[str, Any]:
    """Score the head that finds most links of a condition, and the best rule over all of them; give cells.

    ``part`` are the counts of a group of documents, to be scored with what all choose; ``control`` those of
    moved links, which are not scored by group. ``tests`` says how many p values are adjusted together.
    """
    keys, layers = condition.keys, condition.layers
    answers, far = (read_answers(counts, keys, layers, labels.removed, far=far) for far in (False, True))
    fit = None if answers is None else cross_fit(answers, labels)
    scored = answers
    if part is not None:
        scored, far = (read_answers(part, keys, layers, labels.removed, far=far) for far in (False, True))
    row: dict[str, Any] = {"n": 0 if scored is None else scored.total, "n_far": 0}
    if answers is None or scored is None or fit is None:
        return row
    rule = task.best_rule(answers.rules.sum(-1))
    baseline = CrossFit.fixed(scored.number, scored.rules[rule])
    head = fit if part is None else fit.keep_choice(scored)
    row |= name_best(fit, answers.candidates, labels) | score_share("accuracy", head)
    row |= score_gain(head, baseline, tests) | {"baseline": baseline.share}
    if baseline.share:
        row["baseline_rule"] = task.name_of(rule)
        row["baseline_offset"] = task.offsets[rule] if rule < len(task.offsets) else None
    if far is not None:
        head = fit.transfer(far) if part is None else fit.keep_choice(far)
        row |= score_share("accuracy_far", head) | {"n_far": far.total}
        row["baseline_far"] = float(far.rules[rule].sum() / far.total)
    if part is None:
        row |= {"accuracy_selected": float(answers.shares.max()), "chosen": fit.agreement}
        moved = None if control is None else read_answers(control, keys, layers, labels.removed)
        beside = None if moved is None else cross_fit(moved, labels)
        if beside is not None:
            row |= score_share("control", beside) | score_share("selectivity", fit, beside)
    return row


def by_label_table(
    statistic: Statistic,
    task: LinkTask,
    title: str,
    measurement: Measurement,
    _: Sequence[Statistic],
    labels: Labels,
    *,
    part: LinkCounts | None = None,
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
    control: LinkCounts | None = measurement.sums.get(make_control(statistic).name)
    conditions, notes = list_conditions(counts, labels, task)
    rows = list[dict[str, Any]]()
    for condition in conditions:
        row = score_best_head(counts, condition, task, labels, len(conditions), part=part, control=control)
        row |= {task.label: condition.label, "direction": condition.direction}
        row["attention"] = None if condition.kind is None else str(condition.kind)
        rows.append(row)
    if counts.documents < _FEW_BLOCKS and any("p" in row for row in rows):
        least = format_number(0.5**counts.documents, digits=2)
        blocks = f"there are {counts.documents} blocks of them"
        notes.insert(0, f"Few documents: no p is below {least}, as {blocks}.")
    absent = {
        "direction": not task.backward,
        "attention": not any(condition.kind for condition in conditions),
        "position": all(len(condition.keys[0]) == 2 for condition in conditions),
        "baseline_offset": not task.offsets,
        "control": control is None,
        "selectivity": control is None,
    }
    columns = [one for one in _BEST_COLUMNS if not absent.get(one.name.removesuffix("_se"))]
    build = TableBuilder(labels, len(rows))
    build.rows([Column(task.label, role="key"), *columns], rows)
    return build.table(title, [*note_one_fold(rows), *notes])


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
    build = partial(by_label_table, statistic, task, title, measurement, statistics, labels)
    table, strata = build(), measurement.strata
    groups = {name: build(part=strata[name].sums[statistic.name]) for name in sort_groups(strata)}
    stacked = stack_groups(table, groups, strata)
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
    rows = [
        (key, layer, head)
        for condition in conditions
        for key in condition.keys
        for layer in condition.layers
        for head in range(counts.shape[1])
    ]
    layers, heads = (np.array([row[place] for row in rows], np.int64) for place in (1, 2))
    build = TableBuilder(labels, len(rows))
    build.key(task.label, [key[0] for key, *_ in rows])
    build.key("direction", [key[1] for key, *_ in rows])
    if any(key[2:] for key, *_ in rows):
        build.key("position", ["".join(key[2:]) for key, *_ in rows])
    build.layers(layers.tolist())
    build.key("head", heads)
    places, links, accuracy = {key: at for at, key in enumerate(counts.keys)}, counts.links, counts.accuracy()
    for far, end, title_of in (
        ((), "", "links found"),
        ((FAR,), "_far", "links with a word between their ends that are found"),
    ):
        at = np.array([places.get((*key, *far), -1) for key, *_ in rows], np.int64)
        build.count(f"n{end}", np.where(at < 0, 0, links[at, layers]), "links")
        share, error = (np.where(at < 0, np.nan, one[at, layers, heads]) for one in accuracy)
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
    least=2,
)
_RULES = (
    *map(str, range(-FURTHEST_LINK, FURTHEST_LINK + 1)),
    *(SAME_TEXT, SAME_CONTEXT, SAME_LEFT_CONTEXT, SAME_PLACE),
    *OF_PARTS_OF_SPEECH,
)
LINKS_TASK = LinkTask("source_to_target", "target_to_source", _RULES, label="label")


def _define(
    name: str, task: LinkTask, title: str, label: str, noun: str, order: int
) -> tuple[Statistic, Tabulation, Tabulation]:
    statistic = Statistic(
        name, "share of links", partial(questions_of, task=task), scope="links", rows="label",
        sums=LinkCounts, version=5, family=FAMILY, title=title, order=order,
    )  # fmt: skip
    best, groups, heads = (
        partial(build, statistic, task) for build in (by_label_table, by_label_and_group_table, by_head_table)
    )
    by_label = Tabulation(task.label, best, f"{name}: the best head for each {label}", groups, stacked=True)
    shown = f"{name}: how often each head finds {noun}"
    return statistic, by_label, Tabulation(f"{task.label} and head", heads, shown, stacked=True)


SYNTAX, BY_RELATION, BY_RELATION_AND_HEAD = _define(
    "syntax", SYNTAX_TASK, "dependencies found", "relation", "a relation", 0
)
COREFERENCE, BY_MENTION, BY_MENTION_AND_HEAD = _define(
    "coreference", COREFERENCE_TASK, "antecedents found", "kind of mention", "an antecedent", 1
)
LINKED, BY_LABEL, BY_LABEL_AND_HEAD = _define("links", LINKS_TASK, "links found", "label", "a label", 2)


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
