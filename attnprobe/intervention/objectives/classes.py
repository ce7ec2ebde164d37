"""What a classifier can say: the classes that a checkpoint knows, and how files spell them."""

import math
from enum import Enum, auto
from typing import Any

from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint

#: How many classes an error message names.
NAMED = 8


class Prediction(Enum):
    """What a sequence classification head predicts of a text."""

    CLASS = auto()
    NUMBER = auto()
    LABELS = auto()


def predicts(checkpoint: Checkpoint) -> Prediction:
    """Tell what a sequence classification head predicts, by its ``problem_type`` and number of labels."""
    config: Any = checkpoint.model.config
    if config.num_labels < 2 or config.problem_type == "regression":
        return Prediction.NUMBER
    if config.problem_type == "multi_label_classification":
        return Prediction.LABELS
    return Prediction.CLASS


class Classes:
    """The classes that a checkpoint knows.

    Attributes:
        count: How many they are.
        names: Their names by their numbers.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Read the names off the configuration."""
        config: Any = checkpoint.model.config
        self._owner = checkpoint.name
        self.names: dict[int, str] = {int(key): str(name) for key, name in config.id2label.items()}
        self.count: int = config.num_labels

    def number(self, label: Any) -> int:
        """Give the number of a class that a file spells by its name or its number.

        Raises:
            AttnprobeError: When the checkpoint does not know it.
        """
        found = self.find(label)
        if found is not None:
            return found
        hint = ""
        if _number(str(label)) == -1:
            hint = " (-1 marks texts whose label is kept secret; take another split)"
        raise AttnprobeError(
            f"The label {str(label).strip()[:60]!r} is not one that {self._owner} knows: "
            f"{self._listed()}{hint}."
        )

    def find(self, label: Any) -> int | None:
        """Give the number of a class, or None where there is none of that name or number."""
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
        """Name a class for a person."""
        name = self.names.get(number, "")
        return str(number) if not name or name == f"LABEL_{number}" else f"{number} ({name})"

    def _listed(self) -> str:
        named = [self.spelled(number) for number in range(min(self.count, NAMED))]
        more = f" and {self.count - NAMED} more" if self.count > NAMED else ""
        return ", ".join(named) + more


def _number(spelled: str) -> float:
    try:
        return float(spelled)
    except ValueError:
        return math.nan
