"""Whether the same heads matter on other data: correlation over heads of two tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.findings.noise import LEAST, Disattenuated, Sample, disattenuated, sample_of
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import HALVES, Column

#: What is compared where the user names no column: the first of these that a table has.
VALUES = ("importance", "relevance_abs", "score")
#: What names a head.
_PLACE = ("attention", "layer", "head")
#: What must be the same in all rows of a table, and is worth a word where two tables differ in it.
_KINDS = ("objective", "method", "metric")
#: A number for each head.
Values = dict[tuple[Any, ...], float]
#: Standard deviations that are rounding.
_ROUNDING = 1e-9
#: Confidence of the interval.
CONFIDENCE = 0.95
#: An interval wider than this tells next to nothing.
HIDDEN = 1.0
#: With fewer heads than this, the notes say how little a correlation proves.
FEW = 100
#: How many columns an error names.
LISTED = 20
#: How many heads the notes name.
NAMED = 5


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
            kind: _only(frame, kind, name) for kind in ("model", "dataset", *_KINDS) if kind in frame.columns
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
            {kind: labels[kind] for kind in _KINDS if kind in labels},
            column,
            keys,
            numbers[column],
            (first[0], first[1]) if len(first) == 2 else None,
        )

    @property
    def reliability(self) -> float:
        """Split-half reliability: how well a like number of other examples would give the same values.

            2 r / (1 + r), with r the Pearson correlation over heads of the two halves; r where it is below 0

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


def matched(inside: Side, outside: Side) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the values of both sides head by head.

    Raises:
        AttnprobeError: When the sides are not about the same heads, or leave a correlation undefined.
    """
    if inside.model != outside.model:
        raise AttnprobeError(
            f"{inside.name} is about {inside.model or 'no named model'} and {outside.name} about "
            f"{outside.model or 'no named model'}; only heads of the same model can be compared."
        )
    ours, theirs = inside.values.keys(), outside.values.keys()
    if ours != theirs:
        raise AttnprobeError(
            f"{inside.name} has {len(ours)} heads and {outside.name} {len(theirs)}, and "
            f"{len(ours ^ theirs)} are "
            "in only one of them; give two tables of the same heads."
        )
    if len(ours) < 3:
        raise AttnprobeError(f"A correlation needs at least 3 heads; there are {len(ours)}.")
    found = np.array([[side.values[place] for place in ours] for side in (inside, outside)])
    for side, values in zip((inside, outside), found, strict=True):
        if not np.isfinite(values).all():
            raise AttnprobeError(f"{side.name} has no {side.column} for some heads.")
        if np.ptp(values) == 0:
            raise AttnprobeError(
                f"All heads have the same {side.column} in {side.name}, which leaves a correlation undefined."
            )
    return found[0], found[1]


def comparison_table(inside: Side, outside: Side, facts: Mapping[str, Any]) -> HeadTable:
    """Correlate two sides over heads, in one row.

    Pearson with an interval from Fisher's z, which takes the heads for a random sample; what it would be
    without the noise of the examples (``findings/noise.py``); Spearman, Kendall's tau-b, each with its
    two-sided p; and the split-half reliability of both sides.

    References:
        Michel, Levy and Neubig (2019), section 3.4.
    """
    from scipy.stats import kendalltau, pearsonr, spearmanr  # takes a second to import

    x, y = matched(inside, outside)
    pearson: Any = pearsonr(x, y)
    interval = pearson.confidence_interval(CONFIDENCE) if len(x) > 3 else (float("nan"), float("nan"))
    spearman: Any = spearmanr(x, y)
    kendall: Any = kendalltau(x, y)
    true = _without_noise(inside, outside)
    build = TableBuilder(_labels(inside, outside, facts), 1)
    build.key("in_domain", [inside.dataset])
    build.key("out_domain", [outside.dataset])
    build.count("heads", np.array([len(x)]))
    numbers = {
        "pearson": pearson.statistic,
        "pearson_low": interval[0],
        "pearson_high": interval[1],
        "pearson_p": pearson.pvalue,
        "pearson_true": true.pearson,
        "pearson_true_low": true.low,
        "pearson_true_high": true.high,
        "spearman": spearman.statistic,
        "spearman_p": spearman.pvalue,
        "kendall": kendall.statistic,
        "kendall_p": kendall.pvalue,
        "reliability_in": inside.reliability,
        "reliability_out": outside.reliability,
    }
    for name, number in numbers.items():
        build.add(Column(name, "probability" if name.endswith("_p") else "correlation"), [float(number)])
    notes = [*_differences(inside, outside)]
    if inside.texts & outside.texts:
        notes.append("Both sides read the same examples: their noise is alike, and r is too high for it.")
    notes += [*_noise(numbers, len(x)), _disagreement_note(inside, outside, x, y)]
    return build.table(f"correlation of {inside.column} over heads", notes)


def disagreement_table(
    inside: Side, outside: Side, facts: Mapping[str, Any], most: int | None = None
) -> HeadTable:
    """Tabulate both sides head by head, the heads that disagree most first.

    ``place`` counts from 1. ``disagreement`` is the difference of the standardised values, out of domain
    minus in domain: positive where the value, relative to those of other heads, is higher out of domain.

    Args:
        inside: In domain.
        outside: Out of domain.
        facts: What goes into the provenance.
        most: How many heads, without their ranks, to fit a terminal; all by default.
    """
    from scipy.stats import rankdata  # takes a second to import

    x, y = matched(inside, outside)
    apart, order = _disagreement(x, y)
    order = order[:most]
    build = TableBuilder(_labels(inside, outside, facts), len(order))
    build.key("place", range(1, len(order) + 1))
    places = [list(inside.values)[row] for row in order]
    for name, cells in zip(inside.keys, zip(*places, strict=True), strict=True):
        build.key(name, cells)
    build.add(Column(f"{inside.column}_in"), x[order])
    build.add(Column(f"{outside.column}_out"), y[order])
    if most is None:
        for name, values in (("rank_in", x), ("rank_out", y)):
            build.count(name, rankdata(-values, method="min")[order])
    build.add(Column("disagreement", "sd", headline=True), apart[order])
    title = "heads that disagree most" if most else "heads by disagreement"
    return build.table(f"{title}: {inside.column} in domain and out", _differences(inside, outside))


def _disagreement(
    x: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Subtract the standardised values, and order the heads by how far they are apart."""
    apart = (y - y.mean()) / y.std() - (x - x.mean()) / x.std()
    return apart, np.argsort(-np.abs(apart), kind="stable")


