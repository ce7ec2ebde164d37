"""Products of logits, and rows weighted by lengths, against loops and float64."""

import numpy as np
import pytest
import torch

from attnprobe.kernels.products import STRETCH, logit_products, weigh_rows


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
    sinks[1:, -3:-1] = True
    return scores, seen, asks, sinks


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("causal", [False, True])
def test_products(kind, seed, causal):
    scores, seen, asks, sinks = drawn(causal=causal, seed=seed)
    given = torch.from_numpy(scores).to(kind).masked_fill(~torch.from_numpy(seen), float("-inf"))
    if seed:
        given = given.masked_fill(~torch.from_numpy(seen), torch.finfo(kind).min)
    found = logit_products(given, torch.from_numpy(asks), torch.from_numpy(sinks)).numpy()
    x = centred(scores.astype(np.float64), seen) * asks[:, None, :, None]
    np.testing.assert_allclose(found[:, 0], np.einsum("bgqk,bhqk->bgh", x, x), rtol=1e-5, atol=1e-4)
    for b, (rows, held) in enumerate(zip(x, sinks, strict=True)):
        at_sinks = rows[..., held]
        others = (seen & ~held).sum(-1).clip(1)
        rest = at_sinks.sum(-1)
        expected = np.einsum("gqk,hqk->gh", at_sinks, at_sinks) + np.einsum("gq,hq->gh", rest, rest / others)
        np.testing.assert_allclose(found[b, 1], expected, rtol=1e-5, atol=1e-4)


def test_the_mean_of_shuffled_keys():
    """By shuffling: keys that are no sinks, of each head and each query for itself."""
    scores, _, _, sinks = drawn(batch=1, heads=3, queries=4, keys=7, seed=3)
    asks = torch.ones(1, 4, dtype=torch.bool)
    found = logit_products(torch.from_numpy(scores), asks, torch.from_numpy(sinks)).numpy()[0, 1]
    rows = centred(scores.astype(np.float64), np.ones((4, 7), bool))[0]
    ordinary = np.flatnonzero(~sinks[0])
    generator, draws = np.random.default_rng(0), 20_000
    products = np.empty((draws, 3, 3))
    for draw in range(draws):
        mixed = rows.copy()
        mixed[..., ordinary] = generator.permuted(rows[..., ordinary], axis=-1)
        products[draw] = np.einsum("gqk,hqk->gh", mixed, mixed)
    apart = np.abs(products.mean(0) - found)
    error = products.std(0) / np.sqrt(draws)
    off = ~np.eye(3, dtype=bool)
    assert (apart[off] < 4 * error[off]).all()
    assert (np.abs(found[off]) > 20 * error[off]).any()  # or there would be nothing to find


def test_threads_change_nothing():
    scores, _, asks, sinks = drawn(batch=8, queries=STRETCH * 20 + 3)
    given = [torch.from_numpy(part) for part in (scores, asks, sinks)]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = logit_products(*given)
        torch.set_num_threads(3)
        assert torch.equal(one, logit_products(*given))
    finally:
        torch.set_num_threads(before)


def rows_and_lengths(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = (3 * torch.randn(*shape, generator=generator)).softmax(-1)
    return rows, torch.rand(*shape[:2], shape[-1], generator=generator)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 5, 7), (1, 4, 33, 32), (3, 2, 100, 65)])
@pytest.mark.parametrize("threads", [1, 3])
def test_against_numpy(shape, threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    rows, lengths = rows_and_lengths(*shape)
    weights = rows.double().numpy() * lengths.double().numpy()[:, :, None]
    total = weights.sum(-1)
    for found, carried in (weigh_rows(rows, lengths), weigh_rows(rows.double(), lengths.double())):
        np.testing.assert_allclose(found, weights / total[..., None], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(carried, total, rtol=1e-6)
        np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-6)
        assert (found <= 1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_that_carry_nothing(dtype):
    """Those of a zeroed head have no weights and carry 0; those that were NaN stay so."""
    rows, lengths = (one.to(dtype) for one in rows_and_lengths(2, 3, 4, 9))
    lengths[:, 1] = 0
    rows[1, 2, 3] = torch.nan
    found, carried = weigh_rows(rows, lengths)
    gone = torch.zeros(2, 3, 4, dtype=torch.bool)
    gone[:, 1] = gone[1, 2, 3] = True
    assert torch.equal(found.isnan().all(-1), gone)
    assert torch.equal(found.isnan().any(-1), gone)
    assert (carried[:, 1] == 0).all()
    assert carried[1, 2, 3].isnan()
    assert (carried[:, 0] > 0).all()
