"""Tasks about several texts, each of which the model reads alone: what they have in common."""

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
from attnprobe.corpus.sources.document import Label, Uses
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.score import CLUSTER, Predictions, Values
from attnprobe.intervention.objectives.embedding import embed
from attnprobe.intervention.objectives.objective import Answer, Objective
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.preparation import Corpus
from attnprobe.sums.documents import in_second_half, name_documents

Floats = NDArray[np.float64]
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
        numbers: The document of each example, by its number, (example,).
    """

    head = None
    related = True
    nouns: ClassVar[tuple[str, str]]

    def __init__(self, checkpoint: Checkpoint, texts: Mapping[int, Uses]) -> None:
        """Bind it to the texts, by their places among the sequences."""
        super().__init__(checkpoint)
        self.numbers: NDArray[np.int64] = np.zeros(0, np.int64)
        self._slopes: Tensor | None = None
        self._rows: NDArray[np.int64] = np.zeros(0, np.int64)

    @classmethod
    def bind(cls, checkpoint: Checkpoint, corpus: Corpus, *, seed: int, generate: bool) -> Objective:
        return cls(checkpoint, select_uses(corpus.batches.labels))

    @abstractmethod
    def select(self, some: NDArray[np.bool_]) -> Self:
        """Keep some of the examples, (example,)."""

    @abstractmethod
    def list_texts(self) -> NDArray[np.int64]:
        """Name the sequences that are a part of an example."""

    def list_documents(self, batches: BatchReader) -> NDArray[np.int64]:
        return self.numbers

    def half(self, batches: BatchReader, *, second: bool) -> tuple[Objective, BatchReader]:
        """Keep one half of the examples, and the texts that are a part of them."""
        ours = self.select(in_second_half(self.numbers) == second)
        texts = ours.list_texts()
        plan = [members[np.isin(members, texts)] for members in batches.plan]
        return ours, batches.follow([members for members in plan if len(members)])

    def find_clusters(self) -> NDArray[np.int64]:
        """Name the document of each example, or give -1 where it is the document's only one."""
        together = np.bincount(self.numbers)[self.numbers] if len(self.numbers) else self.numbers
        return np.where(together > 1, name_documents(self.numbers.astype(np.uint64)), -1)

    @abstractmethod
    def score(self, states: Tensor, rows: NDArray[np.int64], needs: Sequence[str]) -> dict[str, Values]:
        """Score every example: one array over examples for each of the numbers that are needed.

        Args:
            states: The embeddings of texts (text, width).
            rows: For each sequence of the corpus its row among them, -1 for those without.
            needs: What to compute.
        """

    @abstractmethod
    def compute_loss(self, states: Tensor, rows: NDArray[np.int64]) -> Tensor:
        """Compute the mean loss of the examples, with gradients; the arguments are those of ``score``."""

    def list_roles(self, members: NDArray[np.int64]) -> list[str]:
        """Say of some sequences whether each is a query or what queries look for; nothing where none is."""
        return []

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Embed each text, and compute its loss where slopes are known."""
        state = embed(self.checkpoint, batch, self.list_roles(batch.members))
        if self._slopes is None:  # no loss yet; as a number it says whether the embedding is one
            return Answer(state.norm(dim=-1), {"state": state}, state=state)
        share = (self._slopes[self._rows[batch.members]].to(state) * state).sum(-1)
        return Answer(share, {"state": state}, state=state)

    def list_kept(self, needs: Sequence[str]) -> list[str]:
        return ["state"]

    def complete(
        self, answers: Mapping[str, Values], batches: BatchReader, needs: Sequence[str]
    ) -> Predictions:
        states = torch.from_numpy(answers["state"])
        with torch.inference_mode():
            found = self.score(states, self.find_rows(batches), needs)
        return {**found, CLUSTER: self.find_clusters()}

    def find_slopes(self, states: Values, batches: BatchReader) -> Self:
        """Take the derivative of the mean loss by each embedding, and bind the losses of texts to it.

        ``states`` are the embeddings of the texts of ``batches`` in their order, (text, width).
        """
        rows = self.find_rows(batches)
        with torch.inference_mode(mode=False), torch.enable_grad():
            leaf = torch.from_numpy(np.asarray(states, np.float64)).requires_grad_()
            (slopes,) = torch.autograd.grad(self.compute_loss(leaf, rows), leaf)
        found = copy(self)
        found._rows, found._slopes = rows, (slopes * len(states)).detach()
        return found

    def find_rows(self, batches: BatchReader) -> NDArray[np.int64]:
        """Find the row of each sequence among the embeddings of the texts of ``batches``, -1 for others."""
        members = batches.members
        rows = np.full(len(batches.lengths), -1)
        rows[members] = np.arange(len(members))
        return rows


class Tuples(RelatedTexts):
    """Examples of so many texts each: pairs, triplets.

    Attributes:
        members: The sequences of each example, (example, place).
        said: What is said of each, (example,).
    """

    width: ClassVar[int]

    def __init__(self, checkpoint: Checkpoint, texts: Mapping[int, Uses]) -> None:
        super().__init__(checkpoint, texts)
        uses = [(use, member) for member, text in texts.items() for use in text.uses]
        count = 1 + max((use.example for use, _ in uses), default=-1)
        members = np.full((count, self.width), -1)
        numbers, said = np.zeros(count, np.int64), np.zeros(count)
        for (example, number, place, score), member in uses:
            members[example, place], numbers[example], said[example] = member, number, score
        whole = (members >= 0).all(-1)
        self.numbers, self.members, self.said = numbers[whole], members[whole], said[whole]
        self.remarks = [*remark_left_out(self.nouns, int((~whole).sum()), "a text gives no token")]
        require_examples(self.nouns, len(self.numbers))

    def select(self, some: NDArray[np.bool_]) -> Self:
        found = copy(self)
        for name in ("numbers", "members", "said"):
            setattr(found, name, getattr(self, name)[some])
        return found

    def list_texts(self) -> NDArray[np.int64]:
        return np.unique(self.members)

    def gather(self, states: Tensor, rows: NDArray[np.int64]) -> list[Tensor]:
        """Give the embeddings, of length 1, of each place of all examples: (example, width) each."""
        unit = normalise(states)
        return [unit[torch.from_numpy(rows[column])] for column in self.members.T]


def select_uses(labels: Mapping[int, Label]) -> dict[int, Uses]:
    return {member: label for member, label in labels.items() if isinstance(label, Uses)}


def normalise(states: Tensor) -> Tensor:
    """Divide vectors (..., width) by their lengths, in float64; a vector of nothing stays one."""
    states = states.double()
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


def require_examples(nouns: tuple[str, str], number: int) -> None:
    if not number:
        raise AttnprobeError(f"There are no {nouns[1]} that could be scored; give others.")
