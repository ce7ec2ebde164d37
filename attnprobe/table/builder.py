"""Building tables column by column."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind, Place
from attnprobe.sums.inference import adjust
from attnprobe.table.table import Column, HeadTable

Cells = list[Any]
#: Errors over so few documents are rough.
FEW_DOCUMENTS = 30


def describe_documents(record: Mapping[str, Any]) -> list[str]:
    """Say how many documents a corpus on record has, where they are fewer than its sequences."""
    corpus = record.get("corpus")
    corpus = corpus if isinstance(corpus, Mapping) else {}
    documents, sequences = corpus.get("clusters"), corpus.get("sequences")
    if documents is None or documents == sequences:
        return []
    if documents == 1:
        number = "only 1 document: standard errors are over documents, and undefined for one"
    elif documents < FEW_DOCUMENTS:
        rough = f"standard errors are over documents, and rough below {FEW_DOCUMENTS}"
        number = f"only {documents} documents: {rough}"
    else:
        number = f"{documents:,} documents, over which standard errors are taken"
    return [f"The {sequences:,} sequences are of {number}."]


@dataclass(frozen=True)
class Labels:
    """What the first columns and the record say."""

    model: str
    dataset: str
    provenance: Mapping[str, Any]  # everything needed to make the table again
    places: Sequence[Place] = ()  # what names each layer, in the order of a forward pass
    patches: bool = False  # whether tokens are patches of an image, and distances are counted in them
    #: Heads that the checkpoint lacks, as place of the layer and head; they have no rows.
    removed: Collection[tuple[int, int]] = ()
    notes: Sequence[str] = ()  # what a reader has to know of the corpus or the model beside every table of it
    #: Heads with the weights of one in an earlier layer, whose row is theirs too; and where layers have
    #: different numbers of heads, those that are none.
    tied: Collection[tuple[int, int]] = ()

    @property
    def absent(self) -> frozenset[tuple[int, int]]:
        """Heads that have no row of their own."""
        return frozenset((*self.removed, *self.tied))

    @property
    def every_note(self) -> list[str]:
        """The notes that stand below every table."""
        number = len(self.removed)
        heads = "1 head is" if number == 1 else f"{number} heads are"
        removed = [f"{heads} removed from this checkpoint; the others keep their numbers."] if number else []
        return [*self.notes, *describe_documents(self.provenance), *removed]

    def with_record(self, more: Mapping[str, Any]) -> "Labels":
        return replace(self, provenance={**self.provenance, **more})


def measure_columns(name: str, unit: str = "", title: str = "", *, headline: bool = False) -> list[Column]:
    """Describe a measure and, beside it, its standard error."""
    return [Column(name, unit, headline=headline, title=title), Column(f"{name}_se", unit, role="error")]


def p_columns(name: str = "p", beside: str = "", *, headline: bool = False) -> list[Column]:
    """Describe p values and those that are adjusted."""
    return [
        Column(name, "probability", title=f"p{beside}"),
        Column(f"{name}_adjusted", "probability", headline=headline, title=f"adjusted p{beside}"),
    ]


class TableBuilder:
    """Collects columns with their cells, beginning with model and dataset."""

    def __init__(self, labels: Labels, rows: int) -> None:
        self.columns: list[Column] = []
        self.data: dict[str, Cells] = {}
        self._labels = labels
        self._kinds: list[Kind] = []
        self._layers: dict[str, list[int]] = {}
        self._absent: set[int] = set()  # rows of heads that get none
        self.add(Column("model", role="key"), [labels.model] * rows)
        self.add(Column("dataset", role="key"), [labels.dataset] * rows)

    def add(self, column: Column, cells: Iterable[Any]) -> None:
        self.columns.append(column)
        self.data[column.name] = [cell.item() if isinstance(cell, np.generic) else cell for cell in cells]

    def heads(self, heads: int) -> None:
        """Append the columns layer and head, for one row a head, layers in the order of a forward pass."""
        layers = len(self._labels.places)
        self.layers([layer for layer in range(layers) for _ in range(heads)])
        self.key("head", np.tile(np.arange(heads), layers))

    def layers(self, layers: Sequence[int], name: str = "layer") -> None:
        """Append the layer of each row, and before it its kind of attention where there are several."""
        self._layers[name] = list(layers)
        places = [self._labels.places[layer] for layer in layers]
        if not self._kinds:
            self._kinds = [place.kind for place in places if place.kind is not None]
            if self._kinds:
                self.key("attention", map(str, self._kinds))
        self.key(name, [place.layer for place in places])

    def key(self, name: str, cells: Iterable[Any]) -> None:
        """Append a column that names the row; rows of heads that are absent are dropped in the end."""
        self.add(Column(name, role="key"), cells)
        if not name.startswith("head"):
            return
        # Of a pair within a layer, both heads are of the one layer that is named.
        layers = self._layers.get(name.replace("head", "layer", 1), self._layers.get("layer", []))
        heads = zip(layers, self.data[name], strict=True) if layers else ()
        absent = self._labels.absent
        self._absent |= {row for row, head in enumerate(heads) if head in absent}

    def count(self, name: str, cells: NDArray[Any], unit: str = "") -> None:
        """Append a number of sequences, or of what else the unit says."""
        self.add(Column(name, unit, role="count"), cells.astype(int).ravel())

    def rows(self, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
        """Append columns whose cells rows hold by their names.

        What a row lacks is an empty cell. ``p_adjusted`` is not in the rows: it is made of the column ``p``.
        """
        for column in columns:
            if column.name == "p_adjusted":
                self.add(column, adjust(self.data["p"]))
                continue
            empty = np.nan if column.role in {"measure", "error"} else None
            self.add(column, [row.get(column.name, empty) for row in rows])

    def measure(
        self,
        name: str,
        unit: str,
        average: NDArray[Any],
        error: NDArray[Any],
        *,
        headline: bool = False,
        title: str = "",
    ) -> None:
        """Append a mean and its standard error; ``title`` names them on the axis of a picture."""
        for column, cells in zip(
            measure_columns(name, unit, title, headline=headline), (average, error), strict=True
        ):
            self.add(column, cells.ravel())

    def test(
        self,
        p: Iterable[Any],
        adjusted: Iterable[Any] | None = None,
        *,
        name: str = "p",
        beside: str = "",
        headline: bool = False,
    ) -> None:
        """Append p values and those adjusted, by Holm where none are given; ``beside`` ends their titles."""
        cells = np.ravel(np.asarray(p))
        others = adjust(cells) if adjusted is None else np.ravel(np.asarray(adjusted))
        for column, values in zip(p_columns(name, beside, headline=headline), (cells, others), strict=True):
            self.add(column, values)

    def table(self, title: str, notes: Sequence[str] = ()) -> HeadTable:
        """Finish: all of the encoder first, then of the decoder, then of cross-attention."""
        order = [row for row in range(len(self.data["model"])) if row not in self._absent]
        if self._kinds:
            order.sort(key=lambda row: list(Kind).index(self._kinds[row]))
        if self._kinds or self._absent:
            self.data = {name: [cells[row] for row in order] for name, cells in self.data.items()}
        every = [*notes, *self._labels.every_note]
        return HeadTable(title, self.columns, self.data, every, self._labels.provenance)
