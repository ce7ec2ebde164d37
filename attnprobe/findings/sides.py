"""The two sides of a correlation: the heads that both have, and the examples that both read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.errors import DataError
from attnprobe.findings.noise import Sample, read_sample
from attnprobe.table.naming import join_names
from attnprobe.table.table import Cell, HeadTable

Floats = NDArray[np.float64]
#: The column that is compared by default is the first of these that a table has.
VALUES = ("importance", "ig_abs", "relevance_abs", "score")
_ATTENTION = "attention"
#: The keys of a head.
_PLACE = (_ATTENTION, "layer", "head")
#: Columns that must be the same in all rows of a table; if the two tables differ in one, a note says so.
SETTINGS = ("objective", "method", "metric", "replaced_by")
#: The kind of attention if there are several, layer, head.
Head = tuple[Any, ...]
#: How many columns an error names, and how many values of a column.
_COLUMNS, _LABELS = 20, 4
#: The fewest heads of a correlation.
_LEAST = 3
#: If one of these counts of a corpus is not 0, documents were skipped, and later ones have other numbers.
_SKIPPED = ("empty", "unanswered", "words_lost")

#: The end of the error for a side that is not a table of heads.
MODEL_IS_MISSING = (
    "a model is missing where the sides are data, `attnprobe correlate MODEL --in-domain DATA --out-domain "
    "DATA`; or give tables that `attnprobe importance` or `attnprobe ablate` wrote."
)


@dataclass(frozen=True)
class TableSide:
    """One table: a number for every head."""

    name: str  # what the user calls the table
    column: str  # the column that is compared
    keys: tuple[str, ...]  # what names a head: layer and head, and first the kind of attention if needed
    heads: Sequence[Head]
    values: Floats  # (head,)
    labels: Mapping[str, str]  # model, dataset, objective, method and metric, as far as the table names them
    unit: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_table(cls, table: HeadTable, name: str, column: str | None = None) -> "TableSide":
        """Read a column of a table of heads, by default the first of ``VALUES``, or raise DataError."""
        if not {"layer", "head"} <= table.data.keys():
            raise DataError(f"{name} has no columns layer and head; {MODEL_IS_MISSING}")
        if not len(table):
            raise DataError(f"{name} has no rows.")
        column = column or next((value for value in VALUES if value in table.data), VALUES[0])
        if column not in table.data:
            listed = ", ".join([*table.data][:_COLUMNS])
            raise DataError(f"{name} has no column {column!r}; its columns are {listed}.")
        labels = {
            label: _read_label(table.data[label], label, name)
            for label in ("model", "dataset", *SETTINGS)
            if label in table.data
        }
        keys = tuple(key for key in _PLACE if key in table.data)
        heads = list(zip(*(table.data[key] for key in keys), strict=True))
        if len(set(heads)) < len(heads):
            raise DataError(f"{name} has more than one row for some head; give one table.")
        try:
            values = np.array(table.data[column], np.float64)
        except (TypeError, ValueError):
            raise DataError(f"The column {column!r} of {name} holds something that is no number.") from None
        return cls(name, column, keys, heads, values, labels, table.column(column).unit, table.provenance)

    @property
    def model(self) -> str:
        return self.labels.get("model", "")

    @property
    def dataset(self) -> str:
        return self.labels.get("dataset", self.name)

    @cached_property
    def sample(self) -> Sample | None:
        """The sums over blocks of documents on record; None if there are none."""
        numbers = dict(zip(self.heads, self.values.tolist(), strict=True))
        return read_sample(self.record, self.column, numbers, self.name)

    @property
    def reliability(self) -> float:
        return float("nan") if self.sample is None else self.sample.reliability

    @property
    def texts(self) -> frozenset[str]:
        """The hashes of the texts that were read."""
        texts = self.read("corpus").get("texts")
        return frozenset(map(str, texts)) if isinstance(texts, list) else frozenset()

    def read(self, name: str) -> Mapping[str, Any]:
        """Read a part of the record; empty if it has none."""
        part = self.record.get(name)
        return part if isinstance(part, Mapping) else {}

    def select(self, heads: Sequence[Head]) -> "TableSide":
        rows = {head: row for row, head in enumerate(self.heads)}
        return replace(self, heads=list(heads), values=self.values[[rows[head] for head in heads]])


def _read_label(cells: Sequence[Cell], column: str, name: str) -> str:
    """Give the single value of a column as text, a blank as "empty"; raise DataError if there are several."""
    labels = list(dict.fromkeys("empty" if cell is None else str(cell) for cell in cells))
    if len(labels) > 1:
        raise DataError(
            f"{name} holds more than one table (column {column}: {', '.join(labels[:_LABELS])}); give one at "
            "a time."
        )
    return labels[0]


@dataclass(frozen=True)
class PairedSides:
    """Two sides that are about the same heads."""

    inside: TableSide  # in domain, or the first checkpoint
    outside: TableSide  # out of domain, or the other checkpoint, with the heads in the same order
    keys: tuple[str, ...]  # what names a head
    heads: Sequence[Head]
    across: bool  # whether the sides may be about different checkpoints
    shared: bool | None  # whether a document of a number is the same one on both; None where nobody knows
    notes: tuple[str, ...] = ()  # what was left out

    @classmethod
    def of(cls, inside: TableSide, outside: TableSide, *, across: bool = False) -> "PairedSides":
        """Pair two sides; raises DataError if they can't be compared head by head."""
        shared = _share_documents(inside, outside, across=across)
        if across:
            pair = _pair_checkpoints(inside, outside, shared)
        else:
            _check_same_heads(inside, outside)
            keys, heads = inside.keys, inside.heads
            pair = cls(inside, outside.select(heads), keys, heads, across, shared)
        if len(pair.heads) < _LEAST:
            raise DataError(f"A correlation needs at least {_LEAST} heads; there are {len(pair.heads)}.")
        for side in (pair.inside, pair.outside):
            if not np.isfinite(side.values).all():
                raise DataError(f"{side.name} has no {side.column} for some heads.")
            if np.ptp(side.values) == 0:
                raise DataError(
                    f"All heads have the same {side.column} in {side.name}, which leaves a correlation "
                    "undefined."
                )
        return pair

    @property
    def values(self) -> tuple[Floats, Floats]:
        return self.inside.values, self.outside.values


