"""What a statistic is: one number about every head, and all there is to say about it; and asking one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import nan
from typing import TYPE_CHECKING, Any, Literal, get_args

from attnprobe.attention.observed import OBSERVABLE, UNEMBEDDING
from attnprobe.errors import AttnprobeError, first_line, out_of_memory
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
    """Statistics that belong together.

    Attributes:
        name: The command whose table its statistics make up, and the file they lie in.
        title: What that table shows, in a few words.
        order: Its place among the columns of the census, or behind them.
        commands: The commands that measure its statistics, if the census does not.
    """

    name: str
    title: str
    order: int
    commands: tuple[str, ...] = ()


#: Statistics that come from outside of this package.
OTHER = Family("other", "statistics of heads", 99)
#: The title of a table of several families.
CENSUS = "census of heads"


def mean_over_queries(values: Tensor, layout: Layout) -> Tensor:
    """Average (batch, head, query) over the queries that count and for which it is defined.

    Returns:
        (batch, head); NaN for a sequence without any such query.
    """
    queries = layout.queries
    if queries.all_asking:
        means = values.mean(-1)
        if not means.isnan().any():
            return means
    return values.where(queries.asking[:, None], nan).nanmean(-1)


def mean_where(hit: Tensor, values: Tensor, layout: Layout) -> Tensor:
    """Average a yes-or-no (batch, head, query) over the queries where ``values`` is defined."""
    return mean_over_queries(hit.to(values.dtype).where(~values.isnan(), nan), layout)


def peak(block: AttentionBlock) -> Tensor:
    """Position of the most attended key of every row, argmax_j p_j; the first one of a tie."""
    position = block.summary.argmax.to(block.probabilities.dtype)
    return position.where(~block.summary.maximum.isnan(), nan)


def read_at(peaks: Tensor, feature: Tensor) -> Tensor:
    """Read a (batch, position) feature at the peaks (batch, head, query)."""
    batch, heads, queries = peaks.shape
    position = peaks.nan_to_num(0).long().view(batch, heads * queries)
    return feature.gather(1, position).view(batch, heads, queries)


def sinks(layout: Layout) -> Tensor:
    """Tell which keys attract attention whatever they mean, (batch, key): special ones, and the first."""
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
    "Special tokens stay where they are, and of a pair each text is shuffled within itself. The order "
    "depends on the seed and on the tokens of the sequence, and on nothing else. The decoder of an "
    "encoder-decoder model reads the text as it was shuffled, or its own target texts, shuffled likewise. "
    "`offset_share` is the share of the offset that the head has in the text as it is."
)


#: From a block to a tensor; its shape depends on the scope, and links and parameters are asked otherwise.
Function = Callable[..., Any]
#: From what the function gave for whole sequences to (batch, head or pair or 1, ...) for each of them.
Reduce = Callable[["Tensor", "Layout"], "Tensor"]
#: From a sum to columns of a table.
Columns = Callable[["Statistic", Any, TableBuilder], None]
#: From how many sequences there are of each cell (layer, head, ...), and their means, to places along the
#: last axis, (layer, head), and what a table says of them.
Pick = Callable[[Any, Any], tuple[Any, dict[str, Any]]]
Scope = Literal["query", "layer", "map", "model", "links", "parameters"]
Rows = Literal["head", "pair", "layer", "label"]
About = Literal["anything", "text", "patches", "modalities"]
#: What rows hold: the softmax, or the softmax times ||W_O,h v_j||, renormalised.
Weights = Literal["attention", "norm"]

#: What belongs to rows as they are, and has no meaning beside weighted ones.
UNWEIGHABLE = frozenset({"scores", "outputs", "queries", "keys"})

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def mean_and_error(statistic: Statistic, sums: Any, build: TableBuilder) -> None:
    """Append the mean of cells (layer, head) and, beside it, its standard error.

    A statistic that is undefined for many sequences has its own number of them beside it, as ``NAME_n``.
    """
    unit = statistic.unit_of(patches=build.labels.patches)
    look: Any = {"headline": statistic.headline, "title": statistic.title}
    build.measure(statistic.name, unit, sums.average, sums.standard_error, **look)
    if statistic.own_count:
        build.count(f"{statistic.name}_n", sums.count)


def value_alone(statistic: Statistic, sums: Any, build: TableBuilder) -> None:
    """Append a ``Constant``, which is the same in all sequences, and so has no error."""
    column = Column(statistic.name, statistic.unit, headline=statistic.headline, title=statistic.title)
    build.add(column, sums.average.ravel())


@dataclass(frozen=True)
class Statistic:
    """One number about every head, or every pair of heads, or every layer.

    The functions are pure. The engine calls ``function`` on blocks of attention, puts together what belongs
    to a sequence, calls ``reduce`` on that, and adds up what comes out over the sequences. Statistics that
    share a function share its cost.

    Attributes:
        name: The name of the column.
        unit: "nats", "share", "tokens", "ratio", ...
        function: From a block to a tensor.
        reduce: From whole sequences to (batch, head, ...), or (batch, pair, ...), or (batch, 1); by default
            the mean over queries, or nothing where the function sees whole sequences.
        scope: What the function has to see at once.

            - ``query``: some queries of some sequences, all heads of a layer. It gives (batch, head or pair,
              query), NaN where a query has no such value.
            - ``layer``: the same, but it gives (batch, ...) for those queries, and what it gives for all
              queries of a sequence is added up.
            - ``map``: whole sequences, all heads of a layer; it gives (batch, head, ...). Long maps are put
              together for it, which takes memory.
            - ``model``: whole sequences, all heads of all layers as one axis; it gives (batch, ...).
            - ``links``: no block at all; from a layout it makes the questions about gold links that the
              engine then asks of every head (``statistics.questions``).
            - ``parameters``: no block either, but the weights of a layer's heads, as ``HeadParameters``. It
              gives (head,), which is the same for every text: it is kept as a ``Constant``, without an error.
        needs: What it reads of a block beside the probabilities: "scores", "values", "outputs", "queries",
            "keys", "projection", "unembedding", or "contributions", which is outputs and projection. Costs
            nothing where nobody asks.
        rows: What its cells are about.
        sums: What is kept over sequences.
        columns: From the sum to columns of a table.
        pick: Where its cells have one axis more than heads, chooses the one that a table gives of each head.
        family: The command whose table it belongs to.
        title: A few words for the axis of a picture; the name by default.
        headline: Whether a terminal shows it among many.
        own_count: Whether sequences for which it is undefined are the rule, so that the table gives its
            own number of sequences beside it.
        about: ``text``, if it is about what is counted in text; ``patches``, if about rows of patches;
            ``modalities``, if about an image and a text that are read together.
        unit_in_patches: Its unit where tokens are patches of an image, if it has another one there.
        by_corpus: Whether it depends on what is counted over a whole corpus, so that tables of separate jobs
            don't add up.
        control: What is done to the sequences before it is measured, in a pass of its own; see ``CONTROLS``.
        weights: ``norm``, if it is asked about rows that are weighted by the norm of what they carry. It then
            needs values and projections too, and its block holds no scores and no outputs.
        of: What it is the same of, about rows as they are; see ``norm.weight_by_norm``.
        beyond_baseline: Whether what it gives for the same places of the same sequence without what is looked
            for is subtracted, where batches have a ``baseline``.
        on_request: Whether it is measured only where somebody names it, and is no column of the census by
            default.
        version: Which definition this is; sums of different versions are never added up.
        order: Place within the family.
    """

    name: str
    unit: str
    function: Function
    reduce: Reduce | None = None
    scope: Scope = "query"
    needs: Collection[str] = ()
    rows: Rows = "head"
    sums: type[Sum] = Clustered
    columns: Columns = mean_and_error
    pick: Pick | None = None
    family: Family = OTHER
    title: str = ""
    headline: bool = False
    own_count: bool = False
    about: About = "anything"
    unit_in_patches: str = ""
    by_corpus: bool = False
    control: Control = ""
    weights: Weights = "attention"
    of: Statistic | None = None
    beyond_baseline: bool = False
    on_request: bool = False
    version: int = 1
    order: int = 0
    #: What its function reads beside the probabilities; ``needs`` without what the weighting takes.
    reads: frozenset[str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what the engine could not work with."""
        if not _NAME.fullmatch(self.name) or self.name.endswith(("_se", "_n")):
            raise AttnprobeError(
                f"A statistic can't be called {self.name!r}: its name is a column, in small letters, digits "
                "and underscores, that begins with a letter and does not end in _se or _n."
            )
        if self.scope not in get_args(Scope):
            raise AttnprobeError(
                f"The statistic {self.name!r} has the scope {self.scope!r}; choose from "
                f"{', '.join(get_args(Scope))}."
            )
        if self.scope == "model" and self.rows == "head":
            raise AttnprobeError(
                f"The statistic {self.name!r} sees all layers as one; it can't give a number for each head."
            )
        if self.scope == "parameters":
            if self.rows != "head" or self.needs:
                raise AttnprobeError(
                    f"The statistic {self.name!r} sees the weights of heads alone; it gives a number for "
                    "each head, and needs nothing of a block."
                )
            object.__setattr__(self, "sums", Constant)
            if self.columns is mean_and_error:
                object.__setattr__(self, "columns", value_alone)
        wanted = {self.needs} if isinstance(self.needs, str) else set(self.needs)
        if unknown := wanted - {*OBSERVABLE, UNEMBEDDING, "contributions"}:
            raise AttnprobeError(
                f"The statistic {self.name!r} needs {sorted(unknown)[0]!r}; what a block can have is "
                f"{', '.join((*OBSERVABLE, 'contributions'))}."
            )
        if "contributions" in wanted:
            wanted = wanted - {"contributions"} | {"outputs", "projection"}
        object.__setattr__(self, "reads", frozenset(wanted))
        if self.weights == "norm":
            self._check_weighable()
            wanted |= {"values", "projection"}
        object.__setattr__(self, "needs", frozenset(wanted))
        object.__setattr__(self, "title", self.title or self.name.replace("_", " "))

    def _check_weighable(self) -> None:
        name = (self.of or self).name
        if self.scope == "parameters":
            reason = "it sees no rows"
        elif found := sorted(self.reads & UNWEIGHABLE):
            reason = f"it reads {' and '.join(found)}, which belong to the rows as they are"
        else:
            return
        raise AttnprobeError(f"The statistic {name!r} can't be weighted by norm: {reason}.")

    def __call__(self, block: AttentionBlock) -> Tensor:
        """Call the function, so that a decorated one can still be tried on a block."""
        return self.function(block)

    @property
    def identity(self) -> str:
        """Name and version, by which states and records know it."""
        return f"{self.name}@{self.version}"

    @property
    def definition(self) -> str:
        """What its docstrings say: formula, limits, source."""
        texts = [SHUFFLED] if self.control else []
        for part in filter(None, (self.function, self.reduce)):
            texts.append(inspect.getdoc(part.func if isinstance(part, partial) else part) or "")
        return "\n\n".join(dict.fromkeys(filter(None, texts)))

    def unit_of(self, *, patches: bool) -> str:
        """Give the unit in a table, where tokens may be patches of an image."""
        return self.unit_in_patches if patches and self.unit_in_patches else self.unit

    def evaluate(self, given: Any) -> Tensor:
        """Ask about an ``AttentionBlock``, or about ``HeadParameters``, and refuse what the scope forbids."""
        if self.scope == "parameters":
            return _call(self, self.function, (given,), "head", given.queries.shape[:1])
        batch, heads, queries, _ = given.probabilities.shape
        axes, sizes = "batch, head, ...", [batch, heads if self.rows == "head" and not self.reduce else None]
        if self.scope == "query":
            axes, sizes = "batch, head, query", [*sizes, queries]
        values = _call(self, self.function, (given,), axes, sizes)
        if not values.is_floating_point():  # a share of yes and no
            values = values.to(given.probabilities.dtype)
        return values

    def reduce_sequences(self, values: Tensor, layout: Layout, heads: int | None = None) -> Tensor:
        """Take what the function gave for whole sequences to what is summed up, a row for each head."""
        reduce = self.reduce or (mean_over_queries if self.scope == "query" else lambda kept, _: kept)
        by_head = self.rows == "head"
        axes = "batch, head" if by_head and self.columns is mean_and_error else "batch, head, ..."
        return _call(self, reduce, (values, layout), axes, (len(values), heads if by_head else None))


