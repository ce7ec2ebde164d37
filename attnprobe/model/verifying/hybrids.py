"""Models in which only some layers attend, and which layers those are."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attnprobe.model.reading.running import attention_modules

#: Where configurations list what each of their layers is.
_LISTS = ("layer_types", "layers_block_type")
#: What is called attention and has no map: it keeps a state from token to token.
_STATES = ("linear", "lightning", "delta", "recurrent")
_SOFTMAX = (functional.softmax, torch.softmax, Tensor.softmax, torch.special.softmax)


def kinds_of_layers(config: Any) -> tuple[str, ...]:
    """List what a configuration says each of its layers is; nothing where it does not say."""
    for name in _LISTS:
        found = getattr(config, name, None)
        if isinstance(found, list | tuple) and found and all(isinstance(kind, str) for kind in found):
            return tuple(found)
    return ()


def attending(config: Any) -> tuple[int, ...]:
    """Number the layers that attend, where a configuration says that others do not; else nothing.

    >>> class Config:
    ...     layer_types = ["linear_attention", "full_attention", "conv", "sliding_attention"]
    >>> attending(Config)
    (1, 3)
    """
    kinds = kinds_of_layers(config)
    found = tuple(layer for layer, kind in enumerate(kinds) if _attends(kind))
    return found if len(found) < len(kinds) else ()


def _attends(kind: str) -> bool:
    """Tell a layer with a map by its kind; "hybrid" has one beside a state."""
    if kind == "hybrid":
        return True
    return "attention" in kind and not any(state in kind for state in _STATES)


def left_out(config: Any) -> str:
    """Name the layers that do not attend, by their kinds."""
    kinds, attend = kinds_of_layers(config), {*attending(config)}
    by_kind: dict[str, list[str]] = {}
    for layer, kind in enumerate(kinds):
        if layer not in attend:
            by_kind.setdefault(kind.removesuffix("_layer"), []).append(str(layer))
    said = "; ".join(f"{kind} in {_listed(some)}" for kind, some in by_kind.items())
    number = sum(map(len, by_kind.values()))
    verbs = ("has", "is") if number == 1 else ("have", "are")
    return f"{number} of its {len(kinds)} layers {verbs[0]} no attention map and {verbs[1]} left out: {said}"


def _listed(numbers: Sequence[str]) -> str:
    """List the numbers of layers in a phrase.

    >>> _listed(["3"]), _listed(["0", "2", "4"])
    ('layer 3', 'layers 0, 2 and 4')
    """
    if len(numbers) == 1:
        return f"layer {numbers[0]}"
    return f"layers {', '.join(numbers[:-1])} and {numbers[-1]}"


class Following:
    """Follows a pass through the stack of a model's layers.

    Attributes:
        now: The layer that runs, by its place in the stack; None outside.
        softmaxes: The layers in which a softmax over tokens came by.
    """

    def __init__(self, tokens: int) -> None:
        """Expect sequences of so many tokens."""
        self.tokens = tokens
        self.now: int | None = None
        self.softmaxes: set[int] = set()

    @contextmanager
    def through(self, model: nn.Module, layers: int) -> Iterator["Following"]:
        """Follow the passes made inside, where a model has one stack of so many layers."""
        with ExitStack() as undo:
            for place, layer in enumerate(_stack(model, layers)):
                undo.callback(layer.register_forward_pre_hook(self._entering(place)).remove)
                undo.callback(layer.register_forward_hook(self._leave, always_call=True).remove)
            undo.enter_context(_Watching(self))
            yield self

    def _entering(self, place: int) -> Callable[..., None]:
        def enter(*_: Any) -> None:
            self.now = place

        return enter

    def _leave(self, *_: Any) -> None:
        self.now = None

    def note(self, shape: Sequence[int]) -> None:
        """Note a softmax whose rows are over as many keys as there are queries and tokens."""
        if self.now is not None and len(shape) > 2 and tuple(shape[-2:]) == (self.tokens, self.tokens):
            self.softmaxes.add(self.now)


class _Watching(TorchFunctionMode):
    """Notes every softmax over tokens, and changes nothing."""

    def __init__(self, following: Following) -> None:
        super().__init__()
        self._following = following

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = args[0] if args else None
        if isinstance(given, Tensor):
            if func in _SOFTMAX:
                self._following.note(given.shape)
            if func is functional.scaled_dot_product_attention:
                self._following.note((*given.shape[:-1], given.shape[-2]))
        return func(*args, **(kwargs or {}))


def _stack(model: nn.Module, layers: int) -> Sequence[nn.Module]:
    """Find the one stack of so many layers in which there is attention."""
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == layers and attention_modules(module):
            return list(module)
    return []
