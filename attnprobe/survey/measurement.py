"""The loop: batches to attention blocks to statistics to moments."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Layout
from attnprobe.corpus.batches.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.reading.capture import captured_attention
from attnprobe.model.reading.pieces import Piece
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.halving import Halving
from attnprobe.run.state import State, Unkept
from attnprobe.statistics import Statistic
from attnprobe.statistics.registry import PerQuery
from attnprobe.sums.moments import Moments

#: The name under which the divergence of all pairs of heads of the model is kept.
ALL_PAIRS = "jsd_all_pairs"
#: Whole maps of a batch that may be kept for it, in probabilities.
ALL_PAIRS_CELLS = 67_108_864


@dataclass(frozen=True)
class Measurement:
    """Moments of every statistic over the sequences seen so far. Two of them add up.

    Attributes:
        moments: For each statistic, cells (layer, head or pair, ...).
        sequences: Sequences seen.
        tokens: Tokens seen.
    """

    moments: dict[str, Moments]
    sequences: int = 0
    tokens: int = 0

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Name everything that is needed to go on adding."""
        found = {"seen": np.array([self.sequences, self.tokens], np.float64)}
        for name, moments in self.moments.items():
            found |= {f"{name}/{part}": cells for part, cells in moments.arrays().items()}
        return found

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.float64]]) -> "Measurement":
        """Restore what ``arrays`` gave."""
        names = dict.fromkeys(name.partition("/")[0] for name in arrays if "/" in name)
        parts = ("count", "mean", "squares")
        moments = {name: Moments(*(arrays[f"{name}/{part}"] for part in parts)) for name in names}
        sequences, tokens = arrays["seen"].astype(int).tolist()
        return cls(moments, sequences, tokens)

    def __add__(self, other: "Measurement") -> "Measurement":
        """Merge the measurements of two sets of sequences."""
        if self.moments.keys() != other.moments.keys():
            raise ValueError("only measurements of the same statistics add up")
        merged = {name: self.moments[name] + other.moments[name] for name in self.moments}
        return Measurement(merged, self.sequences + other.sequences, self.tokens + other.tokens)


