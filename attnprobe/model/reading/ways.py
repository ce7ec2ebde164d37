"""Two ways to a model's attention: transformers' registry of attention functions, and a tap on softmax."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import prod
from threading import local
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel, logging

from attnprobe.errors import first_line
from attnprobe.model.private import get_attn_implementation, sdpa_mask
from attnprobe.model.quirks import EAGER, UnsupportedModelError, find_window
from attnprobe.model.reading.blocks import attend_at_once, multi_head_attention

#: The name under which our function is registered.
IMPLEMENTATION = "attnprobe"
#: The functions of torch that take a softmax, and those that take one inside.
SOFTMAX = (functional.softmax, torch.softmax, Tensor.softmax, torch.special.softmax)
ATTENDING = (functional.scaled_dot_product_attention, functional.multi_head_attention_forward)
#: Matches names of attention modules.
ATTENTION_NAME = re.compile(r"att(entio)?n", re.IGNORECASE)


class Way(StrEnum):
    """How attention is reached. The dry run tries them in this order and takes the first that holds."""

    REGISTRY = "attention registry"
    TAP = "softmax tap"


class CallCounter(local):
    """Numbers the layers of a forward pass by counting the calls of their attention.

    Only a count distinguishes layers that share one module, as in ALBERT. Given the modules ``expected`` in a
    whole pass, a layer whose module occurs once is recognised by it, so that parts of a model can be run
    alone, as generation does.

    Attributes:
        called: The names of the modules called so far, in order.
        first: The layer that a pass begins with; above 0 where earlier layers are replayed.
        answered: The number of calls whose output was computed here, from the probabilities shown.
        sunk: Whether a head has a learned sink, which the rows shown leave out.
    """

    def __init__(self, model: nn.Module, expected: Sequence[str] = ()) -> None:
        self._names = {id(module): name for name, module in model.named_modules()}
        alone = {name: layer for layer, name in enumerate(expected)}
        self._alone = alone if len(alone) == len(expected) else {}
        self.called: list[str] = []
        self.first = self.answered = 0
        self.sunk = False

    @property
    def count(self) -> int:
        """The layer that calls next."""
        return self.first + len(self.called)

    def restart(self) -> None:
        self.called.clear()
        self.answered = 0

    def enter(self, module: nn.Module) -> int:
        """Count a call and give its layer."""
        name = self._names[id(module)]
        layer = self._alone.get(name, self.count)
        self.called.append(name)
        return layer


@dataclass(frozen=True)
class MapShape:
    """The axes of a tensor of probabilities."""

    batch: int
    joined: bool = False  # (batch * head, query, key), as in older translation models
    band: bool = False  # (batch, query, head, window around the query), as in Longformer
    windows: int = 1  # (batch * window, head, query, key), as in Swin

    def by_head(self, given: Tensor) -> Tensor:
        """Rearrange a tensor to (batch, head, query, key or window)."""
        if self.band:
            return given.transpose(1, 2)
        if self.windows > 1:
            return given.unflatten(0, (self.batch, -1)).permute(0, 2, 3, 1, 4).flatten(2, 3)
        return given.unflatten(0, (self.batch, -1)) if self.joined else given

    def as_given(self, probabilities: Tensor) -> Tensor:
        """Undo ``by_head``."""
        if self.band:
            return probabilities.transpose(1, 2)
        if self.windows > 1:
            return probabilities.unflatten(2, (-1, self.windows)).permute(0, 3, 1, 2, 4).flatten(0, 1)
        return probabilities.flatten(0, 1) if self.joined else probabilities


class Reader:
    """Observes or changes the attention of a model; ``read_attention`` calls it at every layer."""

    counter: CallCounter
    #: Another thread enters this before it runs passes of its own.
    thread_context: Callable[[], AbstractContextManager[object]] = nullcontext

    def attend(self, layer: int, module: nn.Module | None, *given: Any, **options: Any) -> Tensor:
        """Compute attention from queries, keys, values and a mask: (batch, query, head, width)."""
        raise NotImplementedError

    def weigh(self, layer: int, scores: Tensor, given: Tensor, shape: MapShape, length: int | None) -> Tensor:
        """Return the probabilities to go on with, of a softmax that gave ``given``."""
        raise NotImplementedError

    def follow(self, func: Callable[..., Any], args: tuple[Any, ...], given: Any) -> Any:
        """Return the value to go on with, of any other function of torch, which gave ``given``."""
        return given

    def leave(self, module: nn.Module, *_: Any) -> None:
        """End a tapped attention module."""

    def restart(self, *_: Any) -> None:
        """Begin a pass."""
        self.counter.restart()


@contextmanager
def read_attention(model: PreTrainedModel, way: Way, reader: Reader) -> Iterator[None]:
    """Pass all attention of a model to a reader, in evaluation mode; afterwards the model is as before."""
    registry = way is Way.REGISTRY
    with ExitStack() as undo:
        undo.enter_context(evaluation_mode(model))
        undo.callback(model.register_forward_pre_hook(reader.restart).remove)
        if registry:
            modules = [id(module) for module in model.modules()]
            if any(module in _READERS for module in modules):  # two readers would count each other's layers
                raise RuntimeError(f"this {type(model).__name__} is being read already; finish that first")
            _READERS.update(dict.fromkeys(modules, reader))
            undo.callback(lambda: [_READERS.pop(module) for module in modules])
        if registry or getattr(getattr(model, "config", None), "model_type", "") in EAGER:
            undo.callback(switch_attention, model, get_attn_implementation(model))
            switch_attention(model, IMPLEMENTATION if registry else "eager")
        if not registry:
            tap = _Tap(reader)
            for hook in tap.hook(model):
                undo.callback(hook.remove)
            undo.enter_context(tap)  # a mode of torch's holds for the thread that enters it
            reader.thread_context = lambda: tap
        yield


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode inside; afterwards each module has its mode back."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


#: The reader of each module, by the module's id: several models can be read at once, each by one reader.
_READERS: dict[int, Reader] = {}


def switch_attention(model: PreTrainedModel, implementation: str | None) -> None:
    """Change the attention function of a model, or refuse; None is eager attention."""
    verbosity = logging.get_verbosity()
    try:
        logging.set_verbosity_error()  # that a model knows no registry is for the dry run to find out
        model.set_attn_implementation(implementation or "eager")
    except (ValueError, KeyError, AttributeError, ImportError) as error:
        reason = f"its attention can't be replaced ({first_line(error)})"
        raise UnsupportedModelError(model.config.model_type, reason) from error
    finally:
        logging.set_verbosity(verbosity)


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **options: Any
) -> tuple[Tensor, None]:
    """Compute attention through the module's reader; without one, as in a decoder not read, plainly."""
    given = query, key, value, attention_mask
    options["dropout"] = 0.0
    reader = _READERS.get(id(module))
    if reader is None:
        return attend_at_once(module, *given, **options), None
    return reader.attend(reader.counter.enter(module), module, *given, **options), None


