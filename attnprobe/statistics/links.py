"""What heads find: gold links between words, and how often a head's most attended word is their other end.

The best head for each label is chosen on some documents and scored on others.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import groupby
from typing import Any, Literal, get_args

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.best_heads import Best, Cell, Selection, choose_and_score, read_numbers
from attnprobe.statistics.link_notes import (
    note_control,
    note_few_documents,
    note_left_out,
    note_optimism,
    note_rare,
    note_same_links,
    note_significant,
    note_ties,
)
from attnprobe.statistics.links_by_group import by_label_and_group_table
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
from attnprobe.statistics.statistic import CONTROLS, Family, Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.resampling import adjust
from attnprobe.sums.tally import FAR, Tally
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

FAMILY = Family("links", "what heads find", 7, commands=("syntax", "coreference", "links"))

UNIT = "share of links"
#: Labels of fewer links say too little of a head to be shown.
FEWEST = 20


def choose_cells(tally: Tally, labels: Labels, asking: Asking) -> tuple[list[Cell], list[str]]:
    """List what is shown, all links first, then labels by the number of their links; and say what is not.

    Where labels were chosen, there is no row of all: it would be one of those alone.
    """
    kinds = [place.kind for place in labels.places]
    directions = [asking.forward, asking.backward]
    asked = labels.provenance.get("asked", {})
    fewest, chosen = int(asked.get("min_links", FEWEST)), asked.get("labels") is not None
    rare, found = dict[str, int](), list[tuple[int, Cell]]()
    places = {key: place for place, key in enumerate(tally.keys)}
    named = {label for label, *_ in tally.keys} - {ALL}
    for kind in dict.fromkeys(kinds):
        layers = [layer for layer, other in enumerate(kinds) if other is kind]
        for place, key in enumerate(tally.compared):
            label, direction, *position = key
            if label == ALL and chosen and named:
                continue
            number = int(tally.asked[place, layers[0]].sum())
            if not number:
                continue
            if label == ALL and len(named) == 1:
                alone = places.get((next(iter(named)), direction, *position))
                if alone is not None and tally.asked[alone, layers[0]].sum() == number:
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
    if not tally.keys:
        return [], ["No text has a link that is asked for.", *note_left_out(tally)]
    gone = {label: number for label, number in rare.items() if label not in shown}
    return [cell for _, cell in found], [*note_rare(gone, fewest, asking), *note_left_out(tally)]


def find_first_alike(tally: Tally, cells: Sequence[Cell]) -> list[int]:
    """Give, for each cell, the number of the first with the same links: all answers agree, on either half."""
    known: dict[tuple[object, ...], int] = {}
    found = []
    for number, cell in enumerate(cells):
        counts = (tally.asked, tally.hits, tally.guessed)
        links = tuple(count[cell.place, cell.layers].tobytes() for count in counts)
        found.append(known.setdefault((cell.direction, cell.kind, *links), number))
    return found


def by_label_table(
    statistic: Statistic,
    asking: Asking,
    title: str,
    measurement: Measurement,
    _: Sequence[Statistic],
    labels: Labels,
) -> HeadTable:
    """Tabulate the best head for each label and direction, beside the best rule.

    The documents are in K folds (5, or as many as ``folds`` says). For each fold, head and rule are those
    with most right answers on the other folds; of equals, the first head and the nearest offset. They are
    scored on that fold, so that all ``n`` links are scored, none by whom it chose: ``accuracy`` and
    ``baseline`` are right answers of all folds, divided by n. ``layer``, ``head``, ``baseline_offset`` and
    ``baseline_rule`` name those that most folds chose, and ``chosen`` is the share of folds that chose the
    head. ``runner_up_layer``, ``runner_up_head`` and ``runner_up_accuracy`` are the same without that head.
    ``n_far`` counts the links that have a word between their ends, and ``accuracy_far`` and ``baseline_far``
    are shares of these; there are none between two texts, which know no distance.
    ``accuracy_selected`` is the largest accuracy of any head over all documents, which choosing and scoring
    on the same would have claimed.

    A head of a decoder beside an encoder is asked where it predicts a word and where it reads it, and
    ``position`` says which of the two was chosen: ``output`` or ``input``. ``gain`` is accuracy less
    baseline. Its error and that of the accuracy are over blocks of documents (``Contrast.error``), and so is
    ``p`` (``Contrast.chance``); both choose anew with every draw. ``p_adjusted`` counts rows that are about
    the very same links once.

    ``control`` is the accuracy of the best heads of a control, cross-fitted alike over the same documents,
    and ``selectivity`` is accuracy less control, with its paired error. With ``control="links"``, each link
    was moved to another word of its sequence (``move_links``), with ``"weights"`` the model has random
    weights, and the control is the mean over three seeds.

    With ``selection="half"``, head and rule are chosen on one half of the documents and scored on the other,
    of which all numbers are then; ``p`` is ``Compared.chance``.
    """
    tally: Tally = measurement.sums[statistic.name]
    cells, notes = choose_cells(tally, labels, asking)
    gone = np.zeros(tally.hits.shape[1:3], bool)
    for place in labels.removed:
        gone[place] = True
    rows = [list(some) for _, some in groupby(cells, lambda cell: (cell.kind, cell.label, cell.direction))]
    asked = labels.provenance.get("asked", {})
    selection = Selection.read(asked, tally, len(rows), list_controls(statistic, measurement))
    found = [choose_and_score(tally, some, gone, asking, selection) for some in rows]
    cells = [some[0] for some in rows]
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
    accuracy, title_of = read_numbers(found, "accuracy"), "links that the best head finds"
    build.measure("accuracy", UNIT, accuracy, read_numbers(found, "error"), headline=True, title=title_of)
    build.add(
        Column("baseline", UNIT, title="links that the best rule finds"), read_numbers(found, "baseline")
    )
    chosen = [best.rule for best in found]
    if asking.offsets:
        number = len(asking.offsets)
        offsets = [None if rule is None or rule >= number else asking.offsets[rule] for rule in chosen]
        build.add(Column("baseline_offset", "words", role="count"), offsets)
    if asking.named:
        names = [None if rule is None else asking.name_of(rule) for rule in chosen]
        build.add(Column("baseline_rule", role="text"), names)
    gain = accuracy - read_numbers(found, "baseline")
    build.measure("gain", UNIT, gain, read_numbers(found, "gain_error"), title="gain over the best rule")
    build.add(Column("p", title="p"), read_numbers(found, "p"))
    first = np.array(find_first_alike(tally, cells), np.int64)
    once, where = np.unique(first, return_inverse=True)
    adjusted = adjust(read_numbers(found, "p")[once])[where]
    build.add(Column("p_adjusted", title="adjusted p"), adjusted)
    selected = Column("accuracy_selected", UNIT, title="links found where the head was chosen")
    build.add(selected, read_numbers(found, "selected"))
    _add_far(build, found)
    if selection.folds:
        _add_choices(build, found, labels)
    if selection.controls:
        _add_controls(build, found)
    said = [
        *note_significant(cells, found, adjusted, asking, labels, selection),
        *note_few_documents(found, selection),
        *note_ties(cells, found, selection, labels),
        *note_optimism(found, selection),
        *note_control(found, asked.get("control")),
    ]
    return build.table(title, [*said, *note_same_links(cells, first), *notes], "best heads")


def list_controls(statistic: Statistic, measurement: Measurement) -> list[Tally]:
    """List what was counted of the controls of a statistic."""
    every = [one.name for control in get_args(LinkControl) for one in make_controls(statistic, control)]
    return [measurement.sums[name] for name in every if name in measurement.sums]


def _add_far(build: TableBuilder, found: Sequence[Best]) -> None:
    """Append what is found of links that have a word between their ends."""
    build.count("n_far", np.array([best.n_far for best in found], np.int64), "links")
    accuracy, title = (
        read_numbers(found, "accuracy_far"),
        "links with a word between their ends that it finds",
    )
    build.measure("accuracy_far", UNIT, accuracy, read_numbers(found, "error_far"), title=title)
    title = "links with a word between their ends that the rule finds"
    build.add(Column("baseline_far", UNIT, title=title), read_numbers(found, "baseline_far"))


def _add_controls(build: TableBuilder, found: Sequence[Best]) -> None:
    """Append what the best heads of the control find, and how far the best head is ahead of them."""
    for name, title in (
        ("control", "links that the best head of the control finds"),
        ("selectivity", "accuracy less that of the control"),
    ):
        value, error = (read_numbers(found, one) for one in (name, f"{name}_error"))
        build.measure(name, UNIT, value, error, title=title)


def _add_choices(build: TableBuilder, found: Sequence[Best], labels: Labels) -> None:
    """Append how sure the choice of the head is, and which one is next."""
    build.add(
        Column("chosen", "share", title="folds that chose the head"),
        [best.times / best.folds if best.folds else np.nan for best in found],
    )
    ups = [best.runner_up for best in found]
    layers = [None if layer is None else labels.places[layer].layer for layer, _ in ups]
    build.add(Column("runner_up_layer", role="count"), layers)
    build.add(Column("runner_up_head", role="count"), [head for _, head in ups])
    accuracy = Column("runner_up_accuracy", UNIT, title="links that the next best head finds")
    build.add(accuracy, read_numbers(found, "runner_up_accuracy"))


def by_head_table(
    statistic: Statistic,
    asking: Asking,
    title: str,
    measurement: Measurement,
    _: Sequence[Statistic],
    labels: Labels,
) -> HeadTable:
    """Tabulate every label, direction and head, over all documents.

    ``position`` says where a decoder beside an encoder was asked: where it predicts a word (``output``), or
    where it reads it, one place later (``input``). It is empty for an encoder.
    """
    tally: Tally = measurement.sums[statistic.name]
    cells, notes = choose_cells(tally, labels, asking)
    heads = range(tally.hits.shape[2])
    rows = [(cell, layer, head) for cell in cells for layer in cell.layers for head in heads]
    at = tuple(np.array([(cell.place, layer, head) for cell, layer, head in rows], np.int64).reshape(-1, 3).T)
    build = TableBuilder(labels, len(rows))
    build.key(asking.label, [cell.label for cell, _, _ in rows])
    build.key("direction", [cell.direction for cell, _, _ in rows])
    if any(cell.position for cell in cells):
        build.key("position", [cell.position for cell, _, _ in rows])
    build.layers([layer for _, layer, _ in rows])
    build.key("head", [head for _, _, head in rows])
    build.count("n", tally.asked.sum(-1)[at[:2]], "links")
    share, error = tally.accuracy()
    build.measure("accuracy", "share of links", share[at], error[at], headline=True, title="links found")
    # Places of links at a distance; where there are none, any place will do, as nothing is said of it.
    there = np.array([cell.far is not None for cell, _, _ in rows], bool)
    far = tuple(
        np.array([(cell.far or 0, layer, head) for cell, layer, head in rows], np.int64).reshape(-1, 3).T
    )
    build.count("n_far", np.where(there, tally.asked.sum(-1)[far[:2]], 0), "links")
    share, error = (np.where(there, one[far], np.nan) for one in (share, error))
    title = "links with a word between their ends that are found"
    build.measure("accuracy_far", UNIT, share, error, title=title)
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
    """Give the statistic of some links, its table of labels, and its table of labels and heads."""
    found = Statistic(
        name, "share of links", partial(questions_of, asking=asking), scope="links", rows="label",
        sums=Tally, version=3, family=FAMILY, title=title, order=order,
    )  # fmt: skip
    by_label = partial(by_label_table, found, asking)
    best = f"{name}: the best head for each {asking.counted(1)}"
    return (
        found,
        Tabulation(
            asking.label,
            by_label,
            best,
            partial(by_label_and_group_table, by_label, found, asking),
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


#: What heads are compared with beside simple rules.
LinkControl = Literal["links", "weights"]


@cache
def make_controls(statistic: Statistic, control: LinkControl) -> Sequence[Statistic]:
    """Make the control of what heads find: the same of links that were moved, or with random weights.

    No rule is asked. Moved links are asked in the same pass, and random weights take a pass of their own for
    each of three seeds.
    """
    of_links: Any = statistic.function
    asking = replace(of_links.keywords["asking"], rules=())
    if control == "links":
        function = partial(questions_of, asking=asking, moved=True)
        return [replace(statistic, name=f"{statistic.name}_moved", function=function)]
    function = partial(questions_of, asking=asking)
    return [
        replace(statistic, name=f"{statistic.name}_{one.replace(' ', '_')}", function=function, control=one)
        for one in CONTROLS
        if one.startswith("random ")
    ]


def find_control(name: str) -> Statistic | None:
    """Find the control of that name, if it is one."""
    every = (
        one
        for statistic in (SYNTAX, COREFERENCE, LINKED)
        for control in get_args(LinkControl)
        for one in make_controls(statistic, control)
    )
    return next((one for one in every if one.name == name), None)
