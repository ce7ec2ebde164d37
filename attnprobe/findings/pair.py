"""The two sides of a correlation: which heads both have, and which examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.errors import AttnprobeError
from attnprobe.findings.noise import Sample, read_sample
from attnprobe.sums.documents import BLOCKS
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import join_names

#: What is compared where the user names no column: the first of these that a table has.
VALUES = ("importance", "ig_abs", "relevance_abs", "score")
#: What names a head.
_PLACE = ("attention", "layer", "head")
#: What must be the same in all rows of a table, and is worth a word where two tables differ in it.
KINDS = ("objective", "method", "metric", "replaced_by")
#: What names a head: the kind of attention if there are several, layer, head.
Named = tuple[Any, ...]
#: A number for each head.
Values = dict[Named, float]
#: How many columns an error names.
LISTED = 20


#: What is said of a side that is no table of heads.
MODEL_IS_MISSING = (
    "a model is missing where the sides are data, `attnprobe correlate MODEL --in-domain DATA --out-domain "
    "DATA`; or give tables that `attnprobe importance` or `attnprobe ablate` wrote."
)


@dataclass(frozen=True)
class Side:
    """One table: a number for every head.

    Attributes:
        kind: Objective, method and metric, as far as the table names them.
        keys: What names a head: layer and head, and before them the kind of attention if there are several.
        sample: How the values came about block of documents by block, where the record has it.
        texts: What names the examples, where the record has it.
        unit: That of the column, where a table says it.
    """

    name: str
    model: str
    dataset: str
    kind: dict[str, str]
    column: str
    keys: tuple[str, ...]
    values: Values
    sample: Sample | None = None
    texts: frozenset[str] = frozenset()
    unit: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_table(cls, table: HeadTable, name: str, column: str | None = None) -> "Side":
        found = cls.from_frame(table.to_pandas(), name, column)
        corpus = table.provenance.get("corpus")
        texts = corpus.get("texts") if isinstance(corpus, Mapping) else None
        return replace(
            found,
            sample=read_sample(table.provenance, found.column, found.values, name),
            texts=frozenset(map(str, texts)) if isinstance(texts, list) else frozenset(),
            unit=table.column(found.column).unit,
            record=table.provenance,
        )

    @classmethod
    def from_frame(cls, frame: pandas.DataFrame, name: str, column: str | None = None) -> "Side":
        """Read a table that ``importance``, ``ablate`` or any other command with a row a head wrote."""
        if not {"layer", "head"} <= set(frame.columns):
            raise AttnprobeError(f"{name} has no columns layer and head; {MODEL_IS_MISSING}")
        if not len(frame):
            raise AttnprobeError(f"{name} has no rows.")
        if column is None:
            column = next((known for known in VALUES if known in frame.columns), VALUES[0])
        if column not in frame.columns:
            listed = ", ".join(map(str, frame.columns[:LISTED]))
            raise AttnprobeError(f"{name} has no column {column!r}; its columns are {listed}.")
        named = [kind for kind in ("model", "dataset", *KINDS) if kind in frame.columns]
        labels = {kind: _read_label(frame, kind, name) for kind in named}
        keys = tuple(key for key in _PLACE if key in frame.columns)
        places = list(zip(*(frame[key].tolist() for key in keys), strict=True))
        if len(set(places)) < len(places):
            raise AttnprobeError(f"{name} has more than one row for some head; give one table.")
        values = dict(zip(places, _read_numbers(frame, column, name), strict=True))
        kind = {kind: labels[kind] for kind in KINDS if kind in labels}
        model, dataset = labels.get("model", ""), labels.get("dataset", name)
        return cls(name, model, dataset, kind, column, keys, values)

    def select_heads(self, heads: Sequence[Named], keys: Sequence[str], names: Sequence[Named]) -> "Side":
        """Select heads in an order, and give them new names of these keys."""

        def select(values: Values) -> Values:
            return {name: values[head] for name, head in zip(names, heads, strict=True)}

        place = {head: row for row, head in enumerate(self.values)}
        return replace(
            self,
            keys=tuple(keys),
            values=select(self.values),
            sample=self.sample and self.sample.select_heads([place[head] for head in heads]),
        )

    @property
    def reliability(self) -> float:
        """Split-half reliability: how well a like number of other examples would give the same values.

            2 r / (1 + r), with r the Pearson correlation over heads of the two halves; r where it is below 0

        References:
            Spearman (1910), Correlation calculated from faulty data; Brown (1910).
        """
        if self.sample is None:
            return float("nan")
        numbers = np.arange(len(self.sample.count)) if self.sample.block is None else self.sample.block
        second = numbers >= BLOCKS // 2
        if second.all() or not second.any():
            return float("nan")
        count, total = self.sample.count, self.sample.total
        halves = np.stack([total[some].sum(0) / count[some].sum() for some in (~second, second)])
        if not np.isfinite(halves).all() or not all(np.ptp(half) for half in halves):
            return float("nan")
        r = float(np.asarray(np.corrcoef(halves))[0, 1])
        return 2 * r / (1 + r) if r > 0 else r


def _read_label(frame: pandas.DataFrame, column: str, name: str) -> str:
    found = [str(value) for value in frame[column].fillna("empty").drop_duplicates()]
    if len(found) > 1:
        raise AttnprobeError(
            f"{name} holds more than one table (column {column}: {', '.join(found[:4])}); give one at a time."
        )
    return found[0]


def _read_numbers(frame: pandas.DataFrame, column: str, name: str) -> list[float]:
    try:
        return frame[column].astype(float).tolist()
    except (TypeError, ValueError):
        raise AttnprobeError(f"The column {column!r} of {name} holds something that is no number.") from None


_ATTENTION = "attention"
#: With these of a corpus, documents were skipped, and the numbers of the others moved up.
_SKIPPED = ("empty", "unanswered", "words_lost")


@dataclass(frozen=True)
class Pair:
    """Two sides that are about the same heads.

    Attributes:
        inside: In domain, or the first checkpoint.
        outside: Out of domain, or the other checkpoint, with the heads in the same order.
        shared: Whether a document of a number is the same one on both sides; None where nobody knows.
    """

    inside: Side
    outside: Side
    across: bool
    shared: bool | None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, inside: Side, outside: Side, *, across: bool = False) -> "Pair":
        """Pair two sides, which may be about different checkpoints with ``across``."""
        notes: tuple[str, ...] = ()
        shared = _same_documents(inside, outside, across=across)
        if across:
            named = _ATTENTION in {*inside.keys, *outside.keys}
            inside, outside, notes = _match_heads(inside, outside, named=named)
        elif inside.model != outside.model:
            raise AttnprobeError(
                f"{inside.name} is about {inside.model or 'no named model'} and {outside.name} about "
                f"{outside.model or 'no named model'}; only heads of the same model are compared, unless "
                "--across-models asks for others."
            )
        ours, theirs = inside.values.keys(), outside.values.keys()
        if ours != theirs:
            raise AttnprobeError(
                f"{inside.name} has {len(ours)} heads and {outside.name} {len(theirs)}, and "
                f"{len(ours ^ theirs)} are in only one of them; give two tables of the same heads."
            )
        if len(ours) < 3:
            raise AttnprobeError(f"A correlation needs at least 3 heads; there are {len(ours)}.")
        for side in (inside, outside):
            values = np.array(list(side.values.values()))
            if not np.isfinite(values).all():
                raise AttnprobeError(f"{side.name} has no {side.column} for some heads.")
            if np.ptp(values) == 0:
                raise AttnprobeError(
                    f"All heads have the same {side.column} in {side.name}, which leaves a correlation "
                    "undefined."
                )
        places = list(inside.values)
        return cls(inside, outside.select_heads(places, outside.keys, places), across, shared, notes)

    @property
    def values(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The values of both sides, head by head."""
        x, y = (np.array(list(side.values.values())) for side in (self.inside, self.outside))
        return x, y


