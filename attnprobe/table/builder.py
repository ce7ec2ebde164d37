"""Building tables column by column."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.attention.kinds import Kind, Place
from attnprobe.sums.inference import adjust
from attnprobe.table.table import Column, HeadTable

#: With fewer documents than this, standard errors are rough.
FEW_DOCUMENTS = 30


def describe_documents(record: Mapping[str, Any]) -> list[str]:
    """Write the note on the documents of a corpus on record; none if every sequence is a document."""
    corpus = record.get("corpus")
    corpus = corpus if isinstance(corpus, Mapping) else {}
    documents, sequences = corpus.get("clusters"), corpus.get("sequences")
    if documents is None or documents == sequences:
        return []
    number = "1 document" if documents == 1 else f"{documents:,} documents"
    rough = f", and rough below {FEW_DOCUMENTS}" if documents < FEW_DOCUMENTS else ""
    rough = ", and undefined for one" if documents == 1 else rough
    return [f"The {sequences:,} sequences are of {number}: standard errors are over documents{rough}."]


@dataclass(frozen=True)
class Labels:
    """What all tables of a run share: names, record, layers and notes."""

    model: str
    dataset: str
    provenance: Mapping[str, Any]  # everything needed to make the table again
    places: Sequence[Place] = ()  # the name of each layer, in the order of a forward pass
    removed: Collection[tuple[int, int]] = ()  # (layer, head) of heads that the checkpoint lacks
    notes: Sequence[str] = ()  # what a reader has to know about the corpus or the model
    #: (layer, head) without a head: the layer has fewer, or shares the weights of an earlier layer.
    tied: Collection[tuple[int, int]] = ()

    @property
    def absent(self) -> frozenset[tuple[int, int]]:
        return frozenset((*self.removed, *self.tied))

    @property
    def all_notes(self) -> list[str]:
        heads = "1 head is" if len(self.removed) == 1 else f"{len(self.removed)} heads are"
        removed = f"{heads} removed from this checkpoint; the others keep their numbers."
        return [*self.notes, *describe_documents(self.provenance), *([removed] if self.removed else [])]

    def with_record(self, more: Mapping[str, Any]) -> "Labels":
        return replace(self, provenance={**self.provenance, **more})


def measure_columns(name: str, unit: str = "", title: str = "", *, headline: bool = False) -> list[Column]:
    """Describe the columns of a measure and its standard error; pictures show the title."""
    return [Column(name, unit, headline=headline, title=title), Column(f"{name}_se", unit, role="error")]


def p_columns(name: str = "p", beside: str = "", *, headline: bool = False) -> list[Column]:
    """Describe the columns of p values and of adjusted ones; ``beside`` is the end of their titles."""
    return [
        Column(name, "probability", title=f"p{beside}"),
        Column(f"{name}_adjusted", "probability", headline=headline, title=f"adjusted p{beside}"),
    ]


class TableBuilder:
    """Collects columns with their cells, beginning with model and dataset."""

    def __init__(self, labels: Labels, rows: int) -> None:
        self.columns: list[Column] = []
        self.data: dict[str, list[Any]] = {}
        self.labels = labels
        self._kinds: list[Kind] = []
        self._layers: dict[str, list[int]] = {}
        self._absent: set[int] = set()  # rows of absent heads, which are dropped
        self.add(Column("model", role="key"), [labels.model] * rows)
        self.add(Column("dataset", role="key"), [labels.dataset] * rows)

    def add(self, column: Column, cells: Iterable[Any]) -> None:
        self.columns.append(column)
        self.data[column.name] = [cell.item() if isinstance(cell, np.generic) else cell for cell in cells]

    def heads(self, heads: int) -> None:
        """Append layer and head where each row is a head, layers in the order of a forward pass."""
        layers = len(self.labels.places)
        self.layers([layer for layer in range(layers) for _ in range(heads)])
        self.key("head", np.tile(np.arange(heads), layers))

    def layers(self, layers: Sequence[int], name: str = "layer") -> None:
        """Append the layer of each row, preceded by its kind of attention if the model has several."""
        self._layers[name] = list(layers)
        places = [self.labels.places[layer] for layer in layers]
        if not self._kinds:
            self._kinds = [place.kind for place in places if place.kind is not None]
            if self._kinds:
                self.key("attention", map(str, self._kinds))
        self.key(name, [place.layer for place in places])

    def key(self, name: str, cells: Iterable[Any]) -> None:
        """Append a column that names rows; rows of absent heads are dropped when the table is finished."""
        self.add(Column(name, role="key"), cells)
        if not name.startswith("head"):
            return
        # Of a pair within a layer, both heads are of the one layer that is named.
        layers = self._layers.get(name.replace("head", "layer", 1), self._layers.get("layer", []))
        heads = zip(layers, self.data[name], strict=True) if layers else ()
        absent = self.labels.absent
        self._absent |= {row for row, head in enumerate(heads) if head in absent}

    def count(self, name: str, cells: NDArray[Any], unit: str = "") -> None:
        self.add(Column(name, unit, role="count"), cells.astype(int).ravel())

    def rows(self, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
        """Append columns from rows that map names to cells; a missing name is an empty cell.

        ``p_adjusted`` is not taken from the rows: it is computed from the column ``p``.
        """
        for column in columns:
            if column.name == "p_adjusted":
                self.add(column, adjust(self.data["p"]))
                continue
            empty = np.nan if column.role in {"measure", "error"} else None
            self.add(column, [row.get(column.name, empty) for row in rows])

    def measure(self, name: str, unit: str, average: NDArray[Any], error: NDArray[Any], **look: Any) -> None:
        """Append a mean and its standard error, with the options of ``measure_columns``."""
        for column, cells in zip(measure_columns(name, unit, **look), (average, error), strict=True):
            self.add(column, cells.ravel())

    def test(self, p: ArrayLike, adjusted: ArrayLike | None = None, **look: Any) -> None:
        """Append p values and adjusted ones, by default Holm's, with the options of ``p_columns``."""
        every = np.ravel(p), adjust(np.ravel(p)) if adjusted is None else np.ravel(adjusted)
        for column, cells in zip(p_columns(**look), every, strict=True):
            self.add(column, cells)

    def table(self, title: str, notes: Sequence[str] = ()) -> HeadTable:
        """Make the table without absent heads: rows of encoder, then decoder, then cross-attention."""
        order = [row for row in range(len(self.data["model"])) if row not in self._absent]
        if self._kinds:
            order.sort(key=lambda row: list(Kind).index(self._kinds[row]))
        data = {name: [cells[row] for row in order] for name, cells in self.data.items()}
        every = [*notes, *self.labels.all_notes]
        return HeadTable(title, self.columns, data, every, self.labels.provenance)
