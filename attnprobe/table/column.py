"""What a column of a table holds."""

from dataclasses import dataclass
from typing import Literal

Role = Literal["key", "count", "measure", "error", "text"]


@dataclass(frozen=True)
class Column:
    """What a column holds.

    Attributes:
        name: The header; a contract with programs that read the table.
        unit: "nats", "share", "tokens", "ratio", ...; what a count counts, if not sequences; "" for labels.
        role: "key" names the row (model, layer, head, ...), "count" is a number of sequences
            or an index, "measure" is a measurement, "error" the standard error of the measure
            whose name comes before ``_se``, "text" a finding in words.
        headline: Whether a reader is shown the measure when there is no room for all.
        title: A few words for the axis of a picture, where the name says too little.
    """

    name: str
    unit: str = ""
    role: Role = "measure"
    headline: bool = False
    title: str = ""

    @property
    def is_probability(self) -> bool:
        """Whether it holds p values."""
        return self.unit == "probability" or self.name == "p" or self.name.endswith(("_p", "p_adjusted"))
