"""What heads of two models give to the same tokens: sums that give linear CKA of every pair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Layout
from attnprobe.errors import AttnprobeError
from attnprobe.findings.partners import Places, SharedHeads
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.observations import UnobservableError, check_observations
from attnprobe.sums.base import Sum
from attnprobe.sums.cross_moments import CrossMoments
from attnprobe.survey.pairing import Unit
from attnprobe.survey.recorder import Values

#: Outputs of a batch, (batch, query, head of any layer, width), kind by kind.
Outputs = Mapping[Kind, tuple[Tensor, Layout]]


def name_outputs(kind: Kind) -> str:
    """Name the sums over outputs of all heads of a kind."""
    return f"outputs, {kind}"


def pair_tokens(
    shared: SharedHeads,
    kind: Kind,
    ours: Outputs,
    theirs: Outputs,
    units: Sequence[Sequence[Unit]] | None,
) -> tuple[Tensor, Tensor]:
    """Put what both models give to the same tokens side by side: tokens that ask, or words that both see.

    A word has the mean of what its tokens are given. Removed heads give 0.

    Returns:
        (token, head, width) of either model, heads numbered through all layers of the kind.
    """
    (given, layout), (other, _) = ours[kind], theirs[kind]
    other = other.to(given.device)
    if units is None:
        asking = layout.queries.asking.to(given.device)
        sides = given[asking], other[asking]
    else:
        words = [(row, *pair) for row, pairs in enumerate(units) for pair in pairs]
        spans = [[(row, pair[side]) for row, *pair in words] for side in (0, 1)]
        sides = tuple(
            torch.stack([whole[row, span.start : span.stop].mean(0) for row, span in some])
            if some
            else whole.new_zeros(0, *whole.shape[2:])
            for whole, some in zip((given, other), spans, strict=True)
        )
    first, second = (
        _place_heads(side, *where, size)
        for side, where, size in zip(sides, shared.find_kept(kind), shared.size(kind), strict=True)
    )
    return first, second


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
            first, second = pair_tokens(self.shared, kind, ours, theirs, units)
            found[name_outputs(kind)] = CrossMoments.of_tokens(first, second)
        return found


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
