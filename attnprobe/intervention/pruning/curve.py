"""How many heads can go: the score while heads are removed step by step, as a table."""

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice, pairwise
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.corpus.sources.text import OpenSource
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.integration import NODES
from attnprobe.intervention.metrics.score import Predictions, Score
from attnprobe.intervention.pruning.differences import (
    Differences,
    bound_losses,
    compare_with_random,
    compare_with_whole,
    rank_among,
)
from attnprobe.intervention.pruning.options import PruneOptions, check_ranked
from attnprobe.intervention.pruning.orders import (
    Mask,
    Order,
    mask_heads,
    measure_importance,
    order_at_random,
    order_by_importance,
    order_stepwise,
    plan_steps,
)
from attnprobe.intervention.pruning.writing import Pruning, check_writable
from attnprobe.intervention.request import Documents, check_gold, peek
from attnprobe.intervention.task import TaskData, TaskModel, TaskSession, build_metric
from attnprobe.intervention.trials import run_trials
from attnprobe.model.verifying.architecture import find_shared_weights
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.kinds import RANDOM
from attnprobe.table.table import Column, HeadTable

#: In so many parts at most the heads of the step that fails are tried.
_PARTS = 10
#: Forward passes that a backward pass with its forward pass takes about as long as.
_BACKWARD = 3


def prune_in_steps(
    session: TaskSession, pruning: PruneOptions, rank_source: OpenSource | None = None
) -> Pruning:
    """Rank the heads, remove them step by step, and score what is left.

    Heads are ranked on ``rank_source`` where it is given, else on one half of the examples, and scored on the
    other. A criterion that is read from a table leaves all examples for scoring.

    References:
        Michel, Levy and Neubig (2019), section 4.2.
    """
    criterion, progress, seed = pruning.criterion, session.progress, session.task.seed
    if rank_source is not None:
        check_ranked(criterion)
    model, documents = session.open_source([criterion.name])
    _refuse_shared_weights(model)
    name = session.find_metric(model)
    rank_documents: Documents | None = None
    if rank_source is not None:
        labelled, rank_documents = peek(rank_source.documents)
        check_gold(model.objective, labelled, rank_source.name)
    removed = _count_removed(pruning.share, model.architecture.standing)
    if pruning.saving:
        check_writable(model, removed or 1, physical=pruning.physical)
    question = {
        "metric": name,
        "--by": criterion.name,
        "setting of the curve": (
            f"step {pruning.step}, rerank {pruning.rerank}, random orders {pruning.random_orders}"
        ),
    }
    if pruning.margin is not None:
        question["margin"] = f"{pruning.margin:g}"
    with (
        session.open_run(model, "prune", question) as run,
        session.bind(model, documents, run, name) as data,
    ):
        ranked = scored = data
        with ExitStack() as ranking:
            if rank_documents is not None:
                others = session.bind(model, rank_documents, run, name, "examples to rank on")
                ranked = ranking.enter_context(others)
            elif criterion.side is None:
                ranked, scored = _split_halves(data)
                progress.say(
                    f"heads are ranked on one half of the examples ({len(ranked.documents):,}) and scored on "
                    f"the other ({len(scored.documents):,}); --rank-data ranks on other data."
                )
            progress.say(_estimate_time(ranked, scored, pruning))
            order = rank_heads(ranked, build_metric(name, ranked, seed), pruning)
        described = {
            "criterion": criterion.name,
            "step": pruning.step,
            "rerank": pruning.rerank,
            "rank_data": rank_source.described if rank_source else None,
            "margin": pruning.margin,
        }
        labels = data.labels(session.source.name, session.facts).with_record({"pruning": described})
        metric = build_metric(name, scored, seed)
        table, within = tabulate_curve(scored, metric, order, pruning, labels, seed=seed)
    if pruning.share is None:
        removed = min(within, len(order) - 1)  # a checkpoint needs a head
    return Pruning(table, model, order, removed)


def _refuse_shared_weights(model: TaskModel) -> None:
    architecture = model.architecture
    first = find_shared_weights(model.checkpoint.body, architecture.sites, architecture.layers)
    if len(np.unique(first)) < len(first):
        raise AttnprobeError(
            f"Layers of {model.checkpoint.name} share their weights, so that a head of one can't go alone; "
            "prune takes models whose layers have weights of their own. ablate and importance read it."
        )


