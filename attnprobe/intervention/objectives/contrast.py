"""What is read off a model where a clean text is set against a corrupted one: one number m of each text."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.corpus.contrasts import ContrastBatches, Readout
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.language_modelling import narrow_head
from attnprobe.intervention.objectives.objective import Answer, Classes, Objective, upcast
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import CAUSAL_LM, CLASSIFICATION, MASKED_LM, SEQ2SEQ
from attnprobe.run.contrasts import Asked


class ContrastMeasure(Objective):
    """A number m that a model gives a text, bound to pairs of texts; ``Answer.loss`` is m, not a loss.

    ``about`` says what m is where there is one answer, ``compared`` where there are two; ``signed``, whether
    the sign of m says what the model decides for.
    """

    asked: ClassVar[Asked]
    compared: ClassVar[str] = "the logit of the answer less that of the other"
    signed: bool = True
    unit: str = "nats"

    def __init__(
        self, checkpoint: Checkpoint, batches: ContrastBatches, targets: Sequence[list[int]]
    ) -> None:
        super().__init__(checkpoint)
        readouts = batches.readouts
        self.places = np.array([one.places for one in readouts], np.int64)
        self.others = np.array([one.other is not None for one in readouts])
        self.answers, self.seconds = self.read(readouts)
        self.targets = targets

    def read(self, readouts: Sequence[Readout]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Give the number of the answer to each pair, and of what it is compared with, -1 for none."""
        pairs = [(one.answer, one.other) for one in readouts]
        found = [[-1 if one is None else int(one) for one in pair] for pair in pairs]
        answers, others = np.array(found, np.int64).T
        return answers, others

    @property
    def said(self) -> str:
        """What m is, in words."""
        several = bool(self.others.any()), not self.others.all()
        return f"{self.compared}, or, where there is one answer, {self.about}" if all(several) else (
            self.compared if several[0] else self.about
        )  # fmt: skip

    @abstractmethod
    def compute(self, batch: Batch, *, corrupted: bool) -> Tensor:
        """Compute m of each text of a batch, (batch,)."""

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Give m of the clean texts of a batch."""
        return self.measure(batch, corrupted=False)

    def measure(self, batch: Batch, *, corrupted: bool) -> Answer:
        """Give m of the clean or the corrupted texts of a batch, with gradients if they are enabled."""
        return Answer(self.compute(batch, corrupted=corrupted))

    def compare(self, logits: Tensor, members: NDArray[np.int64]) -> Tensor:
        """Compare the logits (batch, choice) of the two answers, or of one with those of all else.

        With z the logits and one answer a of a softmax, m = z_a - ln sum_{c != a} exp z_c, the logarithm of
        p_a / (1 - p_a).
        """
        first, second = (
            torch.from_numpy(numbers[members]).to(logits.device) for numbers in (self.answers, self.seconds)
        )
        logits = upcast(logits)
        own = logits.gather(-1, first[:, None]).squeeze(-1)
        rest = logits.scatter(-1, first[:, None], -torch.inf).logsumexp(-1)
        other = logits.gather(-1, second.clamp_min(0)[:, None]).squeeze(-1)
        return own - torch.where(second >= 0, other, rest)


class ClassContrast(ContrastMeasure):
    """The logit difference of two classes, or the log odds of one."""

    name = "classification"
    asked = "class"
    about = "the log odds of the answer, ln p / (1 - p)"
    head = CLASSIFICATION

    def read(self, readouts: Sequence[Readout]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        known = Classes(self.checkpoint)
        pairs = [(one.answer, one.other) for one in readouts]
        found = [[-1 if one is None else known.number(one) for one in pair] for pair in pairs]
        answers, others = np.array(found, np.int64).T
        if (alike := np.flatnonzero(answers == others)).size:
            raise AttnprobeError(
                f"Both answers are {known.spelled(int(answers[alike[0]]))} in a pair; give two that differ, "
                "or one."
            )
        return answers, others

    def compute(self, batch: Batch, *, corrupted: bool) -> Tensor:
        return self.compare(self.ask(batch).logits, batch.members)


class LabelContrast(ClassContrast):
    """The logit of a label, or the difference of those of two, of a model that gives a text several."""

    name = "multi-label"

    def compare(self, logits: Tensor, members: NDArray[np.int64]) -> Tensor:
        first, second = (
            torch.from_numpy(numbers[members]).to(logits.device) for numbers in (self.answers, self.seconds)
        )
        logits = upcast(logits)
        own = logits.gather(-1, first[:, None]).squeeze(-1)
        other = logits.gather(-1, second.clamp_min(0)[:, None]).squeeze(-1)
        return own - torch.where(second >= 0, other, torch.zeros_like(other))


class NumberContrast(ContrastMeasure):
    """The number that a model predicts; there is no answer."""

    name = "regression"
    asked = "number"
    about = "the predicted number"
    head = CLASSIFICATION
    signed = False
    unit = ""

    def read(self, readouts: Sequence[Readout]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        self.others = np.zeros(len(readouts), bool)
        return self.others - 1, self.others - 1

    def compute(self, batch: Batch, *, corrupted: bool) -> Tensor:
        return upcast(self.ask(batch).logits).squeeze(-1)


class MaskContrast(ContrastMeasure):
    """The logit difference of two tokens behind a mask, or the log odds of one."""

    name = "masked-lm"
    asked = "mask"
    about = "the log odds of the answer behind the mask, ln p / (1 - p)"
    head = MASKED_LM

    def compute(self, batch: Batch, *, corrupted: bool) -> Tensor:
        places = torch.from_numpy(self.places[batch.members, int(corrupted)])
        chosen = torch.arange(batch.ids.shape[1]) == places[:, None]
        with narrow_head(self.checkpoint.model, chosen):
            logits = self.checkpoint.model(**self.checkpoint.inputs(batch.inputs)).logits
        if logits.ndim == 3:  # its head did not let itself be narrowed
            logits = logits[chosen.to(logits.device)]
        return self.compare(logits, batch.members)


class NextContrast(MaskContrast):
    """The logit difference of two next tokens, or the log odds of one."""

    name = "causal-lm"
    asked = "next"
    about = "the log odds of the answer as the next token, ln p / (1 - p)"
    head = CAUSAL_LM


class TextContrast(ContrastMeasure):
    """How probable a text is, all tokens after the first: the measure of BLiMP.

    References:
        Warstadt et al. (2020), BLiMP: the benchmark of linguistic minimal pairs for English.
    """

    name = "causal-lm"
    asked = "text"
    about = "the log probability of the text that is read, ln p(tokens after the first)"
    head = CAUSAL_LM
    signed = False

    def compute(self, batch: Batch, *, corrupted: bool) -> Tensor:
        return self.tokens(batch).sum(-1)

    def tokens(self, batch: Batch) -> Tensor:
        """Compute the log probability of each token after the first, (batch, position - 1)."""
        logits = self.checkpoint.model(**self.checkpoint.inputs(batch.inputs)).logits[:, :-1]
        right = batch.ids[:, 1:].to(logits.device)
        return upcast(logits).log_softmax(-1).gather(-1, right[..., None]).squeeze(-1)


class TargetContrast(ContrastMeasure):
    """The logit difference of two targets where they part, or the log probability of one."""

    name = "seq2seq"
    asked = "target"
    about = "the log probability of the target"
    compared = (
        "the logit of the first token of the target that the other target has not, less that of the other's"
    )
    head = SEQ2SEQ

    def __init__(
        self, checkpoint: Checkpoint, batches: ContrastBatches, targets: Sequence[list[int]]
    ) -> None:
        super().__init__(checkpoint, batches, targets)
        self.signed = bool(self.others.all())

    def compute(self, batch: Batch, *, corrupted: bool) -> Tensor:
        logits = upcast(self.checkpoint.model(**self.checkpoint.inputs(batch.inputs)).logits)
        right = torch.tensor([self.targets[member] for member in batch.members], device=logits.device)
        whole = logits.log_softmax(-1).gather(-1, right[..., None]).squeeze(-1).sum(-1)
        second = torch.from_numpy(self.seconds[batch.members]).to(logits.device)
        last = logits[:, -1]  # where two targets part, what the decoder reads ends
        apart = last.gather(-1, right[:, -1:]) - last.gather(-1, second.clamp_min(0)[:, None])
        return torch.where(second >= 0, apart.squeeze(-1), whole)


#: By the name of the objective, for pairs with answers; and where there are none.
MEASURES: dict[str, type[ContrastMeasure]] = {
    one.name: one
    for one in (ClassContrast, LabelContrast, NumberContrast, MaskContrast, NextContrast, TargetContrast)
}
WITHOUT_ANSWER: dict[str, type[ContrastMeasure]] = {one.name: one for one in (TextContrast, NumberContrast)}
