"""A statistic: one number about every head, and all there is to say about it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import nan
from typing import TYPE_CHECKING, Any, Literal, get_args

from attnprobe.attention.kinds import OBSERVABLE, UNEMBEDDING
from attnprobe.errors import AttnprobeError, UsageError, first_line, out_of_memory
from attnprobe.sums.base import Constant, Sum
from attnprobe.sums.clustered import Clustered
from attnprobe.table.builder import TableBuilder
from attnprobe.table.table import Column

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock
    from attnprobe.attention.layout import Layout


@dataclass(frozen=True)
class Family:
    """Statistics that belong together."""

    name: str  # also that of their command
    title: str
    order: int  # among the columns of the census
    commands: tuple[str, ...] = ()  # that alone measure them, instead of the census
    by_default: bool = True  # whether the census measures them where nothing is named


#: Statistics that come from outside of this package.
OTHER = Family("other", "statistics of heads", 99)


def mean_over_queries(values: Tensor, layout: Layout, where: Tensor | None = None) -> Tensor:
    """Average (batch, head, query) over the queries that count and for which it is defined; NaN for none.

    Only queries count that are true in ``where``, (batch, query) or (batch, 1), if it is given.
    """
    if where is not None:
        values = values.where(where[:, None], nan)
    queries = layout.queries
    if queries.all_asking:
        means = values.mean(-1)
        if not means.isnan().any():
            return means
    return values.where(queries.asking[:, None], nan).nanmean(-1)


def share_of_hits(hits: Tensor, peaks: Tensor, layout: Layout, where: Tensor | None = None) -> Tensor:
    """Give the share of queries whose peak is a hit, boolean (batch, head, query), of those with a peak."""
    return mean_over_queries(hits.to(peaks.dtype).where(~peaks.isnan(), nan), layout, where)


def peak(block: AttentionBlock) -> Tensor:
    """Position of the most attended key of every row, argmax_j p_j; the first one of a tie."""
    return block.summary.argmax


def read_at(peaks: Tensor, feature: Tensor) -> Tensor:
    """Read a (batch, position) feature at the peaks (batch, head, query)."""
    batch, heads, queries = peaks.shape
    position = peaks.nan_to_num(0).long().view(batch, heads * queries)
    return feature.gather(1, position).view(batch, heads, queries)


def sinks(layout: Layout) -> Tensor:
    """Mark the keys that attract attention whatever they mean, (batch, key): special ones, a text's first."""
    marked = layout.keys.special.clone()
    if layout.grid is None:  # the first patch of an image is one like the others
        marked[:, 0] = True
    return marked


#: Nothing, or the ordinary tokens of each text in a random order.
Control = Literal["", "shuffled"]
#: All of them, in the order of their passes.
CONTROLS: tuple[Control, ...] = get_args(Control)
#: What the control means, for the definitions of statistics under it.
SHUFFLED = (
    "Over the same sequences with the ordinary tokens of each in a random order: what `--control` adds. "
    "Special tokens stay, and each text of a pair, or target of a decoder, is shuffled within itself, by the "
    "seed and its tokens alone. `offset_share` is that of the offset that the head has in the text as it is."
)

#: From what its scope names, such as a block, to a tensor.
Function = Callable[..., Any]
#: From the values of the function in whole sequences to (batch, head or pair or 1, ...).
Reduce = Callable[["Tensor", "Layout"], "Tensor"]
#: Appends columns to a table, read off a sum.
Columns = Callable[["Statistic", Any, TableBuilder], None]
#: Picks a cell of each head: from counts and means (layer, head, cell) to places (layer, head), and columns
#: about these.
Pick = Callable[[Any, Any], tuple[Any, dict[str, Any]]]
Scope = Literal["query", "layer", "map", "model", "links", "parameters"]
Rows = Literal["head", "pair", "layer", "label"]
#: What rows hold: the softmax, or the softmax times ||W_O,h v_j||, renormalised.
Weights = Literal["attention", "norm"]

_NAME = re.compile(r"[a-z][a-z0-9_]*(?<!_se)(?<!_n)")
_NEEDS = (*OBSERVABLE, "contributions", UNEMBEDDING)


def add_mean_and_error(statistic: Statistic, sums: Any, build: TableBuilder) -> None:
    """Append the mean of cells (layer, head), any error, and with ``own_count`` the number of sequences."""
    name, unit, headline, title = statistic.name, statistic.unit, statistic.headline, statistic.title
    if isinstance(sums, Constant):
        build.add(Column(name, unit, headline=headline, title=title), sums.average.ravel())
        return
    build.measure(name, unit, sums.average, sums.standard_error, headline=headline, title=title)
    if statistic.own_count:
        build.count(f"{name}_n", sums.count)


