"""What the dry run says of maps that are odd without being wrong."""

import torch

from attnprobe.model.verifying.checks import find_oddities


def test_heads_with_the_same_maps():
    same = torch.full((1, 3, 4, 4), 0.25)
    other = torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(0)).softmax(-1)
    assert find_oddities([other, same]) == ["all heads have the same maps in layer 1"]
    assert find_oddities([same, other, same], [2, 4, 6]) == ["all heads have the same maps in layers 2, 6"]
    assert find_oddities([other, same[:, :1]]) == []
