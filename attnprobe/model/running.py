"""Which attention module of a model is running."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

_ATTENTION = re.compile(r"att(entio)?n", re.IGNORECASE)


class Running:
    """Follows a forward pass from attention module to attention module, by their class names.

    Attributes:
        softmaxes: How many softmaxes over keys the innermost one has taken in this call.
        batch: Sequences the model was given.
        length: Tokens in each sequence of the batch, before a model pads it for itself.
    """

    def __init__(self) -> None:
        """Follow nothing yet."""
        self._stack: list[tuple[nn.Module, int]] = []
        self.softmaxes = 0
        self.batch: int | None = None
        self.length: int | None = None

    @property
    def innermost(self) -> nn.Module | None:
        """The attention module that is running, or None outside of all."""
        return self._stack[-1][0] if self._stack else None

    @contextmanager
    def following(self, model: nn.Module) -> Iterator["Running"]:
        """Follow the forward passes of ``model`` made inside."""
        with ExitStack() as hooks:
            handle = model.register_forward_pre_hook(self._begin, with_kwargs=True)
            hooks.callback(handle.remove)
            for module in attention_modules(model):
                hooks.callback(module.register_forward_pre_hook(self._enter).remove)
                # Also when it raises, or the next pass would begin inside it.
                hooks.callback(module.register_forward_hook(self._leave, always_call=True).remove)
            yield self

    def _begin(self, _: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        given = options.get("input_ids", arguments[0] if arguments else None)
        if given is None and isinstance(embedded := options.get("inputs_embeds"), Tensor):
            given = embedded[..., 0]
        self.batch = self.length = None
        if isinstance(given, Tensor) and given.ndim == 2:
            self.batch, self.length = given.shape

    def _enter(self, module: nn.Module, *_: Any) -> None:
        self._stack.append((module, self.softmaxes))
        self.softmaxes = 0

    def _leave(self, *_: Any) -> None:
        self.softmaxes = self._stack.pop()[1]


def attention_modules(model: nn.Module) -> list[nn.Module]:
    """List the modules whose class is named after attention, each once."""
    return [module for module in model.modules() if _ATTENTION.search(type(module).__name__)]
