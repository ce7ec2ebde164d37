"""What users write today: every map out of the model, then numpy."""

from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

TINY = 1e-12


def per_layer(model: PreTrainedModel, ids: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Entropy of every head (layer, head), and divergence of the heads of a layer (layer, pair)."""
    maps = _maps(model, ids)
    entropies = np.array([_entropy(layer).mean((0, 2)) for layer in maps])
    return entropies, np.array([_divergences(layer) for layer in maps])


def all_pairs(model: PreTrainedModel, ids: Tensor) -> NDArray[np.float64]:
    """Divergence of every two heads of the model."""
    return _divergences(np.concatenate(_maps(model, ids), 1))


def _maps(model: PreTrainedModel, ids: Tensor) -> list[NDArray[np.float32]]:
    with torch.no_grad():
        found = model(ids, output_attentions=True).attentions
    return [layer.numpy() for layer in found]


def _entropy(p: NDArray[np.float32]) -> NDArray[np.float32]:
    return -(p * np.log(p + TINY)).sum(-1)


def _divergences(p: NDArray[np.float32]) -> NDArray[np.float64]:
    own = _entropy(p)
    pairs = []
    for a, b in combinations(range(p.shape[1]), 2):
        middle = _entropy((p[:, a] + p[:, b]) / 2)
        pairs.append((middle - (own[:, a] + own[:, b]) / 2).mean())
    return np.array(pairs)
