"""The forms in which attention modules hold probabilities."""

from dataclasses import dataclass
from math import prod

from torch import Tensor, nn

from attnprobe.model.loading.support import UnsupportedModelError
from attnprobe.model.reading.bands import window_of
from attnprobe.model.reading.running import Running


@dataclass(frozen=True)
class Form:
    """How a tensor of probabilities is to be read.

    Attributes:
        batch: Sequences in it.
        joined: (batch * head, query, key), as in the older translation models; not a tensor of four axes.
        band: (batch, query, head, window), as in Longformer: the keys within a window around the query.
    """

    batch: int
    joined: bool = False
    band: bool = False

    def by_head(self, given: Tensor) -> Tensor:
        """Turn what a module holds into (batch, head, query, key or window)."""
        if self.band:
            return given.transpose(1, 2)
        return given.unflatten(0, (self.batch, -1)) if self.joined else given

    def as_given(self, probabilities: Tensor) -> Tensor:
        """Turn it back."""
        if self.band:
            return probabilities.transpose(1, 2)
        return probabilities.flatten(0, 1) if self.joined else probabilities


def form_of(module: nn.Module, scores: Tensor, running: Running) -> Form | None:
    """Tell the form of scores over the last axis, or None if they are not of tokens for tokens.

    Args:
        module: Whose scores they are.
        scores: What it takes the softmax of.
        running: What the model was given.

    Raises:
        UnsupportedModelError: When tokens with global attention come along.
    """
    batch = running.batch
    if batch is None or scores.ndim not in {3, 4} or not prod(scores.shape):
        return None
    window = window_of(module)
    if window is not None and scores.ndim == 4:
        if scores.shape[3] != 2 * window + 1:
            reason = "tokens with global attention are not read, only its sliding window is"
            raise UnsupportedModelError(type(module).__name__, reason)
        return Form(batch, band=True)
    queries, keys = scores.shape[-2:]
    if queries != keys and (queries, keys) != (running.targets, running.length):
        return None
    if scores.shape[0] % batch:
        return None
    if scores.ndim == 3:
        return Form(batch, joined=True)
    return Form(batch) if scores.shape[0] == batch else None
