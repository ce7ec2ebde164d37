"""Which attention module of a model is running."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import local
from typing import Any

from torch import Tensor, nn

_ATTENTION = re.compile(r"att(entio)?n", re.IGNORECASE)


class Running(local):
    """Follows the forward passes of each thread from attention module to attention module, by class names.

    Attributes:
        softmaxes: How many softmaxes over keys the innermost one has taken in this call.
        batch: Sequences the model was given.
        length: Tokens in each sequence of the batch, before a model pads it for itself.
        targets: Tokens in each sequence that a decoder beside an encoder reads.
    """

    def __init__(self) -> None:
        """Follow nothing yet."""
        self._stack: list[tuple[nn.Module, int]] = []
        self.softmaxes = 0
        self.batch: int | None = None
        self.length: int | None = None
        self.targets: int | None = None

    @property
    def innermost(self) -> nn.Module | None:
        """The attention module that is running, or None outside of all."""
        return self._stack[-1][0] if self._stack else None

    @contextmanager
    def following(self, model: nn.Module) -> Iterator["Running"]:
        """Follow the forward passes of ``model`` made inside."""
        with ExitStack() as hooks:
            hooks.callback(model.register_forward_pre_hook(self._forget).remove)
            for part in _parts(model):
                handle = part.register_forward_pre_hook(self._begin, with_kwargs=True)
                hooks.callback(handle.remove)
            for module in attention_modules(model):
                hooks.callback(module.register_forward_pre_hook(self._enter).remove)
                # Also when it raises, or the next pass would begin inside it.
                hooks.callback(module.register_forward_hook(self._leave, always_call=True).remove)
            yield self

    def _begin(self, _: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        given = {**({"input_ids": arguments[0]} if arguments else {}), **options}
        named = {name: tensor for name, tensor in given.items() if isinstance(tensor, Tensor)}
        if encoded := given.get("encoder_outputs"):
            named["inputs_embeds"] = encoded[0]
        self.batch = next((len(tensor) for tensor in named.values() if tensor.ndim > 1), None)
        for name in ("input_ids", "inputs_embeds"):  # how many tokens it makes of images, nobody says
            self.length = named[name].shape[1] if name in named else self.length
        if "decoder_input_ids" in named:
            self.targets = named["decoder_input_ids"].shape[1]

    def _forget(self, *_: Any) -> None:
        self.batch = self.length = self.targets = None

    def _enter(self, module: nn.Module, *_: Any) -> None:
        self._stack.append((module, self.softmaxes))
        self.softmaxes = 0

    def _leave(self, *_: Any) -> None:
        self.softmaxes = self._stack.pop()[1]


def _parts(model: nn.Module) -> list[nn.Module]:
    """List the model and, where a decoder follows it, its encoder, which generation calls by itself."""
    both = hasattr(model, "get_encoder") and getattr(
        getattr(model, "config", None), "is_encoder_decoder", False
    )
    encoder: Any = model.get_encoder() if both else model  # type: ignore[operator]
    return [model] if encoder is model else [model, encoder]


def attention_modules(model: nn.Module) -> list[nn.Module]:
    """List the modules whose class is named after attention, each once."""
    return [module for module in model.modules() if _ATTENTION.search(type(module).__name__)]
