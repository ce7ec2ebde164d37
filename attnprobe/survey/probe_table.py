"""Probes as tables: what all heads know of each label beside the best head, and what each head weighs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics.links import FEWEST, UNIT
from attnprobe.statistics.rules import ALL, LinkTask
from attnprobe.sums.blocked import find_share
from attnprobe.sums.inference import adjust, sign_flip
from attnprobe.survey.probe import Floats, ProbeData
from attnprobe.survey.word_maps import Bools, Ints
from attnprobe.table.builder import FEW_DOCUMENTS, Labels, TableBuilder
from attnprobe.table.naming import join_names
from attnprobe.table.numbers import format_number
from attnprobe.table.table import Column, HeadTable

#: What is counted by document, of the links of a label.
_NUMBERS = ("asked", "probe", "head", "rule")


@dataclass(frozen=True)
class Choice:
    """What was chosen of several for a label.

    Attributes:
        named: The head that most folds chose, or the best rule; None where nothing is ever right.
        hit: (entry,) whether it finds a right answer; of a head, that of the entry's fold.
        share: The share of folds that chose it.
    """

    named: int | None
    hit: NDArray[Any]
    share: float = 1.0


@dataclass(frozen=True)
class Scored:
    """What a cross-fitted probe, heads and rules find.

    Attributes:
        data: The questions.
        hit: (question,) whether the probe of its fold answers it rightly.
        fold: (question,) the fold of its document.
    """

    data: ProbeData
    hit: Bools
    fold: Ints

    @cached_property
    def entries(self) -> dict[str, Ints]:
        """The questions of each label: of all, then of labels by the number of their links."""
        batches = self.data.corpus.batches
        begins = self.data.ends - [len(batch) for batch in batches]
        question = np.concatenate([batch.entry + begin for batch, begin in zip(batches, begins, strict=True)])
        label = np.concatenate([batch.label for batch in batches])
        entries = {str(name): question[label == name] for name in np.unique(label)}
        order = sorted(entries, key=lambda name: (name != ALL, -len(entries[name]), name))
        return {name: entries[name] for name in order}

    def choose_heads(self, labels: Sequence[str]) -> list[Choice]:
        """Choose for each label and fold the head that finds most links in the other folds."""
        every = np.concatenate([batch.heads for batch in self.data.corpus.batches])
        choices = []
        for label in labels:
            questions = self.entries[label]
            hits, fold = every[questions], self.fold[questions]
            counts = np.zeros((int(self.fold.max()) + 1, self.data.features), np.int64)
            np.add.at(counts, fold, hits)
            total = counts.sum(0)
            best = (total - counts).argmax(1)
            times = np.bincount(best, minlength=len(total))
            named = max(range(len(total)), key=lambda head: (times[head], total[head]))
            hit, share = hits[np.arange(len(hits)), best[fold]], float(times[named] / len(best))
            choices.append(Choice(named if total[named] else None, hit, share))
        return choices

    def choose_rules(self, labels: Sequence[str], task: LinkTask) -> list[Choice]:
        """Choose for each label the rule that finds most links of all; chance where that finds more."""
        batches = self.data.corpus.batches
        every = np.concatenate([np.column_stack([batch.rules, batch.chance]) for batch in batches])
        choices = []
        for label in labels:
            hits = every[self.entries[label]]
            best = task.best_rule(hits.sum(0))
            choices.append(Choice(best if hits[:, best].any() else None, hits[:, best]))
        return choices

    def sum_documents(self, questions: Ints, *numbers: NDArray[Any]) -> Floats:
        """Add up numbers (entry,) by document: (document, number), first how many questions it has."""
        document = self.data.document[questions]
        values = np.stack([np.ones(len(questions)), *(one.astype(np.float64) for one in numbers)], 1)
        total = np.zeros((self.data.documents, values.shape[1]))
        np.add.at(total, document, values)
        return total[total[:, 0] > 0]


def choose_labels(scored: Scored, fewest: int, *, named: bool) -> tuple[list[str], list[str]]:
    """List the labels that have a row, all links first, and say which are left out.

    There is no row of all where labels were ``named``, or where the only one says the same.
    """
    several = [label for label in scored.entries if label != ALL]
    kept = [label for label in several if len(scored.entries[label]) >= fewest]
    alone = len(several) == 1 and len(scored.entries[several[0]]) == len(scored.entries[ALL])
    shown = [*([] if (named and several) or (alone and kept) else [ALL]), *kept]
    return shown, [label for label in several if label not in kept]


def tabulate_labels(
    scored: Scored, task: LinkTask, labels: Labels, heads: Sequence[tuple[int, int]], notes: Sequence[str]
) -> HeadTable:
    """Tabulate each label: what the probe finds of it, the best head, and the best rule.

    Probe and head are scored on other documents than they are chosen on. The rule is the best over all links,
    and at least chance where candidates are named, so that ``baseline`` is rather too high than too low.
    """
    request = labels.provenance.get("asked", {})
    fewest, named = int(request.get("min_links", FEWEST)), request.get("labels") is not None
    shown, rare = choose_labels(scored, fewest, named=named)
    rows = [scored.entries[label] for label in shown]
    best, rule = scored.choose_heads(shown), scored.choose_rules(shown, task)
    sums = [
        scored.sum_documents(questions, scored.hit[questions], head.hit, other.hit)
        for questions, head, other in zip(rows, best, rule, strict=True)
    ]
    build = TableBuilder(labels, len(shown))
    build.key(task.label, shown)
    build.count("n", np.array([len(questions) for questions in rows], np.int64), "links")

    def measure(name: str, weights: Mapping[str, int], title: str, *, headline: bool = False) -> None:
        flat = np.array([weights.get(one, 0) for one in _NUMBERS])
        shares = [find_share(one @ flat, one[:, 0]) for one in sums]
        values = np.array([(share.value, share.error) for share in shares]).reshape(-1, 2)
        build.measure(name, UNIT, *values.T, headline=headline, title=title)

    measure("accuracy", {"probe": 1}, "links that all heads together find", headline=True)
    count = len(heads)
    places = [None if one.named is None else heads[one.named % count] for one in best]
    ways = [None if one.named is None else name_way(task, one.named >= count) for one in best]
    build.add(Column("direction", role="text"), ways)
    build.add(
        Column("layer", role="count"),
        [None if place is None else labels.places[place[0]].layer for place in places],
    )
    build.add(Column("head", role="count"), [None if place is None else place[1] for place in places])
    build.add(
        Column("chosen", "share of folds", title="folds that chose the head"), [one.share for one in best]
    )
    measure("best_head_accuracy", {"head": 1}, "links that the best head finds")
    measure("gain", {"probe": 1, "head": -1}, "gain over the best head")
    p = np.array([sign_flip(one[:, 1] - one[:, 2]) for one in sums])
    alike = {questions.tobytes(): number for number, questions in enumerate(rows)}
    once, where = np.unique([alike[questions.tobytes()] for questions in rows], return_inverse=True)
    adjusted = adjust(p[once])[where]  # rows about the same links count once
    build.test(p, adjusted)
    measure("baseline", {"rule": 1}, "links that the best rule finds")
    names = [None if one.named is None else task.name_of(one.named) for one in rule]
    build.add(Column("baseline_rule", role="text"), names)
    remarks = [*_note_few_documents(scored)]
    if rare:
        remarks.append(f"Left out, with fewer than {fewest} links: {join_names(rare, 8)}.")
    return build.table("probe: what all heads know together", [*remarks, *notes], "probes")


def tabulate_heads(
    data: ProbeData, probe: Floats, task: LinkTask, labels: Labels, heads: Sequence[tuple[int, int]],
    notes: Sequence[str],
) -> HeadTable:  # fmt: skip
    """Tabulate the weights of a probe that is fitted to all links, a row for each head and direction.

    ``weight`` is that of attention as it is: u of heads from who is asked, v of heads to it. ``share`` is
    |weight| times the spread of that attention over candidates, divided by the sum of these over all rows.
    """
    count = len(heads)
    order = [
        way * count + number
        for _, number in sorted((place, number) for number, place in enumerate(heads))
        for way in (0, 1)
    ]
    build = TableBuilder(labels, 2 * count)
    build.layers([heads[one % count][0] for one in order])
    build.key("head", [heads[one % count][1] for one in order])
    build.key("direction", [name_way(task, one >= count) for one in order])
    build.count("n", np.full(2 * count, len(data)), "links")
    sizes = np.abs(probe) * (data.spread > 0)
    weights, share = probe * data.scale, sizes / max(float(sizes.sum()), np.finfo(float).tiny)
    build.add(Column("weight", "log odds", title="weight of attention"), weights[order])
    build.add(Column("share", "share of weight", headline=True, title="share of the weight"), share[order])
    return build.table("probe: what each head weighs", notes, "heads")


def name_way(task: LinkTask, backward: bool) -> str:
    """Name who attends to whom; of mentions, whose links are asked one way only, the other way round too."""
    if not backward:
        return task.forward
    return task.backward or "_to_".join(reversed(task.forward.split("_to_")))


def _note_few_documents(scored: Scored) -> Iterator[str]:
    if scored.data.documents < FEW_DOCUMENTS / 2:
        least = format_number(0.5**scored.data.documents, digits=2)
        yield f"Links are of {scored.data.documents} documents, so that no p is below {least}."
