"""What patching measures: one number m that a model gives a text, clean or corrupted."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.errors import DataError
from attnprobe.intervention.objectives.classification import Classes
from attnprobe.intervention.objectives.language_modelling import read_tokens
from attnprobe.intervention.objectives.objective import Answer, Objective, upcast
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.contrasts import Readout, Reads


class ContrastMeasure(Objective):
    """A number m that a model gives a text, bound to pairs of texts.

    Attributes:
        reads: Which output of the model m is read off.
        about: What m is for a pair with one answer, and ``about_both`` what it is for one with two.
        exclusive: Whether an answer rules out all others, so that one answer is compared with all others.
    """

    reads: ClassVar[Reads]
    about: ClassVar[str]
    about_both: ClassVar[str] = "the logit of the answer less that of the other"
    exclusive: ClassVar[bool] = True
    unit: ClassVar[str] = "nats"

    def __init__(
        self, checkpoint: Checkpoint, readouts: Sequence[Readout], targets: Sequence[list[int]]
    ) -> None:
        self.checkpoint, self.targets = checkpoint, targets
        self.places = np.array([readout.places for readout in readouts], np.int64)
        pairs = [[self.number(each) for each in (readout.answer, readout.other)] for readout in readouts]
        self.answers, self.others = np.array(pairs, np.int64).T
        self.have_both = self.others >= 0
        if (self.have_both & (self.answers == self.others)).any():
            raise DataError("Both answers are the same in a pair; give two that differ, or one.")

    def number(self, answer: str | int | None) -> int:
        """Find the number of an answer, -1 for none."""
        return -1 if answer is None else int(answer)

    @property
    def described(self) -> str:
        """What m is, in words."""
        if self.have_both.all():
            return self.about_both
        if not self.have_both.any():
            return self.about
        return f"{self.about_both}, or, where there is one answer, {self.about}"

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Answer with m of the clean texts in the place of a loss."""
        return Answer(self.compute_m(batch, corrupted=False))

    @abstractmethod
    def compute_m(self, batch: Batch, *, corrupted: bool) -> Tensor:
        """Compute m of the clean or the corrupted texts of a batch, (batch,)."""

    def compare(self, logits: Tensor, members: NDArray[np.int64]) -> Tensor:
        """Compute m from logits (batch, choice): z_a - z_b; of one answer log odds, z_a if not exclusive."""
        logits = upcast(logits)
        first, second = (
            torch.from_numpy(numbers[members]).to(logits.device)[:, None]
            for numbers in (self.answers, self.others)
        )
        answer, other = (logits.gather(-1, number.clamp_min(0)) for number in (first, second))
        rest = torch.zeros_like(answer)
        if self.exclusive:
            rest = logits.scatter(-1, first, -torch.inf).logsumexp(-1, keepdim=True)
        return (answer - torch.where(second >= 0, other, rest)).squeeze(-1)


class ClassContrast(ContrastMeasure):
    """The logit difference of two classes, or the log odds of one."""

    name = "classification"
    reads = "class"
    about = "the log odds of the answer, ln p / (1 - p)"

    def number(self, answer: str | int | None) -> int:
        return -1 if answer is None else Classes(self.checkpoint).number(answer)

    def compute_m(self, batch: Batch, *, corrupted: bool) -> Tensor:
        return self.compare(self.ask(batch).logits, batch.members)


class LabelContrast(ClassContrast):
    """The logit of a label, or the difference of two, of a model that gives a text several labels."""

    name = "multi-label"
    exclusive = False


class NumberContrast(ContrastMeasure):
    """The number that a model predicts; there is no answer."""

    name = "regression"
    reads = "number"
    about = "the predicted number"
    unit = ""

    def compute_m(self, batch: Batch, *, corrupted: bool) -> Tensor:
        return upcast(self.ask(batch).logits).squeeze(-1)


class MaskContrast(ContrastMeasure):
    """The logit difference of two tokens behind a mask, or the log odds of one."""

    name = "masked-lm"
    reads = "mask"
    about = "the log odds of the answer behind the mask, ln p / (1 - p)"

    def compute_m(self, batch: Batch, *, corrupted: bool) -> Tensor:
        places = torch.from_numpy(self.places[batch.members, int(corrupted)])
        chosen = torch.arange(batch.ids.shape[1]) == places[:, None]
        return self.compare(read_tokens(self.checkpoint, batch.inputs, chosen), batch.members)


class NextContrast(MaskContrast):
    """The logit difference of two next tokens, or the log odds of one."""

    name = "causal-lm"
    reads = "next"
    about = "the log odds of the answer as the next token, ln p / (1 - p)"


class TextContrast(ContrastMeasure):
    """The log probability of a text after its first token, as BLiMP has it (Warstadt et al. 2020)."""

    name = "causal-lm"
    reads = "text"
    about = "the log probability of the text that is read, ln p(tokens after the first)"

    def compute_m(self, batch: Batch, *, corrupted: bool) -> Tensor:
        logits = self.checkpoint.model(**self.checkpoint.inputs(batch.inputs)).logits
        return _sum_log_probabilities(upcast(logits[:, :-1]), batch.ids[:, 1:])


class TargetContrast(ContrastMeasure):
    """The logit difference of two targets where they part, or the log probability of one."""

    name = "seq2seq"
    reads = "target"
    about = "the log probability of the target"
    about_both = (
        "the logit of the first token of the target that the other target has not, less that of the other's"
    )

    def compute_m(self, batch: Batch, *, corrupted: bool) -> Tensor:
        logits = upcast(self.checkpoint.model(**self.checkpoint.inputs(batch.inputs)).logits)
        right = torch.tensor([self.targets[member] for member in batch.members], device=logits.device)
        second = torch.from_numpy(self.others[batch.members]).to(logits.device)
        last = logits[:, -1]  # the decoder reads two targets up to where they differ
        difference = last.gather(-1, right[:, -1:]) - last.gather(-1, second.clamp_min(0)[:, None])
        return torch.where(second >= 0, difference.squeeze(-1), _sum_log_probabilities(logits, right))


def _sum_log_probabilities(logits: Tensor, right: Tensor) -> Tensor:
    """Sum the log probabilities that logits (batch, token, class) give the right tokens (batch, token)."""
    right = right.to(logits.device)[..., None]
    return logits.log_softmax(-1).gather(-1, right).squeeze(-1).sum(-1)


_ANSWERED = (ClassContrast, LabelContrast, NumberContrast, MaskContrast, NextContrast, TargetContrast)
#: The measure of each objective for pairs with answers, and for pairs without.
MEASURES: dict[str, type[ContrastMeasure]] = {one.name: one for one in _ANSWERED}
WITHOUT_ANSWER: dict[str, type[ContrastMeasure]] = {one.name: one for one in (TextContrast, NumberContrast)}
