"""What heads of two models give to the same tokens: linear CKA of every pair, partners, and their errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Layout
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.observations import UnobservableError, check_observations
from attnprobe.run.memory import Price
from attnprobe.sums.base import Measurement, Sum
from attnprobe.sums.cross_moments import CrossMoments, Floats
from attnprobe.sums.groups import Clustered
from attnprobe.survey.pairing import Places, SharedHeads, Unit, Within
from attnprobe.survey.recorder import Values

#: Outputs of a batch, (batch, query, head of any layer, width), kind by kind.
Outputs = Mapping[Kind, tuple[Tensor, Layout]]
#: Chance alone gives a CKA of this or more: too few tokens.
CHANCE = 0.05


class OutputSums(Protocol):
    """What is made of the outputs of both models over a batch."""

    @property
    def sums(self) -> Mapping[str, type[Sum]]:
        """What is kept, by name."""
        ...

    def compare(self, ours: Outputs, theirs: Outputs, units: Sequence[Sequence[Unit]] | None) -> Values: ...


def name_outputs(kind: Kind) -> str:
    """Name the sums over outputs of all heads of a kind."""
    return f"outputs, {kind}"


def pair_tokens(
    shared: SharedHeads,
    kind: Kind,
    ours: Outputs,
    theirs: Outputs,
    units: Sequence[Sequence[Unit]] | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Put what both models give to the same tokens side by side: tokens that ask, or words that both see.

    A word has the mean of what its tokens are given. Removed heads give 0.

    Returns:
        (token, head, width) of either model, heads numbered through all layers of the kind; and which
        sequence of the batch each token is of.
    """
    (given, layout), (other, _) = ours[kind], theirs[kind]
    other = other.to(given.device)
    if units is None:
        asking = layout.queries.asking.to(given.device)
        owner = torch.nonzero(asking)[:, 0]
        sides = given[asking], other[asking]
    else:
        words = [(row, *pair) for row, pairs in enumerate(units) for pair in pairs]
        owner = torch.tensor([row for row, *_ in words], dtype=torch.long, device=given.device)
        spans = [[(row, pair[side]) for row, *pair in words] for side in (0, 1)]
        sides = tuple(
            torch.stack([whole[row, span.start : span.stop].mean(0) for row, span in some])
            if some
            else whole.new_zeros(0, *whole.shape[2:])
            for whole, some in zip((given, other), spans, strict=True)
        )
    kept = shared.find_kept(kind)
    placed = [
        _place_heads(side, *where, size)
        for side, where, size in zip(sides, kept, shared.size(kind), strict=True)
    ]
    return placed[0], placed[1], owner


def _place_heads(vectors: Tensor, places: Places, numbers: Places, size: int) -> Tensor:
    vectors = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    if len(numbers) == size == vectors.shape[1]:
        return vectors
    found = vectors.new_zeros(len(vectors), size, vectors.shape[2])
    found[:, torch.from_numpy(numbers)] = vectors[:, torch.from_numpy(places)]
    return found


@dataclass(frozen=True)
class OutputMoments:
    """Sums up what every pair of heads has in common."""

    shared: SharedHeads

    @property
    def sums(self) -> Mapping[str, type[Sum]]:
        return {name_outputs(kind): CrossMoments for kind in self.shared.kinds}

    def compare(self, ours: Outputs, theirs: Outputs, units: Sequence[Sequence[Unit]] | None) -> Values:
        found: Values = {}
        for kind in self.shared.kinds:
            first, second, _ = pair_tokens(self.shared, kind, ours, theirs, units)
            found[name_outputs(kind)] = CrossMoments.of_tokens(first, second)
        return found


@dataclass(frozen=True)
class Alignment:
    """Which heads give alike, and how surely.

    Heads are numbered through all layers of a kind, as ``SharedHeads`` does.

    Attributes:
        moments: What every pair of heads has in common, kind by kind.
        partner: For each head of the first model that of the second, -1 where it has none.
        within: Where partners were looked for.
        errors: (2, head) standard errors of the CKA with the partner, and with the head of the same number.
    """

    shared: SharedHeads
    moments: Mapping[Kind, CrossMoments]
    partner: Mapping[Kind, Places]
    within: Within
    errors: Mapping[Kind, Floats]

    @cached_property
    def similarity(self) -> Mapping[Kind, Floats]:
        return {kind: one.cka for kind, one in self.moments.items()}

    @property
    def chance(self) -> float:
        """The CKA that independent outputs would have over as many tokens."""
        found = [
            (one.first_mean.shape[1] * one.second_mean.shape[1]) ** 0.5 / max(1.0, float(one.count))
            for one in self.moments.values()
        ]
        return max(found)


def match_outputs(
    shared: SharedHeads, moments: Mapping[Kind, CrossMoments], within: Within
) -> dict[Kind, Places]:
    """Assign heads to heads one to one, so that the CKA of their outputs adds up to the most.

    Heads are assigned as by ``--match`` of maps, with 1 - CKA for the divergence.
    """
    return {kind: shared.assign(1 - one.cka, kind, within) for kind, one in moments.items()}


