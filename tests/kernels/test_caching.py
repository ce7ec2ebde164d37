"""A compiled loop gives the same bits when it has just been compiled and when it comes from the cache."""

import inspect
from itertools import chain

import pytest
from numba.core.dispatcher import Dispatcher

from attnprobe.kernels import divergence, products, rows, words


def _list_loops() -> list[Dispatcher]:
    found = chain.from_iterable(vars(module).values() for module in (divergence, products, rows, words))
    return list(dict.fromkeys(one for one in found if isinstance(one, Dispatcher)))


@pytest.mark.parametrize("loop", _list_loops(), ids=lambda loop: loop.py_func.__name__)
def test_what_is_reordered_calls_only_what_is_inlined(loop):
    if not loop.targetoptions.get("fastmath"):
        return
    called = inspect.getclosurevars(loop.py_func).globals.values()
    apart = [
        one for one in called if isinstance(one, Dispatcher) and one.targetoptions.get("inline") != "always"
    ]
    assert not apart