@dataclass(frozen=True)
class Statistic:
    """One number about every head, or every pair of heads, or every layer.

    The functions are pure. The engine calls ``function`` on blocks of attention, joins the values of a
    sequence, calls ``reduce`` on these, and adds up sequences. A shared function is computed once.

    Attributes:
        reduce: From whole sequences to (batch, head, ...), (batch, pair, ...) or (batch, 1); by default the
            mean over queries, or nothing if the function sees whole sequences.
        scope: What the function sees at once.

            - ``query``: consecutive queries of a batch; it gives (batch, head or pair, query), or NaN.
            - ``layer``: the same, but it gives (batch, ...), which is added up over queries.
            - ``map``: whole sequences, which takes memory; it gives (batch, head, ...).
            - ``model``: whole sequences, all heads of all layers as one axis; it gives (batch, ...).
            - ``links``: a layout; it gives questions about gold links (``statistics.questions``).
            - ``parameters``: the weights of a layer's heads; it gives (head,), without an error.
        needs: What it reads from a block besides probabilities: "scores", "values", "outputs", "queries",
            "keys", "projection", "unembedding", or "contributions", which is outputs and projection.
        sums: The sum that is kept over sequences.
        pick: Picks the cell of each head for the table, if cells have an axis more than heads.
        title: A few words for the axis of a picture; the name by default.
        headline: Whether a terminal shows it if there are many.
        own_count: Whether the table has the number of sequences in which it is defined.
        about: The input that it needs: ``patches`` in rows, or both ``modalities``, an image and a text.
        by_corpus: Whether it depends on counts over the whole text, so that separate jobs can't be merged.
        control: The change of sequences before it is measured, in a pass of its own.
        weights: ``norm``, if its rows are weighted by vector norms; there are no scores and outputs then.
        of: The statistic of plain attention that this one weights by norm; see ``weight_by_norm``.
        beyond_baseline: Whether its value in a batch's ``baseline``, at the same positions, is subtracted.
        version: Number of its definition; sums of different versions are never merged.
    """

    name: str
    unit: str
    function: Function
    reduce: Reduce | None = None
    scope: Scope = "query"
    needs: Collection[str] = ()
    rows: Rows = "head"
    sums: type[Sum] = Clustered
    columns: Columns = add_mean_and_error
    pick: Pick | None = None
    family: Family = OTHER
    title: str = ""
    headline: bool = False
    own_count: bool = False
    about: Literal["anything", "patches", "modalities"] = "anything"
    by_corpus: bool = False
    control: Control = ""
    weights: Weights = "attention"
    of: Statistic | None = None
    beyond_baseline: bool = False
    version: int = 1
    order: int = 0
    #: What its function reads beside the probabilities; ``needs`` without what the weighting takes.
    reads: frozenset[str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what the engine could not work with, and complete what follows from other fields."""
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                f"A statistic can't be called {self.name!r}: a column has small letters, digits and "
                "underscores, begins with a letter and does not end in _se or _n."
            )
        needs = {self.needs} if isinstance(self.needs, str) else set(self.needs)
        for kind, values, known in (("has scope", {self.scope}, get_args(Scope)), ("needs", needs, _NEEDS)):
            for value in values.difference(known):
                raise UsageError(f"{self.name!r} {kind} {value!r}; choose from {', '.join(known)}.")
        if "contributions" in needs:
            needs = needs - {"contributions"} | {"outputs", "projection"}
        reads, title = frozenset(needs), self.title or self.name.replace("_", " ")
        sums = Constant if self.scope == "parameters" else self.sums
        if self.weights == "norm":
            unweighable = sorted(needs & {"scores", "outputs", "queries", "keys"})
            if unweighable or self.scope == "parameters":
                name, what = (self.of or self).name, " and ".join(unweighable) or "no rows"
                raise UsageError(f"{name!r} can't be weighted by norm, as it reads {what}.")
            needs |= {"values", "projection"}
        for name, value in {"needs": frozenset(needs), "reads": reads, "title": title, "sums": sums}.items():
            object.__setattr__(self, name, value)

    def __call__(self, block: AttentionBlock) -> Tensor:
        """Call the function, so that a decorated one can still be tried on a block."""
        return self.function(block)

    @property
    def identity(self) -> str:
        """Name and version, by which states and records know it."""
        return f"{self.name}@{self.version}"

    @property
    def definition(self) -> str:
        """Formula, limits and source: the docstrings of its functions, and of functions given to these."""
        texts = [SHUFFLED] if self.control else []
        texts += [*_read_docstrings(self.function), *_read_docstrings(self.reduce)]
        return "\n\n".join(dict.fromkeys(filter(None, texts)))

    def evaluate(self, given: Any) -> Tensor:
        """Call the function on a block, or on ``HeadParameters``, and check the shape of what it gives."""
        if self.scope == "parameters":
            return self._call(self.function, given, heads=len(given.queries))
        batch, heads, queries, _ = given.probabilities.shape
        axes = {"batch": batch, "heads": heads if self.rows == "head" and not self.reduce else None}
        axes |= {"queries": queries} if self.scope == "query" else {}
        values = self._call(self.function, given, more=self.scope != "query", **axes)
        # A share of yes and no may come as such.
        return values if values.is_floating_point() else values.to(given.probabilities.dtype)

    def reduce_sequences(self, values: Tensor, layout: Layout, heads: int | None = None) -> Tensor:
        """Reduce the function's values in whole sequences to what is added up over sequences."""
        reduce = self.reduce or (mean_over_queries if self.scope == "query" else lambda kept, _: kept)
        by_head = self.rows == "head"
        axes = {"batch": len(values), "heads": heads if by_head else None}
        return self._call(
            reduce, values, layout, **axes, more=not by_head or self.columns is not add_mean_and_error
        )

    def _call(self, function: Function, *given: Any, more: bool = False, **axes: int | None) -> Tensor:
        """Call a function, and refuse what is no tensor of these axes, or of ``more``; None is any size."""
        import torch

        try:
            values = function(*given)
        except AttnprobeError:
            raise
        except Exception as error:  # a user's function may raise anything
            if out_of_memory(error):  # half of the batch may fit
                raise
            what = f"failed ({type(error).__name__}: {first_line(error)}); try it on a block of its own"
            raise UsageError(f"The statistic {self.name!r} {what}.") from error
        sizes = tuple(axes.values())
        is_tensor = isinstance(values, torch.Tensor)
        shape = tuple(values.shape) if is_tensor else ()
        if shape == sizes:  # most are, and there are many
            return values
        fits = len(shape) == len(sizes) or (more and len(shape) > len(sizes))
        if not fits or any(size not in {None, there} for size, there in zip(sizes, shape, strict=False)):
            expected = ", ".join(name if size is None else f"{size} {name}" for name, size in axes.items())
            what = f"a tensor of shape {shape}" if is_tensor else type(values).__name__
            raise UsageError(
                f"The statistic {self.name!r} gave {what}; it must be a tensor ({expected}{', ...' * more})."
            )
        return values


#: The weights that a user may choose.
Weighting = Literal["attention", "norm", "both"]
#: The end of the name of a weighted statistic, and of its unit and title.
SUFFIX, BY_NORM = "_norm", ", by norm"


def weight_by_norm(statistic: Statistic) -> Statistic:
    """Give the same statistic about rows that are weighted by norm, as ``NAME_norm``, or refuse it."""
    if statistic.weights == "norm":
        return statistic
    unit, title = f"{statistic.unit}{BY_NORM}", f"{statistic.title}{BY_NORM}"
    name = f"{statistic.name}{SUFFIX}"
    return replace(statistic, name=name, unit=unit, title=title, weights="norm", of=statistic)


def apply_weights(statistics: Sequence[Statistic], weights: Weighting) -> list[Statistic]:
    """Give statistics about attention, about attention weighted by norm, or about both, each once."""
    by_norm = [] if weights == "attention" else [weight_by_norm(statistic) for statistic in statistics]
    return list(dict.fromkeys([*(statistics if weights != "norm" else ()), *by_norm]))


def _read_docstrings(part: Any) -> Iterator[str]:
    """Read the docstring of a function, and those of functions that are given to it."""
    if isinstance(part, partial):
        for each in (part.func, *part.keywords.values()):
            yield from _read_docstrings(each)
    elif inspect.isfunction(part):
        yield inspect.getdoc(part) or ""


def statistic(function: Function | None = None, *, unit: str, name: str = "", **options: Any) -> Any:
    """Make a statistic of a function of an attention block.

    The function gets an ``AttentionBlock``: consecutive queries of a batch of sequences, for all heads of a
    layer. It returns (batch, head, query), NaN for a query without a value. Means are over the queries of a
    sequence, then over sequences, with standard errors. The column has the name ``name``, or that of the
    function. Other options, such as ``reduce``, ``scope``, ``needs``, ``title`` and ``version``, are the
    fields of ``Statistic``.

    Examples:
        >>> @statistic(unit="share")
        ... def top_two(block):
        ...     "Probability of the two most attended tokens."
        ...     return block.probabilities.topk(min(2, block.probabilities.shape[-1])).values.sum(-1)
        >>> top_two.identity
        'top_two@1'
    """
    if function is None:
        return partial(statistic, unit=unit, name=name, **options)
    name = name or getattr(function, "__name__", "")
    return Statistic(name, unit, function, **{"headline": True, **options})
