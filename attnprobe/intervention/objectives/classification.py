"""Sequence classification: one class, several labels, or a number."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from attnprobe.corpus.batch import Batch
from attnprobe.corpus.sources.document import Label
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.score import Score
from attnprobe.intervention.metrics.scores import (
    class_f1,
    f1_macro,
    f1_micro,
    matthews,
    pearson,
    require_spread,
    spearman,
)
from attnprobe.intervention.objectives.objective import (
    Answer,
    Classes,
    LabelledObjective,
    Prediction,
    compute_margin,
    find_prediction,
    upcast,
)
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import (
    CLASSIFICATION,
    IMAGE_CLASSIFICATION,
    SOUND_CLASSIFICATION,
)

_OTHER_HEADS = {"image": IMAGE_CLASSIFICATION, "sound": SOUND_CLASSIFICATION}


class Classification(LabelledObjective):
    """Which class a text belongs to; needs labels and a trained classification head."""

    name = "classification"
    about = "Sequence classification: cross-entropy of the right class."
    head = CLASSIFICATION
    other_heads = _OTHER_HEADS
    explains = "the logit of the predicted class less that of the runner-up"

    def __init__(self, checkpoint: Checkpoint, labels: Mapping[int, Label], examples: int) -> None:
        super().__init__(checkpoint, labels, examples)
        if find_prediction(checkpoint) is Prediction.NUMBER:
            raise AttnprobeError(
                f"{checkpoint.name} predicts a number, not a class; use --objective regression."
            )
        if find_prediction(checkpoint) is Prediction.LABELS:
            raise AttnprobeError(
                f"{checkpoint.name} gives several labels to a text; use --objective multi-label."
            )
        self._known = Classes(checkpoint)
        self.count = self._known.count
        found = [self._known.number(labels[example]) for example in range(examples)]
        self.classes: NDArray[np.int64] = np.array(found, np.int64)
        self.known = {"label": self.classes.astype(np.float64)}
        present: NDArray[np.bool_] = np.zeros(self.count, bool)
        present[self.classes] = True
        if present.sum() == 1:
            self.remarks = [
                f"Every example has the label {self._known.spelled(int(present.argmax()))}: a model that "
                "always says so would be right, so accuracy and loss say little here."
            ]

    def build_metric(self, name: str, examples: NDArray[np.int64]) -> Score:
        if name not in {"mcc", "f1"}:
            return super().build_metric(name, examples)
        if len(np.unique(self.classes[examples])) < 2:
            raise AttnprobeError(
                f"All examples that are scored have the same label, which leaves {name} undefined; take "
                "data with at least two classes, or --metric accuracy."
            )
        return matthews(self.count) if name == "mcc" else class_f1(self.count)

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Compute the cross-entropy of each example, its prediction, and whether it is right."""
        logits = upcast(self.ask(batch).logits)
        right = torch.from_numpy(self.classes[batch.members]).to(logits.device)
        prediction = logits.argmax(-1)
        return Answer(
            cross_entropy(logits, right, reduction="none"),
            {"prediction": prediction, "accuracy": prediction == right},
            margin=lambda: compute_margin(logits),
        )


#: What parts labels that are written into one string.
_PARTED = re.compile(r"[|,]")


