"""Paired differences of a number of heads between two checkpoints, with errors and p values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.findings.noise import RECORD, read_sample
from attnprobe.statistics.norm import SUFFIX
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement, pack, unpack
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.resampling import SIGNIFICANT, Jackknife, adjust
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import join_names, name_head
from attnprobe.table.table import Column

Floats = NDArray[np.float64]

#: Numbers that differ by less than this part of the larger one may differ by the rounding of float32 alone.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Rows:
    """The rows of a table: each is a mean over some heads of the one and of the other model.

    Attributes:
        first: (row, head of the first model) weights that add up to 1, or are all 0 where there is none.
        second: (row, head of the second model) the same.
    """

    first: Floats
    second: Floats

    @classmethod
    def of_heads(cls, first: NDArray[np.intp], second: NDArray[np.intp], heads: tuple[int, int]) -> "Rows":
        """Compare the head of each row with its partner, -1 for none, of models with so many heads."""
        return cls(*(_one_hot(one, number) for one, number in zip((first, second), heads, strict=True)))

    @classmethod
    def of_layers(
        cls, first: NDArray[np.intp], second: NDArray[np.intp], shapes: Sequence[tuple[int, int]]
    ) -> "Rows":
        """Compare the layer of each row with its partner, -1 for none; of models of these shapes."""
        sides = zip((first, second), shapes, strict=True)
        return cls(*(_one_hot(one, layers).repeat(heads, 1) / heads for one, (layers, heads) in sides))


@dataclass(frozen=True)
class Difference:
    """A statistic in two models, row by row.

    Attributes:
        said: What else a table says of each head of either model, such as the offset it looks at.
    """

    first: Floats
    second: Floats
    delta: Floats
    error: Floats
    p: Floats
    said: Mapping[str, tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)

    @cached_property
    def adjusted(self) -> Floats:
        """The p values, adjusted for the number of rows by Holm's method."""
        return adjust(self.p)

    @property
    def certain(self) -> NDArray[np.bool_]:
        """Whether the models differ significantly, row by row."""
        return self.adjusted < SIGNIFICANT

    @property
    def moved(self) -> tuple[int, int]:
        """How many rows are significantly higher, and how many lower, in the second model."""
        return int((self.certain & (self.delta > 0)).sum()), int((self.certain & (self.delta < 0)).sum())


def compare_statistic(statistic: Statistic, first: Any, second: Any, rows: Rows) -> Difference:
    """Compare a statistic of two models over the same texts; see ``compare_paired``.

    Its sums are a ``Jackknife`` of (layer, head, ...), or a ``Constant``.

    References:
        Kish (1965), Survey sampling, on the effective size of a sample of unequal weights.
    """
    if not isinstance(first, Jackknife):
        a = _average_heads(first.average.ravel(), rows.first)
        b = _average_heads(second.average.ravel(), rows.second)
        nothing = np.full(len(a), np.nan)
        return Difference(a, b, b - a, nothing, nothing)
    (ours, mine), (theirs, its) = pick_number(statistic, first), pick_number(statistic, second)
    own = SUFFIX if statistic.of is not None else ""
    said = {f"{name}{own}": (mine[name].ravel(), its[name].ravel()) for name in mine}
    return replace(compare_paired(ours, theirs, rows), said=said)


