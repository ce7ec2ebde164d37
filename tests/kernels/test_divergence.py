"""Divergence of every two heads: the compiled loop, the torch path, and scipy say the same."""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.special import rel_entr
from torch import Tensor

from attnprobe.kernels.pairs import divergence_between, pairwise_divergence

NATS = 1e-6


def exact(p: Tensor) -> np.ndarray:
    """Compute (batch, pair, query) in float64: half the sum of both Kullback-Leibler divergences."""
    rows = p.double().numpy()
    rows = rows / rows.sum(-1, keepdims=True)
    divergences = []
    for a, b in combinations(range(rows.shape[1]), 2):
        middle = (rows[:, a] + rows[:, b]) / 2
        divergences.append((rel_entr(rows[:, a], middle) + rel_entr(rows[:, b], middle)).sum(-1) / 2)
    return np.stack(divergences, 1)


def test_compiled_loop(rows: Tensor):
    np.testing.assert_allclose(pairwise_divergence(rows).numpy(), exact(rows), rtol=0, atol=NATS)


def test_torch_path(rows: Tensor):
    divergence = pairwise_divergence(rows.double() / rows.double().sum(-1, keepdim=True))
    assert divergence.dtype == torch.float64
    np.testing.assert_allclose(divergence.numpy(), exact(rows), rtol=0, atol=1e-12)


def test_small_differences_keep_their_digits():
    """Divergences of 1e-5 nats, and of 1e-4 of that, come out with three digits at least."""
    rows = torch.randn(1, 1, 64, 256).softmax(-1)
    for size, digits in ((1e-2, 1e-3), (1e-1, 1e-4)):
        other = rows * (1 + size * torch.rand(rows.shape))
        both = torch.cat([rows, other / other.sum(-1, keepdim=True)], 1)
        divergence, expected = pairwise_divergence(both).double().mean(), exact(both).mean()
        assert expected < 1e-3
        assert abs(divergence.item() - expected) < max(digits * expected, 1e-8)


@pytest.mark.parametrize("precise", [False, True], ids=["compiled", "torch"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_undefined_rows_stay_undefined(keys: int, sign: float, precise: bool):
    rows = torch.randn(2, 4, 3, keys, dtype=torch.float64 if precise else torch.float32).softmax(-1)
    clean = pairwise_divergence(rows)
    rows[1, 2, 0] = torch.tensor(float("nan")).copysign(torch.tensor(sign))
    divergence = pairwise_divergence(rows)
    hit = torch.zeros(divergence.shape, dtype=torch.bool)
    hit[1, [pair for pair, both in enumerate(combinations(range(4), 2)) if 2 in both], 0] = True
    assert torch.equal(divergence.isnan(), hit)
    assert torch.equal(divergence[~hit], clean[~hit])


@pytest.mark.parametrize("numbered", [False, True])
def test_between_two_models_the_compiled_loop_and_torch_agree(numbered: bool):
    """Of as many heads or not, in the order of the heads of the first."""
    chance = torch.Generator().manual_seed(1)
    p = torch.randn(2, 3, 5, 7, generator=chance).softmax(-1)
    r = torch.randn(2, 3 if numbered else 2, 5, 7, generator=chance).softmax(-1)
    divergence = divergence_between(p, r, numbered=numbered)
    expected = divergence_between(p.double(), r.double(), numbered=numbered)
    torch.testing.assert_close(divergence, expected.float(), rtol=1e-4, atol=1e-6)
    middle = (p[:, 1] + r[:, 1]).double() / 2
    ends = [torch.special.entr(one[:, 1].double()).sum(-1) for one in (p, r)]
    by_hand = torch.special.entr(middle).sum(-1) - sum(ends) / 2
    torch.testing.assert_close(expected[:, 1 if numbered else 3], by_hand)
