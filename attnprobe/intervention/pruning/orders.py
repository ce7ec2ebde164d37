"""The order in which heads are pruned: the least important first, by a criterion."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import DataError
from attnprobe.findings.sides import TableSide
from attnprobe.intervention.ablation import find_example_score, measure_moves
from attnprobe.intervention.gradient import attribute, name_pass
from attnprobe.intervention.metrics.score import Score
from attnprobe.intervention.request import Criterion
from attnprobe.intervention.task import TaskData
from attnprobe.intervention.trials import AblationRun, HeadMask, run_trials

#: A number for every head (layer, head); NaN for those that are pruned already.
Importance = NDArray[np.float64]
Order = NDArray[np.int64]


def measure_importance(
    criterion: Criterion, data: TaskData, metric: Score, open_heads: HeadMask | None = None
) -> Importance:
    """Measure the importance of every head by a criterion, (layer, head); the least important goes first.

    All are absolute values, so a head that helps some examples and harms others is important:

    | criterion | importance |
    |---|---|
    | gradient | mean over examples of the absolute derivative of the loss by the head's gate |
    | gradient-normed | the same, divided by its l2 norm over the heads of the layer (Michel et al. 2019) |
    | fisher | mean over examples of the squared derivative |
    | ig | mean over examples of absolute integrated gradients, ``ig_abs`` |
    | lrp | mean over examples of absolute relevance, ``relevance_abs`` |
    | ablation | mean over examples of the absolute change of the score without the head |

    Any other criterion is read off its table. A head that is already pruned is NaN; a head whose gate is
    closed has 0; if another is undefined, all are refused. ``metric`` scores ablation.
    """
    kept = data.model.architecture.kept
    on = np.ones_like(kept) if open_heads is None else open_heads
    if criterion.side is not None:
        importance = _read_column(criterion.side, data)
        importance = -importance if criterion.highest_first else importance
    elif criterion.name == "ablation":
        importance = _measure_moves(data, metric, kept & on)
    else:
        method = criterion.name if criterion.name in ("ig", "lrp") else "gradient"
        sums = attribute(data, method, open_heads=on)
        importance = (sums.squares if criterion.name == "fisher" else sums.size).average
        importance = np.where(on, importance, 0.0)  # a closed gate has a derivative too
    if criterion.name == "gradient-normed":
        norm = np.linalg.norm(importance, axis=-1, keepdims=True)
        importance = np.divide(importance, norm, out=np.zeros_like(importance), where=norm > 0)
    if not np.isfinite(importance[kept]).all():
        raise DataError(f"{criterion.name} is undefined for some heads, so they can't be ordered by it.")
    return np.where(kept, importance, np.nan)


def _measure_moves(data: TaskData, metric: Score, on: HeadMask) -> Importance:
    """Measure ``moved`` of ``ablate`` for each head that is on; 0 for the others.

    Where text is generated, it is the mean change of the examples' pseudovalues.
    """
    score, heads = find_example_score(data, metric) or metric, np.flatnonzero(on)
    masks = [on, *(on & mask_heads(on.shape, heads[place:], 1) for place in range(len(heads)))]
    before, *after = run_trials(data, masks, score.needs, name_pass("ablating", on)).masked
    importance = np.zeros(on.shape)
    importance[on] = measure_moves(score, AblationRun(before, [after])).value
    return importance


def _read_column(side: TableSide, data: TaskData) -> Importance:
    """Read the importance of every head off a table, or refuse one of other heads or another model."""
    name, kept = data.model.checkpoint.name, data.model.architecture.kept
    layers = data.model.architecture.places
    heads = [(*layers[layer].key, int(head)) for layer, head in np.argwhere(kept)]
    values = dict(zip(side.heads, side.values, strict=True))
    if values.keys() != set(heads):
        number = " x ".join(map(str, kept.shape)) if kept.all() else f"{kept.sum()}"
        raise DataError(f"{side.name} has {len(values)} heads, which are not the {number} of {name}.")
    if side.model not in {"", name}:
        raise DataError(f"{side.name} is about {side.model}, not about {name}.")
    importance = np.full(kept.shape, np.nan)
    importance[kept] = [values[head] for head in heads]
    return importance


def order_by_importance(importance: Importance) -> Order:
    """List the heads' numbers, counted layer by layer, the least important first; without those with NaN."""
    return np.argsort(importance, axis=None, kind="stable")[: int((~np.isnan(importance)).sum())]


def order_at_random(kept: HeadMask, seed: int) -> Order:
    """List the numbers of the kept heads (layer, head), counted layer by layer, in random order."""
    return np.random.default_rng(seed).permutation(np.flatnonzero(kept))


def order_stepwise(
    shape: tuple[int, int], steps: Sequence[int], measure: Callable[[HeadMask], Importance]
) -> Order:
    """List the heads' numbers in the order they go, which is measured anew after each step.

    ``steps`` are the numbers of heads that are off, ascending.
    """
    order = np.zeros(0, np.int64)
    for number in steps:
        if number > len(order):
            ranked = order_by_importance(measure(mask_heads(shape, order, len(order))))
            left = ranked[~np.isin(ranked, order)]
            order = np.concatenate([order, left[: number - len(order)]])
    return order


def mask_heads(shape: tuple[int, ...], order: Order, removed: int) -> HeadMask:
    """Make the mask (layer, head) in which the first ``removed`` heads of an order are off."""
    mask = np.ones(shape, bool)
    mask.flat[order[:removed]] = False
    return mask


def plan_steps(heads: int, step: float) -> list[int]:
    """List how many heads are off after each step, from none to all, by steps of a share of the heads."""
    if step * heads <= 1:
        return list(range(heads + 1))
    shares = [place * step for place in range(int(np.floor(1 / step + 1e-9)) + 1)]
    return sorted({round(share * heads) for share in [*shares, 1.0]})