def measure(
    checkpoint: Checkpoint,
    architecture: Architecture,
    batches: Iterable[Batch],
    statistics: Sequence[Statistic],
    *,
    all_pairs: bool = False,
    state: State | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Measurement:
    """Run the encoder over batches once and measure everything on the way.

    Args:
        checkpoint: The encoder.
        architecture: What the dry run found.
        batches: Batches of equally long sequences; those that ``state`` does not hold yet.
        statistics: What to measure.
        all_pairs: Whether to keep the divergence of every two heads of the whole model.
        state: Where the moments are kept, so that a run that was stopped can go on.
        progress: Called after each batch with its number of tokens.

    Raises:
        AttnprobeError: When the model produces NaN, or there is no batch.
    """
    state = state or Unkept()
    total = Measurement.from_arrays(state.arrays) if state.done else None
    if total is not None:
        progress(total.tokens)
    with state.guarded():
        for batch, values in sequence_values(
            checkpoint, architecture, batches, statistics, all_pairs=all_pairs
        ):
            moments = {name: Moments.of(sample) for name, sample in values.items()}
            found = Measurement(moments, len(batch), batch.size)
            total = found if total is None else total + found
            state.reached(total.arrays)
            progress(batch.size)
    if total is None:
        raise AttnprobeError("There is not a single sequence to measure.")
    return total


def sequence_values(
    checkpoint: Checkpoint,
    architecture: Architecture,
    batches: Iterable[Batch],
    statistics: Sequence[Statistic],
    *,
    all_pairs: bool = False,
) -> Iterator[tuple[Batch, dict[str, NDArray[np.float64]]]]:
    """Run the encoder over batches once, and give what every statistic says of each sequence.

    Yields:
        The batch, and for each statistic its cells (sequence, layer, head or pair, ...).
    """
    recorder = _Recorder(statistics, architecture.kinds, architecture.heads, all_pairs=all_pairs)
    halving = Halving()

    def values_of(part: Batch) -> dict[str, NDArray[np.float64]]:
        recorder.begin(part)
        hidden = checkpoint.forward(part.inputs)
        if not bool(torch.isfinite(hidden).all()):
            raise AttnprobeError(
                f"{checkpoint.name} produced NaN or infinite hidden states; "
                "try --dtype float32, or look at its weights."
            )
        return recorder.finish()

    with captured_attention(checkpoint.body, recorder, architecture.way):
        for batch in batches:
            first, *others = halving.run(batch, values_of)
            values = first
            if others:
                values = {name: np.concatenate([first[name], *(p[name] for p in others)]) for name in first}
            yield batch, values


def layout_of(kind: Kind, batch: Batch, queries: int, keys: int) -> Layout:
    """Tell which tokens of a batch attend to which in a kind of attention.

    Args:
        kind: The kind.
        batch: The sequences.
        queries: How many tokens attend.
        keys: How many they attend to.
    """
    if kind is Kind.ENCODER:
        return batch.layout(keys)
    if kind is Kind.CROSS:
        assert batch.targets is not None
        return Layout(batch.targets, batch.layout(keys).keys)
    return Layout.of(batch.targets or batch.layout(queries).keys, causal=True)


class _Recorder:
    """Watches one batch at a time and turns its blocks into values of its sequences."""

    def __init__(
        self, statistics: Sequence[Statistic], kinds: Sequence[Kind], heads: int, *, all_pairs: bool
    ) -> None:
        self._statistics = statistics
        # Statistics that ask the same of a query share the answer.
        self._functions: dict[PerQuery, list[Statistic]] = {}
        for statistic in statistics:
            self._functions.setdefault(statistic.per_query, []).append(statistic)
        self._kinds, self._heads = kinds, heads
        self._all_pairs = all_pairs

    def begin(self, batch: Batch) -> None:
        """Forget the last batch and expect this one."""
        layouts: dict[Kind, Layout] = {}
        self._batch, self._layouts = batch, layouts
        # Layers may lie on several devices; what is kept of them is gathered on that of the first.
        self._some = cache(lambda kind, start, stop, device: layouts[kind].rows(start, stop).to(device))
        self._on = cache(lambda kind, device: layouts[kind].to(device))
        self._layer = 0
        self._queries: dict[PerQuery, Tensor] = {}
        self._sequences: dict[str, list[Tensor]] = {statistic.name: [] for statistic in self._statistics}
        self._maps: dict[Kind, Tensor] = {}

    def __call__(self, piece: Piece) -> None:
        """Take a block; pieces of a layer come together, layers in order."""
        if piece.layer != self._layer:
            self._close_layer()
            self._layer = piece.layer
        if piece.layer >= len(self._kinds):
            return  # counted, and refused where the batch ends
        batch, _, queries, _ = piece.probabilities.shape
        some = slice(piece.sequence, piece.sequence + batch)
        span = slice(piece.query, piece.query + queries)
        kind, device = self._kinds[piece.layer], piece.probabilities.device
        if kind not in self._layouts:
            keys = piece.probabilities.shape[3]
            self._layouts[kind] = layout_of(kind, self._batch, piece.queries, keys)
        layout = self._some(kind, some.start, some.stop, device)
        block = AttentionBlock(piece.probabilities, layout, piece.query).restricted()
        for function in self._functions:
            values = function(block)
            if function not in self._queries:
                side = self._layouts[kind].queries
                whole = (side.batch, values.shape[1], side.length)
                self._queries[function] = values.new_empty(whole)
            self._queries[function][some, :, span] = values
        if self._all_pairs:
            self._keep(block, kind, some, span)

    def finish(self) -> dict[str, NDArray[np.float64]]:
        """Close the last layer and give the values of the batch's sequences."""
        self._close_layer()
        if self._layer + 1 != len(self._kinds):
            raise AttnprobeError(
                f"{self._layer + 1} attention layers came by, the dry run saw {len(self._kinds)}; "
                "this model changes its layers with its input, which attnprobe can't tabulate."
            )
        values = {name: torch.stack(layers, 1) for name, layers in self._sequences.items()}
        if self._maps:
            pairs = [torch.cat(list(self._divergences(kind, maps))) for kind, maps in self._maps.items()]
            values[ALL_PAIRS] = torch.cat(pairs, 1)
        return {name: cells.cpu().double().numpy() for name, cells in values.items()}

    def _close_layer(self) -> None:
        if self._layer >= len(self._kinds):
            return
        kind = self._kinds[self._layer]
        for function, statistics in self._functions.items():
            for statistic in statistics:
                queries = self._queries[function]
                values = statistic.reduce(queries, self._on(kind, queries.device))
                self._sequences[statistic.name].append(values)
        self._queries = {}  # the next layer may be of another kind, with other queries

    def _keep(self, block: AttentionBlock, kind: Kind, some: slice, span: slice) -> None:
        layout = self._layouts[kind]
        if kind not in self._maps:
            heads = self._kinds.count(kind) * self._heads
            shape = (layout.queries.batch, heads, layout.queries.length, layout.keys.length)
            self._maps[kind] = block.probabilities.new_empty(shape)
        first = self._kinds[: self._layer].count(kind) * self._heads
        self._maps[kind][some, first : first + self._heads, span] = block.probabilities

    def _divergences(self, kind: Kind, maps: Tensor) -> Iterator[Tensor]:
        """Average over queries the divergence of all pairs, one sequence at a time; (1, pair)."""
        for place, whole in enumerate(maps.split(1)):
            layout = self._some(kind, place, place + 1, whole.device)
            values = AttentionBlock(whole, layout).divergence
            yield values.where(layout.queries.kept[:, None], torch.nan).nanmean(-1)