def _count_removed(share: float | None, kept: Mask) -> int:
    heads = int(kept.sum())
    removed = round((share or 0) * heads)
    if share is not None and not 0 < removed < heads:
        number = "all of them" if removed else "not one of them"
        raise AttnprobeError(f"A --share of {share:g} of {heads} heads is {number}.")
    return removed


def _split_halves(data: TaskData) -> tuple[TaskData, TaskData]:
    halves = data.half(False), data.half(True)
    if not all(len(half.documents) for half in halves):
        raise AttnprobeError("One document can't be both ranked and scored on; give more, or --rank-data.")
    return halves


def _estimate_time(ranked: TaskData, scored: TaskData, pruning: PruneOptions) -> str:
    """Tell how many passes a run makes, and about how long they take, by the time that one batch takes."""
    model, criterion = scored.model, pruning.criterion
    heads, layers = int(model.architecture.standing.sum()), model.shape[0]
    steps = plan_steps(heads, pruning.step)
    costs = {"ablation": heads + 1, "ig": layers * NODES * _BACKWARD}
    ranking = 0 if criterion.side is not None else costs.get(criterion.name, _BACKWARD)
    ranking *= len(steps) - 1 if pruning.rerank else 1
    scoring, about = 2 + (1 + pruning.random_orders) * (len(steps) - 2), ""
    if pruning.margin is not None:
        widest = max(later - earlier for earlier, later in pairwise(steps))
        scoring = (len(steps) + min(widest, _PARTS) - 1) * (1 + pruning.random_orders)
        about = "at most "
    batches = scored.corpus.batches
    batch = next(islice(batches, len(batches) // 2, None))
    seconds = 0.0
    for _ in range(2):  # the first warms up
        start = perf_counter()
        with torch.inference_mode():
            model.checkpoint.forward(batch.inputs)
        seconds = perf_counter() - start
    tokens = ranking * ranked.corpus.batches.tokens + scoring * batches.tokens
    seconds *= tokens / batch.size
    length = f"{seconds / 60:,.0f} minutes" if seconds >= 90 else f"{max(1, round(seconds)):,} s"
    return f"ranking takes about {ranking:,} passes, scoring {about}{scoring:,}: some {length} in all."


def rank_heads(data: TaskData, metric: Score, pruning: PruneOptions) -> Order:
    """Order the heads by the criterion, once or anew after each step."""
    model, criterion = data.model, pruning.criterion
    if not pruning.rerank:
        return order_by_importance(measure_importance(criterion, data, metric))
    steps = plan_steps(int(model.architecture.standing.sum()), pruning.step)
    return order_stepwise(model.shape, steps, lambda on: measure_importance(criterion, data, metric, on))


class MaskedModel:
    """What a model predicts for some examples under masks of heads, each mask once."""

    def __init__(self, data: TaskData, metric: Score) -> None:
        self.data, self.metric = data, metric
        self._known: dict[bytes, Predictions] = {}
        self._whole: Predictions | None = None

    @property
    def whole(self) -> Predictions:
        """What it predicts with all heads, once something was predicted."""
        assert self._whole is not None
        return self._whole

    def predict(self, masks: Sequence[Mask], name: str) -> list[Predictions]:
        """Predict the examples under masks (layer, head); ``name`` is that of the pass, if it takes one."""
        new = {mask.tobytes(): mask for mask in masks if mask.tobytes() not in self._known}
        new = {key: mask for key, mask in new.items() if not mask.all()}
        if new or self._whole is None:
            needs = self.metric.needs
            trials = run_trials(self.data, [*new.values()], needs, name, untouched=self._whole)
            self._whole = trials.untouched
            self._known |= zip(new, trials.masked, strict=True)
        return [self._known.get(mask.tobytes(), self._whole) for mask in masks]


def walk_within(
    masked: MaskedModel, order: Order, steps: Sequence[int], margin: float
) -> tuple[list[int], int]:
    """Walk an order until a step loses more than a margin, then through the heads of that step.

    A step passes where the one-sided 95 % bound of ``bound_losses`` is at most the margin, over examples that
    did not set the order; of steps in this order, the last that passes loses more than the margin in at most
    5 % of samples. The heads inside the step that fails go one by one, or, where they are more than ten, in
    ten parts: tests after a failure, with which it is at most 10 % where the loss grows along the order.

    Args:
        masked: What is predicted without heads.
        order: The heads, in the order in which they go.
        steps: How many are off at each step, from none to all.
        margin: The loss of score that is allowed.

    Returns:
        The numbers of heads that were tried, ascending from 0; the largest that passed before one failed.
    """
    shape, documents = masked.data.model.shape, masked.data.documents
    # Without any head, a score shows how large a change can be.
    (none,) = masked.predict([mask_heads(shape, order, steps[-1])], "pruning, all heads off")
    tried: list[Predictions] = []

    def passes(number: int) -> bool:
        tried.extend(masked.predict([mask_heads(shape, order, number)], f"pruning, {number} heads off"))
        bounds = bound_losses(masked.metric, [masked.whole, *tried, none], masked.whole, documents)
        return bool(bounds[len(tried)] <= margin)

    numbers, within = {0, steps[-1]}, 0
    for number in steps[1:]:
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
    return sorted(numbers), within


def tabulate_curve(
    data: TaskData, metric: Score, chosen: Order, pruning: PruneOptions, labels: Labels, *, seed: int
) -> tuple[HeadTable, int]:
    """Score the order of the criterion and random ones after each step, and tabulate the curves.

    With a margin, the steps are those that ``walk_within`` tries.

    Returns:
        The table, and how many heads of the order can go within the margin.
    """
    shape, kept = data.model.shape, data.model.architecture.standing
    heads, within, margin = int(kept.sum()), 0, pruning.margin
    masked, steps = MaskedModel(data, metric), plan_steps(len(chosen), pruning.step)
    if margin is not None:
        steps, within = walk_within(masked, chosen, steps, margin)
    seeds = [seed + place for place in range(pruning.random_orders)]
    orders = [chosen, *(order_at_random(kept, one) for one in seeds)]
    masks = [mask_heads(shape, order, number) for order in orders for number in steps]
    predictions, length = masked.predict(masks, "pruning"), len(steps)
    curves = [predictions[start : start + length] for start in range(0, len(masks), length)]
    scores = np.array([[metric.score(step) for step in curve] for curve in curves])
    errors = np.array([[metric.standard_error(step) for step in curve] for curve in curves])
    whole = [compare_with_whole(metric, curve, masked.whole) for curve in curves]
    chance = [compare_with_random(metric, curves[0], curves[1:])]
    chance += [compare_with_random(metric, curve, []) for curve in curves[1:]]
    bounds = bound_losses(metric, curves[0], masked.whole, data.documents)
    rows, title, name = len(masks), metric.name.replace("_", " "), pruning.criterion.name
    build = TableBuilder(labels, rows)
    build.key("criterion", np.repeat(np.array([name, *[RANDOM] * len(seeds)], dtype=object), length))
    build.key("seed", np.repeat(np.array([None, *seeds], dtype=object), length))
    build.key("step", [*range(length)] * len(orders))
    build.count("heads_removed", np.tile(steps, len(orders)))
    build.add(Column("share_removed", "share", role="key"), np.tile(steps, len(orders)) / heads)
    build.key("metric", [metric.name] * rows)
    build.count("n", np.full(rows, len(data.documents)))
    build.measure("score", metric.unit, scores, errors, headline=True, title=title)
    _add_differences(build, metric, "", whole)
    build.add(Column("bound", metric.unit, title=f"{title} lost, at most (95 %)"), _pad(bounds, rows))
    _add_differences(build, metric, "_random", chance)
    build.add(Column("rank_among_random", role="count"), _pad(rank_among(metric, scores), rows))
    notes = []
    if margin is not None:
        notes.append(f"Within a margin of {margin:g}, {within} of {steps[-1]} heads can go.")
    return build.table("score while heads are removed", notes), within


def _pad(values: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
    return np.pad(values, (0, rows - len(values)), constant_values=np.nan)


def _add_differences(build: TableBuilder, metric: Score, name: str, orders: Sequence[Differences]) -> None:
    """Append differences with error, p and adjusted p, the orders one after the other."""
    delta, error, p, adjusted = np.concatenate(orders, axis=1)
    title = f"{metric.name.replace('_', ' ')}, less that of {'random orders' if name else 'the whole'}"
    build.measure(f"delta{name}", metric.unit, delta, error, title=title)
    beside = " beside random orders" if name else ""
    build.test(p, adjusted, name=f"p{name}", beside=beside)
