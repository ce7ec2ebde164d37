"""What all heads know together: a softmax over candidate words, of weighted attention both ways."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.survey.word_maps import AskedCorpus, Bools, Ints

Floats = NDArray[np.float64]

#: L-BFGS goes on until no component of the gradient per question is larger, the loss falls by no larger part
#: of it, or for so many steps.
TOLERANCE, CHANGE, STEPS = 1e-4, 1e-12, 500
#: Scores of candidates are added up in this type.
PRECISION = torch.float32


@dataclass(frozen=True)
class ProbeData:
    """Questions of a corpus, and how probes are fitted to them.

    Attributes:
        corpus: The questions, batch by batch.
        penalty: lambda of the penalty, see ``fit``.
    """

    corpus: AskedCorpus
    penalty: float

    @cached_property
    def ends(self) -> Ints:
        """Where the questions of each batch end, among all."""
        return np.cumsum([len(batch) for batch in self.corpus.batches])

    def __len__(self) -> int:
        return int(self.ends[-1])

    @cached_property
    def document(self) -> Ints:
        """The document of each question, numbered in the order of their names, which is as good as random."""
        names = np.concatenate([batch.document for batch in self.corpus.batches])
        return np.unique(names, return_inverse=True)[1]

    @property
    def documents(self) -> int:
        return int(self.document.max(initial=-1)) + 1

    @cached_property
    def features(self) -> int:
        """How many numbers each pair of words has: attention of each head, one way and the other."""
        return 2 * self.corpus.batches[0].maps.shape[1]

    @cached_property
    def spread(self) -> Floats:
        """The standard deviation of each feature over the candidates of a question (root mean square)."""
        total = torch.zeros(self.features, dtype=torch.float64)
        for attention, present, _ in self._read(self.select(self.every), torch.float64):
            number = present.sum(1)[:, None]
            total += (attention.square().sum(1) / number - (attention.sum(1) / number).square()).sum(0)
        return np.sqrt(total.clamp_min(0).numpy() / len(self))

    @cached_property
    def scale(self) -> Floats:
        """One over the spread; 0 for what never varies."""
        return np.divide(1.0, self.spread, out=np.zeros_like(self.spread), where=self.spread > 0)

    @property
    def every(self) -> Bools:
        return np.ones(len(self), np.bool_)

    def select(self, some: Bools) -> list[Ints]:
        """Number the chosen questions (question,) within each batch."""
        return [np.flatnonzero(part) for part in np.split(some, self.ends[:-1])]

    def fit(self, questions: Bools) -> Floats:
        """Fit a probe to some of the questions (question,), and give its weights.

        They are (feature,) of attention divided by its spread, by heads from who is asked, then by heads to
        it. Minimises, over all weights w,

            - sum over questions of mean ln p(right answer) + lambda / 2 |w|^2

        which is convex, with candidate j for asker i scored by

            s_ij = sum_h (u_h a_h[i, j] + v_h a_h[j, i]),    p(j | i) = exp s_ij / sum over candidates

        With one right answer, the mean is ln p of that one. At w = 0, a question says as much of a weight as
        lambda = 1 does, so that the penalty counts as much as lambda questions.
        """
        from scipy.optimize import minimize  # takes a while to import

        chosen, number = self.select(questions), max(1, int(questions.sum()))

        def compute_loss(weights: Floats) -> tuple[float, Floats]:
            value, derivative = 0.0, torch.zeros(self.features, dtype=torch.float64)
            for attention, log_p, right in self._score(weights, chosen):
                share = right / right.sum(1, keepdim=True)
                value -= float((share * log_p.where(right, 0)).sum())
                pull = (log_p.exp() - share).to(attention.dtype)
                derivative += attention.flatten(0, 1).T @ pull.flatten()
            gradient = derivative.numpy() * self.scale + self.penalty * weights
            return (value + self.penalty / 2 * float(weights @ weights)) / number, gradient / number

        options = {"maxiter": STEPS, "gtol": TOLERANCE, "ftol": CHANGE, "maxcor": 20}
        start = np.zeros(self.features)
        return minimize(compute_loss, start, jac=True, method="L-BFGS-B", options=options).x

    def answer(self, weights: Floats, some: Bools) -> Bools:
        """Answer some questions by the candidate with the highest score: which rightly."""
        parts = [
            right.gather(1, log_p.argmax(1, keepdim=True))[:, 0]
            for _, log_p, right in self._score(weights, self.select(some))
        ]
        return torch.cat(parts).numpy() if parts else np.zeros(0, np.bool_)

    def _score(self, weights: Floats, chosen: Sequence[Ints]) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Give attention, ln p of each candidate, (question, candidate), and which are right."""
        scaled = torch.from_numpy(weights * self.scale).to(PRECISION)
        for attention, present, right in self._read(chosen, PRECISION):
            scores = (attention @ scaled).double().masked_fill(~present, -torch.inf)
            yield attention, scores.log_softmax(1), right

    def _read(
        self, chosen: Sequence[Ints], precision: torch.dtype
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for batch, which in zip(self.corpus.batches, chosen, strict=True):
            yield from batch.read(which, precision)

    def cross_fit(self, folds: int) -> tuple[Bools, Ints]:
        """Fit to all folds of documents but one, and answer that one; each fold in turn.

        Returns:
            Which questions are answered rightly, and the fold of each.
        """
        fold = self.document % folds
        hit = np.zeros(len(self), np.bool_)
        for one in range(folds):
            hit[fold == one] = self.answer(self.fit(fold != one), fold == one)
        return hit, fold
