"""Reading attention from inside the model's own forward pass, block of queries by block.

One attention function is registered with transformers. Inside ``capture_attention``, every
attention layer of the model calls that function instead of its own; it computes the layer's output
in blocks and hands the probabilities of each to an observer. Layers that don't ask the registry for a
function are read in other ways, behind the same interface.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from attnprobe.attention.observed import NOTHING, Observed
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
    find_tiled_form,
    list_attention_modules,
    route_attention,
    switch_attention,
)
from attnprobe.model.refusals import AttentionSinkError, UnsupportedModelError
from attnprobe.model.transformers_private import get_attn_implementation

Function = Callable[..., Tensor]


class Tap(TorchFunctionMode):
    """Catches attention on its way through torch, and leaves everything else alone."""

    def __init__(self, running: ModuleTracker, sites: Sites, way: Way) -> None:
        super().__init__()
        self._running, self.sites = running, sites
        #: Which softmax of each call of an attention module is caught.
        self._number = int(way is Way.SECOND_TAP)
        self._tiled = way is Way.TILES

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
            tiled = self._tiled
            form = (
                find_tiled_form(scores, self._running) if tiled else find_form(module, scores, self._running)
            )
        if form is None or (layer := self._turn(module)) is None:
            return func(scores, *arguments, **options)
        return self.on_softmax(layer, scores, func(scores, *arguments, **options), form)

    def _turn(self, module: nn.Module) -> int | None:
        """Count a softmax of a module's call; its layer if it is the one."""
        number = self._running.softmaxes
        self._running.softmaxes += 1
        return self.sites.enter(module) if number == self._number else None

    @abstractmethod
    def on_softmax(self, layer: int, scores: Tensor, given: Tensor, form: Form) -> Tensor:
        """Answer for a softmax of scores, which gave probabilities in some form."""

    @abstractmethod
    def on_attention(self, layer: int, *arguments: Any, **options: Any) -> Tensor:
        """Answer for ``scaled_dot_product_attention``."""


class _Showing(Tap):
    """Shows what it catches to an observer."""

    def __init__(
        self, running: ModuleTracker, sites: Sites, way: Way, observer: Observer, observe: Collection[str]
    ) -> None:
        super().__init__(running, sites, way)
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
    model: PreTrainedModel, observer: Observer, way: Way, observe: Collection[str] = ()
) -> Iterator[Capture]:
    """Show ``observer`` the softmaxes of attention modules, in evaluation mode."""
    sites = Sites(model)
    with track_modules(model, sites) as running:
        showing = _Showing(running, sites, way, observer, observe)
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


@contextmanager
def hook_attention(model: PreTrainedModel, observer: Observer) -> Iterator[Capture]:
    """Show ``observer`` the maps that attention modules return, in evaluation mode."""
    sites = Sites(model)

    def take(module: nn.Module, _: Any, given: Any) -> Any:
        if not isinstance(given, tuple) or len(given) < 2:
            return given
        output, found, *others = given
        if not isinstance(found, Tensor) or found.ndim not in {4, 5}:
            return given
        if found.ndim == 5:  # Hiera's windows
            found = Form(len(found), windows=found.shape[2]).by_head(found)
        if (layer := sites.enter(module)) is not None:
            precise = torch.promote_types(found.dtype, torch.float32)
            # The map is there whole, but what statistics make of it need not be.
            batch, heads, queries, keys = found.shape
            for some, span in iterate_blocks(batch, heads, queries, keys, found):
                block = found[some, :, span].detach().to(precise)
                observer(Piece(layer, some.start, span.start, queries, block))
        return (output, None, *others)

    with ExitStack() as undo:
        undo.callback(model.register_forward_pre_hook(sites.restart).remove)
        undo.enter_context(evaluation_mode(model))
        undo.enter_context(_return_maps(model))
        for module in list_attention_modules(model):
            undo.callback(module.register_forward_hook(take).remove)
        yield Capture(sites)


@contextmanager
def _return_maps(model: PreTrainedModel) -> Iterator[None]:
    """Let a model compute its maps and return them."""
    config: Any = model.config
    implementation, requested = get_attn_implementation(model), config.output_attentions
    try:
        with suppress(UnsupportedModelError):  # a model with nothing to switch is eager already
            switch_attention(model, "eager")
        config.output_attentions = True
        yield
    finally:
        config.output_attentions = requested
        with suppress(UnsupportedModelError):
            switch_attention(model, implementation)


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
    if way is Way.REGISTRY:
        capturing = _capture_registered(model, observer, observe)
    elif way is Way.HOOKS:
        capturing = hook_attention(model, observer)
    else:
        capturing = tap_attention(model, observer, way, observe)
    with force_full_attention(model), capturing as capture:
        yield capture


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
    """Attend in blocks, showing each to the active observer.

    Returns:
        The output (batch, query, head, width), and None in place of the weights.
    """
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