class MultiLabel(LabelledObjective):
    """Which labels a text has, out of several that don't exclude one another.

    The label of an example is a list of names or numbers; a string of them, parted by ``|`` or ``,``; or a
    row of 0 and 1, one for each label that the model knows. It is read as such a row where every example
    has one. The loss of an example is the mean over all labels of the binary cross entropy; a label is
    predicted where its probability is more than a half.

    ``labels`` (example, label) says whether an example has it.
    """

    name = "multi-label"
    about = "Multi-label classification: for each label, whether a text has it."
    head = CLASSIFICATION
    other_heads = _OTHER_HEADS
    explains = "the mean over labels of |logit|, how far what is predicted is ahead of the opposite"

    def __init__(self, checkpoint: Checkpoint, labels: Mapping[int, Label], examples: int) -> None:
        super().__init__(checkpoint, labels, examples)
        if find_prediction(checkpoint) is Prediction.NUMBER:
            raise AttnprobeError(
                f"{checkpoint.name} predicts a number, not labels; use --objective regression."
            )
        self._known = Classes(checkpoint)
        self.labels = self._read([self._split(labels[example]) for example in range(examples)])
        self.known = {"label": self.labels}

    def build_metric(self, name: str, examples: NDArray[np.int64]) -> Score:
        if name.startswith("f1"):
            return f1_micro() if name == "f1_micro" else f1_macro()
        return super().build_metric(name, examples)

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Compute the mean binary cross entropy of each example, its labels, and whether all are right."""
        logits = upcast(self.ask(batch).logits)
        right = torch.from_numpy(self.labels[batch.members]).to(logits)
        loss = binary_cross_entropy_with_logits(logits, right, reduction="none").mean(-1)
        prediction = (logits > 0).to(logits.dtype)
        scores = {"prediction": prediction, "accuracy": (prediction == right).all(-1)}
        return Answer(loss, scores, margin=lambda: logits.abs().mean(-1))

    def _split(self, label: Label) -> list[str | int | float]:
        if isinstance(label, tuple):
            return list(label)
        if isinstance(label, str) and self._known.find(label) is None:
            return [part for part in _PARTED.split(label) if part.strip()]
        assert isinstance(label, str | int | float)
        return [label]

    def _read(self, listed: Sequence[Sequence[str | int | float]]) -> NDArray[np.float64]:
        count = self._known.count
        rows = [[_read_bit(one) for one in labels] for labels in listed]
        if all(len(row) == count and None not in row for row in rows):
            return np.array(rows, np.float64)
        found = np.zeros((len(listed), count))
        for row, labels in zip(found, listed, strict=True):
            row[[self._known.number(one) for one in labels]] = 1
        return found


def _read_bit(label: str | int | float) -> int | None:
    return {"0": 0, "1": 1, "0.0": 0, "1.0": 1}.get(str(label).strip())


class Regression(LabelledObjective):
    """Which number a text has, such as how alike two sentences are; the label is the number.

    The loss of an example is (prediction - label) ** 2.
    """

    name = "regression"
    about = "Regression: the squared error of a number."
    head = CLASSIFICATION
    other_heads = _OTHER_HEADS
    explains = "the predicted number"
    positive = "A head of positive relevance raises this number, one of negative relevance lowers it."

    def __init__(self, checkpoint: Checkpoint, labels: Mapping[int, Label], examples: int) -> None:
        super().__init__(checkpoint, labels, examples)
        count: Any = checkpoint.model.config.num_labels
        if find_prediction(checkpoint) is not Prediction.NUMBER:
            raise AttnprobeError(
                f"{checkpoint.name} predicts labels, {count} of them, and no number; leave --objective out."
            )
        if count > 1:
            raise AttnprobeError(
                f"{checkpoint.name} predicts {count} numbers at once, and "
                "attnprobe scores one; use --objective representation."
            )
        self.values: NDArray[np.float64] = np.array([_read_number(labels[one]) for one in range(examples)])
        self.known = {"label": self.values}

    def build_metric(self, name: str, examples: NDArray[np.int64]) -> Score:
        if name == "mse":
            return super().build_metric(name, examples)
        require_spread(name, self.values[examples])
        return pearson() if name == "pearson" else spearman()

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Compute the squared error of each example, and the number that was predicted."""
        prediction = upcast(self.ask(batch).logits).squeeze(-1)
        loss = (prediction - torch.from_numpy(self.values[batch.members]).to(prediction)) ** 2
        return Answer(loss, {"prediction": prediction, "mse": loss}, margin=lambda: prediction)


def _read_number(label: Label) -> float:
    try:
        found = float(label) if isinstance(label, str | int | float) else math.nan
    except (ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise AttnprobeError(f"The label {str(label)[:60]!r} is not a number, which regression needs.")
    return found