def _match_heads(inside: Side, outside: Side, *, named: bool) -> tuple[Side, Side, tuple[str, ...]]:
    """Select the heads that two checkpoints have in common, kind by kind, and note what is left out."""
    ours, theirs = _find_grids(inside), _find_grids(outside)
    sides = (inside, ours), (outside, theirs)
    alike = [kind for kind in ours if kind in theirs and ours[kind].shape == theirs[kind].shape]
    if not alike:
        shapes = []
        for side, grids in sides:
            several = _ATTENTION in side.keys
            shape = describe_shapes({kind if several else "": grid.shape for kind, grid in grids.items()})
            shapes.append((side.model or side.name, shape))
        raise AttnprobeError(describe_mismatch(*shapes))
    notes = []
    for side, grids in sides:
        if more := [kind for kind in grids if kind not in alike]:
            notes.append(
                f"Only heads of {join_names(alike)} attention are compared; those of {join_names(more)} "
                f"attention in {side.model or side.name} have no counterpart."
            )
    heads = [(kind, place) for kind in alike for place in ours[kind].heads if place in theirs[kind].heads]
    for side, grids, others in ((inside, ours, theirs), (outside, theirs, ours)):
        lacking = sum(len(others[kind].heads.keys() - grids[kind].heads.keys()) for kind in alike)
        if lacking:
            noun = "head is" if lacking == 1 else "heads are"
            notes.append(f"{lacking} {noun} left out, which {side.model or side.name} has lost by pruning.")
    keys = ((_ATTENTION,) if named else ()) + ("layer", "head")
    names = [((kind, *place) if named else place) for kind, place in heads]
    one, other = (
        side.select_heads([grids[kind].heads[place] for kind, place in heads], keys, names)
        for side, grids in sides
    )
    return one, other, tuple(notes)


