"""Planted heads: copies, orthogonal ones, ones that cancel; and tables of layers with one head or none."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.kinds import Observed
from attnprobe.attention.layout import Layout
from attnprobe.statistics.mixing import (
    CORRELATION,
    COSINE,
    SHUFFLED,
    effective_heads,
    explained_by_others,
)

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


class TestLogits:
    """What others explain of a head."""

    def pairs(self, number, features, *heads, **marks):
        block = logits(*heads, features=features, **marks)
        return number(CORRELATION, block)[0].double().numpy()

    def test_copies_and_orthogonal_heads(self, number, features):
        a, b, c, d = orthogonal(4)
        pairs = self.pairs(number, features, a, b, 3 * a + 7, c, d)
        np.testing.assert_allclose(pairs[1], 1, atol=1e-6)  # heads 0 and 2
        np.testing.assert_allclose(explained_by_others(pairs), [1, 0, 1, 0, 0], atol=1e-5)
        assert effective_heads(pairs) == pytest.approx(25 / 7, abs=1e-5)
        alone = self.pairs(number, features, a, b, c, d)
        np.testing.assert_allclose(explained_by_others(alone), 0, atol=1e-5)
        assert effective_heads(alone) == pytest.approx(4, abs=1e-5)
        same = self.pairs(number, features, a, a, a)
        np.testing.assert_allclose(explained_by_others(same), 1, atol=1e-5)
        assert effective_heads(same) == pytest.approx(1, abs=1e-6)

    def test_sinks_alone(self, number, features):
        """Heads that share nothing but a sink: the null says it all; without the sink, nothing is left."""
        a, b = orthogonal(2)
        sunk = [head.clone() for head in (a, b)]
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


class TestContributions:
    """What heads add to the residual stream."""

    @pytest.fixture
    def given(self, drawn):
        """Heads 0 and 1 give orthogonal vectors, 2 the same as 0, 3 the opposite, and 4 nothing."""

        def make() -> AttentionBlock:
            whole = drawn(2, 5, 9)
            shown = torch.zeros(5, 5, 25)
            basis = torch.linalg.qr(torch.randn(25, 10, generator=torch.Generator().manual_seed(3))).Q.T
            shown[0], shown[1] = basis[:5], basis[5:]
            shown[2], shown[3] = shown[0], -shown[0]
            outputs = whole.outputs.clone()
            outputs[:, 2] = outputs[:, 3] = outputs[:, 0]
            return replace(whole, observed=Observed(outputs=outputs, projection=shown))

        return make()

    def test_cosine(self, given, number):
        found = number(COSINE, given)[0]
        expected = [0, 1, -1, np.nan, 0, 0, np.nan, -1, np.nan, np.nan]
        torch.testing.assert_close(found, torch.tensor(expected), atol=1e-5, rtol=0, equal_nan=True)
