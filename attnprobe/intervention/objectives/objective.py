"""The base of all objectives: from batches to one loss and one score for each example."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch, BatchReader
from attnprobe.corpus.document import Label
from attnprobe.errors import DataError, ModelError
from attnprobe.intervention.metrics.score import CLUSTER, Predictions, Score, Values, mean_score
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import TaskHead
from attnprobe.run.corpus import Corpus
from attnprobe.run.examples import Documents
from attnprobe.tasks import METRICS, OBJECTIVES


@dataclass(frozen=True)
class Answer:
    """The answer of a model to a batch; gradients flow back from loss and margin.

    Attributes:
        loss: One number an example (batch,), the mean over its targets.
        scores: Further numbers an example (batch, ...), or functions that compute them if they are costly.
        state: The embedding of each example (batch, width), where that is the task.
        margin: Computes what relevance explains of each example (batch,), as a rule the logit of the
            prediction less that of the runner-up.
    """

    loss: Tensor
    scores: Mapping[str, Tensor | Callable[[], Tensor]] = field(default_factory=dict)
    state: Tensor | None = None
    margin: Callable[[], Tensor] | None = None

    def value(self, name: str) -> Values:
        """Return one of the numbers as an array over the examples."""
        number = self.loss if name == "loss" else self.scores[name]
        if not isinstance(number, Tensor):
            number = number()
        return upcast(number.detach()).cpu().numpy()


class Objective(ABC):
    """A task that a checkpoint is scored on, bound to the examples of a corpus.

    The first line of a docstring says what the task is, and its loss.

    Attributes:
        other_heads: The heads where no text is read, by modality.
        has_targets: Whether labels are texts that a decoder reads.
        compares: Whether answers are compared with those of the untouched model.
        least: The fewest tokens that an example may have.
        explains: What ``Answer.margin`` is, and ``positive`` what a head of positive relevance does.
        builders: Functions that build the metrics which are no means of the number of their name.
        remarks: Sentences worth telling the user.
        gold: The right label of each example, or whether each label is right, (example, ...).
        resumable: Whether an answer is one forward pass, which can resume at a layer.
    """

    name: ClassVar[str]
    head: ClassVar[TaskHead | None] = None
    other_heads: ClassVar[Mapping[str, TaskHead]] = {}
    has_targets: ClassVar[bool] = False
    compares: ClassVar[bool] = False
    least: ClassVar[int] = 1
    explains: ClassVar[str] = ""
    positive: ClassVar[str] = "A head of positive relevance speaks for what is predicted."
    builders: Mapping[str, Callable[[], Score]] = MappingProxyType({})
    remarks: Sequence[str] = ()
    gold: Any = None
    resumable: bool = True

    def __init__(
        self, checkpoint: Checkpoint, corpus: Corpus, *, seed: int = 0, generate: bool = False
    ) -> None:
        """Bind it to examples; ``generate`` is for metrics that read generated text."""
        self.checkpoint, self.seed, self.resumable = checkpoint, seed, not generate
        self.read_labels(corpus)

    @classmethod  # noqa: B027 (most tasks need no more than their head)
    def check(cls, checkpoint: Checkpoint) -> None:
        """Refuse a checkpoint that can't do the task."""

    def read_labels(self, corpus: Corpus) -> None:  # noqa: B027 (some tasks have no labels)
        """Read the right answer to each example."""

    @classmethod
    def read_examples(cls, documents: Documents) -> Documents:
        """Turn documents with labels into examples."""
        return documents

    @classmethod
    def list_metrics(cls, checkpoint: Checkpoint) -> tuple[str, ...]:
        """List the metrics that can score a checkpoint, the usual one first."""
        return OBJECTIVES[cls.name].metrics

    def build_metric(self, name: str, examples: NDArray[np.int64]) -> Score:
        """Build a metric, or refuse examples whose labels leave it undefined."""
        if name not in self.builders:
            unit, higher = METRICS[name].unit, METRICS[name].higher_is_better
            return mean_score(name, unit, higher_is_better=higher, tested=name != "similarity")
        gold = self.list_gold(examples)
        if gold is not None and gold.ndim == 1 and len(np.unique(gold)) < 2:
            raise DataError(
                f"All examples that are scored have the same label, which leaves {name} undefined; take data "
                "with others, or another --metric."
            )
        return self.builders[name]()

    def list_gold(self, examples: NDArray[np.int64]) -> Values | None:
        """List the right labels of the examples that are scored; None for a task without labels."""
        return None if self.gold is None else self.gold[examples]

    def list_kept(self, needs: Sequence[str]) -> list[str]:
        """List which numbers of an answer have to be kept for what a metric needs."""
        return [name for name in needs if name != "label"]

    def complete(
        self, answers: Mapping[str, Values], batches: BatchReader, needs: Sequence[str]
    ) -> Predictions:
        """Add labels and documents to the kept numbers of all answers, in the order of sequences."""
        members = batches.members
        known = {} if self.gold is None or "label" not in needs else {"label": self.gold[members]}
        return {**known, CLUSTER: batches.clusters[members], **answers}

    def list_documents(self, batches: BatchReader) -> NDArray[np.int64]:
        """List the document of each example, by its number."""
        return batches.documents[batches.members]

    def half(self, batches: BatchReader, *, second: bool) -> "tuple[Objective, BatchReader]":
        """Keep one half of the documents: the objective and its batches."""
        return self, batches.half(second)

    def ask(self, batch: Batch, **more: Any) -> Any:
        """Run the model with its head on a batch."""
        inputs = self.checkpoint.inputs(batch.inputs)
        inputs.pop("decoder_input_ids", None)  # the model shifts its labels itself
        return self.checkpoint.model(**inputs, **more)

    @abstractmethod
    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Run the model on equally long examples; ``untouched`` is the answer with every head on, if any."""


def list_labels(corpus: Corpus) -> list[Label]:
    """List the label of each example."""
    return [corpus.batches.labels[example] for example in range(corpus.sequences)]


def check_finite(values: Tensor, checkpoint: Checkpoint, what: str) -> None:
    """Refuse a model that gives NaN or infinity; ``what`` the values are is a plural noun."""
    if not bool(torch.isfinite(values).all()):
        raise ModelError(
            f"{checkpoint.name} gives NaN or infinite {what}; try --dtype float32, or look at its weights."
        )


def upcast(values: Tensor) -> Tensor:
    """Convert to float32 at least: a loss in half precision is too coarse to compare."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def compute_margin(logits: Tensor) -> Tensor:
    """Compute the best logit less that of the runner-up, (...), from logits (..., class)."""
    best, *others = logits.topk(min(2, logits.shape[-1]), -1).values.unbind(-1)
    return best - others[0] if others else best


def mean_by_example(example: Tensor, examples: int) -> Callable[[Tensor], Tensor]:
    """Make a function that averages values of targets over each example; ``example`` names that of each."""
    count = torch.bincount(example, minlength=examples)

    def mean(values: Tensor) -> Tensor:
        return values.new_zeros(examples).index_add(0, example, values) / count

    return mean