def _check_same_heads(inside: TableSide, outside: TableSide) -> None:
    if inside.model != outside.model:
        models = [side.model or "no named model" for side in (inside, outside)]
        raise DataError(
            f"{inside.name} is about {models[0]} and {outside.name} about {models[1]}; only heads of the "
            "same model are compared, unless --across-models asks for others."
        )
    ours, theirs = set(inside.heads), set(outside.heads)
    if ours != theirs:
        raise DataError(
            f"{inside.name} has {len(ours)} heads and {outside.name} {len(theirs)}, and {len(ours ^ theirs)} "
            "are in only one of them; give two tables of the same heads."
        )


def _share_documents(inside: TableSide, outside: TableSide, *, across: bool) -> bool | None:
    """Tell whether documents of the same number are the same on both sides; None if unknown.

    With different tokenizers, the same data give documents the same numbers if none was skipped.
    """
    if inside.texts & outside.texts:
        return True if inside.texts == outside.texts else None
    digests = [side.read("dataset").get("sha256") for side in (inside, outside)]
    same_data = digests[0] == digests[1] if all(digests) else inside.dataset == outside.dataset
    if not across or not same_data:
        return False
    corpora = [side.read("corpus") for side in (inside, outside)]
    skipped = any(not corpus or any(corpus.get(name) for name in _SKIPPED) for corpus in corpora)
    same_objective = inside.labels.get("objective") == outside.labels.get("objective")
    return True if same_objective and not skipped else None


def _pair_checkpoints(inside: TableSide, outside: TableSide, shared: bool | None) -> PairedSides:
    """Pair the heads that two checkpoints have in common, with notes on others; raise DataError for none."""
    sides = inside, outside
    places = [_place_heads(side) for side in sides]
    shapes = [_find_shapes(side, placed) for side, placed in zip(sides, places, strict=True)]
    names = [side.model or side.name for side in sides]
    alike = [kind for kind, shape in shapes[0].items() if shapes[1].get(kind) == shape]
    if not alike:
        described = " and ".join(
            f"{name} has {_describe_shapes(shape)}" for name, shape in zip(names, shapes, strict=True)
        )
        raise DataError(
            f"{described}, so that heads can't be put side by side; "
            f"`attnprobe compare {' '.join(names)}` takes checkpoints of different shapes."
        )
    notes = [
        f"Only heads of {join_names(alike)} attention are compared; those of {join_names(more)} attention in "
        f"{name} have no counterpart."
        for name, shape in zip(names, shapes, strict=True)
        if (more := [kind for kind in shape if kind not in alike])
    ]
    ours, theirs = ({place: placed[place] for place in placed if place[0] in alike} for placed in places)
    for name, lacking in zip(names, (theirs.keys() - ours, ours.keys() - theirs), strict=True):
        if lacking:
            noun = "head is" if len(lacking) == 1 else "heads are"
            notes.append(f"{len(lacking)} {noun} left out, which {name} has lost by pruning.")
    common = [place for place in ours if place in theirs]
    first = inside.select([ours[place] for place in common])
    second = outside.select([theirs[place] for place in common])
    keys, heads = _PLACE, common
    if _ATTENTION not in {*inside.keys, *outside.keys}:
        keys, heads = _PLACE[1:], [place[1:] for place in common]
    return PairedSides(first, second, keys, heads, across=True, shared=shared, notes=tuple(notes))


def _place_heads(side: TableSide) -> dict[Head, Head]:
    """Map kind of attention, layer and number of each head to the keys of a side, which may lack the kind."""
    if _ATTENTION in side.keys:
        return {(str(head[0]), *head[1:]): head for head in side.heads}
    kinds = side.read("architecture").get("kinds")
    known = set(map(str, kinds)) if isinstance(kinds, list | tuple) else set[str]()
    kind = known.pop() if len(known) == 1 else str(Kind.ENCODER)  # a lone kind is not always named
    return {(kind, *head): head for head in side.heads}


def _find_shapes(side: TableSide, places: Iterable[Head]) -> dict[str, tuple[int, int]]:
    """Count the layers of each kind of attention, and the heads in each, including removed ones."""
    architecture = side.read("architecture")
    layers: dict[str, set[Any]] = {}
    heads: dict[str, int] = {}
    for kind, layer, head in places:
        layers.setdefault(kind, set()).add(layer)
        heads[kind] = max(heads.get(kind, 0), int(head) + 1)
    shapes = {}
    for kind, numbered in layers.items():
        number = _read_size(architecture, "layers", len(numbered)) if len(layers) == 1 else len(numbered)
        shapes[kind] = number, _read_size(architecture, "heads", heads[kind])
    return shapes


def _read_size(architecture: Mapping[str, Any], name: str, least: int) -> int:
    size = architecture.get(name)
    return max(size, least) if isinstance(size, int) else least


def _describe_shapes(shapes: Mapping[str, tuple[int, int]]) -> str:
    return join_names(
        [f"{layers} layers of {heads} heads ({kind})" for kind, (layers, heads) in shapes.items()]
    )