def _call(
    statistic: Statistic, function: Function, given: tuple[Any, ...], axes: str, sizes: Sequence[int | None]
) -> Tensor:
    """Call a function of a statistic, whoever wrote it, and refuse what is no tensor of such axes.

    ``sizes`` are those of the axes, None for any.
    """
    from torch import Tensor

    try:
        values = function(*given)
    except AttnprobeError:
        raise
    except Exception as error:  # whatever a function of a stranger's does
        if out_of_memory(error):  # half of the batch may fit
            raise
        raise AttnprobeError(
            f"The statistic {statistic.name!r} failed ({type(error).__name__}: {first_line(error)}); "
            "try it on a block of its own."
        ) from error
    if not isinstance(values, Tensor):
        raise AttnprobeError(
            f"The statistic {statistic.name!r} must return a tensor, not {type(values).__name__}."
        )
    shape, more = tuple(values.shape), axes.endswith("...")
    fits = len(shape) == len(sizes) or (more and len(shape) > len(sizes))
    if not fits or any(size not in {None, there} for size, there in zip(sizes, shape, strict=False)):
        expected = ", ".join("any" if size is None else str(size) for size in sizes)
        raise AttnprobeError(
            f"The statistic {statistic.name!r} gave a tensor of shape {shape}; it must be ({axes}), here "
            f"({expected})."
        )
    return values


