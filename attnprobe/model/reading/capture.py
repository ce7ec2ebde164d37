"""Reading attention from inside the model's own forward pass, block of queries by block.

One attention function is registered with transformers. Inside ``capture_attention``, every
attention layer of the model calls that function instead of its own; it computes the layer's output
in blocks and hands the probabilities of each to an observer. Layers that don't ask the registry for a
function are read in other ways, behind the same interface.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from attnprobe.attention.kinds import NOTHING, Observed
from attnprobe.model.quirks import AttentionSinkError, UnsupportedModelError
from attnprobe.model.reading.blocks import (
    attend_in_blocks,
    force_full_attention,
    iterate_blocks,
    multi_head_attention,
    spread_band,
)
from attnprobe.model.reading.routing import (
    SOFTMAX,
    Capture,
    Claims,
    Form,
    ModuleTracker,
    Observer,
    Piece,
    Sites,
    Way,
    build_mask,
    evaluation_mode,
    find_form,
    route_attention,
)

Function = Callable[..., Tensor]


class Tap(TorchFunctionMode):
    """Catches attention on its way through torch, and leaves everything else alone."""

    def __init__(self, running: ModuleTracker, sites: Sites) -> None:
        super().__init__()
        self._running, self.sites = running, sites

    def __torch_function__(
        self, func: Function, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        module = self._running.innermost
        if module is not None:
            if func in SOFTMAX:
                return self._softmax(module, func, *args, **options)
            if func is functional.scaled_dot_product_attention and (layer := self._turn(module)) is not None:
                return self.on_attention(layer, *args, **options)
            if func is functional.multi_head_attention_forward and (layer := self._turn(module)) is not None:
                return multi_head_attention(partial(self.on_attention, layer), *args, **options)
        return func(*args, **options)

    def _softmax(
        self, module: nn.Module, func: Function, input: Tensor, *arguments: Any, **options: Any
    ) -> Tensor:
        scores = input  # as softmax names it, which may be called with names only
        dim = arguments[0] if arguments else options.get("dim")
        form = None
        if dim in {-1, scores.ndim - 1}:
            form = find_form(module, scores, self._running)
        if form is None or (layer := self._turn(module)) is None:
            return func(scores, *arguments, **options)
        return self.on_softmax(layer, scores, func(scores, *arguments, **options), form)

    def _turn(self, module: nn.Module) -> int | None:
        self._running.softmaxes += 1
        return self.sites.enter(module) if self._running.softmaxes == 1 else None

    @abstractmethod
    def on_softmax(self, layer: int, scores: Tensor, given: Tensor, form: Form) -> Tensor:
        """Answer for a softmax of scores, which gave probabilities in some form."""

    @abstractmethod
    def on_attention(self, layer: int, *arguments: Any, **options: Any) -> Tensor:
        """Answer for ``scaled_dot_product_attention``."""


class _Showing(Tap):
    def __init__(
        self, running: ModuleTracker, sites: Sites, observer: Observer, observe: Collection[str]
    ) -> None:
        super().__init__(running, sites)
        self._observer, self._observe = observer, observe

    def on_softmax(self, layer: int, scores: Tensor, given: Tensor, form: Form) -> Tensor:
        probabilities = form.by_head(given.detach())
        # Outside of a band there are no scores to show.
        raw = form.by_head(scores.detach()) if "scores" in self._observe and not form.band else None
        batch, heads, queries, keys = probabilities.shape
        if form.band:
            queries = keys = self._running.length or queries
        for some, span in iterate_blocks(batch, heads, queries, keys, given):
            block = probabilities[some, :, span]
            if form.band:
                block = spread_band(block, span.start, keys)
            precise = torch.promote_types(block.dtype, torch.float32)
            seen = NOTHING if raw is None else Observed(scores=raw[some, :, span].to(precise))
            self._observer(Piece(layer, some.start, span.start, queries, block.to(precise), seen))
        return given

    def on_attention(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if is_causal:
            ones = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
            attn_mask = ones.tril()[None, None]
        elif attn_mask is not None:
            attn_mask = attn_mask[(None,) * (4 - attn_mask.ndim)]
        self.sites.computed += 1
        output = attend_in_blocks(
            query,
            key,
            value,
            attn_mask,
            scaling=scale,
            observe=self._observe,
            show=lambda sequence, start, rows, seen: self._observer(
                Piece(layer, sequence, start, query.shape[2], rows, seen)
            ),
        )
        return output.transpose(1, 2)


@contextmanager
def tap_attention(
    model: PreTrainedModel, observer: Observer, observe: Collection[str] = ()
) -> Iterator[Capture]:
    """Show ``observer`` the softmaxes of attention modules, in evaluation mode."""
    sites = Sites(model)
    with track_modules(model, sites) as running:
        showing = _Showing(running, sites, observer, observe)
        with showing:  # a mode of torch's holds for the thread that enters it
            yield Capture(sites, lambda: showing)


@contextmanager
def track_modules(model: PreTrainedModel, sites: Sites) -> Iterator[ModuleTracker]:
    """Follow the attention modules of passes, in evaluation mode, and count layers anew in each."""
    hook = model.register_forward_pre_hook(sites.restart)
    try:
        with evaluation_mode(model), ModuleTracker().track(model) as running:
            yield running
    finally:
        hook.remove()


#: The name under which the function is registered.
IMPLEMENTATION = "attnprobe"


@dataclass(frozen=True)
class _Reader:
    sites: Sites
    observer: Observer
    observe: Collection[str]


_readers: Claims[_Reader] = Claims()


@contextmanager
def capture_attention(
    model: PreTrainedModel, observer: Observer, way: Way = Way.REGISTRY, observe: Collection[str] = ()
) -> Iterator[Capture]:
    """Show ``observer`` every block of attention of the forward passes made inside.

    The model is left as it was found: attention implementation, training mode and hooks. Several models can
    be read at the same time, and one model by several threads, each with passes of its own.

    Args:
        model: The part that is read.
        observer: Is called with each block, by the thread that runs the pass.
        way: How attention is reached; what the dry run chose.
        observe: What blocks hold beside probabilities, as far as the way gives it: "scores", "values",
            "outputs", "queries", "keys".

    Raises:
        UnsupportedModelError: When the model can't be switched to another attention function.
    """
    capture = _capture_registered if way is Way.REGISTRY else tap_attention
    with force_full_attention(model), capture(model, observer, observe) as capturing:
        yield capturing


@contextmanager
def _capture_registered(
    model: PreTrainedModel, observer: Observer, observe: Collection[str]
) -> Iterator[Capture]:
    with (
        route_attention(model, IMPLEMENTATION) as sites,
        _readers.claim(model, _Reader(sites, observer, observe)),
    ):
        yield Capture(sites)


def _attend_captured(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend in blocks, showing each to the active observer."""
    reader = _readers.find(module)
    if reader is None:
        if _readers:
            raise UnsupportedModelError(
                type(module).__name__, "its attention is called from outside the part that is asked"
            )
        raise RuntimeError(f"attention {IMPLEMENTATION!r} is only usable inside capture_attention")
    sites, sinks = reader.sites, options.get("s_aux")
    if sinks is None and getattr(module, "sinks", None) is not None:
        raise AttentionSinkError(type(module).__name__)
    sites.sunk = sites.sunk or sinks is not None
    layer = sites.enter(module)
    assert layer is not None  # a module that has a reader is one of its model
    output = attend_in_blocks(
        query,
        key,
        value,
        attention_mask,
        scaling=scaling,
        position_bias=position_bias,
        softcap=softcap,
        sinks=sinks,
        observe=reader.observe,
        show=lambda sequence, start, rows, seen: reader.observer(
            Piece(layer, sequence, start, query.shape[2], rows, seen)
        ),
    )
    return output, None


AttentionInterface.register(IMPLEMENTATION, _attend_captured)
AttentionMaskInterface.register(IMPLEMENTATION, build_mask)
