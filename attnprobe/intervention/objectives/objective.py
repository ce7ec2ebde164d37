"""The interface of an objective: batches in, one loss and one score for each example out."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.corpus.batches import BatchReader
from attnprobe.corpus.sources.document import Label
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.score import CLUSTER, Predictions, Score, Values, mean_score
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import TaskHead
from attnprobe.run.preparation import Corpus, Documents
from attnprobe.tasks import METRICS, OBJECTIVES


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
        """Read one of the numbers, or the text, as an array over the examples."""
        if name == "text":
            return np.array(self.texts, dtype=object)
        number = self.loss if name == "loss" else self.scores[name]
        if not isinstance(number, Tensor):
            number = number()
        return upcast(number.detach()).cpu().numpy()


class Objective(ABC):
    """A task that a checkpoint is scored on, bound to the examples of a corpus.

    Attributes:
        name: The ``objective`` column.
        about: What it is, and its loss, in a line.
        head: The task head it needs, or None.
        other_heads: Its heads where no text is read, by modality.
        remarks: Sentences worth telling the user.
        known: What a metric needs of the examples beside the answers: the right class, the reference.
        has_targets: Whether labels are texts that a decoder reads.
        related: Whether an example is about several sequences: see ``RelatedTexts``.
        facts: What goes on record of it beside its name.
        resumable: Whether an answer is one forward pass, which can resume at a layer.
        compares: Whether answers are compared with those of the untouched model.
        least: Tokens that an example needs at least.
        explains: What ``Answer.margin`` is, in words; nothing where there is none.
        positive: What a head does whose relevance is positive, a sentence.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    head: ClassVar[TaskHead | None]
    other_heads: ClassVar[Mapping[str, TaskHead]] = {}
    has_targets: ClassVar[bool] = False
    related: ClassVar[bool] = False
    compares: ClassVar[bool] = False
    least: ClassVar[int] = 1
    explains: ClassVar[str] = ""
    positive: ClassVar[str] = "A head of positive relevance speaks for what is predicted."

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.remarks: Sequence[str] = ()
        self.known: dict[str, Values] = {}
        self.facts: dict[str, Any] = {}
        self.resumable = True

    @classmethod
    def read_examples(cls, documents: Documents) -> Documents:
        """Turn documents with labels into examples."""
        return documents

    @classmethod
    def bind(cls, checkpoint: Checkpoint, corpus: Corpus, *, seed: int, generate: bool) -> "Objective":
        """Bind it to the examples of a corpus; ``generate`` is for metrics that read generated text."""
        return cls(checkpoint)

    @classmethod
    def list_metrics(cls, checkpoint: Checkpoint) -> tuple[str, ...]:
        """List the metrics that can score a checkpoint, the usual one first."""
        return OBJECTIVES[cls.name].metrics

    def build_metric(self, name: str, examples: NDArray[np.int64]) -> Score:
        """Build a metric for some examples.

        Raises:
            AttnprobeError: When these examples leave it undefined.
        """
        spec = METRICS[name]
        return mean_score(
            name, spec.unit, higher_is_better=spec.higher_is_better, tested=name != "similarity"
        )

    def list_kept(self, needs: Sequence[str]) -> list[str]:
        """List which numbers of an answer are kept, where a metric needs some of an example."""
        return [name for name in needs if name not in self.known]

    def complete(
        self, answers: Mapping[str, Values], batches: BatchReader, needs: Sequence[str]
    ) -> Predictions:
        """Make the predictions of all examples of what was kept of the answers, in the order of sequences."""
        members = batches.members
        known = {name: self.known[name][members] for name in needs if name in self.known}
        return {**known, CLUSTER: batches.clusters[members], **answers}

    def list_documents(self, batches: BatchReader) -> NDArray[np.int64]:
        """List the document of each example, by its number."""
        return batches.documents[batches.members]

    def half(self, batches: BatchReader, *, second: bool) -> "tuple[Objective, BatchReader]":
        """Keep one half of the documents, and what is to be read of it."""
        return self, batches.half(second)

    def ask(self, batch: Batch) -> Any:
        """Run the model with its head on a batch; one with a decoder shifts its text itself."""
        inputs = self.checkpoint.inputs(batch.inputs)
        inputs.pop("decoder_input_ids", None)
        return self.checkpoint.model(**inputs)

    @abstractmethod
    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Run the model on a batch of equally long examples, with gradients if they are enabled.

        ``untouched`` is the answer to the same batch with every head on, where there is one.
        """


class LabelledObjective(Objective):
    """An objective that takes what is right from one label of each example."""

    def __init__(self, checkpoint: Checkpoint, labels: Mapping[int, Label], examples: int) -> None:
        super().__init__(checkpoint)

    @classmethod
    def bind(cls, checkpoint: Checkpoint, corpus: Corpus, *, seed: int, generate: bool) -> Objective:
        return cls(checkpoint, corpus.batches.labels, corpus.sequences)


def upcast(values: Tensor) -> Tensor:
    """Convert to float32 at least: a loss in half precision is too coarse to compare."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def compute_margin(logits: Tensor) -> Tensor:
    """Compute how far the best of some logits is ahead of the runner-up: (..., class) to (...).

    >>> compute_margin(torch.tensor([[1.0, 4.0, 2.5], [0.0, -1.0, 0.0]]))
    tensor([1.5000, 0.0000])
    """
    best, *others = logits.topk(min(2, logits.shape[-1]), -1).values.unbind(-1)
    return best - others[0] if others else best


