"""What heads find: gold links between words, and how often a head's most attended word is their other end.

The best head for each label is chosen on one half of the documents and scored on the other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

from attnprobe.attention.kinds import Kind
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
    TESTED,
    Asking,
    offsets_to,
)
from attnprobe.statistics.statistic import Family, Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.resampling import SIGNIFICANT, adjust, mcnemar, sign_flip
from attnprobe.sums.tally import CHOOSING, FAR, SCORING, Tally
from attnprobe.table.builder import FEW_DOCUMENTS, Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

FAMILY = Family("links", "what heads find", 7, commands=("syntax", "coreference", "links"))

UNIT = "share of links"
#: Labels of fewer links say too little of a head to be shown.
FEWEST = 20
#: So many labels are named in a note.
_NAMED = 8


@dataclass(frozen=True)
class Cell:
    """A label and direction, at their place in the tally, as the layers of one kind of attention are asked.

    The kind is None where the model has only one. The position is where a decoder beside an encoder is asked.
    ``far`` is the place of the same links at a distance, if there is any.
    """

    place: int
    label: str
    direction: str
    kind: Kind | None
    layers: Sequence[int]
    position: str = ""
    far: int | None = None


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


@dataclass(frozen=True)
class Compared:
    """Heads and rules on the scoring half, see ``Tally.disagreement``."""

    error: np.ndarray  # of accuracy, (key, layer, head)
    clusters: np.ndarray
    squares: np.ndarray
    around: np.ndarray
    tally: Tally

    @classmethod
    def of(cls, tally: Tally) -> "Compared":
        return cls(tally.accuracy(SCORING)[1], *tally.disagreement(), tally)

    def chance(self, where: tuple[int, int, int, int]) -> float:
        """Give the p value, one-sided, that a head finds more than a rule: over documents.

        Where each sequence is a document, links are compared, see ``mcnemar``; where some are parts of one,
        documents are, see ``sign_flip``. ``where`` is key, layer, head and rule.
        """
        key, layer, head, rule = where
        tally, squares = self.tally, round(float(self.squares[where]))
        right = int(tally.hits[key, layer, head, SCORING])
        guessed = int(tally.guessed[key, layer, rule, SCORING])
        apart = tally.ahead_by_group(where)
        if not len(apart):
            both = int(tally.both[where])
            return mcnemar(right - both, guessed - both, squares)
        rest = squares - int(np.square(apart).sum())
        return sign_flip(apart, right - guessed - int(apart.sum()), rest)

    def gain_error(self, where: tuple[int, int, int, int], n: int) -> float:
        """Give the standard error of the share of ``n`` links by which a head is ahead of a rule.

        It is that of a ratio over documents, see ``Tally.accuracy``; NaN below two documents.
        """
        clusters = self.clusters[where[:2]].item()
        if clusters < 2:
            return np.nan
        return float((self.around[where] * clusters / (clusters - 1)) ** 0.5 / n)


@dataclass(frozen=True)
class Best:
    """The head that finds most links of a label, and what a rule finds of the ``n`` that are scored."""

    n: int
    layer: int | None = None  # None where nothing could be chosen
    head: int | None = None
    position: str = ""
    accuracy: float = np.nan
    error: float = np.nan
    rule: int | None = None  # None where none ever answers
    baseline: float = np.nan
    gain_error: float = np.nan
    p: float = np.nan
    selected: float = np.nan  # the accuracy that choosing on the scoring half itself would have claimed
    documents: int = 0  # documents of several sequences over which p is; 0 where each sequence is one
    # Of the links whose ends are not neighbours:
    n_far: int = 0
    accuracy_far: float = np.nan
    error_far: float = np.nan
    baseline_far: float = np.nan


def choose_and_score(
    tally: Tally, cells: Sequence[Cell], gone: np.ndarray, asking: Asking, compared: Compared
) -> Best:
    """Choose a head and a rule on one half of the documents, and score both on the other.

    The cells are those of the same links, at each position of a decoder that is asked; ``gone`` are heads
    that the checkpoint lacks (layer, head).
    """
    layers, places = np.array(cells[0].layers), [cell.place for cell in cells]
    n = int(tally.asked[places[0], layers[0], SCORING])
    hits = np.where(gone[layers, :, None], -1, tally.hits[np.array(places)[:, None], layers])
    if not n or not tally.asked[places[0], layers[0], CHOOSING] or (hits < 0).all():
        return Best(n)
    which, at, head = np.unravel_index(hits[..., CHOOSING].argmax(), hits.shape[:3])
    cell, layer, right = cells[int(which)], int(layers[at]), int(hits[which, at, head, SCORING])
    by_rule = tally.guessed[cell.place, layer]
    rule = asking.best_rule(by_rule[:, CHOOSING])
    guessed = int(by_rule[rule, SCORING])
    where = cell.place, layer, int(head), rule
    return Best(
        n,
        layer,
        int(head),
        cell.position,
        right / n,
        float(compared.error[where[:3]]),
        rule if by_rule[rule, CHOOSING] else None,
        guessed / n,
        compared.gain_error(where, n),
        compared.chance(where),
        int(hits[..., SCORING].max()) / n,
        compared.clusters[where[:2]].item() if len(tally.groups) else 0,
        *_score_far(tally, cell.far, layer, int(head), rule, compared),
    )


def _score_far(
    tally: Tally, place: int | None, layer: int, head: int, rule: int, compared: Compared
) -> tuple[int, float, float, float]:
    """Score a head and a rule on links at a distance: their number, accuracy, its error, baseline."""
    n = 0 if place is None else int(tally.asked[place, layer, SCORING])
    if not n:
        return 0, np.nan, np.nan, np.nan
    accuracy = int(tally.hits[place, layer, head, SCORING]) / n
    baseline = int(tally.guessed[place, layer, rule, SCORING]) / n
    return n, accuracy, float(compared.error[place, layer, head]), baseline


def by_label_table(
    statistic: Statistic,
    asking: Asking,
    title: str,
    measurement: Measurement,
    _: Sequence[Statistic],
    labels: Labels,
) -> HeadTable:
    """Tabulate the best head for each label and direction, beside the best rule.

    Head and rule are those with most right answers on one half of the documents; of equals, the first head
    and the nearest offset. A head of a decoder beside an encoder is asked where it predicts a word and where
    it reads it, and ``position`` says which of the two was chosen: ``output`` or ``input``. ``n`` counts the
    links of the other half, where both are scored: ``accuracy`` and ``baseline``, both shares of these links.
    ``n_far`` counts those of them that have a word between their ends, and ``accuracy_far`` and
    ``baseline_far`` are shares of these; there are none between two texts, which know no distance.
    ``gain`` is accuracy less baseline, and its error is over documents, of right answers of the head less
    those of the rule; for ``p`` see ``Compared.chance``. ``accuracy_selected`` is the largest accuracy of any
    head on the scored half, which choosing there would have claimed. ``p_adjusted`` counts rows that are
    about the very same links once.
    """
    tally: Tally = measurement.sums[statistic.name]
    cells, notes = choose_cells(tally, labels, asking)
    compared, gone = Compared.of(tally), np.zeros(tally.hits.shape[1:3], bool)
    for place in labels.removed:
        gone[place] = True
    rows = [list(some) for _, some in groupby(cells, lambda cell: (cell.kind, cell.label, cell.direction))]
    found = [choose_and_score(tally, some, gone, asking, compared) for some in rows]
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
    build.count("n_far", np.array([best.n_far for best in found], np.int64), "links")
    far, title_far = _read(found, "accuracy_far"), "links with a word between their ends that it finds"
    build.measure("accuracy_far", UNIT, far, _read(found, "error_far"), title=title_far)
    title_far = "links with a word between their ends that the rule finds"
    build.add(Column("baseline_far", UNIT, title=title_far), _read(found, "baseline_far"))
    said = [
        *_note_significant(cells, found, adjusted, asking, labels),
        *_note_few_documents(found),
        *_note_optimism(found),
    ]
    return build.table(title, [*said, *_note_same_links(cells, first), *notes], "best heads")


def _read(found: Sequence[Best], name: str) -> np.ndarray:
    return np.array([getattr(best, name) for best in found], np.float64)


def _note_significant(
    cells: Sequence[Cell], found: Sequence[Best], adjusted: np.ndarray, asking: Asking, labels: Labels
) -> Iterator[str]:
    rows = [row for row, p in enumerate(adjusted) if p < SIGNIFICANT and cells[row].label != ALL]
    shown = {cell.label for cell in cells} - {ALL}
    if not shown:
        return
    if all(found[row].layer is None for row in range(len(cells))):
        yield (
            "All documents with links lie in one half of the documents, so that no head can be chosen on one "
            "and scored on the other; give more documents, or look at all heads."
        )
        return
    if not rows:
        which = "" if len(shown) == 1 else f", for any of {len(shown)} {asking.counted(len(shown))}"
        yield f"No head finds significantly more links than the best rule{which} {TESTED}."
        return
    best: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: found[row].baseline - found[row].accuracy):
        best.setdefault(cells[row].label, row)
    listed = []
    for label, one in ((label, found[row]) for label, row in best.items()):
        assert one.layer is not None  # or it would have no p
        assert one.head is not None
        name = labels.places[one.layer].head(one.head) + (one.position and f" at {one.position}")
        listed.append(f"{label} {name} ({one.accuracy:.2f} against {one.baseline:.2f})")
    more = f", and {len(listed) - 6} more" if len(listed) > 6 else ""
    yield (
        f"For {len(best)} of {len(shown)} {asking.counted(len(shown))}, a head finds significantly more "
        f"links than the best rule {TESTED}: {', '.join(listed[:6])}{more}."
    )


def _note_few_documents(found: Sequence[Best]) -> Iterator[str]:
    most = max((best.documents for best in found), default=0)
    if 0 < most < FEW_DOCUMENTS / 2:
        yield (
            "Heads are compared with rules by the sign-flip test over documents. The scored half has at most "
            f"{most} that hold such links, so that no p is below {0.5**most:.2g}."
        )


def _note_same_links(cells: Sequence[Cell], first: np.ndarray) -> Iterator[str]:
    alike = {
        tuple(dict.fromkeys(cells[int(row)].label for row in np.flatnonzero(first == number)))
        for number in set(first.tolist())
    }
    for labels in sorted(labels for labels in alike if len(labels) > 1):
        listed = f"{', '.join(labels[:-1])} and {labels[-1]}"
        yield f"The rows {listed} are about the same links, and count once where p is adjusted."


def _note_optimism(found: Sequence[Best]) -> Iterator[str]:
    more = _read(found, "selected") - _read(found, "accuracy")
    more = more[np.isfinite(more)]
    if len(more):
        yield (
            "Heads and baselines were chosen on one half of the documents and scored on the other. Chosen "
            f"and scored on the same half, accuracy would be higher by {more.mean():.3f} on average, and by "
            f"{more.max():.3f} at most (accuracy_selected)."
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
    best = f"{name}: the best head for each {asking.counted(1)}"
    return (
        found,
        Tabulation(asking.label, partial(by_label_table, found, asking), best, stacked=True),
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
