"""Planted heads: copies, orthogonal ones, and ones that share nothing but a sink."""

import numpy as np
import pytest
import torch

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.kinds import Observed
from attnprobe.attention.layout import Layout
from attnprobe.statistics.mixing import CORRELATION, SHUFFLED, effective_heads, explained_by_others

LENGTH = 24


def logits(*heads: torch.Tensor, features, **marks) -> AttentionBlock:
    """Make a block from logits (query, key) of each head."""
    scores = torch.stack([head.float() for head in heads])[None]
    layout = Layout.of(features(scores.shape[-1], **marks))
    return AttentionBlock(scores.softmax(-1), layout, 0, Observed(scores=scores))


def orthogonal(heads: int, seed: int = 0) -> torch.Tensor:
    """Draw logits of heads that are centred and orthogonal: (head, query, key)."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(heads, LENGTH, LENGTH, generator=generator, dtype=torch.float64)
    drawn = drawn - drawn.mean(-1, keepdim=True)
    basis = torch.linalg.qr(drawn.flatten(1).T).Q.T
    return basis.view(heads, LENGTH, LENGTH) * LENGTH


def correlate(number, features, *heads, **marks):
    """Correlate every two heads."""
    return number(CORRELATION, logits(*heads, features=features, **marks))[0].double().numpy()


def test_copies_and_orthogonal_heads(number, features):
    a, b, c, d = orthogonal(4)
    for heads, explained, effective in (
        ((a, b, 3 * a + 7, c, d), [1, 0, 1, 0, 0], 25 / 7),
        ((a, b, c, d), [0] * 4, 4),
        ((a, a, a), [1] * 3, 1),
    ):
        pairs = correlate(number, features, *heads)
        np.testing.assert_allclose(explained_by_others(pairs), explained, atol=1e-5)
        assert effective_heads(pairs) == pytest.approx(effective, abs=1e-5)


def test_sinks_alone(number, features):
    """Heads that share nothing but a sink: the null says it all; without the sink, nothing is left."""
    sunk = [head.clone() for head in orthogonal(2)]
    for head in sunk:
        head[:, 0] += 60
    marks = {"first": (0,), "separator": (LENGTH - 1,)}
    block = logits(*sunk, features=features, **marks)
    whole, null = (number(one, block)[0, 0].item() for one in (CORRELATION, SHUFFLED))
    assert whole > 0.9
    assert null == pytest.approx(whole, abs=0.03)
    content = logits(*sunk, features=features, **marks, content_only=True)
    assert abs(number(CORRELATION, content)[0, 0].item()) < 0.1
    assert number(SHUFFLED, content)[0, 0].item() == 0
