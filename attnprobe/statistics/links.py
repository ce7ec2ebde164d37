"""What heads find: gold links between words, and how often a head's most attended word is their other end.

The best head for each label is chosen on some documents and scored on others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby
from typing import Any

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.best_heads import (
    Best,
    Cell,
    Choice,
    choose,
    compare_with_control,
    read_numbers,
    score,
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
    Asking,
    offsets_to,
)
from attnprobe.statistics.statistic import Family, Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.crossfit import FOLDS
from attnprobe.sums.inference import adjust
from attnprobe.sums.tally import FAR, Tally
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import join_names
from attnprobe.table.numbers import format_number
from attnprobe.table.table import Column

FAMILY = Family("links", "what heads find", 7, commands=("syntax", "coreference", "links"))

UNIT = "share of links"
#: Labels of fewer links say too little of a head to be shown.
FEWEST = 20
#: Said where nothing could be chosen.
ONE_FOLD = (
    "All documents with links lie in one fold of the documents, so that no head can be chosen on one and "
    "scored on another; give more documents, or look at all heads."
)
#: With fewer blocks of documents, no p can be small.
_FEW_BLOCKS = 15


def choose_cells(tally: Tally, labels: Labels, asking: Asking) -> tuple[list[Cell], list[str]]:
    """List what is shown, all links first, then labels by their number of links; and notes on what is not."""
    if not tally.keys:
        return [], ["No text has a link that is asked for.", *_note_left_out(tally)]
    kinds = [place.kind for place in labels.places]
    directions = [asking.forward, asking.backward]
    asked = labels.provenance.get("asked", {})
    fewest, chosen = int(asked.get("min_links", FEWEST)), asked.get("labels") is not None
    rare, found = dict[str, int](), list[tuple[int, Cell]]()
    places = {key: place for place, key in enumerate(tally.keys)}
    named = {label for label, *_ in tally.keys} - {ALL}
    numbers = tally.asked
    for kind in dict.fromkeys(kinds):
        layers = [layer for layer, other in enumerate(kinds) if other is kind]
        for place, key in enumerate(tally.near):
            label, direction, *position = key
            number = int(numbers[place, layers[0]])
            if not number or (label == ALL and chosen and named):
                continue
            if label == ALL and len(named) == 1:
                alone = places.get((next(iter(named)), direction, *position))
                if alone is not None and numbers[alone, layers[0]] == number:
                    continue  # the one label says the same
            if number < fewest and label != ALL:
                rare[label] = max(number, rare.get(label, 0))
                continue
            far = places.get((*key, FAR))
            found.append((number, Cell(place, label, direction, kind, layers, "".join(position), far)))
    shown = {cell.label for _, cell in found}
    most = {label: max(number for number, cell in found if cell.label == label) for label in shown}
    found.sort(
        key=lambda one: (
            list(Kind).index(one[1].kind) if one[1].kind else 0,
            one[1].label != ALL,
            -most[one[1].label],
            one[1].label,
            directions.index(one[1].direction),
            one[1].position == INPUT,
        )
    )
    gone = sorted((label for label in rare if label not in shown), key=lambda label: (-rare[label], label))
    notes = [*_note_left_out(tally)]
    if gone:
        notes.insert(0, f"Left out, with fewer than {fewest} links: {join_names(gone, 8)}.")
    return [cell for _, cell in found], notes


def _note_left_out(tally: Tally) -> Iterator[str]:
    same, unseen, certain = tally.left_out.tolist()
    for number, reason in (
        (same, "both ends of the link have the same tokens"),
        (unseen, "a decoder sees only what comes before a word, and the answer comes after it"),
        (certain, "every candidate in sight is right"),
    ):
        if number:
            yield f"{number:,} {'question was' if number == 1 else 'questions were'} left out: {reason}."


@dataclass(frozen=True)
class _Rows:
    """The links of each row, what was chosen for them, heads that are gone (layer, head), and notes."""

    cells: Sequence[Cell]
    choices: Sequence[Choice | None]
    gone: np.ndarray
    notes: Sequence[str]

    @classmethod
    def of(cls, tally: Tally, labels: Labels, asking: Asking) -> "_Rows":
        cells, notes = choose_cells(tally, labels, asking)
        gone = np.zeros(tally.products.shape[1:], bool)
        for place in labels.removed:
            gone[place] = True
        folds = _read_folds(labels)
        rows = [
            list(some) for _, some in groupby(cells, lambda cell: (cell.kind, cell.label, cell.direction))
        ]
        choices = [choose(tally, some, gone, asking, folds) for some in rows]
        return cls([some[0] for some in rows], choices, gone, notes)

    def score(self, tally: Tally) -> list[Best]:
        """Score what was chosen on the documents of a tally."""
        found = []
        for cell, choice in zip(self.cells, self.choices, strict=True):
            there = cell.in_tally(tally)
            if choice is not None:
                found.append(score(choice, tally, self.gone, len(self.cells)))
            else:
                found.append(Best(0 if there is None else int(tally.asked[there.place, there.layers[0]])))
        return found


def _read_folds(labels: Labels) -> int:
    return int(labels.provenance.get("asked", {}).get("folds", FOLDS))


def by_label_table(
    statistic: Statistic,
    asking: Asking,
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
    blocks of documents (``Contrast``); heads are chosen anew with every draw.

    With ``control="links"``, ``control`` is the accuracy of the best heads for moved links (``move_links``),
    cross-fitted alike, and ``selectivity`` accuracy less control, with its paired error.
    """
    tally: Tally = measurement.sums[statistic.name]
    rows = _Rows.of(tally, labels, asking)
    found = rows.score(tally)
    notes = list(rows.notes)
    control = measurement.sums.get(make_control(statistic).name)
    if control is not None:
        found = [
            best if one is None else compare_with_control(best, one, control, rows.gone, _read_folds(labels))
            for best, one in zip(found, rows.choices, strict=True)
        ]
    if found and all(one is None for one in rows.choices):
        notes.insert(0, ONE_FOLD)
    else:
        blocks = max(
            (int((one.heads.asked > 0).sum()) for one in rows.choices if one is not None), default=64
        )
        if blocks < _FEW_BLOCKS:
            least = format_number(0.5**blocks, digits=2)
            notes.insert(0, f"Few documents: no p is below {least}, as there are {blocks} blocks of them.")
    table = _tabulate(title, rows.cells, found, asking, labels, with_control=control is not None)
    return replace(table, notes=notes)


