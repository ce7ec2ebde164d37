"""Which heads stand in for each other: pairs are proposed by gradients, and confirmed by removing both."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.gradient import sum_derivatives
from attnprobe.intervention.metrics.score import CLUSTER, Score
from attnprobe.intervention.task import Bench, build_metric
from attnprobe.intervention.trials import run_trials
from attnprobe.sums.base import Moments
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.inference import adjust

Floats = NDArray[np.float64]
#: A head, by its layer in the order of a forward pass and its number.
Head = tuple[int, int]


@dataclass(frozen=True)
class Interactions:
    """Pairs of heads, what their gradients proposed, and what removing them says on other examples.

    Attributes:
        pairs: The heads of each pair, the strongest proposal first.
        proposed: (pair,) the proposed interaction: see ``propose_pairs``.
        values: (example, pair) the interaction in each example of the other half.
        means: (pair,)
        errors: (pair,) standard errors over documents.
        p: (pair,) of a mean of 0, Student's t over documents.
        adjusted: (pair,) p adjusted for the number of pairs by Holm.
        examples: How many confirmed them.
    """

    pairs: Sequence[tuple[Head, Head]]
    proposed: Floats
    values: Floats
    means: Floats
    errors: Floats
    p: Floats
    adjusted: Floats
    examples: int


def propose_pairs(bench: Bench) -> tuple[list[Head], Floats]:
    """Propose how every two heads interact, from one pass of gradients for each head that is off.

        J[i, j] = E g_j with i off - E g_j,    g_j = d loss / d gate of j
        proposed = -J[i, j] or -J[j, i], whichever is smaller in size; 0 where their signs differ

    For a loss that is bilinear in the two gates both are -I(i, j) exactly; that both directions have to agree
    keeps out what bends the loss along one gate alone.

    Returns:
        The heads that were tried, and the proposed interaction (head, head), 0 on the diagonal.
    """
    subject, standing = bench.subject, bench.subject.architecture.standing
    heads = [(int(layer), int(head)) for layer, head in np.argwhere(standing)]

    def average(off: Head | None, name: str) -> Floats:
        gates = np.ones(subject.shape, bool)
        if off is not None:
            gates[off] = False
        found: Moments = sum_derivatives(
            bench,
            lambda answer: answer.loss,
            lambda derivative, batch: Moments.of(derivative),
            Moments.from_arrays,
            name=name,
            open_heads=None if off is None else gates,
        )
        return found.average[standing]

    whole = average(None, "gradients")
    changed = np.stack([average(head, f"gradients without {_name(head)}") for head in heads]) - whole
    np.fill_diagonal(changed, 0.0)
    return heads, propose_interactions(changed)


def _name(head: Head) -> str:
    return f"{head[0]}-{head[1]}"


def propose_interactions(changed: Floats) -> Floats:
    """Give the smaller of both directions of the change of gradients (head off, head), with its sign turned.

    >>> propose_interactions(np.array([[0, -3.0, 1.0], [-2.0, 0, 5.0], [-1.0, 4.0, 0]]))
    array([[ 0.,  2.,  0.],
           [ 2.,  0., -4.],
           [ 0., -4.,  0.]])
    """
    other = changed.T
    agree = np.sign(changed) == np.sign(other)
    return np.where(agree, -np.sign(changed) * np.minimum(np.abs(changed), np.abs(other)), 0.0) + 0.0


def find_interactions(bench: Bench, most: int) -> Interactions:
    """Propose pairs on one half of the documents, and confirm the strongest ``most`` on the other half.

    Raises:
        AttnprobeError: When a half has less than two documents, or the task has no loss for each example.
    """
    score = _find_loss(bench)
    if len(np.unique(bench.documents)) < 4 or not all(
        len(np.unique(bench.half(second).documents)) > 1 for second in (False, True)
    ):
        raise AttnprobeError("interact needs at least two documents in either half of the data; give more.")
    first, second = bench.half(False), bench.half(True)
    heads, proposed = propose_pairs(first)
    if len(heads) < 2:
        raise AttnprobeError("interact needs a model with at least two heads of their own.")
    order = sorted(combinations(range(len(heads)), 2), key=lambda pair: -abs(proposed[pair]))[:most]
    pairs = [(heads[one], heads[other]) for one, other in order]
    return confirm_pairs(second, pairs, np.array([proposed[pair] for pair in order]), score)


def _find_loss(bench: Bench) -> Score:
    name = next((name for name in ("loss", "mse") if name in bench.subject.metrics), None)
    found = None if name is None else build_metric(name, bench, 0)
    if found is None or not found.is_mean:
        raise AttnprobeError(
            f"interact needs a loss of each example, and --objective {bench.objective.name} has none; take a "
            "checkpoint with a task head, or data with labels."
        )
    return found


def confirm_pairs(
    bench: Bench, pairs: Sequence[tuple[Head, Head]], proposed: Floats, score: Score
) -> Interactions:
    """Remove the heads of pairs, each alone and both, and test whether effects add up.

        I(i, j) = delta(i, j) - delta(i) - delta(j)

    with delta the change of an example's loss without the heads in brackets; the mean over examples, its
    error and Student's t are over documents. Holm adjusts p for the number of pairs.

    Unit: that of the loss. Limits: 0 where effects add up. Positive where more is lost without both than
    without each, so that one stands in for the other; negative where one does less without the other.

    References:
        Wang et al. (2023), Interpretability in the wild, on backup heads; McGrath et al. (2023), The Hydra
        effect.
    """
    shape = bench.subject.shape
    alone = sorted({head for pair in pairs for head in pair})

    def close(*heads: Head) -> NDArray[np.bool_]:
        cut = np.ones(shape, bool)
        for head in heads:
            cut[head] = False
        return cut

    cuts = [*(close(head) for head in alone), *(close(*pair) for pair in pairs)]
    trials = run_trials(bench, cuts, score.needs, "confirming")
    untouched = score.pseudovalues(trials.untouched)
    apart = [score.pseudovalues(cut) - untouched for cut in trials.cuts]
    singles = dict(zip(alone, apart, strict=False))
    both = apart[len(alone) :]
    values = np.stack(
        [delta - singles[one] - singles[other] for delta, (one, other) in zip(both, pairs, strict=True)], 1
    )
    tested = [Clustered.of(column, trials.untouched.get(CLUSTER)) for column in values.T]
    p = np.array([float(found.estimate.p()) for found in tested])
    return Interactions(
        pairs,
        proposed,
        values,
        np.array([float(found.average) for found in tested]),
        np.array([float(found.standard_error) for found in tested]),
        p,
        np.asarray(adjust(p.tolist(), "holm"), np.float64),
        len(values),
    )
