"""What heads find in each group of documents: the head and the rule that the row of all groups names."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np

from attnprobe.statistics.best_heads import Cell, Compared, find_answers, fit_heads, fit_rules
from attnprobe.statistics.by_group import Key, Part, compare_parts, is_folded, sort_groups, stack_groups
from attnprobe.statistics.rules import ALL, Asking
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Build
from attnprobe.sums.base import Measurement
from attnprobe.sums.crossfit import FOLDS, Contrast, CrossFit
from attnprobe.sums.resampling import SIGNIFICANT, adjust
from attnprobe.sums.tally import FAR, SCORING, Tally
from attnprobe.table.builder import Labels
from attnprobe.table.cells import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import join_names

#: So many labels are named in a note.
_NAMED = 6
#: Columns that say what was chosen over all groups, and is scored in each.
_CHOSEN = ("layer", "head", "position", "baseline_offset", "baseline_rule")


@dataclass(frozen=True)
class Named:
    """The head and the rule that a row names: key of the tally, layer in the order of a pass, head, rule."""

    key: tuple[str, ...]
    layer: int
    head: int
    rule: int | None


@dataclass(frozen=True)
class Scored:
    """What a head and a rule find of the links of a group."""

    n: int = 0
    accuracy: float = np.nan
    accuracy_se: float = np.nan
    baseline: float = np.nan
    gain: float = np.nan
    gain_se: float = np.nan
    p: float = np.nan
    documents: int = 0
    n_far: int = 0  # of them, those that have a word between their ends, and what is found of these
    accuracy_far: float = np.nan
    accuracy_far_se: float = np.nan
    baseline_far: float = np.nan


def by_label_and_group_table(
    build: Build,
    statistic: Statistic,
    asking: Asking,
    title: str,
    measurement: Measurement,
    statistics: Sequence[Statistic],
    labels: Labels,
) -> HeadTable:
    """Tabulate each label and direction over all groups of documents, and below it in each group.

    Head and rule are chosen over all groups, so that all rows of a label and direction are about the same:
    ``layer``, ``head`` and ``baseline_offset`` or ``baseline_rule`` are those of the row of all groups, which
    most folds chose. In a group, each fold is scored with the head and the rule that the other folds of all
    groups chose for it, so that right answers of the groups add up to those of all; with
    ``selection="half"``, the scored half is. ``p`` is of the group, given what was chosen, and ``p_adjusted``
    counts the rows of the group. Whether groups are alike is tested of ``accuracy``, which is about heads
    alone, and of ``gain``, which is about how far they are ahead of a rule that may find more or less in a
    group; see ``tabulate_groups``. A head holds in a group where p is below .05 there. As it has to do so in
    each group to hold in all, no p needs to be adjusted for that (Berger 1982).

    References:
        Berger (1982), Multiparameter hypothesis testing and acceptance sampling.
    """
    table = build(title, replace(measurement, strata={}), statistics, labels)
    whole = Part.of(table, measurement.documents)
    named = [read_named(table, row, asking, labels) for row in range(len(table))]
    asked = labels.provenance.get("asked", {})
    half, chosen = asked.get("selection") == "half", dict[Named, Chosen]()
    if not half:
        every: Tally = measurement.sums[statistic.name]
        folds = int(asked.get("folds", FOLDS))
        chosen = {who: Chosen.of(every, who, asking, labels, folds) for who in named if who is not None}
    groups = {}
    for name in sort_groups([*measurement.strata]):
        one = measurement.strata[name]
        tally: Tally = one.sums[statistic.name]
        scorer = HalfScorer(Compared.of(tally)) if half else FoldScorer(tally, chosen, len(named))
        found = [Scored() if who is None else score_named(scorer, who) for who in named]
        documents = dict(zip(whole.places, (one.documents for one in found), strict=True))
        groups[name] = Part(_fill(table, found), whole.places, one.documents, documents, is_folded(one))
    told = [*_say_where_it_holds(table, named, groups, labels)]
    return stack_groups(whole, groups, told, row_by_row=True)


def read_named(table: HeadTable, row: int, asking: Asking, labels: Labels) -> Named | None:
    """Read which head and which rule a row of a table of best heads names; None where it names no head."""
    cells: dict[str, Any] = {name: column[row] for name, column in table.data.items()}
    if cells["layer"] is None or cells["head"] is None:
        return None
    place = (cells["layer"],) if "attention" not in cells else (cells["attention"], cells["layer"])
    layer = next(number for number, one in enumerate(labels.places) if one.key == place)
    position = [cells["position"]] if cells.get("position") else []
    key = (cells[asking.label], cells.get("direction", asking.forward), *position)
    rules = {asking.name_of(rule): rule for rule in range(len(asking.rules))}
    offset, rule = cells.get("baseline_offset"), rules.get(cells.get("baseline_rule") or "")
    if rule is None and offset is not None:
        rule = asking.offsets.index(offset)
    return Named(key, layer, cells["head"], rule)


class Scorer(Protocol):
    """Scores heads and rules on the documents of a group."""

    tally: Tally

    def score(self, place: int, named: Named) -> tuple[int, float, float, float]:
        """Give the number of links of a key, and the accuracy of a head, its error, and that of a rule."""
        ...

    def compare(self, place: int, named: Named, n: int) -> tuple[float, float]:
        """Give the error of the share of ``n`` links by which a head is ahead of a rule, and its p."""
        ...

    def count_documents(self, place: int, layer: int) -> int:
        """Count the documents that have links of a key."""
        ...


class HalfScorer:
    """Scores on the scoring half of the documents."""

    def __init__(self, compared: Compared) -> None:
        self.tally, self._compared = compared.tally, compared

    def score(self, place: int, named: Named) -> tuple[int, float, float, float]:
        layer, tally = named.layer, self.tally
        n = int(tally.asked[place, layer, SCORING])
        if not n:
            return 0, np.nan, np.nan, np.nan
        right = int(tally.hits[place, layer, named.head, SCORING])
        guessed = 0 if named.rule is None else int(tally.guessed[place, layer, named.rule, SCORING])
        return n, right / n, float(self._compared.error[place, layer, named.head]), guessed / n

    def compare(self, place: int, named: Named, n: int) -> tuple[float, float]:
        where = place, named.layer, named.head, named.rule or 0
        return self._compared.gain_error(where, n), self._compared.chance(where)

    def count_documents(self, place: int, layer: int) -> int:
        return int(self.tally.count_documents(SCORING)[place, layer])


@dataclass(frozen=True)
class Chosen:
    """The heads and rules that folds of all groups choose for one another.

    Attributes:
        heads: Heads at every position that is asked, cross-fitted over all groups.
        rules: Rules, alike.
        cells: Where the heads' answers are counted: the keys of the positions, and the layers.
        gone: Heads that the checkpoint lacks (layer, head).
        order: The rules, in the order in which ``rules`` has them.
    """

    heads: CrossFit
    rules: CrossFit
    cells: Mapping[Key, Cell]
    gone: np.ndarray
    order: Sequence[int]

    @classmethod
    def of(cls, tally: Tally, named: Named, asking: Asking, labels: Labels, folds: int) -> "Chosen":
        """Cross-fit heads and rules over all groups, for the links of a row."""
        layers = np.flatnonzero(tally.kinds == tally.kinds[named.layer]).tolist()
        label, direction = named.key[:2]
        cells = {
            key: Cell(place, label, direction, None, layers, "".join(key[2:]))
            for place, key in enumerate(tally.keys)
            if key[:2] == named.key[:2] and key[-1] != FAR
        }
        gone = np.zeros(tally.hits.shape[1:3], bool)
        for place in labels.removed:
            gone[place] = True
        fitted = fit_heads(tally, [*cells.values()], gone, folds)
        assert fitted is not None  # or the row would name no head
        rules = fit_rules(tally, cells[named.key], asking, folds)
        return cls(fitted[0], rules, cells, gone, asking.preference)


class FoldScorer:
    """Scores each fold with what the other folds of all groups chose.

    ``tests`` says how many p values are adjusted together.
    """

    def __init__(self, tally: Tally, chosen: Mapping[Named, Chosen], tests: int) -> None:
        self.tally, self._chosen, self._tests = tally, chosen, tests
        self._places = {key: place for place, key in enumerate(tally.keys)}

    def score(self, place: int, named: Named) -> tuple[int, float, float, float]:
        asked, right, guessed = self._read_blocks(place, named)
        n = int(asked.sum())
        if not n:
            return 0, np.nan, np.nan, np.nan
        error = Contrast([CrossFit(asked, right[None], FOLDS)], [1]).error
        return n, int(right.sum()) / n, error, int(guessed.sum()) / n

    def compare(self, place: int, named: Named, n: int) -> tuple[float, float]:
        asked, right, guessed = self._read_blocks(place, named)
        sides = [CrossFit(asked, one[None], FOLDS) for one in (right, guessed)]
        ahead = Contrast(sides, [1, -1])
        return ahead.error, ahead.chance(self._tests)

    def count_documents(self, place: int, layer: int) -> int:
        return int(self.tally.count_documents()[place, layer])

    def _read_blocks(self, place: int, named: Named) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Give links and right answers of the chosen heads and rules in each block of documents."""
        chosen, far = self._chosen[named], self.tally.keys[place][-1:] == (FAR,)
        cells = [
            replace(cell, place=self._places[(*key, FAR) if far else key])
            for key, cell in chosen.cells.items()
        ]
        (asked, hits), _ = find_answers(self.tally, cells, chosen.gone)
        guessed = self.tally.blocks.guessed[place, self.tally.kinds[named.layer]][list(chosen.order)]
        return asked, chosen.heads.answers_of(hits), chosen.rules.answers_of(guessed.astype(np.int64))