def _build_mask(*arguments: Any, **options: Any) -> Tensor | None:
    """Build a mask also where sdpa would do without, since attention is causal."""
    options["allow_is_causal_skip"] = False
    return sdpa_mask(*arguments, **options)


AttentionInterface.register(IMPLEMENTATION, _attend)
AttentionMaskInterface.register(IMPLEMENTATION, _build_mask)


class _Tap(local, TorchFunctionMode):
    """Intercepts the attention among torch's function calls, and nothing else.

    Each thread has its own state: the attention ``modules`` it is in, innermost last, how many ``softmaxes``
    over keys each has taken, and the sizes of the model's input.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.modules: list[nn.Module] = []
        self.softmaxes: list[int] = []
        self.forget()

    def forget(self, *_: Any) -> None:
        self.batch: int | None = None
        self.length: int | None = None  # tokens of each sequence, before a model pads it for itself
        self.targets: int | None = None  # those that a decoder beside an encoder reads

    def hook(self, model: Any) -> Iterator[RemovableHandle]:
        """Hook the model and its attention modules, which are recognised by their class names."""
        yield model.register_forward_pre_hook(self.forget)
        both = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
        parts = [model, *([model.get_encoder()] if both and hasattr(model, "get_encoder") else [])]
        for part in dict.fromkeys(parts):
            yield part.register_forward_pre_hook(self.note_sizes, with_kwargs=True)
        for module in model.modules():
            if ATTENTION_NAME.search(type(module).__name__):
                yield module.register_forward_pre_hook(self.enter)
                # Also when it raises, or the next pass would begin inside it.
                yield module.register_forward_hook(self.leave, always_call=True)
                yield module.register_forward_hook(self._reader.leave)

    def note_sizes(self, _: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        given = {**({"input_ids": arguments[0]} if arguments else {}), **options}
        named = {name: tensor for name, tensor in given.items() if isinstance(tensor, Tensor)}
        if encoded := given.get("encoder_outputs"):
            named["inputs_embeds"] = encoded[0]
        self.batch = next((len(tensor) for tensor in named.values() if tensor.ndim > 1), None)
        for name in ("input_ids", "inputs_embeds"):  # how many tokens it makes of images, nobody says
            self.length = named[name].shape[1] if name in named else self.length
        if "decoder_input_ids" in named:
            self.targets = named["decoder_input_ids"].shape[1]

    def enter(self, module: nn.Module, _: Any) -> None:
        self.modules.append(module)
        self.softmaxes.append(0)

    def leave(self, *_: Any) -> None:
        del self.modules[-1], self.softmaxes[-1]

    def find_shape(self, scores: Tensor) -> MapShape | None:
        """Find the axes of scores whose last axis is the keys; None if they are not of tokens for tokens."""
        if self.batch is None or scores.ndim not in {3, 4} or not prod(scores.shape):
            return None
        module = self.modules[-1]
        window = find_window(module)
        if window is not None and scores.ndim == 4:
            if scores.shape[3] != 2 * window + 1:
                reason = "tokens with global attention are not read, only its sliding window is"
                raise UnsupportedModelError(type(module).__name__, reason)
            return MapShape(self.batch, band=True)
        queries, keys = scores.shape[-2:]
        known = self.length is not None  # of an image, layers may attend to fewer tokens
        if known and queries != keys and (queries, keys) != (self.targets, self.length):
            return None
        parts, rest = divmod(scores.shape[0], self.batch)
        if rest or (scores.ndim == 4 and parts > 1 and known):
            return None
        return MapShape(self.batch, joined=True) if scores.ndim == 3 else MapShape(self.batch, windows=parts)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if self.modules:
            if func in SOFTMAX:
                return self._softmax(func, *args, **options)
            if func in ATTENDING and (layer := self._enter()) is not None:
                attend = partial(self._attend, layer)
                if func is functional.multi_head_attention_forward:
                    return multi_head_attention(attend, *args, **options)
                return attend(*args, **options)
        return self._reader.follow(func, args, func(*args, **options))

    def _enter(self) -> int | None:
        """Count the first softmax of a module's call, and no other."""
        self.softmaxes[-1] += 1
        return self._reader.counter.enter(self.modules[-1]) if self.softmaxes[-1] == 1 else None

    def _softmax(self, func: Callable[..., Tensor], input: Tensor, *arguments: Any, **options: Any) -> Tensor:
        """Compute a softmax; over the keys of attention, the reader says with which value to go on."""
        scores = input  # as softmax names it, which may be called with names only
        given = func(scores, *arguments, **options)
        dim = arguments[0] if arguments else options.get("dim")
        shape = self.find_shape(scores) if dim in {-1, scores.ndim - 1} else None
        if shape is None or (layer := self._enter()) is None:
            return self._reader.follow(func, (scores,), given)
        return self._reader.weigh(layer, scores, given, shape, self.length)

    def _attend(
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
        """Attend as ``scaled_dot_product_attention`` does, (batch, head, query, width)."""
        if is_causal:
            attn_mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
        if attn_mask is not None:
            attn_mask = attn_mask[(None,) * (4 - attn_mask.ndim)]
        self._reader.counter.answered += 1
        groups = query.shape[1] // key.shape[1]
        if groups > 1:
            key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        output = self._reader.attend(layer, None, query, key, value, attn_mask, scaling=scale)
        return output.transpose(1, 2)
