"""Similarity: whether texts that people call alike have embeddings that point the same way."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.sources.document import Uses
from attnprobe.intervention.metrics.score import Score, Values
from attnprobe.intervention.metrics.scores import pearson, require_spread, spearman
from attnprobe.intervention.objectives.related import DECIMALS, Tuples
from attnprobe.model.checkpoint import Checkpoint


class Similarity(Tuples):
    """How alike two texts are: the cosine of their embeddings, beside the score that people gave.

    The loss of a pair is (cosine - score) ** 2, as sentence-transformers' CosineSimilarityLoss has it. It
    needs scores between -1 and 1: others are moved and scaled, so that the lowest of the data is 0 and the
    highest 1.

    Attributes:
        targets: What the cosine of each pair is to be, (example,).

    References:
        Cer et al. (2017), SemEval-2017 task 1: semantic textual similarity; Reimers and Gurevych (2019),
        Sentence-BERT.
    """

    name = "similarity"
    about = "Similarity: the squared error of the cosine of two texts' embeddings, for a score people gave."
    nouns = "pair", "pairs"
    width = 2

    def __init__(self, checkpoint: Checkpoint, texts: Mapping[int, Uses]) -> None:
        super().__init__(checkpoint, texts)
        low, high = self.said.min(), self.said.max()
        self.targets: NDArray[np.float64] = self.said
        if low < -1 or high > 1:
            self.targets = (self.said - low) / (high - low or 1)
            self.remarks = [
                *self.remarks,
                f"Scores go from {low:g} to {high:g}; for the loss they are scaled to 0 to 1.",
            ]

    def build_metric(self, name: str, examples: NDArray[np.int64]) -> Score:
        if name == "mse":
            return super().build_metric(name, examples)
        require_spread(name, self.said)
        return pearson() if name == "pearson" else spearman(DECIMALS)

    def select(self, some: NDArray[np.bool_]) -> "Similarity":
        found = super().select(some)
        found.targets = self.targets[some]
        return found

    def score(self, states: Tensor, rows: NDArray[np.int64], needs: Sequence[str]) -> dict[str, Values]:
        cosine = self._cosines(states, rows).numpy()
        return {"label": self.said, "prediction": cosine, "mse": np.square(cosine - self.targets)}

    def compute_loss(self, states: Tensor, rows: NDArray[np.int64]) -> Tensor:
        return (self._cosines(states, rows) - torch.from_numpy(self.targets)).square().mean()

    def _cosines(self, states: Tensor, rows: NDArray[np.int64]) -> Tensor:
        one, other = self.gather(states, rows)
        return (one * other).sum(-1)
