"""Interactions of heads: pairs are proposed by gradients, and confirmed by removing both heads."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import DataError, ModelError, UsageError
from attnprobe.intervention.ablation import find_loss
from attnprobe.intervention.gradient import sum_derivatives
from attnprobe.intervention.metrics.score import CLUSTER, Score
from attnprobe.intervention.task import TaskData, TaskSession
from attnprobe.intervention.trials import run_trials
from attnprobe.sums.base import Moments
from attnprobe.sums.clustered import Clustered
from attnprobe.table.builder import TableBuilder
from attnprobe.table.table import Column, HeadTable

Floats = NDArray[np.float64]
#: A head, by its layer in the order of a forward pass and its number.
Head = tuple[int, int]
Pair = tuple[Head, Head]


def propose_pairs(data: TaskData) -> tuple[list[Head], Floats]:
    """Propose interactions of all pairs of heads, from one pass of gradients without each head.

        J[i, j] = E g_j with i off - E g_j,    g_j = d loss / d gate of j
        proposed = -J[i, j] or -J[j, i], whichever is smaller in size; 0 where their signs differ

    For a loss that is bilinear in the two gates, both are -I(i, j) exactly. Requiring both directions to
    agree excludes curvature of the loss along one gate.

    Returns:
        The heads that were tried, and the proposed interaction (head, head), 0 on the diagonal.
    """
    model, kept = data.model, data.model.architecture.kept
    heads = [(int(layer), int(head)) for layer, head in np.argwhere(kept)]

    def average_slopes(name: str, *off: Head) -> Floats:
        gates = np.ones(model.shape, bool)
        for head in off:
            gates[head] = False
        derivatives = sum_derivatives(data, lambda answer: answer.loss, name, gates, sums=Moments)
        return derivatives.average[kept]

    whole = average_slopes("gradients")
    without = [average_slopes(f"gradients without {layer}-{head}", (layer, head)) for layer, head in heads]
    changed = np.stack(without) - whole
    np.fill_diagonal(changed, 0.0)
    return heads, agree_both_ways(changed)


def agree_both_ways(changed: Floats) -> Floats:
    """Propose minus the smaller change of gradients (head off, head) of two directions; 0 if signs differ."""
    other = changed.T
    agree = np.sign(changed) == np.sign(other)
    return np.where(agree, -np.sign(changed) * np.minimum(np.abs(changed), np.abs(other)), 0.0) + 0.0


def run_interactions(session: TaskSession, pairs: int) -> HeadTable:
    """Propose and confirm the strongest interactions, one row a pair."""
    with session.open_task("interact", {"--pairs": pairs}) as data:
        return tabulate_pairs(data, *find_interactions(data, pairs))


def find_interactions(data: TaskData, most: int) -> tuple[list[Pair], Floats, Clustered]:
    """Propose pairs on one half of the documents, and test the strongest ``most`` on the other half.

    Returns:
        The pairs, the strongest proposal first; their proposed interactions; their measured interactions.

    Raises:
        AttnprobeError: When a half has less than two documents, the task no loss of each example, or the
            model one head.
    """
    loss = find_loss(data)
    if loss is None:
        raise UsageError(
            f"interact needs a loss of each example, and --objective {data.objective.name} has none; take a "
            "checkpoint with a task head, or data with labels."
        )
    first, second = (data.half(later) for later in (False, True))
    if any(len(np.unique(half.documents)) < 2 for half in (first, second)):
        raise DataError("interact needs at least two documents in either half of the data; give more.")
    heads, proposed = propose_pairs(first)
    if len(heads) < 2:
        raise ModelError("interact needs a model with at least two heads of their own.")
    order = sorted(combinations(range(len(heads)), 2), key=lambda pair: -abs(proposed[pair]))[:most]
    pairs = [(heads[a], heads[b]) for a, b in order]
    return pairs, proposed[*np.transpose(order)], confirm_pairs(second, pairs, loss)


def confirm_pairs(data: TaskData, pairs: Sequence[Pair], loss: Score) -> Clustered:
    """Remove the heads of pairs, each alone and both, and compare the effects, (pair,).

        I(i, j) = delta(i, j) - delta(i) - delta(j)

    with delta the change of an example's loss without the heads in brackets; the mean over examples, its
    error and Student's t are over documents. Holm adjusts p for the number of pairs.

    Unit: that of the loss. Limits: 0 if effects add up. Positive if removing both loses more than removing
    each, so one stands in for the other; negative if one does less without the other.

    References:
        Wang et al. (2023), Interpretability in the wild, on backup heads; McGrath et al. (2023), The Hydra
        effect.
    """
    removed = [*sorted({(head,) for pair in pairs for head in pair}), *pairs]
    masks = np.ones((len(removed), *data.model.shape), bool)
    for mask, heads in zip(masks, removed, strict=True):
        mask[tuple(np.transpose(heads))] = False
    trials = run_trials(data, [*masks], loss.needs, "confirming")
    whole, without = loss.pseudovalues(trials.untouched), map(loss.pseudovalues, trials.masked)
    deltas = {heads: values - whole for heads, values in zip(removed, without, strict=True)}
    values = [deltas[pair] - deltas[pair[:1]] - deltas[pair[1:]] for pair in pairs]
    return Clustered.of(np.stack(values, 1), trials.untouched.get(CLUSTER))


def tabulate_pairs(
    data: TaskData, pairs: Sequence[Pair], proposed: Floats, confirmed: Clustered
) -> HeadTable:
    """Tabulate what ``find_interactions`` gives, one row a pair, with p adjusted over pairs."""
    labels, rows = data.labels(), len(pairs)
    build = TableBuilder(labels, rows)
    build.key("objective", [data.objective.name] * rows)
    for side, name in enumerate("ab"):
        places = [labels.places[pair[side][0]] for pair in pairs]
        if any(place.kind is not None for place in places):
            build.key(f"attention_{name}", [str(place.kind) for place in places])
        build.key(f"layer_{name}", [place.layer for place in places])
        build.add(Column(f"head_{name}", role="key"), [pair[side][1] for pair in pairs])
    tested, unit = confirmed.estimate, "nats" if "loss" in data.model.metrics else ""
    build.count("n", confirmed.count)
    title = "interaction by gradients, on the other half"
    build.add(Column("proposed", unit, title=title), proposed)
    title = "loss without both, less those without each"
    build.measure("interaction", unit, tested.value, tested.error, headline=True, title=title)
    build.test(tested.p(), headline=True)
    return build.table("interactions of heads")