def score_named(scorer: Scorer, named: Named) -> Scored:
    """Score a head and a rule on the documents of a group."""
    keys = scorer.tally.keys
    if named.key not in keys:
        return Scored()
    place = keys.index(named.key)
    n, accuracy, error, baseline = scorer.score(place, named)
    if not n:
        return Scored()
    gain = accuracy - baseline
    number = scorer.count_documents(place, named.layer)
    found = Scored(n, accuracy, error, baseline, gain, *scorer.compare(place, named, n), number)
    if (far := (*named.key, FAR)) not in keys:
        return found
    n, accuracy, error, baseline = scorer.score(keys.index(far), named)
    return replace(found, n_far=n, accuracy_far=accuracy, accuracy_far_se=error, baseline_far=baseline)


def _fill(table: HeadTable, found: Sequence[Scored]) -> HeadTable:
    """Put what was found in a group into a table like that of all groups; the rest of it is empty."""
    scores: dict[str, Sequence[Any]] = {
        one.name: [getattr(scored, one.name) for scored in found] for one in fields(Scored)
    }
    scores["p_adjusted"] = adjust(scores["p"]).tolist()
    kept = {*_CHOSEN, *(column.name for column in table.columns if column.role == "key")}
    data = {
        column.name: table.data[column.name]
        if column.name in kept
        else scores.get(column.name, [np.nan if column.role in {"measure", "error"} else None] * len(table))
        for column in table.columns
    }
    return HeadTable(table.title, table.columns, data, [], table.provenance, table.kind)


