"""Multi-label classification: for each label, whether a text has it."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import binary_cross_entropy_with_logits

from attnprobe.corpus.batches.batch import Batch
from attnprobe.corpus.sources.document import Label
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.classes import NAMED, Classes, Prediction, predicts
from attnprobe.intervention.objectives.objective import Answer, Objective, precise
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.task_heads import CLASSIFICATION

#: What parts labels that are written into one string.
_PARTED = re.compile(r"[|,]")


class MultiLabel(Objective):
    """Which labels a text has, out of several that don't exclude one another.

    The label of an example is a list of names or numbers; a string of them, parted by ``|`` or ``,``; or a
    row of 0 and 1, one for each label that the model knows. It is read as such a row where every example
    has one. The loss of an example is the mean over all labels of the binary cross entropy; a label is
    predicted where its probability is more than a half.

    Attributes:
        labels: For every example (example, label), whether it has the label.
    """

    name = "multi-label"
    head = CLASSIFICATION
    metrics = ("f1_micro", "f1_macro", "accuracy", "loss")
    explains = "the mean over labels of |logit|, how far what is predicted is ahead of the opposite"

    def __init__(self, checkpoint: Checkpoint, labels: Mapping[int, Label], examples: int) -> None:
        """Translate the labels of all examples.

        Raises:
            AttnprobeError: For a label that the model does not know, or a head that predicts a number.
        """
        super().__init__(checkpoint)
        if predicts(checkpoint) is Prediction.NUMBER:
            raise AttnprobeError(
                f"{checkpoint.name} predicts a number, not labels; use --objective regression."
            )
        self._known = Classes(checkpoint)
        self.labels = self._read([self._listed(labels[example]) for example in range(examples)])
        self.known = {"label": self.labels}
        never = [self._known.spelled(int(one)) for one in np.flatnonzero(~self.labels.any(0))]
        if never:
            named = ", ".join(never[:NAMED]) + (" and others" if len(never) > NAMED else "")
            self.remarks = [f"No example has the label {named}; heads that matter for it will not show."]

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Give the mean binary cross entropy of each example, its labels, and whether all are right."""
        logits = precise(self.ask(batch).logits)
        right = torch.from_numpy(self.labels[batch.members]).to(logits)
        loss = binary_cross_entropy_with_logits(logits, right, reduction="none").mean(-1)
        prediction = (logits > 0).to(logits.dtype)
        scores = {"prediction": prediction, "accuracy": (prediction == right).all(-1)}
        return Answer(loss, scores, margin=lambda: logits.abs().mean(-1))

    def _listed(self, label: Label) -> list[str | int | float]:
        """Give the labels of an example one by one."""
        if isinstance(label, tuple):
            return list(label)
        if isinstance(label, str) and self._known.find(label) is None:
            return [part for part in _PARTED.split(label) if part.strip()]
        assert isinstance(label, str | int | float)
        return [label]

    def _read(self, listed: Sequence[Sequence[str | int | float]]) -> NDArray[np.float64]:
        count = self._known.count
        rows = [[_bit(one) for one in labels] for labels in listed]
        if all(len(row) == count and None not in row for row in rows):
            return np.array(rows, np.float64)
        found = np.zeros((len(listed), count))
        for row, labels in zip(found, listed, strict=True):
            row[[self._known.number(one) for one in labels]] = 1
        return found


def _bit(label: str | int | float) -> int | None:
    """Read 0 or 1, however it is written."""
    return {"0": 0, "1": 1, "0.0": 0, "1.0": 1}.get(str(label).strip())
