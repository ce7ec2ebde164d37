"""What all heads know together: a softmax over candidate words, of weighted attention both ways."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.kernels.probing import Ints, add_variances, answer
from attnprobe.survey.word_maps import AskedCorpus

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Found = TypeVar("Found")

#: L-BFGS goes on until no component of the gradient per question is larger, the loss falls by no larger part
#: of it, or for so many steps.
TOLERANCE, CHANGE, STEPS = 1e-4, 1e-12, 500
#: Scores of candidates are added up in this type.
PRECISION: type[np.floating] = np.float32


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
        return self.corpus.batches[0].asked.features

    @cached_property
    def spread(self) -> Floats:
        """The standard deviation of each feature over the candidates of a question (root mean square)."""
        total = sum((add_variances(batch.asked) for batch in self.corpus.batches), np.zeros(1))
        return np.sqrt(total / len(self))

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

    def fit(self, some: Bools, start: Floats | None = None) -> Floats:
        """Fit a probe to some of the questions (question,), and give its weights.

        They are (feature,) of attention divided by its spread, by heads from who is asked, then by heads to
        it. Minimises, over all weights w,

            - sum over questions of mean ln p(right answer) + lambda / 2 |w|^2

        which is convex. With one right answer, the mean is ln p of that one. At w = 0, a question says as
        much of a weight as lambda = 1 does, so that the penalty counts as much as lambda questions.
        """
        from scipy.optimize import minimize  # takes a while to import

        chosen, number = self.select(some), max(1, int(some.sum()))

        def compute_loss(weights: Floats) -> tuple[float, Floats]:
            value, derived = 0.0, np.zeros_like(weights)
            for batch, which in zip(self.corpus.batches, chosen, strict=True):
                if len(which):
                    found = answer(batch.asked, self._scaled(weights), which, derive=True)
                    value -= found.objective
                    derived -= found.derivative
            derived = derived * self.scale + self.penalty * weights
            return (value + self.penalty / 2 * float(weights @ weights)) / number, derived / number

        begin = np.zeros(self.features) if start is None else start
        options = {"maxiter": STEPS, "gtol": TOLERANCE, "ftol": CHANGE, "maxcor": 20}
        return minimize(compute_loss, begin, jac=True, method="L-BFGS-B", options=options).x

    def _scaled(self, weights: Floats) -> NDArray[np.floating]:
        return (weights * self.scale).astype(PRECISION)

    def answer(self, weights: Floats, some: Bools) -> Bools:
        """Answer some questions: which rightly."""
        found = [
            answer(batch.asked, self._scaled(weights), which).hit
            for batch, which in zip(self.corpus.batches, self.select(some), strict=True)
        ]
        return np.concatenate(found)

    def cross_fit(self, folds: int) -> tuple[Bools, Ints]:
        """Fit to all folds of documents but one, and answer that one; each fold in turn.

        Returns:
            Which questions are answered rightly, and the fold of each.
        """
        fold = self.document % folds
        hit = np.zeros(len(self), np.bool_)

        def answer_fold(one: int) -> Bools:
            return self.answer(self.fit(fold != one), fold == one)

        for one, found in enumerate(_in_parallel(answer_fold, range(folds))):
            hit[fold == one] = found
        return hit, fold


def _in_parallel(work: Callable[[int], Found], items: Sequence[int]) -> list[Found]:
    """Do independent work on as many threads as torch has; what it gives does not depend on their number."""
    with ThreadPoolExecutor(max(1, min(len(items), torch.get_num_threads()))) as pool:
        return list(pool.map(work, items))
