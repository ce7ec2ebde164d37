"""Products of logits against numpy in float64, and what shuffling keys makes of them, by shuffling them."""

import numpy as np
import pytest
import torch

from attnprobe.kernels.products import STRETCH, logit_products


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


def test_a_number_for_each_row_changes_nothing():
    scores, _, asks, sinks = drawn()
    moved = scores + np.random.default_rng(1).normal(0, 5, (*scores.shape[:3], 1)).astype(np.float32)
    one, two = (
        logit_products(torch.from_numpy(some), torch.from_numpy(asks), torch.from_numpy(sinks))
        for some in (scores, moved)
    )
    torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-4)


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
