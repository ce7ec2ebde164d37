"""Which head of another checkpoint is whose partner: the nearest, or the one that is matched to it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.survey.comparison import Comparison
from attnprobe.survey.divergences import name_pairs
from attnprobe.survey.heads import Within

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


@dataclass(frozen=True)
class Partners:
    """A head of the second model for each head of the first, both numbered through all layers of the model.

    Attributes:
        head: Its number, -1 where there is none.
        jsd: How differently both attend; NaN where that was not measured.
        error: Its standard error.
        cka: How alike both give, if that is how partners were found.
    """

    head: Places
    jsd: Floats
    error: Floats
    cka: Floats | None = None


def find_namesakes(found: Comparison) -> Places:
    """Find the head of the same number of each head, -1 for those of kinds that are not shared."""
    shared = found.shared
    partner = np.full(shared.first.layers * shared.first.heads, -1, np.intp)
    for kind in shared.kinds:
        if shared.numbered(kind):
            ours, theirs = number_heads(found, kind)
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
    found.shared.check_layers((found.labels.model, found.other), within)
    return _choose_partners(found, lambda apart, kind: found.shared.assign(apart, kind, within))


def _find_least(apart: Floats) -> Places:
    """Find the least of each row; of equals, the one of the row's own number."""
    best = apart.argmin(1)
    own = np.minimum(np.arange(len(apart)), apart.shape[1] - 1)
    return np.where(apart[np.arange(len(apart)), own] <= apart.min(1), own, best)


def _choose_partners(found: Comparison, choose: Callable[[Floats, Kind], Places]) -> Partners:
    shared = found.shared
    size = shared.first.layers * shared.first.heads
    head, jsd, error = np.full(size, -1, np.intp), np.full(size, np.nan), np.full(size, np.nan)
    for kind in shared.kinds:
        pairs = found.measurement.sums[name_pairs(kind)]
        apart, errors = pairs.average, pairs.standard_error
        chosen = choose(apart, kind)
        ours, theirs = number_heads(found, kind)
        there = np.flatnonzero(chosen >= 0)
        head[ours[there]] = theirs[chosen[there]]
        jsd[ours[there]] = apart[there, chosen[there]]
        error[ours[there]] = errors[there, chosen[there]]
    return Partners(head, jsd, error)


def number_heads(found: Comparison, kind: Kind) -> tuple[Places, Places]:
    """Number the heads of a kind through all layers of either model."""

    def number(layers: Sequence[int], heads: int) -> Places:
        return (np.array(layers, np.intp)[:, None] * heads + np.arange(heads)).ravel()

    ours, theirs = found.shared.layers(kind)
    return number(ours, found.shared.first.heads), number(theirs, found.shared.second.heads)


def match_outputs(found: Comparison) -> Partners:
    """Give the partners by what heads give, and the CKA with them; see ``Alignment``."""
    alignment, shared = found.alignment, found.shared
    assert alignment is not None  # or nobody asked for it
    whole = shared.first.layers * shared.first.heads
    head, cka = np.full(whole, -1, np.intp), np.full(whole, np.nan)
    jsd, jsd_error = np.full((2, whole), np.nan)
    for kind, chosen in alignment.partner.items():
        ours, theirs = number_heads(found, kind)
        there = np.flatnonzero(chosen >= 0)
        head[ours[there]] = theirs[chosen[there]]
        cka[ours[there]] = alignment.similarity[kind][there, chosen[there]]
        if name_pairs(kind) in found.measurement.sums:
            pairs = found.measurement.sums[name_pairs(kind)]
            jsd[ours[there]] = pairs.average[there, chosen[there]]
            jsd_error[ours[there]] = pairs.standard_error[there, chosen[there]]
    return Partners(head, jsd, jsd_error, cka)


def compare_numbered_outputs(found: Comparison) -> Floats:
    """Give the CKA of each head with the head of its number; NaN without one."""
    alignment, shared = found.alignment, found.shared
    assert alignment is not None
    cka = np.full(shared.first.layers * shared.first.heads, np.nan)
    for kind in shared.kinds:
        if shared.numbered(kind):
            ours, _ = number_heads(found, kind)
            cka[ours] = alignment.similarity[kind].diagonal()
    return cka
