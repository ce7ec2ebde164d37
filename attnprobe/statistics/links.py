"""What heads find: gold links between words, and how often a head's most attended word is their other end.

The best head for each label is chosen on some documents and scored on others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from attnprobe.statistics import best_heads
from attnprobe.statistics.best_heads import NAME_COLUMNS, LinkCondition
from attnprobe.statistics.questions import questions_of
from attnprobe.statistics.rules import ALL, COREFERENCE_TASK, LINKS_TASK, SYNTAX_TASK, LinkTask
from attnprobe.statistics.statistic import Family, Statistic
from attnprobe.statistics.tabulation import Tabulation, sort_groups, stack_groups
from attnprobe.sums.base import Measurement
from attnprobe.sums.blocked import find_share
from attnprobe.sums.links import CrossFit, Key, LinkCounts
from attnprobe.table.builder import Labels, measure_columns, p_columns
from attnprobe.table.naming import join_names
from attnprobe.table.table import Column, HeadTable

FAMILY = Family("links", "what heads find", 7, commands=("syntax", "coreference", "links"))

UNIT = "share of links"
#: Labels of fewer links say too little of a head to be shown.
FEWEST = 20


# Which links have a row


def choose_rows(counts: LinkCounts, labels: Labels, task: LinkTask) -> tuple[list[LinkCondition], list[str]]:
    """Choose the conditions that have a row: all links first, then labels by their number of links.

    Gives notes, too, on what has none.
    """
    request, conditions = labels.provenance.get("asked", {}), best_heads.list_conditions(counts, labels)
    fewest, most = int(request.get("min_links", FEWEST)), dict[str, int]()
    for condition in conditions:
        most[condition.label] = max(condition.links, most.get(condition.label, 0))
    named = {label: number for label, number in most.items() if label != ALL}
    labels_were_given = bool(named) and request.get("labels") is not None
    kinds = [condition.kind for condition in conditions]

    def is_shown(condition: LinkCondition) -> bool:
        if condition.label != ALL:
            return condition.links >= fewest
        # A single label says the same as all.
        only = [
            replace(each, label=ALL, keys=condition.keys) for each in conditions if [each.label] == [*named]
        ]
        return not labels_were_given and condition not in only

    def order(condition: LinkCondition) -> tuple[Any, ...]:
        label, backward = condition.label, condition.direction == task.backward
        return kinds.index(condition.kind), label != ALL, -most[label], label, backward

    notes = [] if counts.keys else ["No text has a link that is asked for."]
    if rare := sorted((-number, label) for label, number in named.items() if number < fewest):
        names = join_names([label for _, label in rare], 8)
        notes.append(f"Left out, with fewer than {fewest} links: {names}.")
    reasons = (
        "both ends of the link have the same tokens",
        "a decoder sees only what comes before a word, and the answer comes after it",
        "every candidate in sight is right",
    )
    for number, reason in zip(counts.left_out.tolist(), reasons, strict=True):
        if number:
            notes.append(f"Questions left out, as {reason}: {number:,}.")
    return sorted(filter(is_shown, conditions), key=order), notes


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

    ``part`` are the counts of a group of documents, which are scored with the head that all documents choose.
    ``control`` are those of moved links, which are not scored by group. ``tests`` p values are adjusted
    together.
    """
    read = partial(
        best_heads.read_answers, keys=condition.keys, layers=condition.layers, removed=labels.removed
    )
    answers, whole = read(counts), counts if part is None else part
    scored, far = read(whole), read(whole, far=True)
    row: dict[str, Any] = {task.label: condition.label, **best_heads.name_condition(condition)}
    row |= {"n": scored.total, "n_far": far.total}
    fit = best_heads.cross_fit(answers, labels)
    if fit is None or not scored.total:
        return row
    at = task.best_rule(answers.rules.sum(-1))
    rule, of_part = CrossFit.fixed(scored.number, scored.rules[at]), None if part is None else scored
    row |= best_heads.score_best("accuracy", fit, rule, answers.candidates, labels, tests, of_part)
    if rule.share:
        row["baseline_rule"] = task.name_of(at)
        row["baseline_offset"] = task.offsets[at] if at < len(task.offsets) else None
    if far.total:
        row |= best_heads.score_share(
            "accuracy_far", replace(fit, others=far) if part is None else fit.keep_choice(far)
        )
        row["baseline_far"] = float(far.rules[at].sum() / far.total)
    beside = None if control is None or part is not None else best_heads.cross_fit(read(control), labels)
    if beside is not None:
        row |= best_heads.score_share("control", beside) | best_heads.score_share("selectivity", fit, beside)
    return row


