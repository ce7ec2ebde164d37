"""Leading a model's attention through a function of ours, and telling its layers apart."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import local
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.masking_utils import sdpa_mask
from transformers.utils import logging

from attnprobe.errors import first_line
from attnprobe.model.loading.support import UnsupportedModelError


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
        """Begin a new forward pass."""
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
def rerouted(model: PreTrainedModel, implementation: str, expected: Sequence[str] = ()) -> Iterator[Sites]:
    """Let all attention of ``model`` go through a registered function, in evaluation mode.

    The model is left as it was found: attention implementation, training mode and hooks.

    Raises:
        UnsupportedModelError: When the model can't be switched to another attention function.
    """
    before = model.config._attn_implementation
    sites = Sites(model, expected)
    hook = model.register_forward_pre_hook(sites.restart)
    try:
        switch_attention(model, implementation)
        with evaluating(model):
            yield sites
    finally:
        hook.remove()
        switch_attention(model, before)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
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


def explicit_mask(*arguments: Any, **options: Any) -> Tensor | None:
    """Build the mask of a registered function: always there where attention is causal."""
    options["allow_is_causal_skip"] = False
    return sdpa_mask(*arguments, **options)
