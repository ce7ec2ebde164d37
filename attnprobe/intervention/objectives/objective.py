"""The interface of an objective: batches in, one loss and one score for each example out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batches.batch import Batch
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.task_heads import TaskHead

#: What is kept of the examples: a number each, or a text.
Values = NDArray[Any]


@dataclass(frozen=True)
class Answer:
    """What a model answers to a batch.

    Attributes:
        loss: One number an example (batch,), the mean over its own targets; gradients flow back.
        scores: Further numbers an example, such as ``accuracy`` or ``prediction``, or several (batch, ...);
            or what works them out, where that takes its time and not every metric needs them.
        texts: Generated text, where a metric needs it.
        state: What the model says about each example (batch, width), where that is the task.
        margin: Works out what relevance explains of each example (batch,), the mean over its own targets; as
            a rule how far what is predicted is ahead of the runner-up. Gradients flow back.
    """

    loss: Tensor
    scores: Mapping[str, Tensor | Callable[[], Tensor]] = field(default_factory=dict)
    texts: list[str] | None = None
    state: Tensor | None = None
    margin: Callable[[], Tensor] | None = None

    def value(self, name: str) -> Values:
        """Give one of the numbers, or the text, as an array over the examples."""
        if name == "text":
            return np.array(self.texts, dtype=object)
        number = self.loss if name == "loss" else self.scores[name]
        if not isinstance(number, Tensor):
            number = number()
        return precise(number.detach()).cpu().numpy()


class Objective(ABC):
    """A task that a checkpoint is scored on, bound to the examples of a corpus.

    Attributes:
        name: The ``objective`` column.
        head: The task head it needs, or None.
        metrics: What it can be scored by, the usual one first.
        remarks: Sentences worth telling the user.
        known: What a metric needs of the examples beside the answers: the right class, the reference.
        resumable: Whether an answer is one forward pass, which can resume at a layer.
        least: Tokens that an example needs at least.
        explains: What ``Answer.margin`` is, in words.
        positive: What a head does whose relevance is positive, a sentence.
    """

    name: ClassVar[str]
    head: ClassVar[TaskHead | None]
    metrics: ClassVar[tuple[str, ...]]
    least: ClassVar[int] = 1
    explains: ClassVar[str]
    positive: ClassVar[str] = "A head of positive relevance speaks for what is predicted."

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Ask a checkpoint."""
        self.checkpoint = checkpoint
        self.remarks: Sequence[str] = ()
        self.known: dict[str, Values] = {}
        self.resumable = True

    @classmethod
    def scored_by(cls, checkpoint: Checkpoint) -> tuple[str, ...]:
        """List what a checkpoint can be scored by, the usual one first."""
        return cls.metrics

    def ask(self, batch: Batch) -> Any:
        """Run the model with its head on a batch; one with a decoder shifts its text itself."""
        inputs = self.checkpoint.inputs(batch.inputs)
        inputs.pop("decoder_input_ids", None)
        return self.checkpoint.model(**inputs)

    @abstractmethod
    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Run the model on a batch, with gradients if they are enabled.

        Args:
            batch: Equally long examples.
            untouched: The answer to the same batch with every head on, where there is one.
        """


def precise(values: Tensor) -> Tensor:
    """Give at least float32: a loss in half precision is too coarse to compare."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def ahead(logits: Tensor) -> Tensor:
    """Tell how far the best of some logits is ahead of the runner-up: (..., class) to (...).

    >>> ahead(torch.tensor([[1.0, 4.0, 2.5], [0.0, -1.0, 0.0]]))
    tensor([1.5000, 0.0000])
    """
    best, *others = logits.topk(min(2, logits.shape[-1]), -1).values.unbind(-1)
    return best - others[0] if others else best


def mean_by_example(example: Tensor, examples: int) -> Callable[[Tensor], Tensor]:
    """Average over the targets of each example.

    Args:
        example: For each target, the example that it is of.
        examples: How many there are, each with a target at least.
    """
    count = torch.bincount(example, minlength=examples)

    def mean(values: Tensor) -> Tensor:
        return values.new_zeros(examples).index_add(0, example, values) / count

    return mean
