"""A model that somebody else holds: asked by one thread at a time, and given back as it was found."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import get_ident
from typing import Any

import torch
from torch import nn

from attnprobe.model.reading.routing import evaluating
from attnprobe.model.transformers_private import unwrap_forward

#: Kinds of devices that torch computes on in mixed precision.
_MIXED = ("cpu", "cuda", "mps", "xpu")


class Turns:
    """Which thread has which modules; models that share a module wait for each other.

    The random numbers of torch are everybody's. Whoever takes something while nobody has anything keeps
    their state, and whoever is the last to give something back restores it: what one thread alone kept and
    restored would be the state that another one has moved on.
    """

    def __init__(self) -> None:
        """Begin with all modules free."""
        self._free = threading.Condition()
        self._holders: dict[int, int] = {}
        self._borrowers = 0
        self._restore: Callable[[], None] = lambda: None

    @contextmanager
    def take(self, models: Sequence[nn.Module]) -> Iterator[None]:
        """Have every module of some models for what is done inside, which may take them again.

        All are taken at once: two threads that compare the same two models in opposite orders both end.

        Args:
            models: None where only the random numbers are to be as they were.
        """
        modules, own = {id(module) for model in models for module in model.modules()}, get_ident()

        def mine() -> bool:
            return all(self._holders.get(module, own) == own for module in modules)

        with self._free:
            self._free.wait_for(mine)
            if not self._borrowers:
                self._restore = _keep_random_states()
            self._borrowers += 1
            taken = modules - self._holders.keys()
            self._holders.update(dict.fromkeys(taken, own))
        try:
            yield
        finally:
            with self._free:
                for module in taken:
                    del self._holders[module]
                self._borrowers -= 1
                self._free.notify_all()
                if not self._borrowers:
                    self._restore()


_turns = Turns()


@contextmanager
def borrow(models: Sequence[nn.Module]) -> Iterator[None]:
    """Have models in evaluation mode, each whole, with its task head, for what is done inside.

    Afterwards each module is in the mode that it was in, and torch draws the random numbers that it would
    have drawn: a training run goes on bit for bit as without. Of several threads inside, the last to leave
    restores the random numbers. The caller's mixed precision, which rounds what is compared, and inference
    mode, which knows no gradients, are left inside. Another thread that wants a model, or a part of it,
    waits.

    Args:
        models: Loaded models; none for a model that is named, which nobody else has.
    """
    with ExitStack() as undo:
        undo.enter_context(_turns.take(models))
        for model in models:
            undo.enter_context(evaluating(model))
            undo.enter_context(unwrap_forward(model))
        for kind in _MIXED:
            if torch.is_autocast_enabled(kind):
                undo.enter_context(torch.autocast(kind, enabled=False))
        if torch.is_inference_mode_enabled():
            undo.enter_context(torch.inference_mode(False))
        yield


def _keep_random_states() -> Callable[[], None]:
    """Keep the random states of the processor and of each accelerator in use; what is given restores them."""
    kept: list[tuple[Callable[[Any], None], Any]] = [(torch.set_rng_state, torch.get_rng_state())]
    for devices in (torch.cuda, torch.xpu):
        if devices.is_initialized():
            kept.append((devices.set_rng_state_all, devices.get_rng_state_all()))
    if torch.backends.mps.is_available():
        kept.append((torch.mps.set_rng_state, torch.mps.get_rng_state()))

    def restore() -> None:
        for put_back, state in kept:
            put_back(state)

    return restore
