"""One side of a correlation: a number for every head, as a table has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas

from attnprobe.errors import AttnprobeError
from attnprobe.findings.noise import Sample, sample_of
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import HALVES

#: What is compared where the user names no column: the first of these that a table has.
VALUES = ("importance", "relevance_abs", "score")
#: What names a head.
_PLACE = ("attention", "layer", "head")
#: What must be the same in all rows of a table, and is worth a word where two tables differ in it.
KINDS = ("objective", "method", "metric")
#: What names a head: the kind of attention if there are several, layer, head.
Named = tuple[Any, ...]
#: A number for each head.
Values = dict[Named, float]
#: How many columns an error names.
LISTED = 20


@dataclass(frozen=True)
class Side:
    """One table: a number for every head.

    Attributes:
        name: What the user calls it.
        model: Name of the checkpoint.
        dataset: Name of the data.
        kind: Objective, method and metric, as far as the table names them.
        column: Which number is compared.
        keys: What names a head: layer and head, and before them the kind of attention if there are several.
        values: The number for each head.
        halves: The same over two halves of the examples, where the table has them.
        sample: How the values came about block of documents by block, where the record has it.
        texts: What names the examples, where the record has it.
        record: What is on record of the table.
    """

    name: str
    model: str
    dataset: str
    kind: dict[str, str]
    column: str
    keys: tuple[str, ...]
    values: Values
    halves: tuple[Values, Values] | None
    sample: Sample | None = None
    texts: frozenset[str] = frozenset()
    record: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_table(cls, table: HeadTable, name: str, column: str | None = None) -> "Side":
        """Read a table with its record.

        Raises:
            AttnprobeError: When it is no table of heads, holds more than one, or its record is damaged.
        """
        found = cls.of(table.to_pandas(), name, column)
        corpus = table.provenance.get("corpus")
        texts = corpus.get("texts") if isinstance(corpus, Mapping) else None
        return replace(
            found,
            sample=sample_of(table.provenance, found.column, found.values, name),
            texts=frozenset(map(str, texts)) if isinstance(texts, list) else frozenset(),
            record=table.provenance,
        )

    @classmethod
    def of(cls, frame: pandas.DataFrame, name: str, column: str | None = None) -> "Side":
        """Read a table that ``importance``, ``ablate`` or any other command with a row a head wrote.

        Raises:
            AttnprobeError: When it is no such table, or holds more than one.
        """
        if not {"layer", "head"} <= set(frame.columns):
            raise AttnprobeError(
                f"{name} has no columns layer and head; give a table that `attnprobe importance` or "
                "`attnprobe ablate` wrote, or a MODEL to compare two datasets."
            )
        if not len(frame):
            raise AttnprobeError(f"{name} has no rows.")
        if column is None:
            column = next((known for known in VALUES if known in frame.columns), VALUES[0])
        if column not in frame.columns:
            listed = ", ".join(str(known) for known in frame.columns[:LISTED])
            raise AttnprobeError(f"{name} has no column {column!r}; its columns are {listed}.")
        labels = {
            kind: _only(frame, kind, name) for kind in ("model", "dataset", *KINDS) if kind in frame.columns
        }
        keys = tuple(key for key in _PLACE if key in frame.columns)
        places = list(zip(*(frame[key].tolist() for key in keys), strict=True))
        if len(set(places)) < len(places):
            raise AttnprobeError(f"{name} has more than one row for some head; give one table.")
        numbers = {
            wanted: dict(zip(places, _numbers(frame, wanted, name), strict=True))
            for wanted in (column, *(f"{column}_{half}" for half in HALVES))
            if wanted in frame.columns
        }
        first = [numbers[half] for half in numbers if half != column]
        return cls(
            name,
            labels.get("model", ""),
            labels.get("dataset", name),
            {kind: labels[kind] for kind in KINDS if kind in labels},
            column,
            keys,
            numbers[column],
            (first[0], first[1]) if len(first) == 2 else None,
        )

    def of_heads(self, heads: Sequence[Named], keys: Sequence[str], names: Sequence[Named]) -> "Side":
        """Give some of the heads, in an order.

        Args:
            heads: Which.
            keys: What names a head from now on.
            names: The new name of each.
        """
        place = {head: row for row, head in enumerate(self.values)}
        one, other = (
            {name: half[head] for name, head in zip(names, heads, strict=True)}
            for half in self.halves or (self.values, self.values)
        )
        return replace(
            self,
            keys=tuple(keys),
            values={name: self.values[head] for name, head in zip(names, heads, strict=True)},
            halves=None if self.halves is None else (one, other),
            sample=None if self.sample is None else self.sample.of_heads([place[head] for head in heads]),
        )

    @property
    def reliability(self) -> float:
        """Split-half reliability: how well a like number of other examples would give the same values.

            2 r / (1 + r), with r the Pearson correlation over heads of the two halves; r where it is below 0

        It knows of no noise but that which lowers a correlation: what makes all values of an example larger
        leaves r as it is, and reliability, too.

        References:
            Spearman (1910), Correlation calculated from faulty data; Brown (1910).
        """
        if self.halves is None:
            return float("nan")
        halves = np.array([list(half.values()) for half in self.halves])
        if not np.isfinite(halves).all() or not np.ptp(halves, axis=1).all():
            return float("nan")
        r = float(np.corrcoef(halves)[0, 1])
        return 2 * r / (1 + r) if r > 0 else r


def _only(frame: pandas.DataFrame, column: str, name: str) -> str:
    found = [str(value) for value in frame[column].fillna("empty").drop_duplicates()]
    if len(found) > 1:
        raise AttnprobeError(
            f"{name} holds more than one table (column {column}: {', '.join(found[:4])}); give one at a time."
        )
    return found[0]


def _numbers(frame: pandas.DataFrame, column: str, name: str) -> list[float]:
    try:
        return frame[column].astype(float).tolist()
    except (TypeError, ValueError):
        raise AttnprobeError(f"The column {column!r} of {name} holds something that is no number.") from None
