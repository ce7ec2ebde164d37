"""Who reads which model: a registered function is told the module that calls, and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from torch import nn

Claim = TypeVar("Claim")


class Claims(Generic[Claim]):
    """For each module of the models that are being read, by whom. Several models can be read at a time."""

    def __init__(self) -> None:
        """Begin with none."""
        self._of: dict[int, Claim] = {}

    @contextmanager
    def on(self, model: nn.Module, claim: Claim) -> Iterator[None]:
        """Claim every module of a model for what is done inside.

        Raises:
            RuntimeError: When it is claimed already; two readers would count each other's layers.
        """
        modules = [id(module) for module in model.modules()]
        if any(module in self._of for module in modules):
            raise RuntimeError(f"this {type(model).__name__} is being read already; finish that first")
        self._of.update(dict.fromkeys(modules, claim))
        try:
            yield
        finally:
            for module in modules:
                del self._of[module]

    def of(self, module: nn.Module) -> Claim | None:
        """Give the claim on a module, if there is one."""
        return self._of.get(id(module))

    def __bool__(self) -> bool:
        """Tell whether any model is being read."""
        return bool(self._of)