def _say_where_it_holds(
    table: HeadTable, named: Sequence[Named | None], groups: Mapping[str, Part], labels: Labels
) -> Iterator[str]:
    """Say of the heads that find more than a rule over all groups in which of them they do."""
    if len(groups) < 2:
        return
    keys = list(next(iter(groups.values())).places)
    tests = _test_accuracy(groups, keys)
    told: dict[str, str] = {}
    order = np.argsort(-np.nan_to_num(np.array(table["gain"], np.float64), nan=-1), kind="stable")
    for row in order.tolist():
        who, p = named[row], table.data["p_adjusted"][row]
        if who is None or who.key[0] == ALL or not isinstance(p, float) or not p < SIGNIFICANT:
            continue
        name = f"{who.key[0]} {labels.places[who.layer].head(who.head)}"
        told.setdefault(who.key[0], f"{clean(name)} holds {_list_groups(groups, row)}{tests[row]}")
    listed = [*told.values()]
    if listed:
        more = f"; and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
        yield (
            "A head holds in a group where it finds more than the rule (p < .05): "
            f"{'; '.join(listed[:_NAMED])}{more}."
        )


def _list_groups(groups: Mapping[str, Part], row: int) -> str:
    ps = {name: part.table.data["p"][row] for name, part in groups.items()}
    failing = [clean(name) for name, p in ps.items() if not (isinstance(p, float) and p < SIGNIFICANT)]
    if not failing:
        return "in both groups" if len(groups) == 2 else f"in all {len(groups)} groups"
    return f"in {len(groups) - len(failing)} of {len(groups)} groups, not shown in {join_names(failing)}"


def _test_accuracy(groups: Mapping[str, Part], keys: Sequence[Key]) -> list[str]:
    found = compare_parts("accuracy", groups, keys)
    return [
        "" if np.isnan(p) else f" (accuracy: Q = {q:.3g}, p = {p:.2g})"
        for q, p in zip(found.q.tolist(), found.p.tolist(), strict=True)
    ]
