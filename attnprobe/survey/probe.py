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
from attnprobe.survey.word_maps import AskedCorpus, AskedWords

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Found = TypeVar("Found")

#: L-BFGS goes on until no component of the gradient per question is larger, the loss falls by no larger part
#: of it, or for so many steps.
TOLERANCE, CHANGE, STEPS = 1e-4, 1e-12, 500
#: Scores of candidates are added up in this type.
PRECISION: type[np.floating] = np.float32
#: The first block of the online code has one in so many of the links, and each further one doubles them.
FIRST_BLOCK = 128


@dataclass(frozen=True)
class Probe:
    """A fitted probe.

    Attributes:
        weights: (feature,) of attention divided by its spread, by heads from who is asked, then by heads to
            it.
        gates: (2, dimension, feature) what each dimension of the embedding of who is asked, and of a
            candidate, adds to these weights; without dimensions where words don't count.
    """

    weights: Floats
    gates: Floats

    @classmethod
    def read(cls, flat: Floats, features: int) -> "Probe":
        """Take the parameters apart that ``flat`` gives."""
        return cls(flat[:features], flat[features:].reshape(2, -1, features))

    @property
    def flat(self) -> Floats:
        """All parameters in a row."""
        return np.concatenate([self.weights, self.gates.ravel()])

    def weigh_words(self, batch: AskedWords, scale: Floats) -> tuple[NDArray[np.floating], ...]:
        """Give the weights of attention, see ``answer``: of those who are asked, and of candidates."""
        weights = (self.weights * scale)[None].astype(PRECISION)
        if not self.gates.size:
            return (weights,)
        first, second = ((batch.embeddings @ (one * scale)).astype(PRECISION) for one in self.gates)
        return weights + first, second


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
    def uniform(self) -> Floats:
        """The bits that the uniform code takes for the answer of each question: log2 candidates / right."""
        numbers = [np.diff(batch.asked.starts) for batch in self.corpus.batches]
        right = [
            np.add.reduceat(batch.asked.right.astype(np.int64), batch.asked.starts[:-1])
            for batch in self.corpus.batches
            if len(batch)
        ]
        return np.log2(np.concatenate(numbers) / np.concatenate([np.zeros(0), *right]))

    @cached_property
    def features(self) -> int:
        return self.corpus.batches[0].asked.features

    @cached_property
    def dimensions(self) -> int:
        """Dimensions of the embeddings of words; 0 where words don't count."""
        return self.corpus.batches[0].embeddings.shape[1]

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

    def fit(self, some: Bools, start: Probe | None = None) -> Probe:
        """Fit a probe to some of the questions (question,).

        Minimises, over all parameters w,

            - sum over questions of mean ln p(right answer) + lambda / 2 |w|^2

        which is convex. With one right answer, the mean is ln p of that one. Attention is divided by its
        spread. At w = 0, a question says as much of a weight as lambda = 1 does, so that the penalty counts
        as much as lambda questions.
        """
        from scipy.optimize import minimize  # takes a while to import

        chosen, number = self.select(some), max(1, int(some.sum()))

        def compute_loss(flat: Floats) -> tuple[float, Floats]:
            probe, value = Probe.read(flat, self.features), 0.0
            weights, gates = np.zeros_like(probe.weights), np.zeros_like(probe.gates)
            for batch, which in zip(self.corpus.batches, chosen, strict=True):
                if not len(which):
                    continue
                found = answer(batch.asked, *probe.weigh_words(batch, self.scale), which=which, derive=True)
                value -= found.objective
                weights -= found.asking.sum(0)
                if gates.size:
                    gates[0] -= batch.embeddings.T @ found.asking
                    gates[1] -= batch.embeddings.T @ found.answering
            derived = Probe(weights * self.scale, gates * self.scale).flat + self.penalty * flat
            return (value + self.penalty / 2 * float(flat @ flat)) / number, derived / number

        size = self.features * (1 + 2 * self.dimensions)
        begin = np.zeros(size) if start is None else start.flat
        options = {"maxiter": STEPS, "gtol": TOLERANCE, "ftol": CHANGE, "maxcor": 20}
        found = minimize(compute_loss, begin, jac=True, method="L-BFGS-B", options=options)
        return Probe.read(found.x, self.features)

    def answer(self, probe: Probe, some: Bools) -> tuple[Bools, Floats]:
        """Answer some questions: which rightly, and the bits that the right answers take, -log2 p."""
        found = [
            answer(batch.asked, *probe.weigh_words(batch, self.scale), which=which)
            for batch, which in zip(self.corpus.batches, self.select(some), strict=True)
        ]
        hit, likelihood = ([getattr(one, name) for one in found] for name in ("hit", "likelihood"))
        return np.concatenate(hit), -np.concatenate(likelihood) / np.log(2)

    def cross_fit(self, folds: int) -> tuple[Bools, Ints]:
        """Fit to all folds of documents but one, and answer that one; each fold in turn.

        Returns:
            Which questions are answered rightly, and the fold of each.
        """
        fold = self.document % folds
        hit = np.zeros(len(self), np.bool_)

        def answer_fold(one: int) -> Bools:
            return self.answer(self.fit(fold != one), fold == one)[0]

        for one, found in enumerate(_in_parallel(answer_fold, range(folds))):
            hit[fold == one] = found
        return hit, fold

    def cut_blocks(self) -> list[Bools]:
        """Cut the documents into blocks: a 128th of the links, as many again, twice as many, and so on.

        A block ends with a document; blocks without a document are left out.
        """
        links = np.cumsum(np.bincount(self.document, minlength=self.documents))
        parts = FIRST_BLOCK / 2.0 ** np.arange(int(np.log2(FIRST_BLOCK)) + 1)
        ends = np.unique(np.searchsorted(links, len(self) / parts * (1 - 1e-9)) + 1)
        starts = np.concatenate([[0], ends[:-1]])
        return [
            (self.document >= start) & (self.document < end) for start, end in zip(starts, ends, strict=True)
        ]

    def encode(self) -> Floats:
        """Give the bits of each question's answer in the online code, (question,).

        The answers of the first block are sent by the uniform code, those of each further block by a probe
        that is fitted to all blocks before it.

        References:
            Voita and Titov (2020), Information-theoretic probing with minimum description length.
        """
        blocks, bits = self.cut_blocks(), self.uniform.copy()

        def encode_block(number: int) -> Floats:
            before = np.logical_or.reduce(blocks[:number])
            return self.answer(self.fit(before), blocks[number])[1]

        # The last first, which takes longest.
        numbers = range(len(blocks) - 1, 0, -1)
        for number, found in zip(numbers, _in_parallel(encode_block, numbers), strict=True):
            bits[blocks[number]] = found
        return bits


def _in_parallel(work: Callable[[int], Found], items: Sequence[int]) -> list[Found]:
    """Do independent work on as many threads as torch has; what it gives does not depend on their number."""
    with ThreadPoolExecutor(max(1, min(len(items), torch.get_num_threads()))) as pool:
        return list(pool.map(work, items))
