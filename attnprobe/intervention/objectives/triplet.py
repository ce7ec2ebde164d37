"""Triplets: whether a text is nearer to one that is alike than to one that is not."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.intervention.metrics.score import Score, Values, mean_score
from attnprobe.intervention.objectives.related import Tuples, round_cosines

#: How much nearer the positive is to be, in cosine, so that nothing is lost.
MARGIN = 0.5


class Triplets(Tuples):
    """Which of two texts is the nearer one: an anchor, a positive, which is alike, and a negative.

    With c the cosine of embeddings, the loss of a triplet is max(0, c(anchor, negative) - c(anchor, positive)
    + 0.5), in cosine. A triplet is right if c(anchor, positive) > c(anchor, negative).

    References:
        Schroff, Kalenichenko and Philbin (2015), FaceNet, section 3.1; Reimers and Gurevych (2019),
        Sentence-BERT, section 3.
    """

    name = "triplet"
    about = "Triplets: by how much, within a margin of 0.5, an anchor's cosine with a negative is too large."
    nouns = "triplet", "triplets"
    width = 3

    def build_metric(self, name: str, examples: NDArray[np.int64]) -> Score:
        if name == "loss":
            return mean_score(name, "cosine", higher_is_better=False)
        return super().build_metric(name, examples)

    def score(self, states: Tensor, rows: NDArray[np.int64], needs: Sequence[str]) -> dict[str, Values]:
        ahead = self._find_lead(states, rows)
        right, lost = round_cosines(ahead) > 0, (MARGIN - ahead).clamp_min(0)
        return {"accuracy": right.double().numpy(), "loss": lost.numpy()}

    def compute_loss(self, states: Tensor, rows: NDArray[np.int64]) -> Tensor:
        return (MARGIN - self._find_lead(states, rows)).clamp_min(0).mean()

    def _find_lead(self, states: Tensor, rows: NDArray[np.int64]) -> Tensor:
        """Compute how far the cosine with the positive is ahead of that with the negative, (example,)."""
        anchor, positive, negative = self.gather(states, rows)
        return (anchor * (positive - negative)).sum(-1)
