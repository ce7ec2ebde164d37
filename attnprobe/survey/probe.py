"""What all heads know together: a softmax over candidate words, of weighted attention both ways.

Beside it, what single heads and rules find of the same questions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.statistics.rules import ALL, LinkTask
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


@dataclass(frozen=True)
class Choice:
    """What was chosen of several for a label.

    Attributes:
        named: The head that most folds chose, or the best rule; None where nothing is ever right.
        hit: (entry,) whether it finds a right answer; of a head, that of the entry's fold.
        share: The share of folds that chose it.
    """

    named: int | None
    hit: NDArray[Any]
    share: float = 1.0


@dataclass(frozen=True)
class Scored:
    """What a cross-fitted probe, heads and rules find.

    Attributes:
        data: The questions.
        hit: (question,) whether the probe of its fold answers it rightly.
        fold: (question,) the fold of its document.
    """

    data: ProbeData
    hit: Bools
    fold: Ints

    @cached_property
    def entries(self) -> dict[str, Ints]:
        """The questions of each label: of all, then of labels by the number of their links."""
        batches = self.data.corpus.batches
        begins = self.data.ends - [len(batch) for batch in batches]
        question = np.concatenate([batch.entry + begin for batch, begin in zip(batches, begins, strict=True)])
        label = np.concatenate([batch.label for batch in batches])
        entries = {str(name): question[label == name] for name in np.unique(label)}
        order = sorted(entries, key=lambda name: (name != ALL, -len(entries[name]), name))
        return {name: entries[name] for name in order}

    def choose_heads(self, labels: Sequence[str]) -> list[Choice]:
        """Choose for each label and fold the head that finds most links in the other folds."""
        every = np.concatenate([batch.heads for batch in self.data.corpus.batches])
        choices = []
        for label in labels:
            questions = self.entries[label]
            hits, fold = every[questions], self.fold[questions]
            counts = np.zeros((int(self.fold.max()) + 1, self.data.features), np.int64)
            np.add.at(counts, fold, hits)
            total = counts.sum(0)
            best = (total - counts).argmax(1)
            times = np.bincount(best, minlength=len(total))
            named = max(range(len(total)), key=lambda head: (times[head], total[head]))
            hit, share = hits[np.arange(len(hits)), best[fold]], float(times[named] / len(best))
            choices.append(Choice(named if total[named] else None, hit, share))
        return choices

    def choose_rules(self, labels: Sequence[str], task: LinkTask) -> list[Choice]:
        """Choose for each label the rule that finds most links of all; chance where that finds more."""
        batches = self.data.corpus.batches
        every = np.concatenate([np.column_stack([batch.rules, batch.chance]) for batch in batches])
        choices = []
        for label in labels:
            hits = every[self.entries[label]]
            best = task.best_rule(hits.sum(0))
            choices.append(Choice(best if hits[:, best].any() else None, hits[:, best]))
        return choices

    def sum_documents(self, questions: Ints, *numbers: NDArray[Any]) -> Floats:
        """Add up numbers (entry,) by document: (document, number), first how many questions it has."""
        document = self.data.document[questions]
        values = np.stack([np.ones(len(questions)), *(one.astype(np.float64) for one in numbers)], 1)
        total = np.zeros((self.data.documents, values.shape[1]))
        np.add.at(total, document, values)
        return total[total[:, 0] > 0]
