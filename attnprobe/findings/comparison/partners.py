"""Which head of the second model each head of the first is compared with: its number's, nearest, matched."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.errors import AttnprobeError
from attnprobe.survey.comparison import Comparison, name_pairs

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
#: Within which heads partners are looked for.
Within = Literal["layer", "model"]


@dataclass(frozen=True)
class Partners:
    """A head of the second model for each head of the first, both numbered through all layers of the model.

    Attributes:
        head: Its number, -1 where there is none.
    """

    head: Places
    jsd: Floats
    error: Floats


def find_namesakes(found: Comparison) -> Places:
    """Find the head of the same number of each head, -1 for those of kinds that are not shared."""
    shared = found.shared
    partner = np.full(shared.first.layers * shared.first.heads, -1, np.intp)
    for kind in shared.kinds:
        if shared.numbered(kind):
            ours, theirs = _number_heads(found, kind)
            partner[ours] = theirs
    return partner


def find_nearest(found: Comparison) -> Partners:
    """Find the head of the other model with the least divergence; of equals, the one of the same number."""

    def choose(apart: Floats, _: Kind) -> Places:
        cost = np.where(np.isnan(apart), np.inf, apart)
        return np.where(np.isfinite(cost.min(1)), _find_least(cost), -1)

    return _choose_partners(found, choose)


def match_heads(found: Comparison, within: Within) -> Partners:
    """Assign heads to heads one to one, so that their divergences add up to the least.

    Within ``layer``, heads of a layer are assigned to heads of the layer of the same number; within
    ``model``, to heads of any layer. Where one side has more heads, those that are too many have no partner.

    Raises:
        AttnprobeError: When layers are to have partners of their number, and the numbers differ.
    """
    shared = found.shared
    for kind in shared.kinds if within == "layer" else ():
        ours, theirs = map(len, shared.layers(kind))
        if ours != theirs:
            raise AttnprobeError(
                f"{found.labels.model} has {ours} layers and {found.other} has {theirs}, so that heads can't "
                "be matched layer by layer; use --match model."
            )

    def assign(apart: Floats, kind: Kind) -> Places:
        from scipy.optimize import linear_sum_assignment  # takes a while to import

        cost = np.where(np.isnan(apart), 1.0, apart)  # more than ln 2, so that removed heads come last
        blocks = [np.ogrid[: len(cost), : cost.shape[1]]]
        if within == "layer":
            sizes = shared.first.heads, shared.second.heads
            layers = range(len(shared.layers(kind)[0]))
            blocks = [np.ix_(*(np.arange(i * size, (i + 1) * size) for size in sizes)) for i in layers]
        partner = np.full(len(cost), -1, np.intp)
        for rows, columns in blocks:
            picked = linear_sum_assignment(cost[rows, columns])
            ours, theirs = rows.ravel()[picked[0]], columns.ravel()[picked[1]]
            partner[ours] = np.where(np.isfinite(apart[ours, theirs]), theirs, -1)
        return partner

    return _choose_partners(found, assign)


def find_nearest_layers(found: Comparison, kind: Kind) -> tuple[Places, Floats]:
    """Find, for each layer of a kind, the layer of the other model whose heads are most like its own.

    How far a layer is from another is the mean over its heads of the divergence from the nearest head there.

    Returns:
        For each layer of the kind, which one of the other model's layers it is, and how far.
    """
    shared = found.shared
    apart = found.measurement.sums[name_pairs(kind)].average
    blocks = apart.reshape(-1, shared.first.heads, apart.shape[1] // shared.second.heads, shared.second.heads)
    least = np.where(np.isnan(blocks), np.inf, blocks).min(-1)
    least = np.where(np.isinf(least), np.nan, least)
    known = ~np.isnan(least)
    total, number = np.where(known, least, 0).sum(1), known.sum(1)
    far = np.divide(total, number, out=np.full(total.shape, np.inf), where=number > 0)
    best = _find_least(far)
    return best, far[np.arange(len(far)), best]


def _find_least(apart: Floats) -> Places:
    """Find the least of each row; of equals, the one of the row's own number."""
    best = apart.argmin(1)
    own = np.minimum(np.arange(len(apart)), apart.shape[1] - 1)
    return np.where(apart[np.arange(len(apart)), own] <= apart.min(1), own, best)


def _choose_partners(found: Comparison, choose: Callable[[Floats, Kind], Places]) -> Partners:
    """Choose partners kind by kind, from the divergences of heads."""
    shared = found.shared
    size = shared.first.layers * shared.first.heads
    head, jsd, error = np.full(size, -1, np.intp), np.full(size, np.nan), np.full(size, np.nan)
    for kind in shared.kinds:
        pairs = found.measurement.sums[name_pairs(kind)]
        apart, errors = pairs.average, pairs.standard_error
        chosen = choose(apart, kind)
        ours, theirs = _number_heads(found, kind)
        there = np.flatnonzero(chosen >= 0)
        head[ours[there]] = theirs[chosen[there]]
        jsd[ours[there]] = apart[there, chosen[there]]
        error[ours[there]] = errors[there, chosen[there]]
    return Partners(head, jsd, error)


def _number_heads(found: Comparison, kind: Kind) -> tuple[Places, Places]:
    """Number the heads of a kind through all layers of either model."""

    def number(layers: Sequence[int], heads: int) -> Places:
        return (np.array(layers, np.intp)[:, None] * heads + np.arange(heads)).ravel()

    ours, theirs = found.shared.layers(kind)
    return number(ours, found.shared.first.heads), number(theirs, found.shared.second.heads)
