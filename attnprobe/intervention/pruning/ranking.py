"""In which order heads go: the least important first, by one criterion or another."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.findings.sides import Side
from attnprobe.intervention.changes import find_example_score
from attnprobe.intervention.gradient import gradient_importance
from attnprobe.intervention.integration import integrate_gradients
from attnprobe.intervention.metrics.score import Score
from attnprobe.intervention.pruning.options import Criterion
from attnprobe.intervention.relevance import head_relevance
from attnprobe.intervention.task import Bench
from attnprobe.intervention.trials import run_trials

#: Criteria that are read off the derivatives of one backward pass.
OF_GRADIENTS = ("gradient", "gradient-normed", "fisher")

Worth = NDArray[np.float64]


def measure_worth(
    criterion: Criterion,
    bench: Bench,
    metric: Score,
    open_heads: NDArray[np.bool_] | None = None,
) -> Worth:
    """Measure what every head is worth by a criterion: (layer, head), the least goes first.

    All are sizes, so that a head that helps some examples and harms others is worth something:

    | criterion | worth |
    |---|---|
    | gradient | mean over examples of the size of the derivative of the loss by the head's gate |
    | gradient-normed | the same, divided by its l2 norm over the heads of the layer (Michel et al. 2019) |
    | fisher | mean over examples of the square of the derivative |
    | ig | mean over examples of the size of integrated gradients, ``ig_abs`` |
    | lrp | mean over examples of the size of relevance, ``relevance_abs`` |
    | ablation | mean over examples of how far the score without the head is from that with it |

    A head that is removed already is NaN.

    Args:
        criterion: What heads are worth something by.
        bench: Checkpoint, task and the examples to rank on.
        metric: Scores ablation.
        open_heads: Which heads are on (layer, head) while it is measured.
    """
    standing = bench.subject.architecture.standing
    if criterion.side is not None:
        worth = _read_worth(criterion, criterion.side, bench)
    elif criterion.name in OF_GRADIENTS:
        found = gradient_importance(bench, open_heads)
        worth = found.squares.average if criterion.name == "fisher" else found.heads.average
        # A closed gate has a derivative too, but its head is gone.
        worth = worth if open_heads is None else np.where(open_heads, worth, 0.0)
        if criterion.name == "gradient-normed":
            norm = np.linalg.norm(worth, axis=-1, keepdims=True)
            worth = np.divide(worth, norm, out=np.zeros_like(worth), where=norm > 0)
    elif criterion.name == "ig":
        left = "" if open_heads is None or open_heads.all() else f" with {open_heads.sum()} heads on"
        worth = integrate_gradients(
            bench, open_heads=open_heads, name=f"integrated gradients{left}"
        ).size.heads.average
    elif criterion.name == "lrp":
        # Relevance is conserved from layer to layer, so that heads of all layers are compared as they are.
        worth = head_relevance(bench, open_heads).size.heads.average
        worth = worth if open_heads is None else np.where(open_heads, worth, 0.0)
    else:
        worth = _ablation_worth(bench, metric, open_heads)
    worth = np.where(standing, worth, np.nan)  # what is removed already has no place in an order
    if not np.isfinite(worth[standing]).all():
        raise AttnprobeError(f"{criterion.name} is undefined for some heads, so they can't be ordered by it.")
    return worth


def order_by_worth(worth: Worth) -> NDArray[np.int64]:
    """Order the heads, numbered layer by layer, the least worth first; of equals the first layer's.

    What is worth NaN is not there.
    """
    found = np.argsort(worth.ravel(), kind="stable")
    return found[: int((~np.isnan(worth)).sum())]


def order_at_random(standing: NDArray[np.bool_], seed: int) -> NDArray[np.int64]:
    """Order the heads that are there (layer, head) at random."""
    return np.random.default_rng(seed).permutation(np.flatnonzero(standing))


def mask_heads(shape: tuple[int, int], order: NDArray[np.int64], removed: int) -> NDArray[np.bool_]:
    """Mask the first heads of an order, numbered layer by layer: (layer, head), True where a head is on."""
    cut = np.ones(shape, bool)
    cut.flat[order[:removed]] = False
    return cut


def rank_stepwise(
    shape: tuple[int, int],
    removed: list[int],
    measure: Callable[[NDArray[np.bool_]], Worth],
) -> NDArray[np.int64]:
    """Order the heads, ranking those that are left anew after each step.

    ``removed`` says how many heads are off after each step, ascending; ``measure`` gives what each head is
    worth while some are on.
    """
    order = np.zeros(0, np.int64)
    for number in removed:
        if number <= len(order):
            continue
        ranked = order_by_worth(measure(mask_heads(shape, order, len(order))))
        left = ranked[~np.isin(ranked, order)]
        order = np.concatenate([order, left[: number - len(order)]])
    return order


def _ablation_worth(bench: Bench, metric: Score, open_heads: NDArray[np.bool_] | None) -> Worth:
    """Average over examples how far each head moves their score; nothing for a head that is off already.

    That is ``moved`` of ``ablate``; of a score of generated text, the examples' pseudovalues move.
    """
    score = find_example_score(bench, metric) or metric
    at = bench.subject.architecture.standing & (True if open_heads is None else open_heads)
    places = np.argwhere(at)
    cuts = [at.copy() for _ in places]
    for cut, (layer, head) in zip(cuts, places, strict=True):
        cut[layer, head] = False
    left = "" if open_heads is None or open_heads.all() else f" with {at.sum()} heads on"
    trials = run_trials(bench, [at, *cuts], score.needs, f"ablating{left}")
    start, *moved = (score.pseudovalues(outcome) for outcome in trials.cuts)
    worth = np.zeros(bench.subject.shape)
    worth[tuple(places.T)] = [np.abs(one - start).mean() for one in moved]
    return worth


def _read_worth(criterion: Criterion, side: Side, bench: Bench) -> Worth:
    subject, checkpoint = bench.subject, bench.subject.checkpoint
    named, standing = subject.architecture.places, subject.architecture.standing
    places = [(*named[layer].key, int(head)) for layer, head in np.argwhere(standing)]
    numbers = dict(zip(side.heads, side.values, strict=True))
    if numbers.keys() != set(places):
        number = " x ".join(map(str, standing.shape)) if standing.all() else f"{standing.sum()}"
        raise AttnprobeError(
            f"{side.name} has {len(numbers)} heads, which are not the {number} of {checkpoint.name}."
        )
    if side.model not in {"", checkpoint.name}:
        raise AttnprobeError(f"{side.name} is about {side.model}, not about {checkpoint.name}.")
    values = np.full(subject.shape, np.nan)
    values[standing] = [numbers[place] for place in places]
    return -values if criterion.highest_first else values
