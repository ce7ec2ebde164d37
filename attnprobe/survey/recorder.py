"""From blocks of attention to what every statistic says of each sequence of a batch."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from threading import local
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.block import AttentionBlock, measure_lengths
from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Layout
from attnprobe.attention.observed import UNEMBEDDING, Observed
from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.model.reading.routing import Piece
from attnprobe.model.verifying.observations import Unembedding
from attnprobe.statistics.statistic import Function, Scope, Statistic, evaluate, reduce_sequences
from attnprobe.sums.base import Sum
from attnprobe.survey.finder import Finder
from attnprobe.survey.tables import place_heads

#: For each statistic, what it says of each sequence, (sequence, layer, head or pair, ...), or of all of them.
Values = dict[str, NDArray[np.floating[Any]] | Sum]
#: Weights what a block holds, given the piece that it was made of.
Weighting = Callable[[Piece, AttentionBlock], AttentionBlock]
#: What statistics share: what is asked, of how much at once.
Key = tuple[Scope, Function]


def make_layout(kind: Kind | int, batch: Batch, queries: int, keys: int) -> Layout:
    """Tell which tokens of a batch attend to which in a kind of attention, of so many queries and keys.

    ``kind`` is the number of a layer where layers attend from and to tokens of their own; their places are
    not known.
    """
    if isinstance(kind, int):
        return Layout(batch.layout(queries).queries, batch.layout(keys).keys)
    if kind is Kind.ENCODER:
        return batch.layout(keys)
    if kind is Kind.CROSS:
        assert batch.targets is not None
        annotations = batch.cross_annotations
        return Layout(batch.targets, batch.layout(keys).keys, annotations=annotations, shifted=True)
    if batch.targets is not None:
        annotations = batch.target_annotations
        return Layout(batch.targets, batch.targets, causal=True, annotations=annotations, shifted=True)
    found = batch.layout(queries)
    return Layout(found.keys, found.keys, causal=True, annotations=found.annotations)


class Recorder(local):
    """Watches one batch at a time and turns its blocks into values of its sequences.

    Each thread that runs passes has its own batch.
    """

    # Of a subclass of ``local``, the class is made anew for every thread.

    def __init__(
        self,
        statistics: Sequence[Statistic],
        kinds: Sequence[Kind | int],
        heads: int,
        projections: Sequence[Tensor] = (),
        standing: NDArray[np.bool_] | None = None,
        weigh: Weighting | None = None,
        *,
        unembedding: Unembedding | None = None,
        keep: bool = False,
    ) -> None:
        """Record statistics of layers of some kinds, with so many heads each.

        ``kinds`` holds a layer's number where tokens differ from layer to layer; ``projections`` are (head,
        width, model width) for each layer, and ``standing`` (layer, head) says which heads are there.
        """
        self._weigh = weigh
        self._every, self._kinds, self._heads = statistics, list(kinds), heads
        self._projections, self._unembedding = projections, unembedding
        # A layer that lost all its heads computes its first, which nobody reads.
        rows = [] if standing is None else [np.flatnonzero(row).tolist() for row in standing]
        self._standing: list[list[int]] = rows
        self._present = [row or [0] for row in rows] or [list(range(heads))] * len(kinds)
        self._rooms: dict[Kind, Tensor] = {}
        self._keep = keep
        self._finders = {
            statistic.name: Finder(statistic, heads, self._present, self._standing)
            for statistic in statistics
            if statistic.scope == "links"
        }

    def begin(self, batch: Batch, *, baseline: bool = False) -> None:
        """Forget the last batch and expect this one, or only its baseline; see ``Statistic``."""
        self._statistics = [one for one in self._every if one.beyond_baseline or not baseline]
        # Statistics that ask the same share the answer.
        self._functions: dict[Scope, dict[Function, Statistic]] = {}
        for statistic in self._statistics:
            self._functions.setdefault(statistic.scope, {}).setdefault(statistic.function, statistic)
        self._keeps = "model" in self._functions or (self._keep and not baseline)
        self._raises = any(UNEMBEDDING in statistic.needs for statistic in self._statistics)
        self._asking = {} if baseline else self._finders
        layouts: dict[Kind | int, Layout] = {}
        self._batch, self._layouts = batch, layouts
        # Layers may lie on several devices; what is kept of them is gathered on that of the first.
        self._some = cache(lambda kind, start, stop, device: layouts[kind].rows(start, stop).to(device))
        self._on = cache(lambda kind, device: layouts[kind].to(device))
        self._raised: Tensor | None = None
        self._layer = 0
        self._found: dict[Key, Tensor] = {}
        self._sequences: dict[str, Tensor] = {}
        self._map: _Map | None = None
        self._maps: dict[Kind, Tensor] = {}
        for finder in self._asking.values():
            finder.begin(batch)

    def __call__(self, piece: Piece) -> None:
        """Take a block; pieces of a layer come together, layers in order."""
        if piece.layer != self._layer:
            self._close_layer()
            self._layer = piece.layer
        if piece.layer >= len(self._kinds):
            return  # counted, and refused where the batch ends
        batch, _, queries, keys = piece.probabilities.shape
        some = slice(piece.sequence, piece.sequence + batch)
        span = slice(piece.query, piece.query + queries)
        kind = self._kinds[piece.layer]
        if kind not in self._layouts:
            self._layouts[kind] = make_layout(kind, self._batch, piece.queries, keys)
        observed = self._observe(piece)
        block = self._make_block(kind, some, piece.query, piece.probabilities, observed).restricted()
        weighed = piece
        if self._weigh is not None:
            block = self._weigh(piece, block)
            # A head that carries nothing attends to nothing.
            weighed = (
                replace(piece, probabilities=block.probabilities.nan_to_num(0)) if self._asking else piece
            )
        if isinstance(kind, Kind):
            for finder in self._asking.values():
                finder.take(piece.layer, kind, self._layouts[kind], weighed)
        side = self._layouts[kind].queries
        for function, statistic in self._functions.get("query", {}).items():
            values = evaluate(statistic, block)
            if ("query", function) not in self._found:
                whole = values.new_empty(side.batch, values.shape[1], side.length)
                self._found["query", function] = whole
            self._found["query", function][some, :, span] = values
        for function, statistic in self._functions.get("layer", {}).items():
            values = evaluate(statistic, block)
            if ("layer", function) not in self._found:
                whole = values.new_zeros(side.batch, *values.shape[1:])
                self._found["layer", function] = whole
            self._found["layer", function][some] += values
        if "map" in self._functions:
            self._evaluate_map(block, kind, some, span)
        if self._keeps and isinstance(kind, Kind):
            self._keep_map(block, kind, some, span)

    def finish(self) -> Values:
        """Close the last layer and give what was found in the batch's sequences."""
        self._close_layer()
        if self._layer + 1 != len(self._kinds):
            raise AttnprobeError(
                f"attention of {self._layer + 1} layers was read, and of {len(self._kinds)} in the dry run; "
                "this model changes its layers with its input, which attnprobe can't tabulate."
            )
        values = self._sequences | self._evaluate_model()
        found: Values = {name: cells.cpu().numpy() for name, cells in values.items()}
        return found | {name: finder.finish() for name, finder in self._asking.items()}

    def maps(self) -> Mapping[Kind, tuple[Tensor, Layout]]:
        """Give the maps that were kept of a batch: of each kind (batch, head of any layer, query, key).

        The next batch of this thread takes their memory.
        """
        return {kind: (maps, self._on(kind, maps.device)) for kind, maps in self._maps.items()}

    def _observe(self, piece: Piece) -> Observed:
        if not self._projections:
            return piece.observed
        projection = self._projections[piece.layer].to(piece.probabilities.device)
        return replace(piece.observed, projection=projection, unembedding=self._unembed(piece))

    def _unembed(self, piece: Piece) -> Tensor | None:
        """Give what raises the logits of the keys' tokens, in the layers whose attention ends in logits."""
        kind = self._kinds[piece.layer]
        beside = self._batch.targets is not None
        if (
            self._unembedding is None
            or not self._raises
            or kind is Kind.CROSS
            or (beside and kind is Kind.ENCODER)
        ):
            return None
        if self._raised is None:  # the same in all layers
            ids = self._batch.inputs["decoder_input_ids" if beside else "input_ids"]
            self._raised = self._unembedding.rows(ids)
        some = slice(piece.sequence, piece.sequence + len(piece.probabilities))
        return self._raised[some].to(piece.probabilities.device)

    def _make_block(
        self, kind: Kind | int, some: slice, query: int, probabilities: Tensor, observed: Observed
    ) -> AttentionBlock:
        layout = self._some(kind, some.start, some.stop, probabilities.device)
        return AttentionBlock(probabilities, layout, query, observed)

    def _evaluate_map(self, block: AttentionBlock, kind: Kind | int, some: slice, span: slice) -> None:
        """Put the map of whole sequences together, and ask about it once it is whole."""
        whole: AttentionBlock | None = block
        queries = self._layouts[kind].queries.length
        if span.stop - span.start < queries:
            if self._map is None or span.start == 0:
                self._map = _Map(block, queries)
            self._map.take(block)
            whole = self._map.whole() if span.stop == queries else None
        if whole is None:
            return
        for function, statistic in self._functions["map"].items():
            values = evaluate(statistic, whole)
            if ("map", function) not in self._found:
                sequences = self._layouts[kind].queries.batch
                self._found["map", function] = values.new_empty(sequences, *values.shape[1:])
            self._found["map", function][some] = values

    def _close_layer(self) -> None:
        if self._layer >= len(self._kinds):
            return
        kind = self._kinds[self._layer]
        for statistic in self._statistics:
            if statistic.scope not in {"model", "links"}:
                found = self._found[statistic.scope, statistic.function]
                present = self._present[self._layer]
                values = reduce_sequences(statistic, found, self._on(kind, found.device), len(present))
                if self._standing:
                    standing = self._standing[self._layer]
                    values = place_heads(values, statistic.rows, present, standing, self._heads)
                if statistic.name not in self._sequences:
                    shape = (len(values), len(self._kinds), *values.shape[1:])
                    self._sequences[statistic.name] = values.new_empty(shape)
                self._sequences[statistic.name][:, self._layer] = values
        self._found, self._map = {}, None  # the next layer may be of another kind, with other queries

    def _keep_map(self, block: AttentionBlock, kind: Kind, some: slice, span: slice) -> None:
        layout = self._layouts[kind]
        if kind not in self._maps:
            heads = self._count_heads(kind, len(self._kinds))
            shape = (layout.queries.batch, heads, layout.queries.length, layout.keys.length)
            self._maps[kind] = self._take_room(kind, block.probabilities, shape)
        first = self._count_heads(kind, self._layer)
        self._maps[kind][some, first : first + block.probabilities.shape[1], span] = block.probabilities

    def _take_room(self, kind: Kind, like: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Give memory for maps: that of the last batch if it suffices, as fresh one costs page faults."""
        size, room = math.prod(shape), self._rooms.get(kind)
        if room is None or room.numel() < size or (room.device, room.dtype) != (like.device, like.dtype):
            self._rooms.pop(kind, None)  # before there is more
            del room
            room = self._rooms[kind] = like.new_empty(size)
        return room[:size].view(shape)

    def _count_heads(self, kind: Kind, layer: int) -> int:
        return sum(len(self._present[one]) for one in range(layer) if self._kinds[one] is kind)

    def _evaluate_model(self) -> dict[str, Tensor]:
        """Ask about the heads of all layers together, kind by kind, one sequence at a time."""
        found: dict[str, Tensor] = {}
        for statistic in self._statistics:
            if statistic.scope != "model":
                continue
            kinds = []
            for kind, maps in self._maps.items():
                blocks = (
                    self._make_block(kind, slice(place, place + 1), 0, whole, Observed())
                    for place, whole in enumerate(maps.split(1))
                )
                values = torch.cat([evaluate(statistic, block) for block in blocks])
                values = reduce_sequences(statistic, values, self._on(kind, values.device), self._heads)
                kinds.append(self._place_model(statistic, values, kind) if self._standing else values)
            found[statistic.name] = torch.cat(kinds, 1)
        return found

    def _place_model(self, statistic: Statistic, values: Tensor, kind: Kind) -> Tensor:
        layers = [layer for layer, one in enumerate(self._kinds) if one is kind]
        present, standing = (
            [place * self._heads + head for place, layer in enumerate(layers) for head in heads[layer]]
            for heads in (self._present, self._standing)
        )
        return place_heads(values, statistic.rows, present, standing, len(layers) * self._heads)


class _Map:
    """The maps of some sequences of a layer, put together from blocks of their queries."""

    def __init__(self, first: AttentionBlock, queries: int) -> None:
        self._layout, self._queries = first.layout, queries
        self._parts: dict[str, Tensor] = {}
        self._fixed = {name: getattr(first.observed, name) for name in ("values", "keys", "projection")}

    def take(self, block: AttentionBlock) -> None:
        by_query: Mapping[str, Any] = {
            "probabilities": block.probabilities,
            "scores": block.observed.scores,
            "outputs": block.observed.outputs,
            "queries": block.observed.queries,
            "weighted": None if block.weighted is None else block.weighted[..., None],
        }
        for name, part in by_query.items():
            if part is not None:
                batch, heads, queries, width = part.shape
                whole = self._parts.setdefault(name, part.new_empty(batch, heads, self._queries, width))
                whole[:, :, block.offset : block.offset + queries] = part

    def whole(self) -> AttentionBlock:
        beside = {name: self._parts.get(name) for name in ("scores", "outputs", "queries")}
        weighted = self._parts.get("weighted")
        return AttentionBlock(
            self._parts["probabilities"],
            self._layout,
            0,
            Observed(**beside, **self._fixed),
            None if weighted is None else weighted[..., 0],
        )


class NormWeighting(local):
    """Weights blocks by the norm of what they carry, in each thread those of its own batch."""

    def __init__(self, factors: Sequence[Tensor]) -> None:
        """Take what stands for the output projection of each layer; see ``factor_of``."""
        self._factors = factors
        self._room = torch.empty(0)
        self.begin()

    def begin(self) -> None:
        self._known: tuple[int, int] | None = None
        self._lengths = torch.empty(0)

    def __call__(self, piece: Piece, block: AttentionBlock) -> AttentionBlock:
        """Weight a block; what its keys carry is computed once for all queries of its sequences."""
        if self._known != (piece.layer, piece.sequence):
            values = block.values
            self._lengths = measure_lengths(values, self._factors[piece.layer].to(values.device))
            self._known = piece.layer, piece.sequence
        rows = block.probabilities
        if rows.device.type == "cpu" and self._room.numel() < rows.numel():
            self._room = torch.empty(rows.numel())  # fresh memory for each block costs page faults
        return block.by_norm(self._lengths, self._room)


class Recorders:
    """Watches one batch at a time; each recorder sees all of it, and keeps statistics of its own."""

    def __init__(
        self,
        statistics: Sequence[Statistic],
        factors: Sequence[Tensor] = (),
        *settings: Any,
        unembedding: Unembedding | None = None,
        keep: bool = False,
    ) -> None:
        """Record statistics; see ``Recorder`` for the settings, and ``NormWeighting`` for the factors."""
        by_norm = [statistic for statistic in statistics if statistic.weights == "norm"]
        as_it_is = [statistic for statistic in statistics if statistic.weights == "attention"]
        self._weighting = NormWeighting(factors)
        self._keeping = Recorder(as_it_is, *settings, unembedding=unembedding, keep=keep)
        self._recorders = [self._keeping] if as_it_is or keep else []
        if by_norm:
            self._recorders.append(Recorder(by_norm, *settings, weigh=self._weighting))

    def begin(self, batch: Batch, *, baseline: bool = False) -> None:
        self._weighting.begin()
        for recorder in self._recorders:
            recorder.begin(batch, baseline=baseline)

    def __call__(self, piece: Piece) -> None:
        for recorder in self._recorders:
            recorder(piece)

    def maps(self) -> Mapping[Kind, tuple[Tensor, Layout]]:
        return self._keeping.maps()

    def finish(self) -> Values:
        return {name: found for one in self._recorders for name, found in one.finish().items()}
