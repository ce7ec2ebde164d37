"""A quicker start: ``attnprobe entropy demo`` would take 6.1 s without the savings noted here."""

import gc
import importlib
import logging
import sys
from types import ModuleType
from typing import Any

#: 0.7 s: thresholds of the garbage collector up to ``settle``.
SELDOM = (100_000, 50, 50)
_USUAL = gc.get_threshold()
#: 0.5 s: the compiler, of which transformers imports only decorators.
_COMPILER = "torch._dynamo"
_HIDDEN = (_COMPILER, "torch._dynamo._trace_wrapped_higher_order_op")


def install() -> None:
    """Collect garbage seldom and log less from now on; hide slow imports once transformers is imported."""
    gc.set_threshold(*SELDOM)
    sys.meta_path.insert(0, _LeanFinder())
    for name in ("torchao", "bitsandbytes", "torch.utils._pytree"):
        logging.getLogger(name).setLevel(logging.ERROR)


def settle() -> None:
    """Restore the garbage collector's thresholds after ``install``; objects that exist by now are skipped."""
    if gc.get_threshold() == SELDOM:
        gc.freeze()
        gc.set_threshold(*_USUAL)


class _LeanFinder:
    """Hides the compiler and torch.distributed once transformers is imported; finds no module itself."""

    def find_spec(self, fullname: str, *_: Any) -> None:
        if fullname == "transformers.modeling_utils":
            sys.meta_path.remove(self)
            import torch

            torch.distributed.is_available = lambda: False  # 0.2 s, and 14 MiB
            sys.modules |= {name: _StandIn(name) for name in _HIDDEN}


class _StandIn(ModuleType):
    """A module whose functions return their argument, as decorators that only mark a function do."""

    def __getattr__(self, name: str) -> Any:
        if name == "__path__" and self.__name__ == _COMPILER:  # a submodule of the real one is wanted
            for hidden in _HIDDEN:
                sys.modules.pop(hidden, None)
            return importlib.import_module(_COMPILER).__path__
        if name.startswith("__"):  # which inspect reads of every module
            raise AttributeError(name)
        return lambda function=None, *_, **__: function if callable(function) else (lambda marked: marked)
