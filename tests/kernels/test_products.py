"""Products of logits, and rows weighted by lengths, against loops and float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from block_parts import build_uniform_block

from attnprobe.attention.block import NotObservedError
from attnprobe.kernels.pairs import logit_products


def centred(scores: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Take each row's mean over the keys that it sees; others are 0."""
    kept = np.where(seen, scores, 0.0)
    mean = kept.sum(-1, keepdims=True) / seen.sum(-1, keepdims=True)
    return np.where(seen, kept - mean, 0.0)


def drawn(batch=2, heads=5, queries=37, keys=21, *, causal=False, seed=0):
    generator = np.random.default_rng(seed)
    scores = generator.normal(3, 2, (batch, heads, queries, keys)).astype(np.float32)
    seen = np.ones((queries, keys), bool)
    if causal:
        seen = np.tril(seen, 2)
    scores[:, :, ~seen] = np.finfo(np.float32).min if seed % 2 else -np.inf
    asks = generator.random((batch, queries)) < 0.7
    sinks = np.zeros((batch, keys), bool)
    sinks[:, 0] = True
    sinks[0, -3:-1] = True  # most in the first text
    return scores, seen, asks, sinks


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("causal", [False, True])
def test_products(kind, seed, causal):
    scores, seen, asks, sinks = drawn(causal=causal, seed=seed)
    given = torch.from_numpy(scores).to(kind).masked_fill(~torch.from_numpy(seen), float("-inf"))
    if seed:
        given = given.masked_fill(~torch.from_numpy(seen), torch.finfo(kind).min)
    products = logit_products(given, torch.from_numpy(asks), torch.from_numpy(sinks)).numpy()
    x = centred(scores.astype(np.float64), seen) * asks[:, None, :, None]
    np.testing.assert_allclose(products[:, 0], np.einsum("bgqk,bhqk->bgh", x, x), rtol=1e-5, atol=1e-4)
    for b, (rows, held) in enumerate(zip(x, sinks, strict=True)):
        at_sinks = rows[..., held]
        others = (seen & ~held).sum(-1).clip(1)
        rest = at_sinks.sum(-1)
        expected = np.einsum("gqk,hqk->gh", at_sinks, at_sinks) + np.einsum("gq,hq->gh", rest, rest / others)
        np.testing.assert_allclose(products[b, 1], expected, rtol=1e-5, atol=1e-4)


def test_the_null_is_the_mean_over_shuffles():
    """Keys that are no sinks come in 20,000 random orders, drawn anew for every head and query."""
    scores, _, asks, sinks = drawn(1, 2, 3, 6)
    asks[:], sinks[0, 4] = True, True
    null = logit_products(*map(torch.from_numpy, (scores, asks, sinks))).numpy()[0, 1, 0, 1]
    random, free = np.random.default_rng(1), ~sinks[0]
    rows = scores[0].astype(np.float64) - scores[0].mean(-1, keepdims=True)
    shuffled = np.repeat(rows[None], 20_000, 0)
    shuffled[..., free] = random.permuted(shuffled[..., free], axis=-1)
    products = np.einsum("tqk,tqk->t", shuffled[:, 0], shuffled[:, 1])
    assert null == pytest.approx(products.mean(), abs=4 * products.std() / 20_000**0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_that_carry_nothing(dtype):
    """Those of a zeroed head have no weights and carry 0; those that were NaN stay so."""
    generator = torch.Generator().manual_seed(0)
    rows = (3 * torch.randn(1, 3, 9, 9, generator=generator)).softmax(-1).to(dtype)
    lengths = torch.rand(1, 3, 9, generator=generator).to(dtype)
    lengths[:, 1] = 0
    rows[0, 2, 3] = torch.nan
    plain = replace(build_uniform_block(9, heads=3), probabilities=rows)
    with pytest.raises(NotObservedError, match="rows carry something only where"):
        assert plain.carried
    block = plain.by_norm(lengths)
    gone = torch.zeros(1, 3, 9, dtype=torch.bool)
    gone[:, 1] = gone[0, 2, 3] = True
    assert torch.equal(block.probabilities.isnan().all(-1), gone)
    assert torch.equal(block.probabilities.isnan().any(-1), gone)
    assert (block.carried[:, 1] == 0).all()
    assert block.carried[0, 2, 3].isnan()
    weights = rows[:, 0] * lengths[:, 0]
    torch.testing.assert_close(block.carried[:, 0], (weights).sum(-1))
    torch.testing.assert_close(block.probabilities[:, 0], weights / weights.sum(-1, keepdim=True))
