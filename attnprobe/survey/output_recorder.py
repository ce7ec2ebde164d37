"""Keeps what heads give to the output projection, batch by batch."""

from collections.abc import Mapping, Sequence
from threading import local

import torch
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Layout
from attnprobe.corpus.batch import Batch
from attnprobe.model.reading.routing import Piece
from attnprobe.survey.recorder import make_layout


class OutputRecorder(local):
    """Keeps what all heads give to a batch, until the next; each thread has its own batch."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = list(kinds)
        self._layers: dict[int, Tensor] = {}
        self._layouts: dict[Kind, Layout] = {}

    def begin(self, batch: Batch) -> None:
        """Forget the last batch and expect this one."""
        self._batch = batch
        self._layers, self._layouts = {}, {}

    def __call__(self, piece: Piece) -> None:
        """Take a block."""
        given = piece.observed.outputs
        if given is None or piece.layer >= len(self._kinds):
            return  # of too many layers; the recorder of statistics refuses them
        batch, heads, queries, width = given.shape
        kind = self._kinds[piece.layer]
        if kind not in self._layouts:
            keys = piece.probabilities.shape[3]
            self._layouts[kind] = make_layout(kind, self._batch, piece.queries, keys)
        if piece.layer not in self._layers:
            whole = self._layouts[kind].queries.batch, piece.queries, heads, width
            self._layers[piece.layer] = given.new_empty(whole)
        rows = slice(piece.sequence, piece.sequence + batch)
        span = slice(piece.query, piece.query + queries)
        self._layers[piece.layer][rows, span] = given.transpose(1, 2)

    def outputs(self) -> Mapping[Kind, tuple[Tensor, Layout]]:
        """Give what was kept of a batch: of each kind (batch, query, head of any layer, width).

        Heads of layers that are narrower than others of their kind have zeros at the end.
        """
        found = {}
        for kind, layout in self._layouts.items():
            layers = [self._layers[layer] for layer in sorted(self._layers) if self._kinds[layer] is kind]
            width, device = max(one.shape[3] for one in layers), layers[0].device
            wide = [torch.nn.functional.pad(one.to(device), (0, width - one.shape[3])) for one in layers]
            found[kind] = torch.cat(wide, 2), layout
        return found
