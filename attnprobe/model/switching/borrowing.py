"""A model that somebody else holds: asked by one thread at a time, and given back as it was found."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import get_ident

import torch
from torch import nn

from attnprobe.model.reading.routing import evaluating

#: Kinds of devices that torch computes on in mixed precision.
_MIXED = ("cpu", "cuda", "mps", "xpu")


class Turns:
    """Which thread has which modules; models that share a module wait for each other."""

    def __init__(self) -> None:
        """Begin with all modules free."""
        self._free = threading.Condition()
        self._holders: dict[int, int] = {}

    @contextmanager
    def taken(self, models: Sequence[nn.Module]) -> Iterator[None]:
        """Have every module of some models for what is done inside, which may take them again.

        All are taken at once: two threads that compare the same two models in opposite orders both end.
        """
        modules, own = {id(module) for model in models for module in model.modules()}, get_ident()

        def mine() -> bool:
            return all(self._holders.get(module, own) == own for module in modules)

        with self._free:
            self._free.wait_for(mine)
            taken = modules - self._holders.keys()
            self._holders.update(dict.fromkeys(taken, own))
        try:
            yield
        finally:
            with self._free:
                for module in taken:
                    del self._holders[module]
                self._free.notify_all()


_turns = Turns()


@contextmanager
def borrowed(models: Sequence[nn.Module]) -> Iterator[None]:
    """Have models in evaluation mode, each whole, with its task head, for what is done inside.

    Afterwards each module is in the mode that it was in, and torch draws the random numbers that it would
    have drawn: a training run goes on bit for bit as without. The caller's mixed precision, which rounds what
    is compared, and inference mode, which knows no gradients, are left inside. Another thread that wants a
    model, or a part of it, waits.

    Args:
        models: Loaded models; none for a model that is named, which nobody else has.
    """
    with ExitStack() as undo:
        undo.enter_context(_turns.taken(models))
        undo.enter_context(torch.random.fork_rng(_cuda_devices()))
        for model in models:
            undo.enter_context(evaluating(model))
            undo.enter_context(_full_precision(model))
        for kind in _MIXED:
            if torch.is_autocast_enabled(kind):
                undo.enter_context(torch.autocast(kind, enabled=False))
        if torch.is_inference_mode_enabled():
            undo.enter_context(torch.inference_mode(False))
        yield


@contextmanager
def _full_precision(model: nn.Module) -> Iterator[None]:
    """Take off what accelerate's mixed precision, and so that of a Trainer, puts around ``forward``."""
    own = vars(model)
    wrapped, plain = own.get("forward"), own.get("_original_forward")
    if wrapped is None or plain is None:
        yield
        return
    own["forward"] = plain
    try:
        yield
    finally:
        own["forward"] = wrapped


def _cuda_devices() -> list[int]:
    """List the GPUs that have a state of random numbers to keep."""
    return list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