def _labels(inside: Side, outside: Side, facts: Mapping[str, Any]) -> Labels:
    return Labels(inside.model, f"{inside.dataset} and {outside.dataset}", facts)


def _direction(side: Side) -> int:
    """Tell whether a high value means that a head matters (1), that it does not (-1), or neither (0)."""
    if side.column in {"importance", "relevance_abs"}:
        return 1
    if side.column != "score" or "metric" not in side.kind:
        return 0
    return 1 if side.kind["metric"] == "loss" else -1  # the score without the head


def _differences(inside: Side, outside: Side) -> Sequence[str]:
    """Say where the two sides were not made alike."""
    notes = []
    if _direction(inside) * _direction(outside) < 0:
        notes.append(
            "A head that matters has a high value on one side and a low one on the other: a negative "
            "r is agreement."
        )
    for kind in _KINDS:
        ours, theirs = inside.kind.get(kind), outside.kind.get(kind)
        if ours != theirs:
            notes.append(f"The {kind} differs: {ours or 'none'} in domain, {theirs or 'none'} out of domain.")
    return notes


def _without_noise(inside: Side, outside: Side) -> Disattenuated:
    """Take the noise of the examples out, as far as both sides know it.

    Sides without sums over blocks still have halves, which give the estimate, but no interval. Of sides that
    read the same examples, the noise is alike, and nothing can be taken out.
    """
    if inside.texts & outside.texts:
        return Disattenuated(float("nan"), float("nan"), float("nan"))
    if inside.sample is not None and outside.sample is not None:
        theirs = {place: column for column, place in enumerate(outside.values)}
        order = [theirs[place] for place in inside.values]
        return disattenuated(inside.sample, Sample(outside.sample.count, outside.sample.total[:, order]))
    x, y = matched(inside, outside)
    both = inside.reliability * outside.reliability
    known = min(inside.reliability, outside.reliability) > 0
    r = float(np.clip(np.corrcoef(x, y)[0, 1] / np.sqrt(both), -1, 1)) if known else float("nan")
    return Disattenuated(r, float("nan"), float("nan"))


def _noise(numbers: Mapping[str, float], heads: int) -> Sequence[str]:
    """Say what the examples and the heads allow one to conclude."""
    notes = [*_of_examples(numbers)]
    if heads < 4:
        notes.append(f"{heads} heads are too few for any interval.")
    elif heads < FEW:
        notes.append(
            f"{heads} heads are few. pearson_low and pearson_high take them for a random sample of heads; "
            "they know nothing of the noise of the examples, and heads of one layer are not independent of "
            "each other."
        )
    return notes


def _of_examples(numbers: Mapping[str, float]) -> Iterator[str]:
    """Say what the noise of the examples hides."""
    inside, outside = numbers["reliability_in"], numbers["reliability_out"]
    true, low, high = (numbers[f"pearson_true{end}"] for end in ("", "_low", "_high"))
    known = np.isfinite([inside, outside]).all()
    if known and min(inside, outside) > 0:
        ceiling = np.sqrt(min(inside, 1) * min(outside, 1))
        yield (
            f"With independent examples, their noise alone would keep r below {ceiling:.2f} "
            f"(reliabilities {inside:.2f} and {outside:.2f})."
        )
    elif known:
        yield "The halves of a side don't agree with one another: too few examples to tell anything."
    else:
        yield (
            "A reliability is unknown where a table has no two halves of its examples, or no differences "
            "in them."
        )
    if np.isfinite([low, high]).all() and high - low > HIDDEN:
        yield (
            f"Noise hides the true correlation: anything from {low:.2f} to {high:.2f} is compatible with "
            "these examples (95 %, bootstrap over documents). Measure more of them."
        )
    elif np.isfinite([true, low, high]).all():
        yield (
            f"Without the noise of the examples, r would be {true:.2f} (95 % from {low:.2f} to {high:.2f}, "
            "bootstrap over documents)."
        )
    elif np.isfinite(true):
        yield (
            f"Without the noise of the examples, r would be about {true:.2f}. Its interval needs at least "
            f"{LEAST} documents a side, and the json that attnprobe writes beside a table with -o."
        )


def _disagreement_note(inside: Side, outside: Side, x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    apart, order = _disagreement(x, y)
    if not np.abs(apart).max() > _ROUNDING:
        return "No head disagrees: both sides have the same values, up to scale."
    places = list(inside.values)
    named = [f"{_short(places[row])} ({apart[row]:+.1f} sd)" for row in order[:NAMED]]
    what = inside.column if inside.column == outside.column else "the value"
    return (
        f"The heads that disagree most (+ where {what} is relatively higher out of domain): "
        f"{', '.join(named)}."
    )


def _short(place: tuple[Any, ...]) -> str:
    """Name a head in a list.

    >>> _short((3, 9)), _short(("cross", 0, 1))
    ('L3 H9', 'cross L0 H1')
    """
    *kind, layer, head = place
    return " ".join([*map(str, kind), f"L{layer} H{head}"])
