"""Giving all tokens of a text the same position, where positions are looked up in a table."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn


@contextmanager
def positions_alike(body: nn.Module, tables: Iterable[str], at: int) -> Iterator[None]:
    """Let tables of positions answer every token with what they answer the token at ``at``.

    It is what they give that is replaced, not the positions they are asked for: some number them from 0, some
    from 2, some leave pad tokens out. The model is left as it was found. Any number of threads may run it.

    Args:
        body: The part that is asked.
        tables: The names of its submodules that give (..., position, width).
        at: The place in a sequence whose position all tokens get; the last one in shorter sequences.
    """

    def alike(_module: nn.Module, _inputs: Any, rows: Tensor) -> Tensor:
        place = min(at, rows.shape[-2] - 1)
        return rows.narrow(-2, place, 1).expand_as(rows).contiguous()  # a model may add to it in place

    with ExitStack() as hooks:
        for name in tables:
            hooks.callback(body.get_submodule(name).register_forward_hook(alike).remove)
        yield