def compare_paired(first: Jackknife, second: Jackknife, rows: Rows) -> Difference:
    """Compare numbers of heads of two models over the same texts.

    With d = b - a the difference of the two means, and its standard error s by the jackknife over blocks of
    documents (``sums.resampling``), in which both models have the same documents,

        p = P(|T| >= |d| / s)

    with T of Student's t distribution. Of blocks with m_j texts each, it has as many degrees of freedom as
    there are blocks that count for one (Kish 1965), less one:

        (sum_j m_j)^2 / sum_j m_j^2 - 1

    Where each text is a block of its own, this is the paired t test. Where a few documents have most of the
    windows, p is large rather than small by chance: at most 7 % of p are below .05 where nothing differs,
    whether the windows of a document are alike or not. A difference below 1e-6 of the means is rounding: its
    p is 1.
    """
    number = first.counts.shape[1]
    counts = np.concatenate([first.counts, second.counts], 1)
    both = Jackknife(counts, np.concatenate([first.totals, second.totals], 1))
    a, b = _average_heads(first.average, rows.first), _average_heads(second.average, rows.second)

    def subtract(means: Floats) -> Floats:
        mine, its = means[..., :number], means[..., number:]
        return _average_heads(its, rows.second) - _average_heads(mine, rows.first)

    delta, error = both.apply(subtract)
    delta = np.where(np.abs(delta) <= ROUNDING * np.maximum(np.abs(a), np.abs(b)), 0.0, delta)
    freedom = np.minimum(_count_freedom(first, rows.first), _count_freedom(second, rows.second))
    return Difference(a, b, delta, error, _student_p(delta, error, freedom))


def _student_p(delta: Floats, error: Floats, freedom: Floats) -> Floats:
    """Compute the two-sided p of Student's t."""
    from scipy.special import stdtr  # takes a while to import

    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * stdtr(freedom, -np.abs(delta) / error)
    return np.where(np.isfinite(error) & (freedom > 0), np.where(delta == 0, 1.0, p), np.nan)


def _count_freedom(one: Jackknife, weights: Floats) -> Floats:
    """Count the blocks in which the heads of each row were seen, by what they weigh, less one."""
    squares = np.square(one.counts).sum(0)
    blocks = np.divide(np.square(one.count), squares, out=np.zeros(squares.shape), where=squares > 0)
    return np.where(weights > 0, blocks, 0).max(1, initial=0) - 1


def pick_number(statistic: Statistic, one: Jackknife) -> tuple[Jackknife, dict[str, NDArray[Any]]]:
    """Pick the sums of the one number that a table has of each head, (block, head), and say which it is."""
    blocks = len(one.counts)
    if statistic.pick is None:
        return Jackknife(one.counts.reshape(blocks, -1), one.totals.reshape(blocks, -1)), {}
    places, said = statistic.pick(one.count, one.average)
    at = places[None, ..., None]
    counts, totals = (np.take_along_axis(side, at, -1) for side in (one.counts, one.totals))
    return Jackknife(counts.reshape(blocks, -1), totals.reshape(blocks, -1)), said


def _average_heads(means: Floats, weights: Floats) -> Floats:
    """Average the heads of each row that have a number, (..., row)."""
    known = ~np.isnan(means)
    total = np.where(known, means, 0.0) @ weights.T
    share = known.astype(np.float64) @ weights.T
    return np.divide(total, share, out=np.full(total.shape, np.nan), where=share > 0)


def _one_hot(heads: NDArray[np.intp], number: int) -> Floats:
    return np.eye(number + 1)[heads, :-1]  # of -1, the last row, which is 0


_COUNT, _MEAN = "count", "mean"
_KEYS = ("attention", "layer", "head")


@dataclass(frozen=True)
class BlockMeans:
    """A number of every head, over each block of documents.

    Attributes:
        heads: The heads: the kind of attention if there are several, layer, number.
        sizes: (block, head) the examples of each that the number is defined for.
        means: (block, head) the mean over these; NaN where there is none.
    """

    column: Column
    heads: Sequence[tuple[Any, ...]]
    sizes: Floats
    means: Floats

    @property
    def sums(self) -> Jackknife:
        """The sums of each head that its means are of."""
        return Jackknife(self.sizes, np.where(self.sizes > 0, self.means, 0.0) * self.sizes)


