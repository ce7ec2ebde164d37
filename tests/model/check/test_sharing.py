"""Layers that share their weights are told from their modules and parameters."""

from typing import Any

import pytest
import torch
from torch import nn

from attnprobe.model.check.architecture import share_weights


def test_one_module_that_is_called_again():
    body = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    assert share_weights(body, ["a", "b", "a"])
    assert not share_weights(body, ["a", "b"])


def test_modules_whose_parameters_are_the_same():
    body: Any = nn.ModuleList(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)) for _ in range(3))
    body[2] = nn.Sequential(body[0][0], body[0][1])
    assert share_weights(body, ["0", "1", "2"])


def test_modules_that_share_some_only():
    """Such as keys and values that later layers take over: each layer's heads are its own."""
    body: Any = nn.ModuleList(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)) for _ in range(2))
    body[1][0] = body[0][0]
    assert not share_weights(body, ["0", "1"])


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_modules_of_their_own(device: str):
    """Without parameters, equal in value, or not in memory at all."""
    body: Any = nn.ModuleList(nn.Linear(2, 2, device=device) for _ in range(2))
    body.extend([nn.Identity(), nn.Identity()])
    if device == "cpu":
        with torch.no_grad():
            body[1].weight.copy_(body[0].weight)
            body[1].bias.copy_(body[0].bias)
    assert not share_weights(body, ["0", "1", "2", "3"])
