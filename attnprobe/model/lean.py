"""Importing transformers without the parts that a single process which measures heads never uses.

Most of the time that transformers takes to import goes into tensors shared among machines, the compiler
behind ``torch.compile``, and scipy's optimiser for the losses of object detectors. transformers does without
the first and the last where they are not installed; and of the compiler, torch and transformers use no more
than decorators that mark functions for it. So transformers is told that the two are not there, and the
compiler has a stand-in, which gives way to the real one as soon as anybody asks for more than a decorator.

Two more things take time on the way to the first pass. transformers reads its 2,200 model files twice, line
by line, to learn what each defines: once is enough, and what stands before the last ``__all__`` says nothing.
And Python looks for circles of references among new objects, of which imports make 650,000, a thousand times:
while the program starts, it does so every 100,000 objects.

Measured with torch 2.13 and transformers 5.23, in seconds of processor time (user and system), the least of
five on a busy machine:
``python -c "from attnprobe.model import lean; lean.install(); from transformers import AutoConfig,
AutoModel, AutoTokenizer, PreTrainedModel"`` takes 1.7, and 3.8 without ``install``. Some of it is
imported later anyway: all of ``attnprobe entropy demo`` takes 3.2, and 4.8 without. The tests in
``tests/model/test_lean.py`` say when a library has outgrown it. What it can't keep away is torchao: where it
is installed, transformers imports it, and it imports the compiler, which takes 0.8 more.

Only the command line does this: its process is its own. A program that imports attnprobe may want all of it.
"""

import gc
import importlib
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

#: The module whose import takes the time.
SLOW = "transformers.modeling_utils"
COMPILER = "torch._dynamo"
#: What finds out what each file of transformers defines, and its functions that do so.
SCANNER, SCAN, READ_NAMES = (
    "transformers.utils.import_utils", "create_import_structure_from_path", "fetch__all__",
)  # fmt: skip
#: So many new objects, and so many collections of new ones for one of older ones, while the program starts.
SELDOM = (100_000, 50, 50)
#: Of the compiler's own modules, what transformers imports a name of, to use it when it compiles.
INDEXING = "torch._dynamo._trace_wrapped_higher_order_op"
#: How transformers tells whether scipy is there.
SCIPY = "is_scipy_available"
#: The compiler's decorators.
DECORATORS = ("allow_in_graph", "assume_constant_result", "disable", "mark_static_address")
#: What packages of quantised weights say on being imported, which transformers does wherever they are there:
#: which of their kernels don't fit this machine.
LOGGERS = ("torchao", "bitsandbytes", "torch.utils._pytree")
_USUAL = gc.get_threshold()


def install() -> None:
    """Make the import of transformers lean, whenever it comes; in vain where it is imported already."""
    silence_loggers()
    gc.set_threshold(*SELDOM)
    if SLOW not in sys.modules and not any(isinstance(finder, _LeanFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _LeanFinder())


def settle() -> None:
    """Let Python look for circles as often as usual again, but not among what is there for good by now.

    Nothing happens where ``install`` was not called, as in a program that imports attnprobe.
    """
    if gc.get_threshold() == SELDOM:
        gc.freeze()
        gc.set_threshold(*_USUAL)


def silence_loggers() -> None:
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)


class _LeanFinder(MetaPathFinder):
    """Finds the slow modules where they are, and loads them leanly."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in {SLOW, SCANNER}:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = (_LeanLoader if fullname == SLOW else _QuickScanner)(spec.loader)
        if fullname == SLOW:  # the last one
            sys.meta_path.remove(self)
        return spec


class _Wrapped(Loader):
    """Loads a module by another loader."""

    def __init__(self, usual: Loader) -> None:
        self._usual = usual

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._usual.create_module(spec)


class _QuickScanner(_Wrapped):
    """Loads what scans the files of transformers, and lets it read each of them once, from its end."""

    def exec_module(self, module: ModuleType) -> None:
        self._usual.exec_module(module)
        scan: Callable[[str], Any] | None = getattr(module, SCAN, None)
        read_names: Callable[[str], list[str]] | None = getattr(module, READ_NAMES, None)
        if scan is None or read_names is None:  # another version of transformers
            return

        def read_last(content: str) -> list[str]:
            at = content.rfind("\n__all__")
            return read_names(content if at < 0 else content[at + 1 :])

        once = cache(scan)

        def scan_once(path: str | Path) -> Any:
            return once(str(Path(path).parent if Path(path).is_file() else path))  # a file means its folder

        setattr(module, SCAN, scan_once)
        setattr(module, READ_NAMES, read_last)


class _LeanLoader(_Wrapped):
    """Loads a module while some others are away, or as usual where that does not work."""

    def exec_module(self, module: ModuleType) -> None:
        before = set(sys.modules)
        try:
            with _hide_slow_modules():
                self._usual.exec_module(module)
        except Exception:  # another version of transformers or torch needs what was hidden
            for name in sys.modules.keys() - before:  # what was defined without it
                if name.startswith("transformers."):
                    del sys.modules[name]
            self._usual.exec_module(module)


@contextmanager
def _hide_slow_modules() -> Iterator[None]:
    """Put a stand-in in place of the compiler, and hide scipy and tensors shared among machines."""
    import torch
    from transformers import utils

    shared = torch.distributed.is_available
    has_scipy = getattr(utils, SCIPY)
    # For good: what is defined without them must not be used as if they were there.
    torch.distributed.is_available = _no
    if COMPILER not in sys.modules:
        sys.modules |= {COMPILER: _Compiler(COMPILER), INDEXING: _Indexing(INDEXING)}
        torch._dynamo = sys.modules[COMPILER]
    try:
        setattr(utils, SCIPY, _no)
        yield
    except BaseException:
        torch.distributed.is_available = shared
        _restore_compiler()
        raise
    finally:
        setattr(utils, SCIPY, has_scipy)


def _restore_compiler() -> ModuleType:
    """Put the real compiler where its stand-in was."""
    import torch

    for name, kind in ((COMPILER, _Compiler), (INDEXING, _Indexing)):
        if isinstance(sys.modules.get(name), kind):
            del sys.modules[name]
    if isinstance(torch.__dict__.get("_dynamo"), _Compiler):
        del torch._dynamo
    return importlib.import_module(COMPILER)


def _no() -> bool:
    return False


class _Compiler(ModuleType):
    """Has the decorators that mark a function for the compiler, which do nothing here."""

    def __getattr__(self, name: str) -> Any:
        """Get such a decorator, or whatever the real compiler has under that name.

        ``inspect`` reads dunder names of every module in the midst of other imports, which must not import
        the compiler. Only ``__path__`` is read by an import of one of its own modules.
        """
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        return _unmarked if name in DECORATORS else getattr(_restore_compiler(), name)


class _Indexing(ModuleType):
    """Has the names of the real module, and imports it when one of them is called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def real(*given: Any, **named: Any) -> Any:
            _restore_compiler()
            return getattr(importlib.import_module(INDEXING), name)(*given, **named)

        return real


def _unmarked(function: Any = None, *_: Any, **__: Any) -> Any:
    return function if callable(function) else _unmarked