def check_outputs(checkpoint: Checkpoint, architecture: Architecture) -> list[str]:
    """Verify that what heads give can be read, and is probabilities times values.

    Raises:
        AttnprobeError: Naming why not.
    """
    try:
        return check_observations(checkpoint, architecture, {"outputs", "values"})
    except UnobservableError as error:
        raise AttnprobeError(
            f"Heads of {checkpoint.name} can't be matched by outputs: {error} Match them by maps, with "
            "--match model."
        ) from error


def price_outputs(shared: SharedHeads, itemsize: int) -> Price:
    """Estimate what the comparison of outputs keeps of a batch: all of them, and products of every pair."""
    wide = [side.layers * side.heads * side.head_width for side in (shared.first, shared.second)]
    products = wide[0] * wide[1] + sum(
        one * side.head_width for one, side in zip(wide, (shared.first, shared.second), strict=True)
    )
    return Price(token=3 * itemsize * sum(wide), fixed=(itemsize + 8) * products)


def find_numbered(shared: SharedHeads, kind: Kind) -> Places:
    """Give the head of the same number of each head of a kind, -1 where the models have no such heads."""
    size = shared.size(kind)[0]
    return np.arange(size) if shared.numbered(kind) else np.full(size, -1, np.intp)


@dataclass(frozen=True)
class OutputPulls:
    """Says how far each sequence pulls the CKA of chosen pairs of heads, to the first order.

    The derivative of CKA by the weight of a token with outputs x and y is

        CKA (2 x^T C y / |C|^2 - x^T A x / |A|^2 - y^T B y / |B|^2)

    with x and y less their means, and C, A, B the sums of x y^T, x x^T and y y^T over all tokens. Over all
    tokens it adds up to 0, and its sums over documents give the standard error of CKA (the infinitesimal
    jackknife, which is the delta method). All windows of a document are one unit.

    Attributes:
        moments: Of all tokens.
        pairs: (2, head) which heads of the second model each head is compared with, -1 for none.
        sequences: How many there are.

    References:
        Jaeckel (1972), The infinitesimal jackknife; Efron and Tibshirani (1993), chapter 11.
    """

    shared: SharedHeads
    moments: Mapping[Kind, CrossMoments]
    pairs: Mapping[Kind, Places]
    sequences: int

    @classmethod
    def of(cls, shared: SharedHeads, measurement: Measurement, within: Within) -> Self:
        """Choose the partners of heads by what ``OutputMoments`` measured."""
        moments = {kind: measurement.sums[name_outputs(kind)] for kind in shared.kinds}
        partner = match_outputs(shared, moments, within)
        pairs = {kind: np.stack([one, find_numbered(shared, kind)]) for kind, one in partner.items()}
        return cls(shared, moments, pairs, measurement.sequences)

    def align(self, pulled: Measurement, within: Within) -> Alignment:
        """Say which heads give alike, with errors by what was measured with this."""
        errors = {kind: pulled.sums[name_outputs(kind)].standard_error for kind in self.shared.kinds}
        partner = {kind: one[0] for kind, one in self.pairs.items()}
        return Alignment(self.shared, self.moments, partner, within, errors)

    @property
    def sums(self) -> Mapping[str, type[Sum]]:
        return {name_outputs(kind): Clustered for kind in self.shared.kinds}

    def compare(self, ours: Outputs, theirs: Outputs, units: Sequence[Sequence[Unit]] | None) -> Values:
        """Give (sequence, 2, head), of which the mean over sequences is 0; NaN where there is no pair."""
        found: Values = {}
        for kind in self.shared.kinds:
            first, second, owner = pair_tokens(self.shared, kind, ours, theirs, units)
            batch = len(ours[kind][0])
            found[name_outputs(kind)] = self._pull(kind, first, second, owner, batch).cpu().numpy()
        return found

    def _pull(self, kind: Kind, first: Tensor, second: Tensor, owner: Tensor, batch: int) -> Tensor:
        moments, pairs, cka = self.moments[kind], self.pairs[kind], self.moments[kind].cka
        one, other = moments.lengths
        found = first.new_full((batch, *pairs.shape), torch.nan)
        like = {"dtype": first.dtype, "device": first.device}
        first = first - torch.as_tensor(moments.first_mean).to(**like)
        second = second - torch.as_tensor(moments.second_mean).to(**like)
        for place, heads in enumerate(pairs):
            for head in np.flatnonzero(heads >= 0):
                its = heads[head]
                if not np.isfinite(cka[head, its]):
                    continue
                crossed = moments.crossed[head, :, its]
                x, y = first[:, head], second[:, its]
                products = [
                    (x, crossed, y, 2 / np.square(crossed).sum()),
                    (x, moments.first[head], x, -1 / one[head] ** 2),
                    (y, moments.second[its], y, -1 / other[its] ** 2),
                ]
                pull = sum(
                    weight * (left @ torch.as_tensor(middle).to(**like) * right).sum(1)
                    for left, middle, right, weight in products
                )
                assert isinstance(pull, Tensor)
                of_sequence = pull.new_zeros(batch).index_add(0, owner, pull)
                found[:, place, head] = self.sequences * float(cka[head, its]) * of_sequence
        return found
