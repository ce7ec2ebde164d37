"""Regression: the squared error of a number."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.corpus.batches.batch import Batch
from attnprobe.corpus.sources.document import Label
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.classes import Prediction, predicts
from attnprobe.intervention.objectives.objective import Answer, Objective, precise
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.task_heads import CLASSIFICATION


class Regression(Objective):
    """Which number a text has, such as how alike two sentences are; the label is the number.

    The loss of an example is (prediction - label) ** 2.

    Attributes:
        values: The number of every example.
    """

    name = "regression"
    head = CLASSIFICATION
    metrics = ("pearson", "spearman", "mse")
    explains = "the predicted number"
    positive = "A head of positive relevance raises this number, one of negative relevance lowers it."

    def __init__(self, checkpoint: Checkpoint, labels: Mapping[int, Label], examples: int) -> None:
        """Read the labels of all examples as numbers.

        Raises:
            AttnprobeError: For a label that is no number, or a head that predicts something else.
        """
        super().__init__(checkpoint)
        count: Any = checkpoint.model.config.num_labels
        if predicts(checkpoint) is not Prediction.NUMBER:
            raise AttnprobeError(
                f"{checkpoint.name} predicts labels, {count} of them, and no number; leave --objective out."
            )
        if count > 1:
            raise AttnprobeError(
                f"{checkpoint.name} predicts {count} numbers at once, and "
                "attnprobe scores one; use --objective representation."
            )
        self.values: NDArray[np.float64] = np.array([_number(labels[one]) for one in range(examples)])
        self.known = {"label": self.values}

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Give the squared error of each example, and the number that was predicted."""
        prediction = precise(self.ask(batch).logits).squeeze(-1)
        loss = (prediction - torch.from_numpy(self.values[batch.members]).to(prediction)) ** 2
        return Answer(loss, {"prediction": prediction, "mse": loss}, margin=lambda: prediction)


def _number(label: Label) -> float:
    try:
        found = float(label) if isinstance(label, str | int | float) else math.nan
    except (ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise AttnprobeError(f"The label {str(label)[:60]!r} is not a number, which regression needs.")
    return found
