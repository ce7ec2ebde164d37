"""Layers that share their weights, as those of ALBERT do: what is removed from one is removed from all."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import nn


def sharing_layers(body: nn.Module, sites: Sequence[str], layers: int) -> NDArray[np.int64]:
    """Give for each layer the first one that has the same weights, (layer,); itself where it shares none.

    Layers share their weights where their attention is one module that is called several times, or modules
    whose parameters all lie in the same storage.

    Args:
        body: The part whose heads are meant.
        sites: The attention module of each layer.
        layers: How many there are.
    """
    modules = dict(body.named_modules())
    if len(sites) != layers or not set(sites) <= modules.keys():
        return np.arange(layers)
    first: dict[object, int] = {}
    return np.array([first.setdefault(_weights(modules[site]), layer) for layer, site in enumerate(sites)])


def _weights(module: nn.Module) -> object:
    """Tell modules of other weights apart; one without any of its own is itself only."""
    weights = frozenset(
        # What is not in memory lies at 0, all of it.
        parameter.data_ptr() or id(parameter)
        for parameter in module.parameters()
    )
    return weights or id(module)