def by_label_and_group_table(
    statistic: Statistic,
    asking: Asking,
    title: str,
    measurement: Measurement,
    statistics: Sequence[Statistic],
    labels: Labels,
) -> HeadTable:
    """Tabulate each label and direction over all groups of documents, and below it in each group.

    Heads and rules are those of all groups, so that right answers of the groups add up. ``p`` is of the
    group, given what was chosen, and ``p_adjusted`` counts its rows. The test of groups is of ``accuracy``.
    """
    tally: Tally = measurement.sums[statistic.name]
    table = by_label_table(statistic, asking, title, measurement, statistics, labels)
    whole, rows = Part.of(table, measurement), _Rows.of(tally, labels, asking)
    groups = {}
    for name in sort_groups([*measurement.strata]):
        own = measurement.strata[name]
        counts: Tally = own.sums[statistic.name]
        found, documents = rows.score(counts), counts.count_documents()
        made = _tabulate(title, rows.cells, found, asking, labels, with_control="control" in table.data)
        by_row = {}
        for key, cell in zip(whole.places, rows.cells, strict=True):
            there = cell.in_tally(counts)
            by_row[key] = 0 if there is None else int(documents[there.place, there.layers[0]])
        groups[name] = replace(Part.of(made, own), by_row=by_row)
    return stack_groups(whole, groups, ("accuracy",))


def _tabulate(
    title: str,
    cells: Sequence[Cell],
    found: Sequence[Best],
    asking: Asking,
    labels: Labels,
    *,
    with_control: bool,
) -> HeadTable:
    build = TableBuilder(labels, len(cells))
    build.key(asking.label, [cell.label for cell in cells])
    if asking.backward:
        build.key("direction", [cell.direction for cell in cells])
    if any(cell.kind for cell in cells):
        build.key("attention", [str(cell.kind) for cell in cells])
    build.count("n", np.array([best.n for best in found], np.int64), "links")
    numbers = [None if best.layer is None else labels.places[best.layer].layer for best in found]
    build.add(Column("layer", role="count"), numbers)
    build.add(Column("head", role="count"), [best.head for best in found])
    if any(cell.position for cell in cells):
        build.add(Column("position", role="text"), [best.position for best in found])
    accuracy, title_of = read_numbers(found, "accuracy"), "links found by the heads that the folds chose"
    build.measure("accuracy", UNIT, accuracy, read_numbers(found, "error"), headline=True, title=title_of)
    baseline = read_numbers(found, "baseline")
    build.add(Column("baseline", UNIT, title="links that the best rule finds"), baseline)
    chosen = [best.rule for best in found]
    if asking.offsets:
        number = len(asking.offsets)
        offsets = [None if rule is None or rule >= number else asking.offsets[rule] for rule in chosen]
        build.add(Column("baseline_offset", "words", role="count"), offsets)
    names = [None if rule is None else asking.name_of(rule) for rule in chosen]
    build.add(Column("baseline_rule", role="text"), names)
    gain_error = read_numbers(found, "gain_error")
    build.measure("gain", UNIT, accuracy - baseline, gain_error, title="gain over the best rule")
    p = read_numbers(found, "p")
    build.add(Column("p", title="p"), p)
    build.add(Column("p_adjusted", title="adjusted p"), adjust(p))
    selected = Column("accuracy_selected", UNIT, title="links found where the head was chosen")
    build.add(selected, read_numbers(found, "selected"))
    build.count("n_far", np.array([best.n_far for best in found], np.int64), "links")
    far, far_error = read_numbers(found, "accuracy_far"), read_numbers(found, "error_far")
    build.measure(
        "accuracy_far", UNIT, far, far_error, title="links with a word between their ends that it finds"
    )
    baseline_far = Column(
        "baseline_far", UNIT, title="links with a word between their ends that the rule finds"
    )
    build.add(baseline_far, read_numbers(found, "baseline_far"))
    build.add(Column("chosen", "share", title="folds that chose the head"), read_numbers(found, "chosen"))
    if with_control:
        for name, title_of in (
            ("control", "links that the best head of the control finds"),
            ("selectivity", "accuracy less that of the control"),
        ):
            error = read_numbers(found, f"{name}_error")
            build.measure(name, UNIT, read_numbers(found, name), error, title=title_of)
    return build.table(title, [], "best heads")


