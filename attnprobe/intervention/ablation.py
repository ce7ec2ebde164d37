"""What switching heads off does to the score, as a table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Place
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.findings.noise import block_record
from attnprobe.intervention.metrics.metric import Metric, select_examples
from attnprobe.intervention.objectives.choosing import Loader
from attnprobe.intervention.request import TaskOptions, check_metric, peek
from attnprobe.intervention.task import Bench, bind_task, build_metric, choose_subject
from attnprobe.intervention.trials import Trials, cut_single_heads, keep_single_heads, run_trials
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import open_run
from attnprobe.run.progress import Progress
from attnprobe.sums.documents import in_second_half
from attnprobe.sums.groups import Blocks
from attnprobe.sums.resampling import SIGNIFICANT, Correction, adjust
from attnprobe.table.builder import TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import HALVES, Column

#: What corrections are called in a sentence.
CORRECTIONS: dict[Correction, str] = {"holm": "Holm", "bh": "Benjamini-Hochberg"}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Effects:
    """The score without each head, or with it alone, beside that of the whole model.

    Attributes:
        scores: (layer, head); NaN for a head that is not there, as below.
        deltas: The scores minus the baseline.
        adjusted: p adjusted for the number of heads.
        test: How they are tested, in words.
    """

    metric: Metric
    baseline: float
    scores: Floats
    deltas: Floats
    errors: Floats
    adjusted: Floats
    places: Sequence[Place]
    test: str

    @property
    def harm(self) -> Floats:
        """How much worse than the whole model each score is, (layer, head)."""
        return -self.deltas if self.metric.higher_is_better else self.deltas

    @property
    def significant(self) -> NDArray[np.bool_]:
        return self.adjusted < SIGNIFICANT

    def describe_head(self, place: tuple[int, int]) -> str:
        by = f"by {self.deltas[place]:+.2g}, standard error {self.errors[place]:.1g}"
        return f"head {place[1]} of {self.places[place[0]]}: {self.scores[place]:.4g} ({by})"


def describe_ablation(effects: Effects) -> Iterator[str]:
    """Count the heads without which the score is significantly worse, or better, and name the extremes."""
    name, there = effects.metric.name, np.isfinite(effects.scores)
    whole, number = f"With all heads, {name} is {effects.baseline:.4g}", int(there.sum())
    if not (effects.deltas[there] != 0).any():
        yield f"{whole}; no head changes it."
        return
    if not np.isfinite(effects.adjusted).any():
        yield f"{whole}. p is not defined: there is nothing to test, or too few examples for a test."
        if np.isfinite(effects.errors[there]).all():
            head = effects.describe_head(_find_largest(np.abs(effects.deltas)))
            yield f"The largest change is without {head}."
        return
    worse, better = (effects.significant & (sign * effects.harm > 0) for sign in (1, -1))
    if not worse.any() and not better.any():
        yield f"{whole}. None of {number} heads changes it significantly ({effects.test}, p < {SIGNIFICANT})."
        return
    yield (
        f"{whole}. It is significantly worse without {int(worse.sum()) or 'none'} of {number} heads, and "
        f"significantly better without {int(better.sum()) or 'none'} ({effects.test}, p < {SIGNIFICANT})."
    )
    for which, heads, harm in (("worst", worse, effects.harm), ("best", better, -effects.harm)):
        if heads.any():
            head = effects.describe_head(_find_largest(np.where(heads, harm, np.nan)))
            yield f"Among the significant, it is {which} without {head}."


def describe_survivors(effects: Effects) -> Iterator[str]:
    """Name, for each layer, the head that scores highest alone, and test it against all heads."""
    name = effects.metric.name
    tested = np.isfinite(effects.adjusted).any()
    beside = f", and tested against all heads ({effects.test}), not against the others" if tested else ""
    yield (
        f"With all heads, {name} is {effects.baseline:.4g}. Below is the head of each layer with which alone "
        f"it is best{beside}."
    )
    for layer, harm in enumerate(effects.harm):
        if np.isnan(harm).all():  # it lost all its heads
            continue
        place = layer, int(np.nanargmin(harm))
        p = effects.adjusted[place]
        verdict = ""
        if effects.significant[place]:
            verdict = f", significantly {'worse' if effects.harm[place] > 0 else 'better'} (p = {p:.2g})"
        elif np.isfinite(p):
            verdict = f", not significantly different (p = {p:.2g})"
        yield f"Head {place[1]} in {effects.places[layer]}: {effects.scores[place]:.4g}{verdict}."


def _find_largest(values: Floats) -> tuple[int, int]:
    layer, head = np.unravel_index(int(np.nanargmax(values)), values.shape)
    return int(layer), int(head)


def run_ablation(
    load: Loader,
    source: OpenSource,
    options: CorpusOptions,
    task: TaskOptions,
    *,
    keep_one: bool,
    correction: Correction,
    facts: Mapping[str, Any],
    resume: Path | None = None,
    workers: int | None = None,
    progress: Progress,
) -> HeadTable:
    """Switch heads off one at a time, or with ``keep_one`` all but one of a layer, and tabulate the scores.

    ``correction`` adjusts p for the number of heads; ``facts`` are added to the provenance.

    References:
        Michel, Levy and Neubig (2019), sections 3.2 and 3.3.
    """
    labelled, documents = peek(source.documents)
    subject = choose_subject(load, task, labelled=labelled, progress=progress, modality=source.kind)
    name = check_metric(task.metric, subject.objective, subject.metrics)
    question = subject.question("ablate", metric=name, **{"--keep-one": keep_one})
    with (
        open_run(subject.checkpoint, options, question, resume=resume, progress=progress) as run,
        bind_task(subject, documents, options, run=run, workers=workers, generate=name == "bleu") as bench,
    ):
        metric = build_metric(name, bench, task.seed)
        return tabulate_ablation(
            bench, metric, source.name, keep_one=keep_one, correction=correction, facts=facts
        )


def tabulate_ablation(
    bench: Bench,
    metric: Metric,
    dataset: str,
    *,
    facts: Mapping[str, Any],
    keep_one: bool = False,
    correction: Correction = "holm",
) -> HeadTable:
    """Tabulate ablation over the examples of a bench.

    Heads of layers that share their weights are masked together: one pass, one row and one test.
    """
    units, ties = bench.subject.units.ravel(), bench.subject.ties
    every = (keep_single_heads if keep_one else cut_single_heads)(*bench.subject.shape)
    trials = run_trials(bench, [cut[ties] for cut in compress(every, units)], metric.needs)
    scores = [metric.score(cut) for cut in trials.cuts]
    compared = [metric.compare(cut, trials.untouched) for cut in trials.cuts]
    adjusted = adjust([found.p for found in compared], correction)

    def fill(values: Iterable[float]) -> Floats:
        """Put NaN between the values of the heads that have a row, for the others."""
        whole = np.full(len(units), np.nan)
        whole[units] = list(values)
        return whole

    layers, heads = bench.subject.shape
    rows = layers * heads
    labels = bench.labels(dataset, facts)
    grid = fill(scores).reshape(layers, heads)
    documents = bench.documents
    values = np.full((len(documents), layers, heads), np.nan)
    values[:, bench.subject.units] = np.stack([metric.pseudovalues(cut) for cut in trials.cuts], 1)
    blocks = Blocks.of(values, documents)
    build = TableBuilder(labels.with_record(block_record("score", labels.places, blocks, grid)), rows)
    build.key("objective", [bench.objective.name] * rows)
    build.key("metric", [metric.name] * rows)
    build.heads(heads)
    build.count("n", np.full(rows, len(documents)))
    named = metric.name.replace("_", " ")
    left = f"{named} of the head alone in its layer" if keep_one else f"{named} without the head"
    untouched = metric.score(trials.untouched), metric.standard_error(trials.untouched)
    baseline = (np.full(rows, number) for number in untouched)
    build.measure("baseline", metric.unit, *baseline, title=f"{named} of the whole")
    errors = fill(metric.standard_error(cut) for cut in trials.cuts)
    build.measure("score", metric.unit, fill(scores), errors, headline=keep_one, title=left)
    deltas, spread = (fill(getattr(found, part) for found in compared) for part in ("delta", "error"))
    build.measure("delta", metric.unit, deltas, spread, headline=True, title=f"change of {named}")
    build.add(Column("p", "probability", title="p"), fill(found.p for found in compared))
    p_adjusted = Column("p_adjusted", "probability", headline=not keep_one, title="adjusted p")
    build.add(p_adjusted, fill(adjusted))
    for second, half in enumerate(HALVES):
        scored = _score_half(bench, metric, trials, second=bool(second))
        build.add(Column(f"score_{half}", metric.unit, role="half"), fill(scored))
    title = "each head alone in its layer" if keep_one else "ablation of heads"
    tested = f"{'paired t' if metric.continuous else 'paired test'}, {CORRECTIONS[correction]}"
    shape = grid.shape
    effects = Effects(
        metric, untouched[0], grid, deltas.reshape(shape), spread.reshape(shape),
        fill(adjusted).reshape(shape), bench.subject.architecture.places, tested,
    )  # fmt: skip
    return build.table(title, [*(describe_survivors if keep_one else describe_ablation)(effects)])


def _score_half(bench: Bench, metric: Metric, trials: Trials, *, second: bool) -> list[float]:
    """Score every cut over one half of the examples; a single example has no other half."""
    examples = in_second_half(bench.documents) == second
    if not examples.any():
        return [float("nan")] * len(trials.cuts)
    return [metric.score(select_examples(cut, examples)) for cut in trials.cuts]