def _tabulate_blocks(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate heads, with the means over blocks of documents on record.

    A statistic that picks one of several numbers of a head, such as the offset with the largest share, picks
    it over all documents. What is about weights alone is left out.
    """
    kept: dict[str, NDArray[Any]] = {}
    rows = len(labels.places) * max((one.average.shape[1] for one in measurement.sums.values()), default=0)
    record = {**labels.provenance}
    record["measurement"] = {name: one for name, one in record["measurement"].items() if name != "sums"}
    build = TableBuilder(replace(labels, provenance=record), rows)
    build.heads(rows // len(labels.places))
    build.count("n", np.full(rows, measurement.sequences))
    for statistic in statistics:
        found = measurement.sums[statistic.name]
        if not isinstance(found, Jackknife):
            continue
        of_heads, _ = pick_number(statistic, found)
        counts, totals = of_heads.counts, of_heads.totals
        means = np.divide(totals, counts, out=np.full_like(totals, np.nan), where=counts > 0)
        kept |= {f"{_COUNT}/{statistic.name}": counts, f"{_MEAN}/{statistic.name}": means}
        unit = statistic.unit_of(patches=build.patches)
        build.add(Column(statistic.name, unit, title=statistic.title), of_heads.average)
    if not kept:
        raise AttnprobeError(f"{statistics[0].name} is about weights alone; it does not vary between texts.")
    heads = [
        list(head) for head in zip(*(build.data[key] for key in _KEYS if key in build.data), strict=True)
    ]
    record[RECORD] = {"heads": heads, "sums": pack(kept)}
    return build.table(title, kind="heads")


class _Whole(Tabulation):
    """A tabulation in which statistics that are weighted by norm are as any other."""

    def table(
        self, title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
    ) -> HeadTable:
        return self.build(title, measurement, statistics, labels)


#: How the census of a checkpoint is tabulated that is to be compared with others.
ALONE = _Whole("head, in blocks", _tabulate_blocks, "heads in blocks of documents")


def read_blocks(table: HeadTable, name: str) -> list[BlockMeans]:
    """Read the means over blocks of documents on the record of a table, of the census or of importance."""
    record = table.provenance.get(RECORD, {})
    if "heads" not in record:
        return [_read_importance(table, name)]
    arrays = unpack(record["sums"])
    heads = [tuple(head) for head in record["heads"]]
    there = {tuple(table.data[key][row] for key in _KEYS if key in table.data) for row in range(len(table))}
    some = [place for place, head in enumerate(heads) if head in there]
    return [
        BlockMeans(
            column,
            [heads[place] for place in some],
            arrays[f"{_COUNT}/{column.name}"][:, some],
            arrays[f"{_MEAN}/{column.name}"][:, some],
        )
        for column in table.columns
        if f"{_MEAN}/{column.name}" in arrays
    ]


def _read_importance(table: HeadTable, name: str) -> BlockMeans:
    column = str(table.provenance.get(RECORD, {}).get("column", ""))
    if column not in table.data:
        raise AttnprobeError(f"The table of {name} keeps nothing of blocks of documents.")
    keys = [key for key in _KEYS if key in table.data]
    heads = [tuple(table.data[key][row] for key in keys) for row in range(len(table))]
    values = {head: float(cell or 0) for head, cell in zip(heads, table.data[column], strict=True)}
    sample = read_sample(table.provenance, column, values, name)
    assert sample is not None  # its column was read from the record
    sizes, means = np.zeros((BLOCKS, len(heads))), np.full((BLOCKS, len(heads)), np.nan)
    sizes[sample.block] = sample.count[:, None]
    means[sample.block] = sample.total / sample.count[:, None]
    return BlockMeans(table.column(column), heads, sizes, means)


def count_read(table: HeadTable) -> tuple[int, int, bool]:
    """Count what a checkpoint read: documents with tokens, sequences, whether documents were cut."""
    corpus: Mapping[str, Any] = table.provenance["corpus"]
    return corpus["documents"] - corpus["empty"], corpus["sequences"], corpus["cut"] > 0


def check_same_documents(tables: Sequence[HeadTable], names: Sequence[str]) -> None:
    """Refuse checkpoints of which one finds tokens in a document that another finds none in.

    Blocks would then hold different documents.
    """
    first, *others = (count_read(table)[0] for table in tables)
    for name, number in zip(names[1:], others, strict=True):
        if number != first:
            raise AttnprobeError(
                f"{names[0]} finds tokens in {first:,} documents and {name} in {number:,}, so that they "
                "can't be compared document by document; leave out those that are empty for one of them."
            )


#: Fewer blocks of documents than this make errors rough.
FEW = 8


def tabulate_importance_change(
    tables: Sequence[HeadTable],
    names: Sequence[str],
    *,
    dataset: str,
    notes: Sequence[str],
    record: Mapping[str, Any],
) -> HeadTable:
    """Tabulate the importance of heads of one number in two checkpoints, and how it differs.

    Errors and p values are those of ``compare_paired``, over blocks in which both have the same documents.

    Raises:
        AttnprobeError: When they have no heads of one number, or read other documents.
    """
    check_same_documents(tables, names)
    sides = [read_blocks(table, name)[0] for table, name in zip(tables, names, strict=True)]
    places = [{head: place for place, head in enumerate(side.heads)} for side in sides]
    heads = [head for head in sides[0].heads if head in places[1]]
    layers = [{head[:-1] for head in side.heads} for side in sides]
    if layers[0] != layers[1] or not heads:
        raise AttnprobeError(
            f"{names[0]} has {len(layers[0])} layers and {names[1]} {len(layers[1])}, or others; importance "
            "is compared head by head of one number, so give checkpoints of one shape."
        )
    at = [np.array([place[head] for head in heads], np.intp) for place in places]
    sums = [side.sums for side in sides]
    sizes = len(sides[0].heads), len(sides[1].heads)
    found = compare_paired(sums[0], sums[1], Rows.of_heads(at[0], at[1], sizes))
    table, name, unit = tables[0], sides[0].column.name, sides[0].column.unit
    title = sides[0].column.title or name
    build = TableBuilder(Labels(names[0], dataset, record), len(heads))
    build.add(Column("model_b", role="key"), [names[1]] * len(heads))
    for key in ("objective", "method", *_KEYS):
        if key in table.data:
            build.add(Column(key, role="key"), [table.data[key][place] for place in at[0]])
    build.count("n", np.array([table.data["n"][place] for place in at[0]]))
    for mark, which, values in (("a", "first", found.first), ("b", "second", found.second)):
        build.add(Column(f"{name}_{mark}", unit, headline=True, title=f"{title}, {which} model"), values)
    build.measure(f"{name}_delta", unit, found.delta, found.error, headline=True, title=f"change of {title}")
    adjusted = Column(f"{name}_p_adjusted", "probability", title=f"adjusted p of the change of {title}")
    build.add(adjusted, found.adjusted)
    own = _summarise(found, heads, names[1], name, int(sides[0].sizes.any(1).sum()))
    own += _note_missing(names, [len(side.heads) - len(heads) for side in sides])
    return build.table(f"{name} of heads in {names[0]} and in {names[1]}", [*own, *notes])


def _summarise(
    found: Difference, heads: Sequence[tuple[Any, ...]], other: str, name: str, blocks: int
) -> list[str]:
    """Say how many heads matter more, and which changed most."""
    up, down = found.moved
    how = f"p < {SIGNIFICANT} after Holm's correction over heads"
    if np.isnan(found.p).all():
        return ["Errors and p values need at least two documents."]
    if not (up or down):
        said = [f"No head differs significantly in {name} ({how})."]
    else:
        said = [f"In {other}, {name} is higher in {up} and lower in {down} of {len(heads)} heads ({how})."]
        order = [place for place in np.argsort(-np.abs(found.delta), kind="stable") if found.certain[place]][
            :3
        ]
        named = [f"{name_head(*heads[place])} ({found.delta[place]:+.2g})" for place in order]
        said.append(f"Of these, the most changed: {join_names(named)}.")
    if blocks < FEW:
        said.append(f"Differences are over {blocks} documents only: errors and p values are rough.")
    return said


def _note_missing(names: Sequence[str], missing: Sequence[int]) -> list[str]:
    return [
        f"{number} head{'s' * (number != 1)} of {name} that the other checkpoint lacks "
        f"{'is' if number == 1 else 'are'} left out."
        for name, number in zip(names, missing, strict=True)
        if number
    ]
