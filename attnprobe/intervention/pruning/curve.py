"""How many heads can go: the score while heads are removed step by step, as a table."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.corpus.sources.text import OpenSource
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.integration import NODES
from attnprobe.intervention.metrics.score import Comparison, Predictions, Score
from attnprobe.intervention.objectives.choosing import Loader
from attnprobe.intervention.pruning.differences import (
    Differences,
    bound_losses,
    compare_with_random,
    compare_with_whole,
    rank_among,
)
from attnprobe.intervention.pruning.headline import describe_curve, describe_margin
from attnprobe.intervention.pruning.options import PruneOptions, check_ranked
from attnprobe.intervention.pruning.ranking import (
    mask_heads,
    measure_worth,
    order_at_random,
    order_by_worth,
    rank_stepwise,
)
from attnprobe.intervention.request import TaskOptions, check_gold, check_metric, peek
from attnprobe.intervention.task import Bench, Subject, bind_task, build_metric, choose_subject
from attnprobe.intervention.trials import run_trials
from attnprobe.model.checkpoint import list_devices
from attnprobe.model.removing import bake, shrink
from attnprobe.model.verifying.architecture import find_shared_weights
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import open_run
from attnprobe.run.progress import Progress
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

RANDOM = "random"
#: In so many parts at most the heads of the step that fails are tried.
_PARTS = 10


@dataclass(frozen=True)
class Pruning:
    """A pruning curve and the order behind it.

    Attributes:
        order: The heads, numbered layer by layer, in the order in which the criterion removes them.
        removed: How many of them are to be removed in the end.
    """

    table: HeadTable
    subject: Subject
    order: NDArray[np.int64]
    removed: int = 0


@contextmanager
def prune_in_steps(
    load: Loader,
    source: OpenSource,
    rank_source: OpenSource | None,
    options: CorpusOptions,
    task: TaskOptions,
    pruning: PruneOptions,
    *,
    facts: Mapping[str, Any],
    resume: Path | None = None,
    workers: int | None = None,
    progress: Progress,
) -> Iterator[tuple[Pruning, Bench]]:
    """Rank the heads, remove them step by step, and score what is left.

    Heads are ranked on ``rank_source`` where it is given, else on one half of the examples, and scored on the
    other. A criterion that is read from a table leaves all examples for scoring.

    Yields:
        The curve, and the bench of the examples it was scored on.

    References:
        Michel, Levy and Neubig (2019), section 4.2.
    """
    criterion = pruning.criterion
    if rank_source is not None:
        check_ranked(criterion)
    labelled, documents = peek(source.documents)
    rank_labelled, rank_documents = (labelled, None) if rank_source is None else peek(rank_source.documents)
    subject = choose_subject(load, task, labelled=labelled, progress=progress, modality=source.kind)
    subject = subject.check_methods([criterion.name])
    _refuse_shared_weights(subject)
    name = check_metric(task.metric, subject.objective, subject.metrics)
    if rank_source is not None:
        check_gold(rank_labelled, subject.objective, rank_source.name)
    generate = name == "bleu"
    if pruning.saving:
        _check_writable(subject, physical=pruning.physical)
    removed = _count_removed(pruning.share, subject.architecture.standing)
    if pruning.saving:
        _check_removable(subject, removed or 1, physical=pruning.physical)
    setting = f"step {pruning.step}, rerank {pruning.rerank}, random orders {pruning.random_orders}"
    walking = {} if pruning.margin is None else {"margin": f"{pruning.margin:g}"}
    question = subject.question(
        "prune", metric=name, **{"--by": criterion.name, "setting of the curve": setting}, **walking
    )
    with (
        open_run(subject.checkpoint, options, question, resume=resume, progress=progress) as run,
        bind_task(subject, documents, options, run=run, workers=workers, generate=generate) as bench,
    ):
        ranked = scored = bench
        with ExitStack() as stack:
            if rank_documents is not None:
                ranked = stack.enter_context(
                    bind_task(
                        subject, rank_documents, options,
                        run=run, workers=workers, generate=generate, name="examples to rank on",
                    )
                )  # fmt: skip
            elif criterion.side is None:
                ranked, scored = _split_halves(bench)
                numbers = [len(half.documents) for half in (ranked, scored)]
                progress.say(
                    f"heads are ranked on one half of the examples ({numbers[0]:,}) and scored on the other "
                    f"({numbers[1]:,}); --rank-data ranks on other data."
                )
            progress.say(_tell_length(ranked, scored, pruning))
            order = _rank_heads(ranked, build_metric(name, ranked, task.seed), pruning)
        metric = build_metric(name, scored, task.seed)
        record = bench.record | {
            "pruning": {
                "criterion": criterion.name,
                "step": pruning.step,
                "rerank": pruning.rerank,
                "rank_data": rank_source.described if rank_source else None,
                "margin": pruning.margin,
            }
        }
        labels = Labels(subject.checkpoint.name, source.name, record | dict(facts))
        table, within = tabulate_curve(scored, metric, order, pruning, labels, seed=task.seed)
        if pruning.share is None:
            removed = min(within, len(order) - 1)  # a checkpoint needs a head
        yield Pruning(table, subject, order, removed), scored


def tabulate_curve(
    bench: Bench,
    metric: Score,
    chosen: NDArray[np.int64],
    pruning: PruneOptions,
    labels: Labels,
    *,
    seed: int,
) -> tuple[HeadTable, int]:
    """Score the order of the criterion and some random ones after each step, and tabulate the curves.

    With a margin, the steps are those that ``walk_within`` tries. What several orders have removed at a step
    is scored once, such as nothing, and all heads.

    Returns:
        The table, and how many heads of the order can go within the margin.
    """
    subject, standing = bench.subject, bench.subject.architecture.standing
    heads, within = int(standing.sum()), 0
    known: dict[bytes, Predictions] = {}
    gone = plan_steps(len(chosen), pruning.step)
    if pruning.margin is not None:
        gone, within, known = walk_within(bench, metric, chosen, gone, pruning.margin)
    seeds = [seed + place for place in range(pruning.random_orders)]
    orders = [chosen, *(order_at_random(standing, one) for one in seeds)]
    cuts = [mask_heads(subject.shape, one, number) for one in orders for number in gone]
    removed = np.array([int((standing & ~cut).sum()) for cut in cuts])
    untouched, scored = _score_cuts(bench, cuts, metric, known)
    scores = np.array([metric.score(outcome) for outcome in scored])
    errors = np.array([metric.standard_error(outcome) for outcome in scored])
    names = [pruning.criterion.name, *([RANDOM] * len(seeds))]
    rows, length, examples = len(cuts), len(gone), len(bench.documents)
    title = metric.name.replace("_", " ")
    outcomes = [scored[start : start + length] for start in range(0, rows, length)]
    whole = [compare_with_whole(metric, outcome, untouched) for outcome in outcomes]
    chance = compare_with_random(metric, outcomes[0], outcomes[1:])
    bounds = bound_losses(metric, outcomes[0], untouched)
    curves = scores.reshape(len(orders), length)
    build = TableBuilder(labels, rows)
    build.key("criterion", np.repeat(np.array(names, dtype=object), length))
    build.key("seed", np.repeat(np.array([None, *seeds], dtype=object), length))
    build.key("step", list(range(length)) * len(orders))
    build.count("heads_removed", removed)
    build.add(Column("share_removed", "share", role="key"), removed / heads)
    build.key("metric", [metric.name] * rows)
    build.count("n", np.full(rows, examples))
    build.measure("score", metric.unit, scores, errors, headline=True, title=title)
    _add_differences(build, metric, "", whole)
    beside = [np.nan] * length * len(seeds)
    build.add(Column("bound", metric.unit, title=f"{title} lost, at most (95 %)"), [*bounds, *beside])
    undefined = Differences.of([Comparison(np.nan, np.nan, np.nan)] * length)
    _add_differences(build, metric, "_random", [chance, *([undefined] * len(seeds))])
    build.add(Column("rank_among_random", role="count"), [*rank_among(metric, curves), *beside])
    notes: list[str] = []
    if pruning.margin is not None:
        notes.append(describe_margin(metric, pruning.margin, gone, bounds.tolist(), within, heads))
    else:
        notes.append(describe_curve(metric, names[0], float(scores[0]), whole[0], gone))
    return build.table("score while heads are removed", notes, "pruning"), within


def walk_within(
    bench: Bench, metric: Score, order: NDArray[np.int64], gone: Sequence[int], margin: float
) -> tuple[list[int], int, dict[bytes, Predictions]]:
    """Walk an order until a step loses more than a margin, then through the heads of that step.

    A step passes where the one-sided 95 % bound of ``bound_losses`` is at most the margin, over examples that
    did not set the order; of steps in this order, the last that passes loses more than the margin in at most
    5 % of samples. The heads inside the step that fails go one by one, or, where they are more than ten, in
    ten parts: tests after a failure, with which it is at most 10 % where the loss grows along the order.

    Args:
        bench: The examples.
        metric: The score.
        order: The heads, in the order in which they go.
        gone: How many are off at each step, from none to all.
        margin: The loss of score that is allowed.

    Returns:
        The numbers of heads that were tried, ascending from 0; the largest that passed before one failed; and
        what examples gave, by the bytes of the mask.
    """
    shape, last = bench.subject.shape, gone[-1]
    empty, full = mask_heads(shape, order, 0), mask_heads(shape, order, last)
    # Without any head, a score shows how large a change can be.
    trials = run_trials(bench, [full], metric.needs, "pruning, all heads off")
    whole, none = trials.untouched, trials.cuts[0]
    known, tried = {empty.tobytes(): whole, full.tobytes(): none}, list[Predictions]()

    def passes(number: int) -> bool:
        cut = mask_heads(shape, order, number)
        if cut.tobytes() not in known:
            name = f"pruning, {number} heads off"
            (known[cut.tobytes()],) = run_trials(bench, [cut], metric.needs, name, untouched=whole).cuts
        tried.append(known[cut.tobytes()])
        return bool(bound_losses(metric, [whole, *tried, none], whole)[len(tried)] <= margin)

    numbers, within = {0, last}, 0
    for number in gone[1:]:
        numbers.add(number)
        if not passes(number):
            part = -(-(number - within) // _PARTS)
            for inside in range(within + part, number, part):
                numbers.add(inside)
                if not passes(inside):
                    break
                within = inside
            break
        within = number
    return sorted(numbers), within, known


def _score_cuts(
    bench: Bench, cuts: Sequence[NDArray[np.bool_]], metric: Score, known: Mapping[bytes, Predictions]
) -> tuple[Predictions, list[Predictions]]:
    """Score the whole model and every cut, each cut once however often it is there; the empty cut is none.

    ``known`` are outcomes by the bytes of their cut.
    """
    keys = [cut.tobytes() for cut in cuts]
    once = {key: cut for key, cut in zip(keys, cuts, strict=True) if not cut.all() and key not in known}
    untouched = known.get(np.ones_like(cuts[0]).tobytes())
    found = dict(known)
    if once or untouched is None:
        trials = run_trials(bench, [*once.values()], metric.needs, "pruning", untouched=untouched)
        untouched = trials.untouched
        found |= zip(once, trials.cuts, strict=True)
    return untouched, [found.get(key, untouched) for key in keys]


def _add_differences(build: TableBuilder, metric: Score, name: str, orders: Sequence[Differences]) -> None:
    """Append differences with error, p and adjusted p, the orders one after the other."""
    parts = ("delta", "error", "p", "adjusted")
    delta, error, p, adjusted = (np.concatenate([getattr(one, part) for one in orders]) for part in parts)
    title = f"{metric.name.replace('_', ' ')}, less that of {'random orders' if name else 'the whole'}"
    build.measure(f"delta{name}", metric.unit, delta, error, title=title)
    beside = " beside random orders" if name else ""
    build.add(Column(f"p{name}", "probability", title=f"p{beside}"), p)
    build.add(Column(f"p{name}_adjusted", "probability", title=f"adjusted p{beside}"), adjusted)


def plan_steps(heads: int, step: float) -> list[int]:
    """List how many heads are off after each step, from none to all.

    >>> plan_steps(24, 0.25)
    [0, 6, 12, 18, 24]
    """
    if step * heads <= 1:
        return list(range(heads + 1))
    shares = [place * step for place in range(int(np.floor(1 / step + 1e-9)) + 1)]
    return sorted({round(share * heads) for share in [*shares, 1.0]})


def _count_removed(share: float | None, standing: NDArray[np.bool_]) -> int:
    heads = int(standing.sum())
    removed = round((share or 0) * heads)
    if share is not None and not 0 < removed < heads:
        found = "all of them" if removed else "not one of them"
        raise AttnprobeError(f"A --share of {share:g} of {heads} heads is {found}.")
    return removed


def _refuse_shared_weights(subject: Subject) -> None:
    architecture = subject.architecture
    first = find_shared_weights(subject.checkpoint.body, architecture.sites, architecture.layers)
    if len(np.unique(first)) < len(first):
        raise AttnprobeError(
            f"Layers of {subject.checkpoint.name} share their weights, so that a head of one can't go alone; "
            "prune takes models whose layers have weights of their own. ablate and importance read it."
        )


#: Forward passes that ranking by a criterion takes about as long as: a backward pass is two of them.
_BACKWARD = 3


def _tell_length(ranked: Bench, scored: Bench, pruning: PruneOptions) -> str:
    """Tell how many passes a run makes, and about how long they take, by the time that one batch takes."""
    subject, criterion = scored.subject, pruning.criterion
    heads, layers = int(subject.architecture.standing.sum()), subject.shape[0]
    steps = plan_steps(heads, pruning.step)
    costs = {"ablation": heads + 1, "ig": layers * NODES * _BACKWARD}
    ranking = 0 if criterion.side is not None else costs.get(criterion.name, _BACKWARD)
    ranking *= len(steps) - 1 if pruning.rerank else 1
    scoring, about = 2 + (1 + pruning.random_orders) * (len(steps) - 2), ""
    if pruning.margin is not None:
        widest = max(one - other for one, other in pairwise(steps[::-1]))
        scoring = (len(steps) + min(widest, _PARTS) - 1) * (1 + pruning.random_orders)
        about = "at most "
    batches = scored.corpus.batches
    batch = next(islice(batches, len(batches) // 2, None))
    seconds = 0.0
    for _ in range(2):  # the first warms up
        start = perf_counter()
        with torch.inference_mode():
            subject.checkpoint.forward(batch.inputs)
        seconds = perf_counter() - start
    tokens = ranking * ranked.corpus.batches.tokens + scoring * batches.tokens
    seconds *= tokens / batch.size
    length = f"{seconds / 60:,.0f} minutes" if seconds >= 90 else f"{max(1, round(seconds)):,} s"
    return f"ranking takes about {ranking:,} passes, scoring {about}{scoring:,}: some {length} in all."


def _check_writable(subject: Subject, *, physical: bool) -> None:
    """Refuse a checkpoint that can't be written without heads, whichever they are."""
    name = subject.checkpoint.name
    if list_devices(subject.checkpoint.model):
        raise AttnprobeError(
            f"{name} is spread over several devices, and can't be written without heads; "
            "leave out --save, or --device-map."
        )
    if "adapters" in subject.checkpoint.origin:
        raise AttnprobeError(
            f"{name} can't be written without heads while an adapter is in it; merge "
            "it first (merge_and_unload), or leave out --save."
        )
    if subject.architecture.removed and not physical:
        raise AttnprobeError(
            f"{name} is physically pruned already, and can only be written smaller still; add --physical."
        )


def _check_removable(subject: Subject, removed: int, *, physical: bool) -> None:
    """Refuse a checkpoint whose heads can't be removed before its curve is measured, not after it."""
    standing = subject.architecture.standing
    cut = mask_heads(subject.shape, order_at_random(standing, 0), removed)
    (shrink if physical else bake)(subject.checkpoint, cut & standing)


def _split_halves(bench: Bench) -> tuple[Bench, Bench]:
    halves = bench.half(False), bench.half(True)
    if not all(len(half.documents) for half in halves):
        raise AttnprobeError("One document can't be both ranked and scored on; give more, or --rank-data.")
    return halves


def _rank_heads(bench: Bench, metric: Score, pruning: PruneOptions) -> NDArray[np.int64]:
    subject, criterion = bench.subject, pruning.criterion
    if not pruning.rerank:
        return order_by_worth(measure_worth(criterion, bench, metric))
    removed = plan_steps(int(subject.architecture.standing.sum()), pruning.step)
    return rank_stepwise(
        subject.shape, removed, lambda on: measure_worth(criterion, bench, metric, open_heads=on)
    )