def mean_by_example(example: Tensor, examples: int) -> Callable[[Tensor], Tensor]:
    """Make the function that averages over the targets of each example.

    ``example`` is the example of each target; each of the ``examples`` has one at least.
    """
    count = torch.bincount(example, minlength=examples)

    def mean(values: Tensor) -> Tensor:
        return values.new_zeros(examples).index_add(0, example, values) / count

    return mean


#: How many classes an error message names.
NAMED = 8


class Prediction(Enum):
    """What a sequence classification head predicts of a text."""

    CLASS = auto()
    NUMBER = auto()
    LABELS = auto()


def find_prediction(checkpoint: Checkpoint) -> Prediction:
    """Find what a sequence classification head predicts, by its ``problem_type`` and number of labels."""
    config: Any = checkpoint.model.config
    if config.num_labels < 2 or config.problem_type == "regression":
        return Prediction.NUMBER
    if config.problem_type == "multi_label_classification":
        return Prediction.LABELS
    return Prediction.CLASS


class Classes:
    """The classes that a checkpoint knows: their ``count``, and their ``names`` by number."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        config: Any = checkpoint.model.config
        self._owner = checkpoint.name
        self.names: dict[int, str] = {int(key): str(name) for key, name in config.id2label.items()}
        self.count: int = config.num_labels

    def number(self, label: Any) -> int:
        """Find the number of a class that a file spells by its name or its number."""
        found = self.find(label)
        if found is not None:
            return found
        hint = ""
        if _number(str(label)) == -1:
            hint = " (-1 marks texts whose label is kept secret; take another split)"
        raise AttnprobeError(
            f"The label {str(label).strip()[:60]!r} is not one that {self._owner} knows: "
            f"{self._list_names()}{hint}."
        )

    def find(self, label: Any) -> int | None:
        """Find the number of a class, or None where there is none of that name or number."""
        spelled, number = str(label).strip(), _number(str(label))
        # A column of whole numbers with a gap is read as 1.0, 2.0, ...
        whole = str(int(number)) if number.is_integer() else spelled
        for one in (spelled, whole):
            for alike in (str, str.casefold):  # the exact name first
                for known, name in self.names.items():
                    if alike(one) == alike(name):
                        return known
        if number in range(self.count):
            return int(number)
        if self.count == 2 and spelled.casefold() in {"false", "true"}:
            return int(spelled.casefold() == "true")
        return None

    def spelled(self, number: int) -> str:
        name = self.names.get(number, "")
        return str(number) if not name or name == f"LABEL_{number}" else f"{number} ({name})"

    def _list_names(self) -> str:
        named = [self.spelled(number) for number in range(min(self.count, NAMED))]
        more = f" and {self.count - NAMED} more" if self.count > NAMED else ""
        return ", ".join(named) + more


def _number(spelled: str) -> float:
    try:
        return float(spelled)
    except ValueError:
        return math.nan
