"""Recorders side by side: one of attention as it is, one of attention weighted by what it carries."""

from collections.abc import Mapping, Sequence
from threading import local
from typing import Any

import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Layout
from attnprobe.attention.lengths import lengths_of
from attnprobe.corpus.batches.batch import Batch
from attnprobe.model.reading.pieces import Piece
from attnprobe.model.verifying.unembedding import Unembedding
from attnprobe.statistics.statistic import Statistic
from attnprobe.survey.recorder import Recorder, Values


class Weighing(local):
    """Weights blocks by the norm of what they carry, in each thread those of its own batch."""

    def __init__(self, factors: Sequence[Tensor]) -> None:
        """Take what stands for the output projection of each layer; see ``factor_of``."""
        self._factors = factors
        self._room = torch.empty(0)
        self.begin()

    def begin(self) -> None:
        """Forget the last batch."""
        self._known: tuple[int, int] | None = None
        self._lengths = torch.empty(0)

    def __call__(self, piece: Piece, block: AttentionBlock) -> AttentionBlock:
        """Weight a block; what its keys carry is computed once for all queries of its sequences."""
        if self._known != (piece.layer, piece.sequence):
            values = block.values
            self._lengths = lengths_of(values, self._factors[piece.layer].to(values.device))
            self._known = piece.layer, piece.sequence
        rows = block.probabilities
        if rows.device.type == "cpu" and self._room.numel() < rows.numel():
            self._room = torch.empty(rows.numel())  # fresh memory for each block costs page faults
        return block.by_norm(self._lengths, self._room)


class Watching:
    """Watches one batch at a time; each recorder sees all of it, and keeps statistics of its own."""

    def __init__(
        self,
        statistics: Sequence[Statistic],
        factors: Sequence[Tensor] = (),
        *settings: Any,
        unembedding: Unembedding | None = None,
        keep: bool = False,
    ) -> None:
        """Record statistics; see ``Recorder`` for the settings, and ``Weighing`` for the factors."""
        by_norm = [statistic for statistic in statistics if statistic.weights == "norm"]
        as_it_is = [statistic for statistic in statistics if statistic.weights == "attention"]
        self._weighing = Weighing(factors)
        self._keeping = Recorder(as_it_is, *settings, unembedding=unembedding, keep=keep)
        self._recorders = [self._keeping] if as_it_is or keep else []
        if by_norm:
            self._recorders.append(Recorder(by_norm, *settings, weigh=self._weighing))

    def begin(self, batch: Batch, *, baseline: bool = False) -> None:
        """Forget the last batch and expect this one; see ``Recorder``."""
        self._weighing.begin()
        for recorder in self._recorders:
            recorder.begin(batch, baseline=baseline)

    def __call__(self, piece: Piece) -> None:
        """Take a block; pieces of a layer come together, layers in order."""
        for recorder in self._recorders:
            recorder(piece)

    def maps(self) -> Mapping[Kind, tuple[Tensor, Layout]]:
        """Give the maps that were kept of a batch; see ``Recorder``."""
        return self._keeping.maps()

    def finish(self) -> Values:
        """Give what was found in the batch's sequences."""
        found: Values = {}
        for recorder in self._recorders:
            found |= recorder.finish()
        return found