@dataclass(frozen=True)
class LinkTables:
    """The tables of a statistic of gold links."""

    statistic: Statistic
    task: LinkTask

    def by_label(
        self,
        title: str,
        measurement: Measurement,
        _: Sequence[Statistic],
        labels: Labels,
        *,
        part: LinkCounts | None = None,
    ) -> HeadTable:
        """Tabulate the best head for each label and direction, beside the best rule.

        Each of K folds of the documents (``folds``, 5 by default) is scored with the head that has most right
        answers on the other folds; of a tie, the first. ``accuracy`` is the number of right answers over all
        folds, divided by ``n``. ``layer`` and ``head`` name the head that most folds chose, and ``chosen`` is
        the share of these folds. ``baseline`` is the accuracy of the best rule (``baseline_offset``,
        ``baseline_rule``). The rule is chosen over all links, so ``baseline`` is too high if anything; if
        links name candidates, it is at least chance among these. ``gain`` is accuracy less baseline. Errors
        and ``p`` are over blocks of documents (``Difference``). ``n_far`` counts links with a word between
        their ends, and ``accuracy_far`` and ``baseline_far`` are over these; between two texts there is no
        distance. ``accuracy_selected`` is the largest accuracy of any head over all documents. In an
        encoder-decoder model, the better of the positions where the decoder predicts a word (``position`` is
        ``output``) and reads it (``input``) is chosen.

        With ``control="links"``, ``control`` is the cross-fitted accuracy of the best heads on moved links
        (``move_links``), and ``selectivity`` is accuracy less control, with its paired error.
        """
        counts: LinkCounts = measurement.sums[self.statistic.name]
        control: LinkCounts | None = measurement.sums.get(make_control(self.statistic).name)
        conditions, notes = choose_rows(counts, labels, self.task)
        tests = len(conditions)
        rows = [
            score_best_head(counts, condition, self.task, labels, tests, part=part, control=control)
            for condition in conditions
        ]
        absent = {
            "direction": not self.task.backward,
            "baseline_offset": not self.task.offsets,
            "control": control is None,
            "selectivity": control is None,
        }
        kept = [column for column in _BEST_COLUMNS if not absent.get(column.name.removesuffix("_se"))]
        columns = [Column(self.task.label, role="key"), *kept]
        return best_heads.tabulate_best(title, labels, columns, rows, notes)

    def by_label_and_group(
        self, title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
    ) -> HeadTable:
        """Tabulate each label and direction over all groups of documents, and below it in each group.

        Heads and rules are those of all groups, so the right answers of the groups add up. ``p`` is for the
        group, given the choice, and ``p_adjusted`` counts its rows.
        """
        build, by_group = partial(self.by_label, title, measurement, statistics, labels), measurement.groups
        table, name = build(), self.statistic.name
        groups = {group: build(part=by_group[group].sums[name]) for group in sort_groups(by_group)}
        stacked = stack_groups(table, groups, by_group)
        # All parts have the same rows; those of one label and direction stand together.
        order = sorted(range(len(stacked)), key=lambda row: row % len(table))
        data = {name: [cells[row] for row in order] for name, cells in stacked.data.items()}
        return replace(stacked, data=data)

    def by_head(
        self, title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels
    ) -> HeadTable:
        """Tabulate every label, direction, position and head, over all documents."""
        counts: LinkCounts = measurement.sums[self.statistic.name]
        conditions, notes = choose_rows(counts, labels, self.task)

        def measure(key: Key, layer: int) -> dict[str, Any]:
            cells = dict[str, Any]()
            for end, far in (("", False), ("_far", True)):
                answers = best_heads.read_answers(counts, [key], [layer], far=far)
                share, name = find_share(answers.hits, answers.number), f"accuracy{end}"
                cells |= {f"n{end}": answers.total, name: share.value, f"{name}_se": share.error}
            return cells

        columns = [
            Column("n", "links", role="count"),
            *measure_columns("accuracy", UNIT, "links found", headline=True),
            Column("n_far", "links", role="count"),
            *measure_columns("accuracy_far", UNIT, "links with a word between their ends that are found"),
        ]
        label, heads = self.task.label, counts.shape[1]
        return best_heads.tabulate_heads(title, labels, columns, conditions, heads, measure, notes, label)


# The statistics


def _define(
    name: str, task: LinkTask, title: str, label: str, noun: str, order: int
) -> tuple[Statistic, Tabulation, Tabulation]:
    statistic = Statistic(
        name, "share of links", partial(questions_of, task=task), scope="links", rows="label",
        sums=LinkCounts, version=5, family=FAMILY, title=title, order=order,
    )  # fmt: skip
    tables, best = LinkTables(statistic, task), f"{name}: the best head for each {label}"
    by_label = Tabulation(task.label, tables.by_label, best, tables.by_label_and_group, stacked=True)
    every = f"{name}: how often each head finds {noun}"
    return statistic, by_label, Tabulation(f"{task.label} and head", tables.by_head, every, stacked=True)


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
    controls = map(make_control, (SYNTAX, COREFERENCE, LINKED))
    return next((control for control in controls if control.name == name), None)
