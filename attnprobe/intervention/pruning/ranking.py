"""In which order heads go: the least important first, by one criterion or another."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.findings.pair import Side
from attnprobe.intervention.gradient import Gradients, gradient_importance
from attnprobe.intervention.importance import attention_importance
from attnprobe.intervention.integration import integrate_gradients
from attnprobe.intervention.metrics.metric import Metric
from attnprobe.intervention.pruning.options import Criterion
from attnprobe.intervention.relevance import head_relevance
from attnprobe.intervention.strength import measure_magnitudes, measure_norms
from attnprobe.intervention.task import Bench
from attnprobe.intervention.trials import run_trials

if TYPE_CHECKING:
    from attnprobe.findings.pair import Side


#: The statistic that a criterion of attention reads, and whether a high value makes a head go first.
_ATTENTION = {"entropy": ("entropy_normalized", True), "confidence": ("confidence", False)}
#: Criteria that are read off the derivatives of one backward pass.
OF_GRADIENTS = ("gradient", "gradient-normed", "fisher")

Worth = NDArray[np.float64]


def measure_worth(
    criterion: Criterion,
    bench: Bench,
    metric: Metric,
    open_heads: NDArray[np.bool_] | None = None,
    *,
    gradients: Callable[[], Gradients] | None = None,
    aside: str = "",
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
    | norm | length of what the head adds to the residual stream; see ``measure_norms`` |
    | magnitude | product of the lengths of its weights; see ``measure_magnitudes`` |
    | entropy | least normalised entropy of its attention |
    | confidence | mean of its largest attention weight |

    Heads that have the same weights go together and are worth one number, which the first of them has; the
    others are NaN. It is what a gate that they share does, the score without all of them, or the mean of what
    attention, weights or a table say of each.

    Args:
        criterion: What heads are worth something by.
        bench: Checkpoint, task and the examples to rank on.
        metric: Scores ablation.
        open_heads: Which heads are on (layer, head) while a criterion of ``RERANKED`` is measured.
        gradients: Gives the derivatives of ``OF_GRADIENTS``, where several criteria share them.
        aside: Ends the names of the passes.
    """
    subject, ties = bench.subject, bench.subject.ties
    if criterion.side is not None:
        worth = _average_ties(_read_worth(criterion, criterion.side, bench), ties)
    elif criterion.name in OF_GRADIENTS:
        found = gradients() if gradients else gradient_importance(bench, open_heads, ties, aside)
        worth = found.squares.average if criterion.name == "fisher" else found.heads.average
        # A closed gate has a derivative too, but its head is gone.
        worth = worth if open_heads is None else np.where(open_heads, worth, 0.0)
        if criterion.name == "gradient-normed":
            norm = np.linalg.norm(worth, axis=-1, keepdims=True)
            worth = np.divide(worth, norm, out=np.zeros_like(worth), where=norm > 0)
    elif criterion.name == "ig":
        left = "" if open_heads is None or open_heads.all() else f" with {open_heads.sum()} heads on"
        worth = integrate_gradients(
            bench, open_heads=open_heads, name=f"integrated gradients{aside}{left}"
        ).size.heads.average
    elif criterion.name == "lrp":
        # Relevance is conserved from layer to layer, so that heads of all layers are compared as they are.
        worth = head_relevance(bench, open_heads, ties, aside).size.heads.average
        worth = worth if open_heads is None else np.where(open_heads, worth, 0.0)
    elif criterion.name == "ablation":
        worth = _ablation_worth(bench, metric, open_heads, aside)
    elif criterion.name == "norm":
        left = "" if open_heads is None or open_heads.all() else f" with {open_heads.sum()} heads on"
        worth = _average_ties(measure_norms(bench, open_heads, f"norms{aside}{left}").average, ties)
    elif criterion.name == "magnitude":
        worth = _average_ties(measure_magnitudes(subject), ties)
    else:
        name, high_goes = _ATTENTION[criterion.name]
        statistic = attention_importance(
            subject.checkpoint, subject.architecture, bench.corpus.batches, name, bench.run, bench.workers
        )
        worth = _average_ties(statistic.heads.average * (-1 if high_goes else 1), ties)
    worth = np.where(subject.units, worth, np.nan)  # what is removed already has no place in an order
    if not np.isfinite(worth[subject.units]).all():
        raise AttnprobeError(f"{criterion.name} is undefined for some heads, so they can't be ordered by it.")
    return worth


