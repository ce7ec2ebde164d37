"""Routing a model's attention through our own function, and numbering its calls by layer."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from threading import local
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel, logging

from attnprobe.attention.kinds import NOTHING, Observed
from attnprobe.errors import first_line
from attnprobe.model.private import get_attn_implementation, sdpa_mask
from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading.blocks import find_window


class Way(StrEnum):
    """How attention is reached. The dry run tries them in this order and takes the first that holds."""

    REGISTRY = "attention registry"
    TAP = "softmax tap"


#: The functions of torch that take a softmax.
SOFTMAX = (functional.softmax, torch.softmax, Tensor.softmax, torch.special.softmax)


Claim = TypeVar("Claim")


class Claims(Generic[Claim]):
    """Which reader holds which module: several models can be read at a time, each module by one reader."""

    def __init__(self) -> None:
        self._claims: dict[int, Claim] = {}

    @contextmanager
    def claim(self, model: nn.Module, claim: Claim) -> Iterator[None]:
        """Claim every module of a model for what is done inside.

        Raises:
            RuntimeError: When it is claimed already; two readers would count each other's layers.
        """
        modules = [id(module) for module in model.modules()]
        if any(module in self._claims for module in modules):
            raise RuntimeError(f"this {type(model).__name__} is being read already; finish that first")
        self._claims.update(dict.fromkeys(modules, claim))
        try:
            yield
        finally:
            for module in modules:
                del self._claims[module]

    def find(self, module: nn.Module) -> Claim | None:
        return self._claims.get(id(module))

    def __bool__(self) -> bool:
        """Whether any model is being read."""
        return bool(self._claims)


_ATTENTION = re.compile(r"att(entio)?n", re.IGNORECASE)


class ModuleTracker(local):
    """Follows the forward passes of each thread from attention module to attention module, by class names.

    Attributes:
        softmaxes: How many softmaxes over keys the innermost one has taken in this call.
        batch: Sequences the model was given.
        length: Tokens in each sequence of the batch, before a model pads it for itself.
        targets: Tokens in each sequence that a decoder beside an encoder reads.
    """

    def __init__(self) -> None:
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
    def track(self, model: nn.Module) -> Iterator["ModuleTracker"]:
        """Follow the forward passes of ``model`` made inside."""
        with ExitStack() as hooks:
            hooks.callback(model.register_forward_pre_hook(self._forget).remove)
            for part in _list_parts(model):
                hooks.callback(part.register_forward_pre_hook(self._begin, with_kwargs=True).remove)
            for module in list_attention_modules(model):
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


def _list_parts(model: nn.Module) -> list[nn.Module]:
    both = hasattr(model, "get_encoder") and getattr(
        getattr(model, "config", None), "is_encoder_decoder", False
    )
    encoder: Any = model.get_encoder() if both else model  # type: ignore[operator]
    return [model] if encoder is model else [model, encoder]


def list_attention_modules(model: nn.Module) -> list[nn.Module]:
    """List the modules whose class is named after attention."""
    return [module for module in model.modules() if _ATTENTION.search(type(module).__name__)]


class Sites(local):
    """Counts the attention calls of a forward pass, so that each knows which layer it is.

    The count is the only way to tell layers apart that share one module, as in ALBERT.

    Attributes:
        called: The names of the modules that called so far, in order.
        first: The layer a pass begins with; not 0 where earlier layers are replayed.
        computed: How many of the calls were answered with what the probabilities shown give.
        sunk: Whether heads of a layer could attend to nothing, so that rows are shown without that.
    """

    # Several threads can run passes of one model at the same time. All but what never changes is each
    # thread's own: of a subclass of ``local``, the class is made anew for every thread.

    def __init__(self, model: nn.Module, expected: Sequence[str] = ()) -> None:
        """Count the calls from the modules of ``model``; others are none of ours.

        With the modules ``expected`` of a whole pass, each layer with a module of its own is known by it, so
        that parts of the model can also be run by themselves, as generation does.
        """
        self._names = {id(module): name for name, module in model.named_modules()}
        own = {name: layer for layer, name in enumerate(expected)}
        self._own = own if len(own) == len(expected) else {}
        self.called: list[str] = []
        self.first = self.computed = 0
        self.sunk = False

    @property
    def count(self) -> int:
        """The layer that calls next."""
        return self.first + len(self.called)

    def restart(self, *_: Any) -> None:
        self.called.clear()
        self.computed = 0

    def enter(self, module: nn.Module) -> int | None:
        """Count a call and give its layer, or None if it comes from another part of the model."""
        name = self._names.get(id(module))
        if name is None:
            return None
        layer = self._own.get(name, self.count)
        self.called.append(name)
        return layer


@contextmanager
def route_attention(
    model: PreTrainedModel, implementation: str, expected: Sequence[str] = ()
) -> Iterator[Sites]:
    """Let all attention of ``model`` go through a registered function, in evaluation mode.

    The model is left as it was found: attention implementation, training mode and hooks.

    Raises:
        UnsupportedModelError: When the model can't be switched to another attention function.
    """
    sites = Sites(model, expected)
    with ExitStack() as undo:
        undo.callback(switch_attention, model, get_attn_implementation(model))
        undo.callback(model.register_forward_pre_hook(sites.restart).remove)
        switch_attention(model, implementation)
        undo.enter_context(evaluation_mode(model))
        yield sites


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Switch dropout off, and afterwards back on wherever it was on."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def switch_attention(model: PreTrainedModel, implementation: str | None) -> None:
    """Change the attention function of a model."""
    verbosity = logging.get_verbosity()
    try:
        logging.set_verbosity_error()  # that a model knows no registry is for the dry run to find out
        model.set_attn_implementation(implementation or "eager")
    except (ValueError, KeyError, AttributeError, ImportError) as error:
        reason = f"its attention can't be replaced ({first_line(error)})"
        raise UnsupportedModelError(model.config.model_type, reason) from error
    finally:
        logging.set_verbosity(verbosity)


def build_mask(*arguments: Any, **options: Any) -> Tensor | None:
    """Build the mask of a registered function: always there where attention is causal."""
    options["allow_is_causal_skip"] = False
    return sdpa_mask(*arguments, **options)


@dataclass(frozen=True, slots=True)
class Piece:
    """A block of attention, and where it lies in the batch.

    Attributes:
        layer: The attention layer, counted from 0 in the order of the forward pass.
        sequence: First sequence of the batch in the block.
        query: Position of the first query in the block.
        queries: How many queries the sequence has.
        probabilities: (batch, head, query, key). Overwritten by the next block: use it at once,
            or copy it.
        observed: What was asked for beside them; overwritten likewise.
    """

    layer: int
    sequence: int
    query: int
    queries: int
    probabilities: Tensor
    observed: Observed = NOTHING


Observer = Callable[[Piece], None]


@dataclass(frozen=True)
class Capture:
    """Attention that is being read.

    Attributes:
        sites: Counts the layers of the passes that the asking thread runs.
        thread_context: What another thread enters before it runs passes of its own.
    """

    sites: Sites
    thread_context: Callable[[], AbstractContextManager[object]] = nullcontext


@dataclass(frozen=True)
class Form:
    """How a tensor of probabilities is to be read.

    Attributes:
        batch: Sequences in it.
        joined: (batch * head, query, key), as in the older translation models; not a tensor of four axes.
        band: (batch, query, head, window), as in Longformer: the keys within a window around the query.
    """

    batch: int
    joined: bool = False
    band: bool = False

    def by_head(self, given: Tensor) -> Tensor:
        """Turn what a module holds into (batch, head, query, key or window)."""
        if self.band:
            return given.transpose(1, 2)
        return given.unflatten(0, (self.batch, -1)) if self.joined else given

    def as_given(self, probabilities: Tensor) -> Tensor:
        """Undo ``by_head``."""
        if self.band:
            return probabilities.transpose(1, 2)
        return probabilities.flatten(0, 1) if self.joined else probabilities


def find_form(module: nn.Module, scores: Tensor, running: ModuleTracker) -> Form | None:
    """Tell the form of scores over the last axis, or None if they are not of tokens for tokens.

    Raises:
        UnsupportedModelError: When tokens with global attention come along.
    """
    batch = running.batch
    if batch is None or scores.ndim not in {3, 4} or not prod(scores.shape):
        return None
    window = find_window(module)
    if window is not None and scores.ndim == 4:
        if scores.shape[3] != 2 * window + 1:
            reason = "tokens with global attention are not read, only its sliding window is"
            raise UnsupportedModelError(type(module).__name__, reason)
        return Form(batch, band=True)
    queries, keys = scores.shape[-2:]
    known = running.length is not None  # of an image, layers may attend to fewer tokens
    if known and queries != keys and (queries, keys) != (running.targets, running.length):
        return None
    if scores.shape[0] % batch:
        return None
    if scores.ndim == 3:
        return Form(batch, joined=True)
    return Form(batch) if scores.shape[0] == batch else None