def by_head_table(
    statistic: Statistic,
    asking: Asking,
    title: str,
    measurement: Measurement,
    _: Sequence[Statistic],
    labels: Labels,
) -> HeadTable:
    """Tabulate every label, direction and head, over all documents.

    ``position`` is where a decoder beside an encoder was asked: ``output`` or ``input``.
    """
    tally: Tally = measurement.sums[statistic.name]
    cells, notes = choose_cells(tally, labels, asking)
    heads = range(tally.products.shape[2])
    rows = [(cell, layer, head) for cell in cells for layer in cell.layers for head in heads]
    at = tuple(np.array([(cell.place, layer, head) for cell, layer, head in rows], np.int64).reshape(-1, 3).T)
    build = TableBuilder(labels, len(rows))
    build.key(asking.label, [cell.label for cell, _, _ in rows])
    build.key("direction", [cell.direction for cell, _, _ in rows])
    if any(cell.position for cell in cells):
        build.key("position", [cell.position for cell, _, _ in rows])
    build.layers([layer for _, layer, _ in rows])
    build.key("head", [head for _, _, head in rows])
    build.count("n", tally.asked[at[:2]], "links")
    share, error = tally.accuracy()
    build.measure("accuracy", "share of links", share[at], error[at], headline=True, title="links found")
    # Places of links at a distance; where there are none, any place will do, as nothing is said of it.
    there = np.array([cell.far is not None for cell, _, _ in rows], bool)
    far = tuple(
        np.array([(cell.far or 0, layer, head) for cell, layer, head in rows], np.int64).reshape(-1, 3).T
    )
    build.count("n_far", np.where(there, tally.asked[far[:2]], 0), "links")
    share, error = (np.where(there, one[far], np.nan) for one in (share, error))
    far = "links with a word between their ends that are found"
    build.measure("accuracy_far", UNIT, share, error, title=far)
    return build.table(title, notes)


#: The rules that a head has to beat, as the guesses of links name them.
NEAREST, SAME_LAST_WORD = "nearest", "same last word"
SAME_HEAD_WORD, SAME_STRING = "same head word", "same string"
NEAREST_OF_KIND = ("nearest pronoun", "nearest proper", "nearest nominal")
#: A fixed offset looks so many words far at most.
FURTHEST_LINK = 48

ASKING_SYNTAX = Asking(
    "dependent_to_head",
    "head_to_dependent",
    (*OFFSETS, SAME_TEXT, *OF_PARTS_OF_SPEECH),
    label="relation",
    least=len(OFFSETS),
)
ASKING_COREFERENCE = Asking(
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
ASKING_LINKS = Asking("source_to_target", "target_to_source", _RULES, label="label")


def _define(
    name: str, asking: Asking, title: str, noun: str, order: int
) -> tuple[Statistic, Tabulation, Tabulation]:
    found = Statistic(
        name, "share of links", partial(questions_of, asking=asking), scope="links", rows="label",
        sums=Tally, version=4, family=FAMILY, title=title, order=order,
    )  # fmt: skip
    by_label = partial(by_label_table, found, asking)
    best = f"{name}: the best head for each {asking.counted(1)}"
    return (
        found,
        Tabulation(
            asking.label,
            by_label,
            best,
            partial(by_label_and_group_table, found, asking),
            stacked=True,
        ),
        Tabulation(
            f"{asking.label} and head",
            partial(by_head_table, found, asking),
            f"{name}: how often each head finds {noun}",
            stacked=True,
        ),
    )


SYNTAX, BY_RELATION, BY_RELATION_AND_HEAD = _define(
    "syntax", ASKING_SYNTAX, "dependencies found", "a relation", 0
)
COREFERENCE, BY_MENTION, BY_MENTION_AND_HEAD = _define(
    "coreference", ASKING_COREFERENCE, "antecedents found", "an antecedent", 1
)
LINKED, BY_LABEL, BY_LABEL_AND_HEAD = _define("links", ASKING_LINKS, "links found", "a label", 2)


@cache
def make_control(statistic: Statistic) -> Statistic:
    """Make the control of what heads find: the same of links that were moved. No rule is asked."""
    of_links: Any = statistic.function
    asking = replace(of_links.keywords["asking"], rules=())
    function = partial(questions_of, asking=asking, moved=True)
    return replace(statistic, name=f"{statistic.name}_moved", function=function)


def find_control(name: str) -> Statistic | None:
    """Find the control of that name, if it is one."""
    every = map(make_control, (SYNTAX, COREFERENCE, LINKED))
    return next((one for one in every if one.name == name), None)
