"""Weighted rows: the compiled loop, torch, and numpy."""

import numpy as np
import pytest
import torch

from attnprobe.kernels.products import NOTHING, weigh_rows


def drawn(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = (3 * torch.randn(*shape, generator=generator)).softmax(-1)
    return rows, torch.rand(*shape[:2], shape[-1], generator=generator)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 5, 7), (1, 4, 33, 32), (3, 2, 100, 65)])
@pytest.mark.parametrize("threads", [1, 3])
def test_against_numpy(shape, threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    rows, lengths = drawn(*shape)
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
    rows, lengths = (one.to(dtype) for one in drawn(2, 3, 4, 9))
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_denormal_lengths_are_nothing(dtype):
    rows, lengths = (one.to(dtype) for one in drawn(1, 2, 3, 4))
    lengths[:, 0] = NOTHING / 100
    found, carried = weigh_rows(rows, lengths)
    assert found[:, 0].isnan().all()
    assert (carried[:, 0] == 0).all()
    assert found[:, 1].isfinite().all()


def test_masked_keys_stay_unseen():
    rows, lengths = drawn(1, 2, 4, 4)
    rows = rows.tril()
    found, _ = weigh_rows(rows, lengths)
    assert (found.triu(1) == 0).all()
    torch.testing.assert_close(found[:, :, 0, 0], torch.ones(1, 2))


@pytest.mark.parametrize("length", [0, 10, 1000])
def test_room_is_used_if_it_is_enough(length):
    rows, lengths = drawn(2, 2, 5, 7)
    room = torch.full((length,), -1.0)
    found, _ = weigh_rows(rows, lengths, room)
    assert (found.data_ptr() == room.data_ptr()) == (length >= rows.numel())
    assert torch.equal(found, weigh_rows(rows, lengths)[0])