def order_by_worth(worth: Worth) -> NDArray[np.int64]:
    """Order the heads, numbered layer by layer, the least worth first; of equals the first layer's.

    What is worth NaN is not there.
    """
    found = np.argsort(worth.ravel(), kind="stable")
    return found[: int((~np.isnan(worth)).sum())]


def order_at_random(units: NDArray[np.bool_], seed: int) -> NDArray[np.int64]:
    """Order the heads that can go on their own (layer, head) at random."""
    return np.random.default_rng(seed).permutation(np.flatnonzero(units))


def mask_heads(
    shape: tuple[int, int], order: NDArray[np.int64], removed: int, ties: NDArray[np.int64] | None = None
) -> NDArray[np.bool_]:
    """Mask the first heads of an order, numbered layer by layer: (layer, head), True where a head is on.

    ``ties`` names for each layer the one that it shares its weights with, whose heads take its own along.
    """
    cut = np.ones(shape, bool)
    cut.flat[order[:removed]] = False
    return cut if ties is None else cut[ties]


def rank_stepwise(
    shape: tuple[int, int],
    removed: list[int],
    measure: Callable[[NDArray[np.bool_]], Worth],
    ties: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Order the heads, ranking those that are left anew after each step.

    ``removed`` says how many heads are off after each step, ascending; ``measure`` gives what each head is
    worth while some are on; ``ties`` is as for ``without``.
    """
    order = np.zeros(0, np.int64)
    for number in removed:
        if number <= len(order):
            continue
        ranked = order_by_worth(measure(mask_heads(shape, order, len(order), ties)))
        left = ranked[~np.isin(ranked, order)]
        order = np.concatenate([order, left[: number - len(order)]])
    return order


def _ablation_worth(
    bench: Bench, metric: Metric, open_heads: NDArray[np.bool_] | None, aside: str = ""
) -> Worth:
    """Average over examples how far each head moves the score; nothing for a head that is off already.

    Of a score that is no mean over examples, those of their pseudovalues.
    """
    ties = bench.subject.ties
    at = bench.subject.architecture.standing & (True if open_heads is None else open_heads)
    places = np.argwhere(at & bench.subject.units)
    cuts = [at.copy() for _ in places]
    for cut, (layer, head) in zip(cuts, places, strict=True):
        cut[ties == layer, head] = False
    left = "" if open_heads is None or open_heads.all() else f" with {at.sum()} heads on"
    trials = run_trials(bench, [at, *cuts], metric.needs, f"ablating{aside}{left}")
    start, *scores = (metric.pseudovalues(outcome) for outcome in trials.cuts)
    worth = np.zeros(bench.subject.shape)
    worth[tuple(places.T)] = [np.abs(score - start).mean() for score in scores]
    return worth


def _average_ties(values: Worth, ties: NDArray[np.int64]) -> Worth:
    """Average (layer, head) over the layers that share their weights."""
    return np.stack([values[ties == first].mean(0) for first in ties])


def _read_worth(criterion: Criterion, side: Side, bench: Bench) -> Worth:
    subject, checkpoint = bench.subject, bench.subject.checkpoint
    named, standing = subject.architecture.places, subject.architecture.standing
    # Tables of attention have a row for every head, those of masks one for all heads with the same weights.
    for rows in (standing, subject.units):
        places = [(*named[layer].key, int(head)) for layer, head in np.argwhere(rows)]
        if side.values.keys() == set(places):
            break
    else:
        number = " x ".join(map(str, standing.shape)) if standing.all() else f"{standing.sum()}"
        raise AttnprobeError(
            f"{side.name} has {len(side.values)} heads, which are not the {number} of {checkpoint.name}."
        )
    if side.model not in {"", checkpoint.name}:
        raise AttnprobeError(f"{side.name} is about {side.model}, not about {checkpoint.name}.")
    values = np.full(subject.shape, np.nan)
    values[rows] = [side.values[place] for place in places]
    values = values if rows is standing else values[subject.ties]
    return -values if criterion.highest_first else values
