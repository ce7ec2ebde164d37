"""Sequence classification: cross-entropy of the right class."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from attnprobe.corpus.batches.batch import Batch
from attnprobe.corpus.sources.document import Label
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.classes import NAMED, Classes, Prediction, predicts
from attnprobe.intervention.objectives.objective import Answer, Objective, ahead, precise
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.task_heads import CLASSIFICATION


class Classification(Objective):
    """Which class a text belongs to; needs labels and a trained classification head.

    Attributes:
        classes: The right class of every example.
        count: Number of classes the model knows.
    """

    name = "classification"
    head = CLASSIFICATION
    metrics = ("accuracy", "mcc", "f1", "loss")
    explains = "the logit of the predicted class less that of the runner-up"

    def __init__(self, checkpoint: Checkpoint, labels: Mapping[int, Label], examples: int) -> None:
        """Translate the labels of all examples into classes.

        Raises:
            AttnprobeError: For a label that the model does not know.
        """
        super().__init__(checkpoint)
        if predicts(checkpoint) is Prediction.NUMBER:
            raise AttnprobeError(
                f"{checkpoint.name} predicts a number, not a class; use --objective regression."
            )
        if predicts(checkpoint) is Prediction.LABELS:
            raise AttnprobeError(
                f"{checkpoint.name} gives several labels to a text; use --objective multi-label."
            )
        self._known = Classes(checkpoint)
        self.count = self._known.count
        found = [self._known.number(labels[example]) for example in range(examples)]
        self.classes: NDArray[np.int64] = np.array(found, np.int64)
        self.known = {"label": self.classes.astype(np.float64)}
        self.remarks = self._look_at_classes()

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Give the cross-entropy of each example, its prediction, and whether it is right."""
        logits = precise(self.ask(batch).logits)
        right = torch.from_numpy(self.classes[batch.members]).to(logits.device)
        prediction = logits.argmax(-1)
        return Answer(
            cross_entropy(logits, right, reduction="none"),
            {"prediction": prediction, "accuracy": prediction == right},
            margin=lambda: ahead(logits),
        )

    def _look_at_classes(self) -> list[str]:
        counts = np.bincount(self.classes, minlength=self.count)
        present = np.flatnonzero(counts)
        if len(present) == 1:
            return [
                f"Every example has the label {self._known.spelled(int(present[0]))}: "
                "a model "
                "that always says so would be right, so accuracy and loss say little here."
            ]
        missing = [self._known.spelled(int(number)) for number in np.flatnonzero(counts == 0)]
        if missing:
            named = ", ".join(missing[:NAMED]) + (" and others" if len(missing) > NAMED else "")
            return [f"No example has the label {named}; heads that matter for it will not show."]
        return []
