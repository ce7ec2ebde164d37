"""From blocks of attention to the value of every statistic in each sequence of a batch."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from threading import local
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.block import AttentionBlock, measure_lengths
from attnprobe.attention.kinds import Kind, Observed
from attnprobe.attention.layout import Layout
from attnprobe.corpus.batch import Batch
from attnprobe.errors import ModelError
from attnprobe.model.check.projections import Unembedding
from attnprobe.model.reading.capture import Piece
from attnprobe.statistics.statistic import Function, Rows, Scope, Statistic, Weights
from attnprobe.sums.base import Sum
from attnprobe.survey.finder import LinkScorer
from attnprobe.survey.word_maps import AskedCorpus, WordScorer

#: By statistic: its values, (sequence, layer, head or pair, ...), or a sum over all sequences.
Values = dict[str, NDArray[np.floating[Any]] | Sum]
#: For each kind of attention, a tensor of all its layers, and which tokens attend to which.
ByKind = Mapping[Kind, tuple[Tensor, Layout]]


def list_computed(standing: NDArray[np.bool_]) -> list[list[int | None]]:
    """List the heads that each layer computes, of those that are ``standing`` (layer, head).

    >>> list_computed(np.array([[True, False, True], [False, False, False]]))
    [[0, 2], [None]]
    """
    return [[*np.flatnonzero(row).tolist()] or [None] for row in standing]


def place_heads(values: Tensor, rows: Rows, computed: Sequence[int | None], heads: int) -> Tensor:
    """Put values (batch, head or pair or 1, ...) of computed heads in the places of all; NaN for others.

    >>> place_heads(torch.tensor([[7.0, 8.0]]), "head", [0, 2], 3)
    tensor([[7., nan, 8.]])
    >>> place_heads(torch.tensor([[5.0]]), "pair", [0, 2], 3)
    tensor([[nan, 5., nan]])
    """
    if rows == "layer":
        return torch.full_like(values, torch.nan) if computed[0] is None else values
    size = 1 if rows == "head" else 2
    every = {which: place for place, which in enumerate(combinations(range(heads), size))}
    places = [(place, which) for place, which in enumerate(combinations(computed, size)) if None not in which]
    whole = values.new_full((len(values), len(every), *values.shape[2:]), torch.nan)
    whole[:, [every[which] for _, which in places]] = values[:, [place for place, _ in places]]  # type: ignore[index]
    return whole


class Recorder(local):
    """Watches one batch at a time, each thread its own, and turns its blocks into values of its sequences."""

    def __init__(
        self,
        statistics: Sequence[Statistic],
        kinds: Iterable[Kind | int],
        standing: NDArray[np.bool_],
        *,
        projections: Sequence[Tensor] = (),
        factors: Sequence[Tensor] = (),
        unembedding: Unembedding | None = None,
        keep: bool = False,
        keep_outputs: bool = False,
    ) -> None:
        """Record statistics of layers of some kinds, and of the heads that are ``standing`` (layer, head).

        The kind of a layer is its number where tokens differ from layer to layer. ``projections`` of layers
        are (head, width, model width), if statistics read them; ``factors`` stand for them where rows are
        weighted by norm, see ``factor_projection``. With ``keep``, all maps of a batch are kept until the
        next; with ``keep_outputs``, what its heads give.
        """
        self._all, self._heads = statistics, standing.shape[1]
        self._kinds: list[Any] = list(kinds)
        self._projections, self._factors, self._unembedding = projections, factors, unembedding
        self._keep, self._keep_outputs = keep, keep_outputs
        self._complete, self._computed = bool(standing.all()), list_computed(standing)
        self._rooms: dict[Any, Tensor] = {}
        self._scorers: dict[str, tuple[Weights, LinkScorer | WordScorer]] = {}
        for statistic in statistics:
            if statistic.scope == "links":
                if issubclass(statistic.sums, AskedCorpus):
                    scorer = WordScorer(statistic, self._computed)
                else:
                    scorer = LinkScorer(statistic, self._heads, self._computed)
                self._scorers[statistic.name] = statistic.weights, scorer

    def begin(self, batch: Batch, *, baseline: bool = False) -> None:
        """Forget the last batch and expect this one, or only its baseline; see ``Statistic``."""
        self._statistics = [one for one in self._all if one.beyond_baseline or not baseline]
        self._keeps: set[Weights] = {one.weights for one in self._statistics if one.scope == "model"}
        if self._keep and not baseline:
            self._keeps.add("attention")
        read = {*self._keeps, *(one.weights for one in self._statistics)}
        # Statistics that ask the same share the answer.
        self._questions: dict[Weights, dict[Scope, dict[Function, Statistic]]] = {
            weights: {} for weights in get_args(Weights) if weights in read
        }
        for statistic in self._statistics:
            if (scope := statistic.scope) not in {"model", "links"}:
                functions = self._questions[statistic.weights].setdefault(scope, {})
                functions.setdefault(statistic.function, statistic)
        self._open = {} if baseline else self._scorers
        for _, scorer in self._open.values():
            scorer.begin(batch)
        layouts: dict[Any, Layout] = {}
        self._batch, self._layouts, self._layer = batch, layouts, 0
        # Layers may lie on several devices; what is kept of them is gathered on that of the first.
        self._rows = cache(lambda kind, start, stop, device: layouts[kind].rows(start, stop).to(device))
        self._on = cache(lambda kind, device: layouts[kind].to(device))
        self._unembedded: Tensor | None = None
        self._lengths: tuple[tuple[int, int], Tensor] | None = None
        self._answers: dict[tuple[Weights, Scope, Function], Tensor] = {}
        self._assembled: dict[tuple[Weights, str], Tensor] = {}
        self._sequences: dict[str, Tensor] = {}
        self._maps: dict[tuple[Weights, Kind], Tensor] = {}
        self._outputs: dict[int, Tensor] = {}

    def __call__(self, piece: Piece) -> None:
        """Take a block; pieces of a layer come together, layers in order."""
        if piece.layer != self._layer:
            self._close_layer()
            self._layer = piece.layer
        if piece.layer >= len(self._kinds):
            return  # counted, and refused where the batch ends
        kind, rows = self._kinds[piece.layer], piece.probabilities
        places = piece.queries, rows.shape[3]
        if kind not in self._layouts:
            self._layouts[kind] = self._batch.lay_out(kind, *places)
        layout = self._layouts[kind]
        if places != (tokens := (layout.queries.length, layout.keys.length)):
            raise ModelError(
                f"this model attends from {places[0]:,} places to {places[1]:,} where it has read "
                f"{tokens[0]:,} and {tokens[1]:,} tokens, which attnprobe can't tell apart."
            )
        observed = self._add_weights(piece) if self._projections else piece.observed
        there = self._rows(kind, piece.sequence, piece.sequence + len(rows), rows.device)
        plain = AttentionBlock(rows, there, piece.query, observed)
        if not plain.layout.keys.all_kept:
            plain = plain.restricted()
        for weights in self._questions:
            block = plain if weights == "attention" else self._weigh(piece, plain)
            self._ask(weights, block, piece)
            if weights in self._keeps:
                self._keep_map(weights, block.probabilities, piece)
            for of, scorer in self._open.values():
                if of == weights == "attention":
                    scorer.take(piece.layer, kind, layout, piece)
                elif of == weights:  # a head that carries nothing attends to nothing
                    rows = block.probabilities.nan_to_num(0)
                    scorer.take(piece.layer, kind, layout, replace(piece, probabilities=rows))
        if self._keep_outputs and observed.outputs is not None:
            given = observed.outputs
            self._keep_rows(self._outputs, piece.layer, given, piece, 0, given.shape[1])

    def finish(self) -> Values:
        """Close the last layer, and give the values of the batch's sequences."""
        self._close_layer()
        if self._layer + 1 != len(self._kinds):
            raise ModelError(
                f"attention of {self._layer + 1} layers was read, and of {len(self._kinds)} in the dry run; "
                "this model changes its layers with its input, which attnprobe can't read."
            )
        self._evaluate_models()
        values: Values = {name: cells.cpu().numpy() for name, cells in self._sequences.items()}
        return values | {name: scorer.finish() for name, (_, scorer) in self._open.items()}

    def maps(self) -> ByKind:
        """Give (batch, head of any layer, query, key) of each kind; the next batch takes their memory."""
        return {
            kind: (maps, self._on(kind, maps.device))
            for (weights, kind), maps in self._maps.items()
            if weights == "attention"
        }

    def outputs(self) -> ByKind:
        """Give (batch, query, head of any layer, width) of each kind; narrow heads have zeros at the end."""
        by_kind = {}
        for kind, layout in self._layouts.items() if self._keep_outputs else ():
            layers = [self._outputs[layer] for layer, one in enumerate(self._kinds) if one is kind]
            width, device = max(one.shape[3] for one in layers), layers[0].device
            wide = [torch.nn.functional.pad(one.to(device), (0, width - one.shape[3])) for one in layers]
            by_kind[kind] = torch.cat(wide, 1).transpose(1, 2), layout
        return by_kind

    def _add_weights(self, piece: Piece) -> Observed:
        """Add the projection of the layer, and the unembedding of the keys, to what was observed."""
        device, kind = piece.probabilities.device, self._kinds[piece.layer]
        projection = self._projections[piece.layer].to(device)
        beside = self._batch.targets is not None
        # Where an encoder's attention, or that to it, does not end in logits.
        without_logits = kind is Kind.CROSS or (beside and kind is Kind.ENCODER)
        if self._unembedding is None or without_logits:
            return replace(piece.observed, projection=projection)
        if self._unembedded is None:  # the same in all layers
            ids = self._batch.inputs["decoder_input_ids" if beside else "input_ids"]
            self._unembedded = self._unembedding.rows(ids)
        rows = self._unembedded[piece.sequence : piece.sequence + len(piece.probabilities)]
        return replace(piece.observed, projection=projection, unembedding=rows.to(device))

    def _weigh(self, piece: Piece, block: AttentionBlock) -> AttentionBlock:
        """Weight a block by the norm of what it carries, computed once for all queries of its sequences."""
        of = piece.layer, piece.sequence
        if self._lengths is None or self._lengths[0] != of:
            values = block.values
            self._lengths = of, measure_lengths(values, self._factors[piece.layer].to(values.device))
        return block.by_norm(self._lengths[1])

    def _ask(self, weights: Weights, block: AttentionBlock, piece: Piece) -> None:
        """Call all functions on a block, and store their values at its places in the batch."""
        batch, _, queries, _ = block.probabilities.shape
        rows = slice(piece.sequence, piece.sequence + batch)
        span = slice(piece.query, piece.query + queries)
        side = self._layouts[self._kinds[piece.layer]].queries
        for scope, functions in self._questions[weights].items():
            shown = self._assemble(weights, block, piece.queries) if scope == "map" else block
            if shown is None:
                continue
            for function, statistic in functions.items():
                values = statistic.evaluate(shown)
                whole = self._answers.get((weights, scope, function))
                if whole is None:
                    cells = (values.shape[1], side.length) if scope == "query" else values.shape[1:]
                    make = values.new_zeros if scope == "layer" else values.new_empty
                    whole = self._answers[weights, scope, function] = make(side.batch, *cells)
                if scope == "query":
                    whole[rows, :, span] = values
                elif scope == "layer":
                    whole[rows] += values
                else:
                    whole[rows] = values

    def _assemble(self, weights: Weights, block: AttentionBlock, queries: int) -> AttentionBlock | None:
        """Put the map of whole sequences together; None until it is whole."""
        size, seen = block.probabilities.shape[2], block.observed
        if size == queries:
            return block
        parts = {"probabilities": block.probabilities, "weighted": block.weighted}
        parts |= {name: getattr(seen, name) for name in ("scores", "outputs", "queries")}
        whole: dict[str, Any] = {}
        for name, part in parts.items():
            if part is not None:
                if block.offset == 0:
                    shape = (*part.shape[:2], queries, *part.shape[3:])
                    self._assembled[weights, name] = part.new_empty(shape)
                whole[name] = self._assembled[weights, name]
                whole[name][:, :, block.offset : block.offset + size] = part
        if block.offset + size < queries:
            return None
        rows, weighted = whole.pop("probabilities"), whole.pop("weighted", None)
        return AttentionBlock(rows, block.layout, 0, replace(seen, **whole), weighted)

    def _close_layer(self) -> None:
        """Reduce the values of a layer's queries to values of sequences."""
        if self._layer >= len(self._kinds):
            return
        kind, computed = self._kinds[self._layer], self._computed[self._layer]
        for statistic in self._statistics:
            if statistic.scope in {"model", "links"}:
                continue
            answers = self._answers[statistic.weights, statistic.scope, statistic.function]
            values = statistic.reduce_sequences(answers, self._on(kind, answers.device), len(computed))
            if not self._complete:
                values = place_heads(values, statistic.rows, computed, self._heads)
            if statistic.name not in self._sequences:
                shape = (len(values), len(self._kinds), *values.shape[1:])
                self._sequences[statistic.name] = values.new_empty(shape)
            self._sequences[statistic.name][:, self._layer] = values
        # The next layer may be of another kind, with other queries.
        self._answers, self._assembled = {}, {}

    def _keep_map(self, weights: Weights, rows: Tensor, piece: Piece) -> None:
        """Keep rows beside those of the other layers of their kind."""
        kind = self._kinds[piece.layer]
        heads = [len(self._computed[layer]) for layer, one in enumerate(self._kinds) if one is kind]
        first = sum(heads[: self._kinds[: piece.layer].count(kind)])
        self._keep_rows(self._maps, (weights, kind), rows, piece, first, sum(heads))

    def _keep_rows(
        self, kept: dict[Any, Tensor], key: Any, rows: Tensor, piece: Piece, first: int, heads: int
    ) -> None:
        """Put (batch, head, query, ...) of a block in their places among those of the whole batch."""
        batch, count, queries, width = rows.shape
        if key not in kept:
            sequences = self._layouts[self._kinds[piece.layer]].queries.batch
            kept[key] = self._take_room(key, rows, (sequences, heads, piece.queries, width))
        sequences = slice(piece.sequence, piece.sequence + batch)
        kept[key][sequences, first : first + count, piece.query : piece.query + queries] = rows

    def _take_room(self, key: Any, like: Tensor, shape: Sequence[int]) -> Tensor:
        """Give memory for maps: that of the last batch if it suffices, as fresh one costs page faults."""
        size, room = math.prod(shape), self._rooms.get(key)
        if room is None or room.numel() < size or (room.device, room.dtype) != (like.device, like.dtype):
            self._rooms.pop(key, None)  # before there is more
            del room
            room = self._rooms[key] = like.new_empty(size)
        return room[:size].view(*shape)

    def _evaluate_models(self) -> None:
        """Ask about the heads of all layers together, kind by kind, one sequence at a time."""
        for statistic in self._statistics:
            if statistic.scope != "model":
                continue
            kinds = []
            for (weights, kind), maps in self._maps.items():
                if weights != statistic.weights:
                    continue
                blocks = (
                    AttentionBlock(whole, self._rows(kind, place, place + 1, whole.device))
                    for place, whole in enumerate(maps.split(1))
                )
                answers = torch.cat([statistic.evaluate(block) for block in blocks])
                values = statistic.reduce_sequences(answers, self._on(kind, answers.device), self._heads)
                if not self._complete:
                    layers = [self._computed[layer] for layer, one in enumerate(self._kinds) if one is kind]
                    # The heads of these layers, numbered through.
                    computed = [
                        None if head is None else place * self._heads + head
                        for place, layer in enumerate(layers)
                        for head in layer
                    ]
                    values = place_heads(values, statistic.rows, computed, len(layers) * self._heads)
                kinds.append(values)
            self._sequences[statistic.name] = torch.cat(kinds, 1)
