"""What heads find: gold links between words, and how often a head's most attended word is their other end.

The best head for each label is chosen on some documents and scored on others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import groupby
from typing import Any, Literal, get_args

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.best_heads import Best, Cell, Selection, choose_and_score
from attnprobe.statistics.questions import questions_of
from attnprobe.statistics.rules import (
    ALL,
    INPUT,
    OFFSETS,
    SAME_CONTEXT,
    SAME_LEFT_CONTEXT,
    SAME_PLACE,
    SAME_TEXT,
    TESTED,
    Asking,
    offsets_to,
)
from attnprobe.statistics.statistic import CONTROLS, Family, Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.resampling import SIGNIFICANT, adjust
from attnprobe.sums.tally import Tally
from attnprobe.table.builder import FEW_DOCUMENTS, Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

FAMILY = Family("links", "what heads find", 7, commands=("syntax", "coreference", "links"))

UNIT = "share of links"
#: Labels of fewer links say too little of a head to be shown.
FEWEST = 20
#: So many labels are named in a note.
_NAMED = 8


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
        for place, (label, direction, *position) in enumerate(tally.keys):
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
            found.append((number, Cell(place, label, direction, kind, layers, "".join(position))))
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
        return [], ["No text has a link that is asked for.", *_note_left_out(tally)]
    gone = {label: number for label, number in rare.items() if label not in shown}
    return [cell for _, cell in found], [*_note_rare(gone, fewest, asking), *_note_left_out(tally)]


def _note_rare(gone: dict[str, int], fewest: int, asking: Asking) -> Iterator[str]:
    if not gone:
        return
    named = sorted(gone, key=lambda label: (-gone[label], label))
    listed = ", ".join(named[:_NAMED]) + (", ..." if len(named) > _NAMED else "")
    verb = "is" if len(named) == 1 else "are"
    said = f"{len(named)} {asking.counted(len(named))} with fewer than {fewest} links"
    yield f"{said} {verb} left out: {listed}."


def _note_left_out(tally: Tally) -> Iterator[str]:
    same, unseen, certain = tally.left_out.tolist()
    for number, reason in (
        (same, "both ends of the link have the same tokens"),
        (unseen, "a decoder sees only what comes before a word, and the answer comes after it"),
        (certain, "every candidate in sight is right"),
    ):
        if number:
            yield f"{number:,} {'question was' if number == 1 else 'questions were'} left out: {reason}."


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
    accuracy, title_of = _read(found, "accuracy"), "links that the best head finds"
    build.measure("accuracy", UNIT, accuracy, _read(found, "error"), headline=True, title=title_of)
    build.add(Column("baseline", UNIT, title="links that the best rule finds"), _read(found, "baseline"))
    chosen = [best.rule for best in found]
    if asking.offsets:
        number = len(asking.offsets)
        offsets = [None if rule is None or rule >= number else asking.offsets[rule] for rule in chosen]
        build.add(Column("baseline_offset", "words", role="count"), offsets)
    if asking.named:
        names = [None if rule is None else asking.name_of(rule) for rule in chosen]
        build.add(Column("baseline_rule", role="text"), names)
    gain = accuracy - _read(found, "baseline")
    build.measure("gain", UNIT, gain, _read(found, "gain_error"), title="gain over the best rule")
    build.add(Column("p", title="p"), _read(found, "p"))
    first = np.array(find_first_alike(tally, cells), np.int64)
    once, where = np.unique(first, return_inverse=True)
    adjusted = adjust(_read(found, "p")[once])[where]
    build.add(Column("p_adjusted", title="adjusted p"), adjusted)
    selected = Column("accuracy_selected", UNIT, title="links found where the head was chosen")
    build.add(selected, _read(found, "selected"))
    if selection.folds:
        _add_choices(build, found, labels)
    if selection.controls:
        control, error = _read(found, "control"), _read(found, "control_error")
        build.measure("control", UNIT, control, error, title="links that the best head of the control finds")
        selectivity, error = _read(found, "selectivity"), _read(found, "selectivity_error")
        build.measure("selectivity", UNIT, selectivity, error, title="accuracy less that of the control")
    said = [
        *_note_significant(cells, found, adjusted, asking, labels, selection),
        *_note_few_documents(found, selection),
        *_note_ties(cells, found, selection, labels),
        *_note_optimism(found, selection),
        *_note_control(found, asked.get("control")),
    ]
    return build.table(title, [*said, *_note_same_links(cells, first), *notes], "best heads")


def list_controls(statistic: Statistic, measurement: Measurement) -> list[Tally]:
    """List what was counted of the controls of a statistic."""
    return [tally for name, tally in measurement.sums.items() if name.startswith(f"{statistic.name}_")]


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
    build.add(accuracy, _read(found, "runner_up_accuracy"))


def _read(found: Sequence[Best], name: str) -> np.ndarray:
    return np.array([getattr(best, name) for best in found], np.float64)


def _note_significant(
    cells: Sequence[Cell],
    found: Sequence[Best],
    adjusted: np.ndarray,
    asking: Asking,
    labels: Labels,
    selection: Selection,
) -> Iterator[str]:
    rows = [row for row, p in enumerate(adjusted) if p < SIGNIFICANT and cells[row].label != ALL]
    rule = "rule" if asking.named else "fixed offset"
    shown = {cell.label for cell in cells} - {ALL}
    if not shown:
        return
    if all(found[row].layer is None for row in range(len(cells))):
        part, other = ("fold", "another") if selection.folds else ("half", "the other")
        yield (
            f"All documents with links lie in one {part} of the documents, so that no head can be chosen on "
            f"one and scored on {other}; give more documents, or look at all heads."
        )
        return
    if not rows:
        which = "" if len(shown) == 1 else f", for any of {len(shown)} {asking.counted(len(shown))}"
        yield f"No head finds significantly more links than the best {rule}{which} {TESTED}."
        return
    best: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: found[row].baseline - found[row].accuracy):
        best.setdefault(cells[row].label, row)
    listed = []
    for label, one in ((label, found[row]) for label, row in best.items()):
        listed.append(f"{label} {_name_best(one, labels)} ({one.accuracy:.2f} against {one.baseline:.2f})")
    more = f", and {len(listed) - 6} more" if len(listed) > 6 else ""
    yield (
        f"For {len(best)} of {len(shown)} {asking.counted(len(shown))}, a head finds significantly more "
        f"links than the best {rule} {TESTED}: {', '.join(listed[:6])}{more}."
    )


def _name_best(best: Best, labels: Labels) -> str:
    assert best.layer is not None  # or it would have no p
    assert best.head is not None
    return labels.places[best.layer].head(best.head) + (best.position and f" at {best.position}")


def _note_few_documents(found: Sequence[Best], selection: Selection) -> Iterator[str]:
    most = max((best.documents for best in found), default=0)
    if 0 < most < FEW_DOCUMENTS / 2:
        over = "documents. The scored half has" if selection.compared else "blocks of documents. There are"
        yield (
            f"Heads are compared with rules by the sign-flip test over {over} at most {most} that hold such "
            f"links, so that no p is below {0.5**most:.2g}."
        )


def _note_ties(
    cells: Sequence[Cell], found: Sequence[Best], selection: Selection, labels: Labels
) -> Iterator[str]:
    """Name the heads that not all folds chose, those that fewest chose first."""
    known = [(cell, best) for cell, best in zip(cells, found, strict=True) if best.layer is not None]
    if not selection.folds or not known:
        return
    torn = sorted((one for one in known if one[1].times < one[1].folds), key=lambda one: one[1].times)
    if not torn:
        yield f"Every head that is named was chosen in {selection.folds} of {selection.folds} folds."
        return
    listed: dict[str, str] = {}
    for cell, best in torn:
        name, (layer, head) = _name_best(best, labels), best.runner_up
        assert layer is not None  # or every fold would have chosen the only one
        assert head is not None
        after = labels.places[layer].head(head)
        said = f"{cell.label} {name} ({best.times} of {best.folds} folds, next {after})"
        listed.setdefault(cell.label, said)
    more = f", and {len(listed) - 6} more" if len(listed) > 6 else ""
    yield (
        f"Folds agree on the head in {len(known) - len(torn)} of {len(known)} rows. Where they don't, "
        f"several heads are about as good: {', '.join([*listed.values()][:6])}{more}."
    )


def _note_control(found: Sequence[Best], control: str | None) -> Iterator[str]:
    known = [best for best in found if np.isfinite(best.selectivity)]
    if control is None or not known:
        return
    said = {
        "links": "of the same links, each moved to another word of its text at the same distance",
        "weights": "of the same architecture with random weights, of three seeds",
    }[control]
    mean = np.mean([best.control for best in known])
    sure = sum(best.selectivity > 1.96 * best.selectivity_error for best in known)
    yield (
        f"The best heads {said}, find {mean:.2f} on average (control). In {sure} of {len(known)} rows, accuracy "
        "is higher by more than 1.96 standard errors (selectivity)."
    )


def _note_same_links(cells: Sequence[Cell], first: np.ndarray) -> Iterator[str]:
    alike = {
        tuple(dict.fromkeys(cells[int(row)].label for row in np.flatnonzero(first == number)))
        for number in set(first.tolist())
    }
    for labels in sorted(labels for labels in alike if len(labels) > 1):
        listed = f"{', '.join(labels[:-1])} and {labels[-1]}"
        yield f"The rows {listed} are about the same links, and count once where p is adjusted."


def _note_optimism(found: Sequence[Best], selection: Selection) -> Iterator[str]:
    more = _read(found, "selected") - _read(found, "accuracy")
    more = more[np.isfinite(more)]
    if not len(more):
        return
    if selection.folds:
        said = (
            f"The documents are in {selection.folds} folds, and heads and baselines of each were chosen on "
            "the others. Chosen and scored on the same documents"
        )
    else:
        said = (
            "Heads and baselines were chosen on one half of the documents and scored on the other. Chosen "
            "and scored on the same half"
        )
    yield (
        f"{said}, accuracy would be higher by {more.mean():.3f} on average, and by {more.max():.3f} at most "
        "(accuracy_selected)."
    )


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
    return build.table(title, notes)


#: The rules that a head has to beat, as the guesses of links name them.
NEAREST, SAME_LAST_WORD = "nearest", "same last word"
#: A fixed offset looks so many words far at most.
FURTHEST_LINK = 48

ASKING_SYNTAX = Asking("dependent_to_head", "head_to_dependent", OFFSETS, label="relation")
ASKING_COREFERENCE = Asking(
    "mention_to_antecedent", "", (NEAREST, SAME_LAST_WORD), label="mention", noun="kind of mention"
)
_RULES = (*offsets_to(FURTHEST_LINK), SAME_TEXT, SAME_CONTEXT, SAME_LEFT_CONTEXT, SAME_PLACE)
ASKING_LINKS = Asking("source_to_target", "target_to_source", _RULES, label="label")


def _define(
    name: str, asking: Asking, title: str, noun: str, order: int
) -> tuple[Statistic, Tabulation, Tabulation]:
    """Give the statistic of some links, its table of labels, and its table of labels and heads."""
    found = Statistic(
        name, "share of links", partial(questions_of, asking=asking), scope="links", rows="label",
        sums=Tally, version=3, family=FAMILY, title=title, order=order,
    )  # fmt: skip
    best = f"{name}: the best head for each {asking.counted(1)}"
    return (
        found,
        Tabulation(asking.label, partial(by_label_table, found, asking), best),
        Tabulation(
            f"{asking.label} and head",
            partial(by_head_table, found, asking),
            f"{name}: how often each head finds {noun}",
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
