"""Tasks about several texts, each of which the model reads alone: pairs, triplets, and what they share."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.corpus.batches import BatchReader
from attnprobe.corpus.sources.document import Uses
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.score import CLUSTER, Predictions, Score, Values, mean_score
from attnprobe.intervention.metrics.scores import correlation
from attnprobe.intervention.objectives.objective import Answer, Objective
from attnprobe.intervention.objectives.representation import embed
from attnprobe.run.preparation import Corpus
from attnprobe.sums.documents import in_second_half, name_documents

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: The length of a vector that counts as none.
_NOTHING = 1e-12
#: Decimals of a cosine that are more than rounding: identical texts have the same rank.
DECIMALS = 6


class RelatedTexts(Objective):
    """An objective whose examples are relations among texts, scored by the embedding of each.

    Each text is embedded once, whatever number of examples it is a part of. What is kept of a text is its
    embedding; the examples are scored when all texts have one.

    A derivative is taken text by text. With h_t the embedding of text t of T, and L the mean loss of the
    examples, the loss of the text is

        L_t = T dL/dh_t . h_t

    where dL/dh_t, at the embeddings with the same heads on, is held fixed. The derivative of L_t by a gate is
    what the head does, in this text, to L; the mean over texts of these derivatives is that of L by a gate
    that all texts share.

    Attributes:
        nouns: What an example is called, and several.
        by_example: The names of the arrays over examples, which a half has a part of.
        numbers: The document of each example, by its number, (example,).
    """

    head = None
    related = True
    nouns: ClassVar[tuple[str, str]]
    by_example: ClassVar[tuple[str, ...]]

    def read_labels(self, corpus: Corpus) -> None:
        self.numbers: Ints = np.zeros(0, np.int64)
        self._slopes: Tensor | None = None
        labels = corpus.batches.labels
        self.read_uses({member: label for member, label in labels.items() if isinstance(label, Uses)})
        if not len(self.numbers):
            raise AttnprobeError(f"There are no {self.nouns[1]} that could be scored; give others.")

    @abstractmethod
    def read_uses(self, texts: Mapping[int, Uses]) -> None:
        """Read the examples off the texts, by their places among the sequences."""

    @abstractmethod
    def list_texts(self) -> Ints:
        """Name the sequences that are a part of an example."""

    @abstractmethod
    def compute_losses(self, states: Tensor) -> Tensor:
        """Compute the loss of each example, (example,), from the embedding of each sequence.

        ``states`` are (sequence, width); those of sequences that are not asked for are 0.
        """

    @abstractmethod
    def score(self, states: Tensor, needs: Sequence[str]) -> dict[str, Values]:
        """Score every example from embeddings: one array over examples for each number that is needed."""

    def list_roles(self, members: Ints) -> list[str]:
        """Say of some sequences whether each is a query or what queries look for; nothing where none is."""
        return []

    def select(self, kept: NDArray[np.bool_]) -> Self:
        """Keep some of the examples, (example,)."""
        part = copy(self)
        for name in self.by_example:
            setattr(part, name, getattr(self, name)[kept])
        return part

    def half(self, batches: BatchReader, *, second: bool) -> tuple[Objective, BatchReader]:
        """Keep one half of the examples, and the texts that are a part of them."""
        ours = self.select(in_second_half(self.numbers) == second)
        texts = ours.list_texts()
        plan = [members[np.isin(members, texts)] for members in batches.plan]
        return ours, batches.follow([members for members in plan if len(members)])

    def list_documents(self, batches: BatchReader) -> Ints:
        return self.numbers

    def find_clusters(self) -> Ints:
        """Name the document of each example, or give -1 where it is the document's only one."""
        if not len(self.numbers):
            return self.numbers
        together = np.bincount(self.numbers)[self.numbers]
        return np.where(together > 1, name_documents(self.numbers.astype(np.uint64)), -1)

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Embed each text, and compute its loss where slopes are known."""
        state = embed(self.checkpoint, batch, self.list_roles(batch.members))
        if self._slopes is None:  # no loss yet; as a number it says whether the embedding is one
            return Answer(state.norm(dim=-1), {"state": state}, state=state)
        share = (self._slopes[batch.members].to(state) * state).sum(-1)
        return Answer(share, {"state": state}, state=state)

    def list_kept(self, needs: Sequence[str]) -> list[str]:
        return ["state"]

    def complete(
        self, answers: Mapping[str, Values], batches: BatchReader, needs: Sequence[str]
    ) -> Predictions:
        with torch.inference_mode():
            scores = self.score(_place_states(answers["state"], batches), needs)
        return {**scores, CLUSTER: self.find_clusters()}

    def find_slopes(self, states: Values, batches: BatchReader) -> Self:
        """Take the derivative of the mean loss by each embedding, and bind the losses of texts to it.

        ``states`` are the embeddings of the texts of ``batches`` in their order, (text, width).
        """
        with torch.inference_mode(mode=False), torch.enable_grad():
            leaf = _place_states(states, batches).requires_grad_()
            (slopes,) = torch.autograd.grad(self.compute_losses(leaf).mean(), leaf)
        bound = copy(self)
        bound._slopes = (slopes * len(states)).detach()
        return bound


def _place_states(states: Values, batches: BatchReader) -> Tensor:
    """Place embeddings (text, width) at their sequences (sequence, width), in float64."""
    placed = torch.zeros(len(batches.lengths), states.shape[1], dtype=torch.float64)
    placed[torch.from_numpy(batches.members)] = torch.from_numpy(np.asarray(states, np.float64))
    return placed


def normalise(states: Tensor) -> Tensor:
    """Divide vectors (..., width) by their lengths; a vector of nothing stays one."""
    return states / states.norm(dim=-1, keepdim=True).clamp_min(_NOTHING)


def round_cosines(cosines: Tensor) -> Tensor:
    """Round cosines before they are ranked, so that those of identical texts are equal.

    Embeddings of identical texts that are read in batches of other sizes differ in their last bits.
    """
    return cosines.round(decimals=DECIMALS)


def remark_left_out(nouns: tuple[str, str], number: int, reason: str) -> list[str]:
    if not number:
        return []
    return [f"{number:,} {f'{nouns[0]} is' if number == 1 else f'{nouns[1]} are'} left out: {reason}."]


class Tuples(RelatedTexts):
    """Examples of so many texts each: pairs, triplets.

    Attributes:
        members: The sequences of each example, (example, place).
        given: The number that is given with each, (example,).
    """

    width: ClassVar[int]
    by_example = ("numbers", "members", "given")

    def read_uses(self, texts: Mapping[int, Uses]) -> None:
        uses = [(use, member) for member, text in texts.items() for use in text.uses]
        count = 1 + max((use.example for use, _ in uses), default=-1)
        members = np.full((count, self.width), -1)
        numbers, given = np.zeros(count, np.int64), np.zeros(count)
        for (example, number, place, score), member in uses:
            members[example, place], numbers[example], given[example] = member, number, score
        whole = (members >= 0).all(-1)
        self.numbers, self.members, self.given = numbers[whole], members[whole], given[whole]
        self.remarks = remark_left_out(self.nouns, int((~whole).sum()), "a text gives no token")

    def list_texts(self) -> Ints:
        return np.unique(self.members)

    def gather(self, states: Tensor) -> list[Tensor]:
        """Give the embeddings, of length 1, of each place of all examples: (example, width) each."""
        return [normalise(states[torch.from_numpy(column)]) for column in self.members.T]


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
    by_example = (*Tuples.by_example, "targets")

    def read_uses(self, texts: Mapping[int, Uses]) -> None:
        super().read_uses(texts)
        self.targets: Floats = self.given
        low, high = self.given.min(initial=np.inf), self.given.max(initial=-np.inf)
        if len(self.given) and (low < -1 or high > 1):
            self.targets = (self.given - low) / (high - low or 1)
            self.remarks = [
                *self.remarks,
                f"Scores go from {low:g} to {high:g}; for the loss they are scaled to 0 to 1.",
            ]

    def build_metric(self, name: str, examples: Ints) -> Score:
        if name == "mse":
            return super().build_metric(name, examples)
        return correlation(name, self.given, DECIMALS)

    def compute_losses(self, states: Tensor) -> Tensor:
        return (self._find_cosines(states) - torch.from_numpy(self.targets)).square()

    def score(self, states: Tensor, needs: Sequence[str]) -> dict[str, Values]:
        cosines, losses = self._find_cosines(states), self.compute_losses(states)
        return {"label": self.given, "prediction": cosines.numpy(), "mse": losses.numpy()}

    def _find_cosines(self, states: Tensor) -> Tensor:
        one, other = self.gather(states)
        return (one * other).sum(-1)


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

    def build_metric(self, name: str, examples: Ints) -> Score:
        if name == "loss":
            return mean_score(name, "cosine", higher_is_better=False)
        return super().build_metric(name, examples)

    def compute_losses(self, states: Tensor) -> Tensor:
        return (MARGIN - self._find_lead(states)).clamp_min(0)

    def score(self, states: Tensor, needs: Sequence[str]) -> dict[str, Values]:
        right = round_cosines(self._find_lead(states)) > 0
        return {"accuracy": right.double().numpy(), "loss": self.compute_losses(states).numpy()}

    def _find_lead(self, states: Tensor) -> Tensor:
        """Compute how far the cosine with the positive is ahead of that with the negative, (example,)."""
        anchor, positive, negative = self.gather(states)
        return (anchor * (positive - negative)).sum(-1)