@dataclass(frozen=True)
class _Grid:
    """The heads of a kind of attention.

    Attributes:
        shape: Number of layers; heads in each, those included that were removed.
        heads: What the side calls a head, by its layer and its number.
    """

    shape: tuple[int, int]
    heads: dict[Named, Named]


def _find_grids(side: Side) -> dict[str, _Grid]:
    """Find the heads of each kind of attention; a checkpoint with only one does not always name it."""
    found: dict[str, dict[Named, Named]] = {}
    for head in side.values:
        kind = str(head[0]) if _ATTENTION in side.keys else _find_kind(side)
        found.setdefault(kind, {})[tuple(head[-2:])] = head
    grids = {}
    for kind, heads in found.items():
        layers, most = len({layer for layer, _ in heads}), max(int(head) for _, head in heads) + 1
        if len(found) == 1:
            layers = _read_size(side, "layers", layers)
        grids[kind] = _Grid((layers, _read_size(side, "heads", most)), heads)
    return grids


def _read_size(side: Side, name: str, least: int) -> int:
    found = _get_record(side, "architecture").get(name)
    return max(found, least) if isinstance(found, int) else least


def _find_kind(side: Side) -> str:
    kinds = _get_record(side, "architecture").get("kinds")
    known = {str(kind) for kind in kinds} if isinstance(kinds, list | tuple) else set[str]()
    return known.pop() if len(known) == 1 else str(Kind.ENCODER)


def describe_mismatch(one: tuple[str, str], other: tuple[str, str]) -> str:
    return (
        f"{one[0]} has {one[1]} and {other[0]} has {other[1]}, so that heads can't be put side by side; "
        f"`attnprobe compare {one[0]} {other[0]}` takes checkpoints of different shapes."
    )


def describe_shapes(shapes: Mapping[str, tuple[int, int]]) -> str:
    """Say how many layers of how many heads there are of each kind of attention.

    >>> describe_shapes({"": (6, 12)})
    '6 layers of 12 heads'
    >>> describe_shapes({"encoder": (1, 1), "decoder": (2, 1)})
    '1 layer of 1 head (encoder) and 2 layers of 1 head (decoder)'
    """
    found = []
    for kind, (layers, heads) in shapes.items():
        shape = f"{layers} layer{'s' * (layers != 1)} of {heads} head{'s' * (heads != 1)}"
        found.append(f"{shape} ({kind})" if kind else shape)
    return join_names(found)


def _same_documents(inside: Side, outside: Side, *, across: bool) -> bool | None:
    """Tell whether a document of a number is the same one on both sides; None where nobody knows.

    Where tokenizers differ, documents of the same data have the same numbers if none was skipped.
    """
    if inside.texts & outside.texts:
        return True if inside.texts == outside.texts else None
    if not across or not _same_data(inside, outside):
        return False
    numbered = inside.kind.get("objective") == outside.kind.get("objective") and all(
        corpus and not any(corpus.get(name) for name in _SKIPPED)
        for corpus in (_get_record(side, "corpus") for side in (inside, outside))
    )
    return True if numbered else None


def _same_data(inside: Side, outside: Side) -> bool:
    digests = [_get_record(side, "dataset").get("sha256") for side in (inside, outside)]
    if all(digests):
        return digests[0] == digests[1]
    return inside.dataset == outside.dataset


def _get_record(side: Side, name: str) -> Mapping[str, Any]:
    found = side.record.get(name)
    return found if isinstance(found, Mapping) else {}
