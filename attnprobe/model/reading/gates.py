"""Gates: multipliers of what heads give to the output projection, by example, layer and head."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import local
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quirks import UnsupportedModelError, force_full_attention
from attnprobe.model.reading.blocks import attend_at_once
from attnprobe.model.reading.ways import CallCounter, MapShape, Reader, Way, read_attention

#: Products of probabilities and values.
_PRODUCTS = (torch.matmul, torch.bmm, Tensor.matmul, Tensor.bmm, Tensor.__matmul__)


class Gates(local, Reader):
    """The gates of a model, open unless they are set. Each thread that runs passes has its own.

        o_h := g_h o_h + (1 - g_h) r_h

    with o_h the output of head h, which the output projection reads, g_h its gate, and r_h its replacement,
    or 0. With the tap, the head's probabilities are gated, in which o_h is linear; where outputs are recorded
    or replaced, o_h is the product of probabilities and values.

    Attributes, by layer:
        rows: g (batch or 1, head).
        replacements: r (batch or 1, query or 1, head, width), of the heads that the layer computes.
        outputs: Their outputs before the gates, of that shape; kept only while ``recording``.
        replayed: Outputs to take instead of computing them.
        computed_heads: Their numbers; empty where all are computed.
    """

    def __init__(self, counter: CallCounter, computed_heads: Sequence[Sequence[int]] = ()) -> None:
        self.counter, self.computed_heads = counter, computed_heads
        self.rows: Mapping[int, Tensor] = {}
        self.replacements: Mapping[int, Tensor] = {}
        self.outputs: dict[int, Tensor] = {}
        self.replayed: Mapping[int, Tensor] = {}
        self.recording = self.differentiable = False
        #: Probabilities, and copies of another shape or type, whose product with values is yet to come.
        self._awaited: list[Tensor] = []
        self._layer, self._shape, self._heads = 0, MapShape(1), 0  # of those

    def set(self, xi: Tensor) -> None:
        """Set all gates: (batch or 1, layer, head)."""
        self.rows = dict(enumerate(xi.unbind(1)))

    def open(self) -> None:
        self.rows, self.replacements = {}, {}

    @contextmanager
    def record_outputs(self, *, differentiable: bool = False) -> Iterator[dict[int, Tensor]]:
        """Keep the outputs of heads in the pass made inside, in place of those kept before.

        With ``differentiable``, the pass can be differentiated by them even if all weights are frozen.
        """
        before = self.recording, self.differentiable
        self.outputs = {}
        self.recording, self.differentiable = True, differentiable
        try:
            yield self.outputs
        finally:
            self.recording, self.differentiable = before

    @contextmanager
    def take_outputs(self, outputs: Mapping[int, Tensor]) -> Iterator[None]:
        """Use recorded outputs, by layer, in place of those of the heads inside, in front of the gates."""
        before = self.replayed
        self.replayed = {**before, **outputs}
        try:
            yield
        finally:
            self.replayed = before

    def row(self, layer: int) -> Tensor | None:
        """Get the gates of the heads that a layer computes; None where all are open."""
        row = self.rows.get(layer)
        return row if row is None or not self.computed_heads else row[:, list(self.computed_heads[layer])]

    def pass_output(self, layer: int, output: Tensor) -> Tensor:
        """Record the heads' output o (batch, query, head, width) if asked to; give g o + (1 - g) r."""
        if self.recording:
            if self.differentiable and not output.requires_grad:
                output = output.detach().requires_grad_()
            self.outputs[layer] = output
        row, replacement = self.row(layer), self.replacements.get(layer)
        if row is None:
            return output
        gate = row[:, None, :, None].to(output)
        gated = output * gate
        return gated if replacement is None else gated + replacement.to(output) * (1 - gate)

    def attend(self, layer: int, module: nn.Module | None, *given: Any, **options: Any) -> Tensor:
        """Compute attention, or take its replayed output, and gate it."""
        output = self.replayed.get(layer)
        if output is None:
            output = attend_at_once(module, *given, **options)
        return self.pass_output(layer, output)

    def weigh(self, layer: int, scores: Tensor, given: Tensor, shape: MapShape, length: int | None) -> Tensor:
        """Gate tapped probabilities, or return them as ``given`` if their product with values is awaited."""
        heads = shape.by_head(given)
        replaced = layer in self.replacements and self.rows.get(layer) is not None
        if self.recording or layer in self.replayed or replaced:  # their product with values is wanted
            self._layer, self._shape, self._heads, self._awaited = layer, shape, heads.shape[1], [given]
            return given
        row = self.row(layer)
        return given if row is None else shape.as_given(heads * row[:, :, None, None].to(given))

    def follow(self, func: Callable[..., Any], args: tuple[Any, ...], given: Any) -> Any:
        """Follow awaited probabilities through torch's functions, and gate their product with values."""
        if not self._awaited or not args or not isinstance(given, Tensor):
            return given
        if any(args[0] is tensor for tensor in self._awaited):
            if func in _PRODUCTS:
                return self._pass_product(given)
            if given.numel() == self._awaited[0].numel():
                self._awaited.append(given)
        return given

    def leave(self, module: nn.Module, *_: Any) -> None:
        """Refuse a module that ends before the awaited product was computed."""
        if self._awaited:
            self._awaited = []
            raise UnsupportedModelError(type(module).__name__, "what its heads give can't be replaced")

    def restart(self, *_: Any) -> None:
        self.counter.restart()
        self._awaited = []  # of a pass that was cut short

    def _pass_product(self, product: Tensor) -> Tensor:
        """Record, replace and gate the product of probabilities and values, in its shape; others stay."""
        shape = self._shape
        if product.ndim == 3:  # as in DeBERTa, also where the probabilities were not
            shape = replace(shape, joined=True)
        output = shape.by_head(product)
        if shape.band or output.ndim != 4 or output.shape[1] != self._heads:
            return product  # of something else
        self._awaited = []
        output = output.transpose(1, 2)
        if (taken := self.replayed.get(self._layer)) is not None:
            output = taken.to(output)
        return shape.as_given(self.pass_output(self._layer, output).transpose(1, 2))


@contextmanager
def gate_attention(
    model: PreTrainedModel,
    way: Way = Way.REGISTRY,
    sites: Sequence[str] = (),
    computed_heads: Sequence[Sequence[int]] = (),
) -> Iterator[Gates]:
    """Put gates on every attention layer of ``model`` for the forward passes made inside.

    Gradients flow to gates that require them. ``sites`` are the modules of the layers; without them, only
    whole passes are counted correctly. Where layers lost heads, gates have the numbers of heads before that,
    of which each layer computes its ``computed_heads``.

    Raises:
        UnsupportedModelError: When the model can't be switched to another attention function.
    """
    with force_full_attention(model):
        gates = Gates(CallCounter(model, sites), computed_heads)
        with read_attention(model, way, gates):
            yield gates


@contextmanager
def freeze_weights(checkpoint: Checkpoint) -> Iterator[None]:
    """Switch the gradients of all weights off inside, so that only gates have them."""
    trainable = [weight for weight in checkpoint.model.parameters() if weight.requires_grad]
    for weight in trainable:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in trainable:
            weight.requires_grad_(True)
