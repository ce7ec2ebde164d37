"""The pruning curve: the score while heads are removed step by step."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from itertools import islice, takewhile
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.corpus.source import OpenSource
from attnprobe.errors import DataError, ModelError
from attnprobe.intervention.ablation import ScoreDeltas
from attnprobe.intervention.gradient import NODES
from attnprobe.intervention.metrics.score import Predictions, Score
from attnprobe.intervention.pruning.differences import bound_losses, compare_with_random, rank_among
from attnprobe.intervention.pruning.orders import (
    Order,
    mask_heads,
    measure_importance,
    order_at_random,
    order_stepwise,
    plan_steps,
)
from attnprobe.intervention.pruning.writing import Pruning, Saving
from attnprobe.intervention.request import Criterion, Documents, check_gold, peek
from attnprobe.intervention.task import TaskData, TaskSession, build_metric
from attnprobe.intervention.trials import AblationRun, HeadMask, run_trials
from attnprobe.model.check.architecture import share_weights
from attnprobe.sums.inference import adjust
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.kinds import RANDOM
from attnprobe.table.reading import identify_table
from attnprobe.table.table import Column, HeadTable

#: The most parts in which the heads of the step that fails are tried.
_PARTS = 10
#: The time of a backward pass with its forward pass, in forward passes.
_BACKWARD = 3


def prune_in_steps(
    session: TaskSession,
    criterion: Criterion,
    rank_source: OpenSource | None = None,
    saving: Saving | None = None,
    *,
    step: float,
    random_orders: int,
    rerank: bool = False,
    margin: float | None = None,
) -> Pruning:
    """Rank the heads, remove them step by step, and score the rest.

    Heads are ranked on ``rank_source`` if it is given, else on one half of the examples, and scored on the
    other half. A criterion from a table leaves all examples for scoring.

    References:
        Michel, Levy and Neubig (2019), section 4.2.
    """
    progress, seed = session.progress, session.task.seed
    model, documents = session.choose_by_labels([criterion.name])
    architecture, kept = model.architecture, model.architecture.kept
    if share_weights(model.checkpoint.body, architecture.sites):
        raise ModelError(
            f"Layers of {model.checkpoint.name} share their weights, so that a head of one can't go alone; "
            "prune takes models whose layers have weights of their own. ablate and importance read it."
        )
    name = session.find_metric(model)
    rank_documents: Documents | None = None
    if rank_source is not None:
        labelled, rank_documents = peek(rank_source.documents)
        check_gold(model.objective, labelled, rank_source.name)
    if saving is not None:
        saving.check(model)
    steps, settings = plan_steps(int(kept.sum()), step), {"step": step, "rerank": rerank, "margin": margin}
    question = {"metric": name, "--by": criterion.name, **settings, "random orders": random_orders}
    halves = criterion.side is None and rank_documents is None
    with (
        session.open_run(model, "prune", question) as run,
        session.bind(model, documents, run, name) as data,
        nullcontext(data)
        if rank_documents is None
        else session.bind(model, rank_documents, run, name, "examples to rank on") as others,
    ):
        ranked, scored = _split_halves(data) if halves else (others, data)
        progress.say(_estimate_time(ranked, scored, criterion, steps, random_orders, rerank, margin))
        measure = partial(measure_importance, criterion, ranked, build_metric(name, ranked, seed))
        order = order_stepwise(model.shape, steps if rerank else steps[-1:], measure)
        rank_data = rank_source.described if rank_source else None
        record = {"pruning": {"criterion": criterion.name, **settings, "rank_data": rank_data}}
        if criterion.path is not None:
            record["order"] = identify_table(criterion.path)
        labels = data.labels().with_record(record)
        masked = MaskedModel(scored, build_metric(name, scored, seed))
        seeds = range(seed, seed + random_orders)
        within, notes = 0, []
        if margin is not None:
            steps, within = walk_within(masked, order, steps, margin)
            notes = [f"Within a margin of {margin:g}, {within} of {len(order)} heads can go."]
        table = tabulate_curve(masked, criterion.name, order, steps, seeds, labels, notes)
    return Pruning(table, model, order, within)


def _split_halves(data: TaskData) -> tuple[TaskData, TaskData]:
    """Split the examples into those to rank heads on and those to score, or refuse one document."""
    ranked, scored = data.half(False), data.half(True)
    if not (len(ranked.documents) and len(scored.documents)):
        raise DataError("One document can't be both ranked and scored on; give more, or --rank-data.")
    data.run.progress.say(
        f"heads are ranked on one half of the examples ({len(ranked.documents):,}) and scored on the other "
        f"({len(scored.documents):,}); --rank-data ranks on other data."
    )
    return ranked, scored


def _estimate_time(
    ranked: TaskData,
    scored: TaskData,
    criterion: Criterion,
    steps: Sequence[int],
    random_orders: int,
    rerank: bool,
    margin: float | None,
) -> str:
    """Write a sentence on how many passes a run makes, and how long they take by the time of one batch."""
    costs = {"ablation": steps[-1] + 1, "ig": scored.model.shape[0] * NODES * _BACKWARD}
    ranking = costs.get(criterion.name, _BACKWARD) * (len(steps) - 1 if rerank else 1)
    if criterion.side is not None:
        ranking = 0
    scoring, about = 2 + (1 + random_orders) * (len(steps) - 2), ""
    if margin is not None:
        scoring = (len(steps) + min(int(np.diff(steps).max()), _PARTS) - 1) * (1 + random_orders)
        about = "at most "
    batches = scored.corpus.batches
    batch = next(islice(batches, len(batches) // 2, None))
    seconds = 0.0
    for _ in range(2):  # the first warms up
        start = perf_counter()
        with torch.inference_mode():
            scored.model.checkpoint.forward(batch.inputs)
        seconds = perf_counter() - start
    seconds *= (ranking * ranked.corpus.batches.tokens + scoring * batches.tokens) / batch.size
    length = f"{seconds / 60:,.0f} minutes" if seconds >= 90 else f"{max(1, round(seconds)):,} s"
    return f"ranking takes about {ranking:,} passes, scoring {about}{scoring:,}: some {length} in all."


class MaskedModel:
    """Predicts examples under masks of heads, each mask once.

    ``whole`` are the predictions with all heads on, empty until something is predicted.
    """

    def __init__(self, data: TaskData, metric: Score) -> None:
        self.data, self.metric = data, metric
        self.whole: Predictions = {}
        self._known: dict[bytes, Predictions] = {}

    def predict(self, masks: Sequence[HeadMask], name: str) -> list[Predictions]:
        """Predict the examples under masks (layer, head); a pass over them is called ``name``."""
        new = {mask.tobytes(): mask for mask in masks if not mask.all()}
        new = {key: mask for key, mask in new.items() if key not in self._known}
        if new or not self.whole:
            untouched = self.whole or None
            trials = run_trials(self.data, [*new.values()], self.metric.needs, name, untouched=untouched)
            self.whole = trials.untouched
            self._known |= zip(new, trials.masked, strict=True)
        return [self._known.get(mask.tobytes(), self.whole) for mask in masks]


def walk_within(
    masked: MaskedModel, order: Order, steps: Sequence[int], margin: float
) -> tuple[list[int], int]:
    """Walk an order until a step loses more than a margin, then through the heads of that step.

    A step passes if the one-sided 95 % bound of ``bound_losses`` is at most the margin, over examples that
    did not set the order. The last step that passes loses more than the margin in at most 5 % of samples. The
    heads of the failing step are removed one by one, or in ten parts if there are more than ten. These are
    tests after a failure, and raise the 5 % to at most 10 % if the loss grows along the order.

    Returns:
        The numbers of heads that were tried, ascending from 0; the largest that passed before one failed.
    """
    shape, documents = masked.data.model.shape, masked.data.documents
    # Without any head, a score shows how large a change can be.
    (none,) = masked.predict([mask_heads(shape, order, steps[-1])], "pruning, all heads off")
    tried: dict[int, Predictions] = {}

    def passes(number: int) -> bool:
        """Tell whether what is lost with this number of heads off is within the margin, at most."""
        mask = mask_heads(shape, order, number)
        (tried[number],) = masked.predict([mask], f"pruning, {number} heads off")
        curve = [masked.whole, *tried.values(), none]
        return bool(bound_losses(masked.metric, curve, masked.whole, documents)[len(tried)] <= margin)

    passed = [0, *takewhile(passes, steps[1:])]
    if passed != steps:
        within, failed = passed[-1], steps[len(passed)]
        part = -(-(failed - within) // _PARTS)
        passed += takewhile(passes, range(within + part, failed, part))
    return sorted({0, *tried, steps[-1]}), passed[-1]


def tabulate_curve(
    masked: MaskedModel,
    criterion: str,
    order: Order,
    steps: Sequence[int],
    seeds: Sequence[int],
    labels: Labels,
    notes: Sequence[str],
) -> HeadTable:
    """Score the order of the criterion and random ones after each step, and tabulate the curves."""
    data, metric, length = masked.data, masked.metric, len(steps)
    shape, kept = data.model.shape, data.model.architecture.kept
    orders = [order, *(order_at_random(kept, seed) for seed in seeds)]
    rows, removed = len(orders) * length, np.tile(steps, len(orders))
    masks = [mask_heads(shape, order, number) for order in orders for number in steps]
    predictions = masked.predict(masks, "pruning")
    curves = [predictions[start : start + length] for start in range(0, rows, length)]
    title = metric.name.replace("_", " ")
    scored = ScoreDeltas.of(metric, AblationRun(masked.whole, [predictions]))
    # The first step is the whole model itself.
    delta, error, p = np.where(removed == 0, np.nan, [scored.deltas.value, scored.deltas.error, scored.p])
    adjusted = np.concatenate([adjust(curve) for curve in np.split(p, len(orders))])
    build = TableBuilder(labels, rows)
    build.key("criterion", [name for name in (criterion, *[RANDOM] * len(seeds)) for _ in steps])
    build.key("seed", [seed for seed in (None, *seeds) for _ in steps])
    build.key("step", [*range(length)] * len(orders))
    build.count("heads_removed", removed)
    build.add(Column("share_removed", "share", role="key"), removed / kept.sum())
    build.key("metric", [metric.name] * rows)
    build.count("n", np.full(rows, len(data.documents)))
    scores = scored.scores.value
    build.measure("score", metric.unit, scores, scored.scores.error, headline=True, title=title)

    def pad(values: NDArray[np.float64]) -> NDArray[np.float64]:  # of random orders, these are empty
        return np.append(values, np.full((*values.shape[:-1], rows - length), np.nan), -1)

    build.measure("delta", metric.unit, delta, error, title=f"{title}, less that of the whole")
    build.test(p, adjusted)
    bounds = bound_losses(metric, curves[0], masked.whole, data.documents)
    build.add(Column("bound", metric.unit, title=f"{title} lost, at most (95 %)"), pad(bounds))
    delta, error, p, adjusted = pad(compare_with_random(metric, curves[0], curves[1:]))
    build.measure("delta_random", metric.unit, delta, error, title=f"{title}, less that of random orders")
    build.test(p, adjusted, name="p_random", beside=" beside random orders")
    ranks = rank_among(metric, scores.reshape(len(orders), length))
    build.add(Column("rank_among_random", role="count"), pad(ranks))
    return build.table("score while heads are removed", notes)
