"""Resuming a forward pass at a layer, with what the layers before it gave the last time.

Switching a head off changes nothing before its layer. So a pass is recorded once, and each further
pass over the same batch begins behind the attention of the layer in question.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import local
from typing import Any

from torch import Tensor, nn

from attnprobe.model.switching.gates import Gates

_FORWARD = "forward"

Forward = Callable[..., Any]


class Replay(local):
    """Records the passes of one batch after the other, and resumes them.

    A block is what a model repeats: the module in the outermost list on the way to an attention
    layer. What a block gave is given again, untouched; within the block of the resumed layer, so
    is the output of the attention itself, and the projections that only feed it are skipped.
    Each thread that runs passes has its own record.
    """

    def __init__(self, model: nn.Module, gates: Gates, *, skip_projections: bool = True) -> None:
        """Find the blocks of ``model``, whose attention goes through ``gates``."""
        self._model, self._gates = model, gates
        self._skip_projections = skip_projections
        self._resumed_block = 0
        self._recording = False
        self._call = 0
        self._given: list[Any] = []  # what each call of a block gave
        self._starts: list[int] = []  # the first attention layer of each call
        self._entered: dict[str, int] = {}  # for an attention module, the layer it was entered as

    @contextmanager
    def watching(self, sites: tuple[str, ...]) -> Iterator["Replay"]:
        """Stand between the model and its blocks; ``sites`` are the modules of its layers."""
        modules = dict(self._model.named_modules())
        wrapped = [
            (modules[block], self._as_block)
            for block in dict.fromkeys(block_of(site, modules) for site in sites)
            if block
        ]
        for site in dict.fromkeys(sites):
            wrapped.append((modules[site], partial(self._as_attention, site)))
            wrapped += [
                (module, partial(self._as_projection, site, module.out_features))
                for module in modules[site].modules()
                if isinstance(module, nn.Linear)
            ]
        before = []
        for module, wrap in wrapped:
            before.append((module, module.__dict__.get(_FORWARD)))
            module.__dict__[_FORWARD] = wrap(module.forward)
        hook = self._model.register_forward_pre_hook(self._restart)
        try:
            yield self
        finally:
            hook.remove()
            for module, forward in reversed(before):
                if forward is None:
                    del module.__dict__[_FORWARD]
                else:
                    module.__dict__[_FORWARD] = forward

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Keep what the blocks give in the pass made inside; forget the batch before."""
        self._given, self._starts = [], []
        self._gates.outputs = {}
        self._recording = self._gates.recording = True
        try:
            yield
        finally:
            self._recording = self._gates.recording = False

    @contextmanager
    def resumed_at(self, layer: int) -> Iterator[None]:
        """Begin the passes made inside behind the attention of ``layer``."""
        block = max((k for k, start in enumerate(self._starts) if start <= layer), default=0)
        first = self._starts[block] if self._starts else 0
        self._resumed_block, self._gates.sites.first = block, first
        self._gates.replayed = {k: self._gates.outputs[k] for k in range(first, layer + 1)}
        try:
            yield
        finally:
            self._resumed_block, self._gates.sites.first, self._gates.replayed = 0, 0, {}

    def _restart(self, *_: Any) -> None:
        self._call = 0

    def _as_block(self, forward: Forward) -> Forward:
        def block(*arguments: Any, **options: Any) -> Any:
            call = self._call
            self._call += 1
            if call < self._resumed_block:
                return self._given[call]
            if self._recording:
                self._starts.append(self._gates.sites.count)
            given = forward(*arguments, **options)
            if self._recording:
                self._given.append(given)
            return given

        return block

    def _as_attention(self, site: str, forward: Forward) -> Forward:
        def attention(*arguments: Any, **options: Any) -> Any:
            self._entered[site] = self._gates.sites.count
            return forward(*arguments, **options)

        return attention

    def _as_projection(self, site: str, width: int, forward: Forward) -> Forward:
        def projection(hidden: Tensor) -> Tensor:
            layer = self._gates.sites.count
            feeds = self._entered.get(site) == layer  # the module's attention is still to come
            if self._skip_projections and feeds and layer in self._gates.replayed:
                return hidden.new_zeros(()).expand(*hidden.shape[:-1], width)  # nobody reads it
            return forward(hidden)

        return projection


def block_of(
    site: str, modules: Mapping[str, nn.Module], lists: tuple[type[nn.Module], ...] = (nn.ModuleList,)
) -> str | None:
    """Name the outermost list element that holds a module, such as ``encoder.layer.3``."""
    parts = site.split(".")
    for depth in range(1, len(parts)):
        if isinstance(modules[".".join(parts[:depth])], lists):
            return ".".join(parts[: depth + 1])
    return None
