"""Importing transformers without the compiler, of which it needs only decorators; and gc's settings."""

import gc
import importlib
import logging
import sys
from types import ModuleType
from typing import Any

#: The module whose import takes the time, and what it imports of the compiler.
SLOW, COMPILER = "transformers.modeling_utils", "torch._dynamo"
INDEXING = "torch._dynamo._trace_wrapped_higher_order_op"
#: So many new objects, and so many collections of new ones for one of older ones, while the program starts.
SELDOM = (100_000, 50, 50)
#: What packages of quantised weights say on being imported: which of their kernels don't fit this machine.
LOGGERS = ("torchao", "bitsandbytes", "torch.utils._pytree")
_USUAL = gc.get_threshold()


def install() -> None:
    silence_loggers()
    gc.set_threshold(*SELDOM)
    sys.meta_path.insert(0, _LeanFinder())


def settle() -> None:
    """Look for circles as often as usual again, but not among what is there by now, after ``install``."""
    if gc.get_threshold() == SELDOM:
        gc.freeze()
        gc.set_threshold(*_USUAL)


def silence_loggers() -> None:
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)


class _LeanFinder:
    """Hides the compiler, and tensors shared among machines, once transformers is imported; finds nothing."""

    def find_spec(self, fullname: str, *_: Any) -> None:
        if fullname == SLOW:
            sys.meta_path.remove(self)
            import torch

            torch.distributed.is_available = lambda: False
            sys.modules |= {name: _StandIn(name) for name in (COMPILER, INDEXING)}


class _StandIn(ModuleType):
    """Has functions that give back what they are given, as decorators do that only mark a function."""

    def __getattr__(self, name: str) -> Any:
        if name == "__path__" and self.__name__ == COMPILER:  # of a part of the real one, which is wanted
            for hidden in (COMPILER, INDEXING):
                sys.modules.pop(hidden, None)
            return importlib.import_module(COMPILER).__path__
        if name.startswith("__"):  # which inspect reads of every module
            raise AttributeError(name)
        return lambda function=None, *_, **__: function if callable(function) else (lambda one: one)