def statistic(
    function: Function | None = None,
    *,
    unit: str,
    name: str | None = None,
    reduce: Reduce | None = None,
    scope: Scope = "query",
    needs: Collection[str] = (),
    title: str = "",
    headline: bool = True,
    own_count: bool = False,
    version: int = 1,
) -> Any:
    """Make a statistic of a function of a block, to be measured with the others.

    The function is given an ``AttentionBlock``: some queries of some sequences, all heads of a layer. It
    returns (batch, head, query), NaN where a query has no such value. Means are over the queries of a
    sequence, then over sequences, with standard errors.

    Args:
        function: What is decorated.
        unit: What the number is counted in: "share", "nats", "tokens", ...
        name: The column; the name of the function by default.
        reduce: See ``Statistic``, as for all that follows.
        scope: What the function has to see at once.
        needs: What it reads of a block beside the probabilities.
        title: A few words for the axis of a picture.
        headline: Whether a terminal shows it among many.
        own_count: Whether it is undefined for many sequences.
        version: Raise it when the definition changes.

    Examples:
        >>> @statistic(unit="share")
        ... def top_two(block):
        ...     "Probability of the two most attended tokens."
        ...     return block.probabilities.topk(min(2, block.probabilities.shape[-1])).values.sum(-1)
        >>> top_two.identity
        'top_two@1'
    """
    if function is None:
        given = {key: value for key, value in locals().items() if key != "function"}
        return lambda decorated: statistic(decorated, **given)
    return Statistic(
        name or getattr(function, "__name__", ""), unit, function, reduce, scope, needs,
        title=title, headline=headline, own_count=own_count, version=version,
    )  # fmt: skip
