"""Sequence classification: cross-entropy of the right class."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from attnprobe.corpus.batches.batch import Batch
from attnprobe.corpus.sources.document import Label
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.objective import Answer, Objective, precise
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.task_heads import CLASSIFICATION

#: How many classes an error message names.
_NAMED = 8


class Classification(Objective):
    """Which class a text belongs to; needs labels and a trained classification head.

    Attributes:
        classes: The right class of every example.
        count: Number of classes the model knows.
    """

    name = "classification"
    head = CLASSIFICATION
    metrics = ("accuracy", "mcc", "f1", "loss")

    def __init__(self, checkpoint: Checkpoint, labels: Mapping[int, Label], examples: int) -> None:
        """Translate the labels of all examples into classes.

        Raises:
            AttnprobeError: For a label that the model does not know.
        """
        super().__init__(checkpoint)
        config: Any = checkpoint.model.config
        if config.num_labels < 2 or config.problem_type == "regression":
            raise AttnprobeError(
                f"{checkpoint.name} predicts a number, not a class, which attnprobe can't score; "
                "use --objective representation."
            )
        if config.problem_type == "multi_label_classification":
            raise AttnprobeError(
                f"{checkpoint.name} gives several labels to a text, which attnprobe can't score; "
                "use --objective representation."
            )
        self._names: dict[int, str] = {int(key): str(name) for key, name in config.id2label.items()}
        self.count = config.num_labels
        found = [self._class_of(labels[example]) for example in range(examples)]
        self.classes: NDArray[np.int64] = np.array(found, np.int64)
        self.known = {"label": self.classes.astype(np.float64)}
        self.remarks = self._look_at_classes()

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Give the cross-entropy of each example, its prediction, and whether it is right."""
        inputs = self.checkpoint.inputs(batch.inputs)
        inputs.pop("decoder_input_ids", None)  # a classifier with a decoder shifts its text itself
        logits = precise(self.checkpoint.model(**inputs).logits)
        right = torch.from_numpy(self.classes[batch.members]).to(logits.device)
        prediction = logits.argmax(-1)
        return Answer(
            cross_entropy(logits, right, reduction="none"),
            {"prediction": prediction, "accuracy": prediction == right},
        )

    def _class_of(self, label: Label) -> int:
        spelled = str(label).strip()
        try:
            number = float(spelled)
        except ValueError:
            number = math.nan
        # A column of whole numbers with a gap is read as 1.0, 2.0, ...
        whole = str(int(number)) if number.is_integer() else spelled
        for one in (spelled, whole):
            for alike in (str, str.casefold):  # the exact name first
                for known, name in self._names.items():
                    if alike(one) == alike(name):
                        return known
        if number in range(self.count):
            return int(number)
        if self.count == 2 and spelled.casefold() in {"false", "true"}:
            return int(spelled.casefold() == "true")
        hint = " (-1 marks texts whose label is kept secret; take another split)" if number == -1 else ""
        raise AttnprobeError(
            f"The label {spelled[:60]!r} is not one that {self.checkpoint.name} knows: "
            f"{self._listed()}{hint}."
        )

    def _listed(self) -> str:
        named = [self._spelled(number) for number in range(min(self.count, _NAMED))]
        more = f" and {self.count - _NAMED} more" if self.count > _NAMED else ""
        return ", ".join(named) + more

    def _spelled(self, number: int) -> str:
        name = self._names.get(number, "")
        return str(number) if not name or name == f"LABEL_{number}" else f"{number} ({name})"

    def _look_at_classes(self) -> list[str]:
        counts = np.bincount(self.classes, minlength=self.count)
        present = np.flatnonzero(counts)
        if len(present) == 1:
            return [
                f"Every example has the label {self._spelled(int(present[0]))}: "
                "a model "
                "that always says so would be right, so accuracy and loss say little here."
            ]
        missing = [self._spelled(int(number)) for number in np.flatnonzero(counts == 0)]
        if missing:
            named = ", ".join(missing[:_NAMED]) + (" and others" if len(missing) > _NAMED else "")
            return [f"No example has the label {named}; heads that matter for it will not show."]
        return []
