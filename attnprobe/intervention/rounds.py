"""Ablation of as many examples as it takes: each head is off in examples until its effect is known.

Examples come in rounds, in a random order. A head leaves at its own first look that is precise enough, and is
off in no later example. Which heads are left follows from what all processes have added up, so that a run has
the same rounds, and the same bits, on however many, and after it was killed.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.sources.order import Order
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.changes import count_examples, take_first
from attnprobe.intervention.metrics.mean import Mean
from attnprobe.intervention.metrics.metric import CLUSTER, Outcome
from attnprobe.intervention.objectives.choosing import import_objective
from attnprobe.intervention.replacing import MeanOutputs, Replacing, build_replacing
from attnprobe.intervention.request import Documents, ReplacedBy
from attnprobe.intervention.task import Bench, Subject, bind_task, build_metric
from attnprobe.intervention.trials import cut_single_heads, keep_single_heads, run_trials
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run
from attnprobe.run.preparation import describe_reading
from attnprobe.sums.groups import Clustered
from attnprobe.sums.precision import half_widths, round_up
from attnprobe.survey.until import Round, drop_counts, read_in_rounds
from attnprobe.table.naming import join_names

Floats = NDArray[np.float64]
#: What ``--until`` can be about, the usual one first.
COLUMNS = ("delta", "moved")


@dataclass(frozen=True)
class Ablated:
    """What examples gave with all heads on, and under each cut. Two add up to one of more examples.

    Attributes:
        untouched: With all heads on.
        cuts: Under each cut, in each draw, of the first examples; empty where a cut was not made.
        documents: The document of each example, by its number.
    """

    untouched: Outcome
    cuts: Sequence[Sequence[Outcome]]
    documents: NDArray[np.int64]

    def __add__(self, other: "Ablated") -> "Ablated":
        cuts = [
            [_join(*both) for both in zip(ours, theirs, strict=True)] if theirs else ours
            for ours, theirs in zip(self.cuts, other.cuts, strict=True)
        ]
        later = other.documents + (self.documents.max() + 1)
        return Ablated(_join(self.untouched, other.untouched), cuts, np.concatenate([self.documents, later]))


def _join(one: Outcome, other: Outcome) -> Outcome:
    return {name: np.concatenate([values, other[name]]) for name, values in one.items()}


@dataclass(frozen=True)
class Rounds:
    """How examples were read in rounds, and heads left.

    Attributes:
        ablated: All rounds together.
        bench: The last round's, with what is on record of all of them.
        metric: The score.
        replacing: What took the place of heads.
        left: (cut,) the look at which each left, counted from 0; -1 for one that did not.
        looks: What goes on record of each look.
        targets: How precise columns were to be.
        strict: Whether two looks in a row had to be precise enough.
        order: In which order examples were read.
        read: Documents that were.
        widest: The widest interval of all heads in the end: its half-width, its column, and the examples that
            would be needed, if any are.
    """

    ablated: Ablated
    bench: Bench
    metric: Mean
    replacing: Replacing | None
    left: NDArray[np.int64]
    looks: Sequence[Mapping[str, Any]]
    targets: Mapping[str, float]
    strict: bool
    order: Order
    read: int
    widest: tuple[float, str, int | None]

    @property
    def share(self) -> float:
        """The share of the passes that were made, of those that switch off each head in every example."""
        examples = len(self.ablated.documents)
        every = examples if self.order.total is None else examples * self.order.total / self.read
        return sum(count_examples(cut[0]) for cut in self.ablated.cuts) / (every * len(self.left))

    @property
    def record(self) -> dict[str, Any]:
        """What goes on record: the looks, and how many heads were open after each."""
        return {
            "targets": dict(self.targets),
            "strict": self.strict,
            "seed": self.order.seed,
            "documents": self.read,
            "of": self.order.total,
            "reached": bool((self.left >= 0).all()),
            "passes": self.share,
            "looks": list(self.looks),
        }

    def notes(self) -> Iterator[str]:
        """Say how many passes were made, and which heads the examples were not enough for."""
        known = join_names([f"its {name} to ±{width:g}" for name, width in self.targets.items()])
        twice = " at two looks in a row" if self.strict else ""
        gone = compress(self.ablated.cuts, self.left >= 0)
        counts = Counter(count_examples(cut[0]) for cut in gone)
        listed = [f"{heads} after {examples:,}" for examples, heads in sorted(counts.items())]
        heads = f": of {len(self.left)} heads, {join_names(listed)}" if listed else ""
        total = self.order.total
        of = f" of {total:,}" if total is not None else ""
        yield (
            f"{self.share:.0%} of the passes were made that it takes to switch off every head in every "
            f"example. {self.read:,}{of} documents were read in a random order, and each head left once "
            f"{known} was known{twice} (95 %){heads}. n says how many examples a head's numbers are of."
        )
        if still := int((self.left < 0).sum()):
            width, name, needed = self.widest
            were = "was" if still == 1 else "were"
            wide = f"±{width:.2g}" if np.isfinite(width) else "unknown"
            more = f"; some {round_up(needed)} examples would be needed" if needed is not None else ""
            yield (
                f"{still} of {len(self.left)} heads {were} still open when the examples ended: the widest 95 "
                f"% interval is {wide}, of {name}{more}."
            )
        if isinstance(self.replacing, MeanOutputs):
            yield "The mean that replaces what a head gives is that over the examples of the first look."


def list_cuts(subject: Subject, *, keep_one: bool) -> list[NDArray[np.bool_]]:
    """List the cuts that switch each head off, or with ``keep_one`` all others of its layer."""
    every = (keep_single_heads if keep_one else cut_single_heads)(*subject.shape)
    return [*compress(every, subject.architecture.standing.ravel())]


def check_targets(targets: Mapping[str, float]) -> dict[str, float]:
    """Find which columns are to be precise: ``delta`` where none is named.

    >>> check_targets({"": 0.02})
    {'delta': 0.02}
    """
    found = {name or COLUMNS[0]: width for name, width in targets.items()}
    if unknown := next((name for name in found if name not in COLUMNS), None):
        raise AttnprobeError(
            f"--until of ablate is about {' or '.join(COLUMNS)}, not about {unknown!r}; give a width such as "
            "0.02, or moved=0.02."
        )
    return found


def measure_widths(
    ablated: Ablated, metric: Mean, some: Sequence[int], targets: Mapping[str, float]
) -> dict[str, Floats]:
    """Give half the widths of the 95 % intervals of some cuts, for each column.

        w = t(.975, C - 1) SE

    with SE the standard error over C documents of the mean difference, or of its size (``moved``), of
    examples with themselves. Of a score between 0 and 1, one example more that loses as much as can be, and
    one that gains as much, are part of SE: where no answer has changed yet, some may.

    References:
        Bonett and Price (2012), Adjusted Wald confidence interval for a difference of binomial proportions
        based on paired data: the two added examples.
    """
    found: dict[str, list[float]] = {name: [] for name in targets}
    for place in some:
        cut = ablated.cuts[place]
        own = take_first(ablated.untouched, count_examples(cut[0]))
        apart = np.stack([metric.pseudovalues(draw) - metric.pseudovalues(own) for draw in cut])
        columns = {"delta": apart.mean(0), "moved": np.abs(apart).mean(0)}
        clusters = own[CLUSTER]
        documents = float(Clustered.of(columns["delta"], clusters).clusters)
        for name, widths in found.items():
            values, named = columns[name], clusters
            if metric.most is not None:
                ends = (-metric.most, metric.most) if name == "delta" else (0.0, metric.most)
                values, named = np.append(values, ends), np.append(named, (-1, -1))
            error = float(Clustered.of(values, named).standard_error)
            widths.append(float(half_widths(error, documents)))
    return {name: np.array(widths) for name, widths in found.items()}


def ablate_in_rounds(
    run: Run,
    subject: Subject,
    documents: Documents,
    options: CorpusOptions,
    order: Order,
    *,
    metric: str,
    keep_one: bool,
    replaced_by: ReplacedBy,
    workers: int | None,
) -> Rounds:
    """Switch each head off in examples in a random order, until its effect is known.

    Looks are at 128, 256, 512, ... documents, and at all there are: where there are fewer than 128, that is
    the only look. A head leaves at its own first look at which each column that was asked for is known to its
    target, see ``measure_widths``; strictly, at the second such look in a row.

    Raises:
        AttnprobeError: When the score is no mean over examples.
    """
    targets = check_targets(options.targets)
    if import_objective(subject.objective).related:
        raise AttnprobeError(
            f"The score of {subject.objective} hangs on all texts together; leave out --until."
        )
    cuts = list_cuts(subject, keep_one=keep_one)
    left, streak = np.full(len(cuts), -1), np.zeros(len(cuts), np.int64)
    widths = {name: np.full(len(cuts), np.inf) for name in targets}
    scores: list[Mean] = []
    replacings: list[Replacing | None] = []
    benches: list[Bench] = []
    looks: list[dict[str, Any]] = []
    said = {name: options.settings[name] for name in ("limit", "sample", "until", "strict", "sample_seed")}
    reading = replace(options, limit=None, sample=None, until=None, strict=False)

    def measure(some: Documents, number: int, title: str) -> Round:
        stage = f"look {number + 1}"
        examples = bind_task(
            subject, some, reading, run=run, workers=workers, name=stage, title=title, describe=False,
            generate=metric == "bleu",
        )  # fmt: skip
        with examples as bench:
            if not scores:
                score = build_metric(metric, bench, subject.options.seed)
                if not isinstance(score, Mean):
                    raise AttnprobeError(
                        f"--until is for scores that are means over examples, and {metric} is of all "
                        "examples together; leave it out, or take another --metric, such as loss."
                    )
                scores.append(score)
                replacings.append(build_replacing(replaced_by, bench, draws=1, seed=subject.options.seed))
            open_ = np.flatnonzero(left < 0)
            trials = run_trials(
                bench, [cuts[place] for place in open_], scores[0].needs, "ablating", replacings[0]
            )
            made: list[list[Outcome]] = [[] for _ in cuts]
            for place, outcomes in zip(open_, trials.by_cut, strict=True):
                made[place] = outcomes
            benches[:] = [bench]
            record = bench.record | {"options": bench.record["options"] | said}
            return Round(Ablated(trials.untouched, made, bench.documents), record, bench.corpus)

    def say_aim() -> str:
        if not looks:
            return ""
        return f"{looks[-1]['open']} of {len(cuts)} heads are left"

    found, read = None, 0
    with closing(read_in_rounds(documents, options, order, measure, say_aim)) as rounds:
        for found, read in rounds:
            open_ = np.flatnonzero(left < 0)
            for name, some in measure_widths(found.sums, scores[0], open_.tolist(), targets).items():
                widths[name][open_] = some
            known = np.all([widths[name] <= width for name, width in targets.items()], 0)
            streak = np.where(known, streak + 1, 0)
            left[(left < 0) & (streak >= (2 if options.strict else 1))] = len(looks)
            looks.append({
                "documents": read, "examples": len(found.sums.documents), "open": int((left < 0).sum()),
                "widest": {
                    name: {"half_width": float(some.max()), "target": targets[name]}
                    for name, some in widths.items()
                },
            })  # fmt: skip
            if (left >= 0).all():
                break
    assert found is not None  # or there would have been nothing to measure
    drop_counts(found)
    for sentence in describe_reading(found.corpus):
        run.progress.say(sentence)
    bench = replace(benches[-1], record=dict(found.record))
    return Rounds(
        found.sums, bench, scores[0], replacings[0], left, looks, targets, options.strict, order, read,
        _find_furthest(widths, targets, len(found.sums.documents)),
    )  # fmt: skip


def _find_furthest(
    widths: Mapping[str, Floats], targets: Mapping[str, float], examples: int
) -> tuple[float, str, int | None]:
    """Find the widest interval beside its target, and how many examples it would take."""
    name = max(targets, key=lambda one: widths[one].max() / targets[one])
    width = float(widths[name].max())
    factor = (width / targets[name]) ** 2
    return width, name, int(np.ceil(examples * factor)) if np.isfinite(factor) and factor > 1 else None
