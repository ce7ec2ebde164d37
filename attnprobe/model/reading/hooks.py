"""Reading the maps that attention modules return under eager attention.

For models that compute attention by functions of their own, where neither the registry nor a tap of
the softmax comes by. Each map is taken from its module and None put in its place, so that a model does
not collect them. What the module does with its map is its own affair: gates can't be put there.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attnprobe.model.loading.support import UnsupportedModelError
from attnprobe.model.reading.blocks import blocks
from attnprobe.model.reading.pieces import Capture, Observer, Piece
from attnprobe.model.reading.routing import Sites, evaluating, switch_attention
from attnprobe.model.reading.running import attention_modules


@contextmanager
def hooked_attention(model: PreTrainedModel, observer: Observer) -> Iterator[Capture]:
    """Show ``observer`` the maps that attention modules return, in evaluation mode."""
    sites = Sites(model)

    def take(module: nn.Module, _: Any, given: Any) -> Any:
        if not isinstance(given, tuple) or len(given) < 2:
            return given
        output, found, *others = given
        if not isinstance(found, Tensor) or found.ndim != 4:
            return given
        layer = sites.enter(module)
        if layer is not None:
            precise = torch.promote_types(found.dtype, torch.float32)
            # The map is there whole, but what statistics make of it need not be.
            batch, heads, queries, keys = found.shape
            for some, span in blocks(batch, heads, queries, keys, found):
                block = found[some, :, span].detach().to(precise)
                observer(Piece(layer, some.start, span.start, queries, block))
        return (output, None, *others)

    with ExitStack() as undo:
        undo.callback(model.register_forward_pre_hook(sites.restart).remove)
        undo.enter_context(evaluating(model))
        undo.enter_context(_giving_maps(model))
        for module in attention_modules(model):
            undo.callback(module.register_forward_hook(take).remove)
        yield Capture(sites)


@contextmanager
def _giving_maps(model: PreTrainedModel) -> Iterator[None]:
    """Let a model compute its maps and return them."""
    config: Any = model.config
    implementation, asked = config._attn_implementation, config.output_attentions
    try:
        with suppress(UnsupportedModelError):  # a model with nothing to switch is eager already
            switch_attention(model, "eager")
        config.output_attentions = True
        yield
    finally:
        config.output_attentions = asked
        with suppress(UnsupportedModelError):
            switch_attention(model, implementation)
