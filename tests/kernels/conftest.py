"""Attention rows of every awkward kind, and a way to change the number of threads for a while."""

import pytest
import torch
from torch import Tensor

#: Odd numbers of keys: fewer than a vector, one less and one more than whole ones, many.
KEYS = (1, 2, 5, 31, 32, 33, 64, 127, 513)


def random(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw what an untrained head does."""
    return torch.randn(shape, generator=generator).softmax(-1)


def peaked(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw rows with nearly all on a few keys, down to probabilities that vanish."""
    return (torch.randn(shape, generator=generator) * 30).softmax(-1)


def uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Give every key the same."""
    return torch.full(shape, 1 / shape[-1])


def one_hot(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Look at a single key, all other probabilities exactly zero."""
    place = torch.randint(shape[-1], shape[:-1], generator=generator)
    return torch.nn.functional.one_hot(place, shape[-1]).float()


def denormal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw one-hot rows whose other probabilities are below the smallest normal float32."""
    tiny = torch.rand(shape, generator=generator) * 1e-39
    return torch.where(one_hot(shape, generator) > 0, torch.tensor(1.0), tiny)


KINDS = (random, peaked, uniform, one_hot, denormal)


@pytest.fixture(params=KEYS, ids=lambda keys: f"{keys}-keys")
def keys(request: pytest.FixtureRequest) -> int:
    """Number of keys."""
    return request.param


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def rows(request: pytest.FixtureRequest, keys: int) -> Tensor:
    """Rows (batch 2, head 3, query 7, key) of each kind; as many queries as keys, up to seven."""
    generator = torch.Generator().manual_seed(keys)
    return request.param((2, 3, min(7, keys), keys), generator)
