"""Building tables column by column."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.table import Column, HeadTable

Cells = list[Any]


@dataclass(frozen=True)
class Labels:
    """What the first columns and the record say.

    Attributes:
        model: Name of the checkpoint.
        dataset: Name of the corpus.
        provenance: Everything needed to make the table again.
    """

    model: str
    dataset: str
    provenance: Mapping[str, Any]


class TableBuilder:
    """Collects columns with their cells, beginning with model and dataset."""

    def __init__(self, labels: Labels, rows: int) -> None:
        """Begin a table of so many rows."""
        self.columns: list[Column] = []
        self.data: dict[str, Cells] = {}
        self._labels = labels
        self.add(Column("model", role="key"), [labels.model] * rows)
        self.add(Column("dataset", role="key"), [labels.dataset] * rows)

    def add(self, column: Column, cells: Iterable[Any]) -> None:
        """Append a column."""
        self.columns.append(column)
        self.data[column.name] = [cell.item() if isinstance(cell, np.generic) else cell for cell in cells]

    def heads(self, layers: int, heads: int) -> None:
        """Append the columns layer and head, for one row a head."""
        self.key("layer", np.repeat(np.arange(layers), heads))
        self.key("head", np.tile(np.arange(heads), layers))

    def key(self, name: str, cells: Iterable[Any]) -> None:
        """Append a column that names the row."""
        self.add(Column(name, role="key"), cells)

    def count(self, name: str, cells: NDArray[Any]) -> None:
        """Append a number of sequences."""
        self.add(Column(name, role="count"), cells.astype(int))

    def measure(
        self, name: str, unit: str, average: NDArray[Any], error: NDArray[Any], *, headline: bool = False
    ) -> None:
        """Append a mean and its standard error."""
        self.add(Column(name, unit, headline=headline), average)
        self.add(Column(f"{name}_se", unit, role="error"), error)

    def table(self, title: str, notes: Sequence[str] = ()) -> HeadTable:
        """Finish."""
        return HeadTable(title, self.columns, self.data, notes, self._labels.provenance)
