"""Gates on the softmax tap's way: what a head gives is linear in its probabilities, and gated by them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import local
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading.capture import Tap, track_modules
from attnprobe.model.reading.routing import (
    Form,
    ModuleTracker,
    Sites,
    list_attention_modules,
)


class OutputGates(Protocol):
    """What the tap asks of gates: see ``attnprobe.model.gates.Gates``."""

    replayed: Mapping[int, Tensor]

    def row(self, layer: int) -> Tensor | None: ...

    def needs_output(self, layer: int) -> bool: ...

    def pass_output(self, layer: int, output: Tensor) -> Tensor: ...


#: Products of probabilities and values.
_PRODUCTS = (torch.matmul, torch.bmm, Tensor.matmul, Tensor.bmm, Tensor.__matmul__)


class _Awaited(local):
    """Probabilities whose product with the values is yet to come, in each thread.

    Attributes:
        layer: Theirs, or None where no product is awaited.
        form: How they were given.
        heads: How many heads they are of.
        tensors: They, and what only another shape or type was given to.
    """

    def __init__(self) -> None:
        self.layer: int | None = None
        self.form = Form(0)
        self.heads = 0
        self.tensors: list[Tensor] = []


class _Gating(Tap):
    """Multiplies probabilities by the gates of their layer."""

    def __init__(self, running: ModuleTracker, sites: Sites, gates: OutputGates) -> None:
        super().__init__(running, sites)
        self._gates, self._awaited = gates, _Awaited()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        awaited = self._awaited
        waiting = awaited.layer is not None
        given = super().__torch_function__(func, types, args, kwargs)
        if not waiting:
            return given
        if isinstance(given, Tensor) and args and any(args[0] is tensor for tensor in awaited.tensors):
            if func in _PRODUCTS:
                return self._pass_product(given)
            if given.numel() == awaited.tensors[0].numel():
                awaited.tensors.append(given)
        return given

    def on_softmax(self, layer: int, scores: Tensor, given: Tensor, form: Form) -> Tensor:
        heads = form.by_head(given)
        if self._gates.needs_output(layer):
            awaited = self._awaited
            awaited.layer, awaited.form, awaited.heads = layer, form, heads.shape[1]
            awaited.tensors = [given]
            return given
        row = self._gates.row(layer)
        if row is None:
            return given
        return form.as_given(heads * row[:, :, None, None].to(given))

    def on_attention(self, layer: int, *arguments: Any, **options: Any) -> Tensor:
        given = functional.scaled_dot_product_attention(*arguments, **options)
        return self._pass_output(layer, given)

    def check_found(self, module: nn.Module, *_: Any) -> None:
        """Refuse a module that gave its output before the product that was awaited came by."""
        if self._awaited.layer is not None:
            self.forget()
            raise UnsupportedModelError(type(module).__name__, "what its heads give can't be replaced")

    def forget(self, *_: Any) -> None:
        """Await no product any more, as where a pass before was cut short."""
        self._awaited.layer, self._awaited.tensors = None, []

    def _pass_product(self, product: Tensor) -> Tensor:
        """Let the product of probabilities and values through the gates; it stays in its form."""
        layer, form, heads = self._awaited.layer, self._awaited.form, self._awaited.heads
        assert layer is not None
        joined = product.ndim == 3  # as in DeBERTa, also where the probabilities were not
        form = Form(form.batch, joined=True) if joined and not form.joined else form
        output = form.by_head(product)
        if form.band or output.ndim != 4 or output.shape[1] != heads:
            return product  # of something else
        self.forget()
        return form.as_given(self._pass_output(layer, output))

    def _pass_output(self, layer: int, output: Tensor) -> Tensor:
        """Let the output of heads (batch, head, query, width) through the gates."""
        output = output.transpose(1, 2)
        if (taken := self._gates.replayed.get(layer)) is not None:
            output = taken.to(output)
        return self._gates.pass_output(layer, output).transpose(1, 2)


@contextmanager
def tap_gates(
    model: PreTrainedModel, sites: Sites, gates: OutputGates
) -> Iterator[AbstractContextManager[object]]:
    """Multiply what attention modules' softmaxes give by gates, in evaluation mode.

    Yields:
        What another thread enters before it runs passes of its own.
    """
    with track_modules(model, sites) as running, ExitStack() as hooks:
        gating = _Gating(running, sites, gates)
        hooks.callback(model.register_forward_pre_hook(gating.forget).remove)
        for module in list_attention_modules(model):
            hooks.callback(module.register_forward_hook(gating.check_found).remove)
        with gating:
            yield gating
