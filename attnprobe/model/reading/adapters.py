"""Models that have to be switched over before their attention is a map of all keys."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

_FULL = "original_full"


@contextmanager
def full_attention(model: nn.Module) -> Iterator[tuple[str, ...]]:
    """Let a model attend to all keys, from all tokens, for the forward passes made inside.

    Yields:
        A warning for each thing that was switched over.
    """
    with _all_keys(model) as keys, _all_patches(model) as patches:
        yield (*keys, *patches)


@contextmanager
def _all_patches(model: nn.Module) -> Iterator[tuple[str, ...]]:
    """Let ViTMAE hide no patches, which it does in evaluation mode too."""
    config: Any = getattr(model, "config", None)
    share = getattr(config, "mask_ratio", None)
    if not share or not hasattr(model, "embeddings"):
        yield ()
        return
    config.mask_ratio = 0.0
    try:
        yield (f"it is given all patches while it is read, not {1 - share:.0%} of them",)
    finally:
        config.mask_ratio = share


@contextmanager
def _all_keys(model: nn.Module) -> Iterator[tuple[str, ...]]:
    """Switch BigBird's block-sparse attention to its full one for the forward passes made inside.

    The modules it swaps are put back afterwards. On short inputs BigBird does this by itself, and for
    good; so without this, what a census reads would depend on the length of the texts before.

    Yields:
        A warning that it was switched, or nothing.
    """
    switched: list[Any] = [m for m in model.modules() if isinstance(getattr(m, "attention_type", None), str)]
    sparse = any(module.attention_type != _FULL for module in switched)
    switches = next((m for m in model.modules() if hasattr(m, "set_attention_type")), None)
    if not sparse or switches is None:
        yield ()
        return
    before = [(module, module.attention_type, dict(module._modules)) for module in switched]
    try:
        set_attention_type: Any = switches.set_attention_type
        with torch.random.fork_rng(devices=[]):  # it draws weights, and then takes those it has
            set_attention_type(_FULL)
        yield (f"its block-sparse attention is switched to full attention ({_FULL}) while it is read",)
    finally:
        for module, kind, children in before:
            module.attention_type = kind
            module._modules.clear()
            module._modules.update(children)
