"""Summaries of rows, and the logarithm that they take, against float64."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy
from torch import Tensor

from attnprobe.kernels.rows import (
    WORTH_SHARING,
    LazySummary,
    RowSummary,
    log2,
    run_over_rows,
    summarise_rows,
)

NATS = 1e-6
SHARE = 1e-6
FIELDS = ("entropy", "maximum", "argmax", "distance", "masses")
#: What the module promises of log2, in bits; the rest is the rounding of one multiplication.
WORST = 6.3e-7
SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal


def features(p: Tensor) -> Tensor:
    """Indicators (batch, feature, key): half of the keys, the first, all, none."""
    batch, keys = p.shape[0], p.shape[3]
    generator = torch.Generator().manual_seed(keys)
    marks = torch.zeros(batch, 4, keys)
    marks[:, 0] = (torch.rand(batch, keys, generator=generator) < 0.5).float()
    marks[:, 1, 0] = 1
    marks[:, 2] = 1
    return marks


def last_offset(p: Tensor) -> int:
    """Let the block end with the sequence."""
    return p.shape[3] - p.shape[2]


def agrees(summary: RowSummary | LazySummary, p: Tensor, offset: int):
    """Compare with numpy and scipy in float64, row by row."""
    exact, marks = p.double().numpy(), features(p).double().numpy()
    keys = p.shape[3]
    sizes = exact.sum(-1)
    distances = np.abs(np.arange(offset, offset + p.shape[2])[:, None] - np.arange(keys))
    expected = entropy(exact, axis=-1) * sizes  # scipy renormalises, rows are a rounding off 1
    np.testing.assert_allclose(summary.entropy.double().numpy(), expected, rtol=0, atol=NATS)
    np.testing.assert_array_equal(summary.maximum.numpy(), p.numpy().max(-1))
    np.testing.assert_array_equal(summary.argmax.numpy(), p.numpy().argmax(-1))
    distance = (exact * distances).sum(-1)
    np.testing.assert_allclose(summary.distance.double().numpy(), distance, rtol=1e-6, atol=1e-6)
    masses = np.einsum("bhqk,bfk->fbhq", exact, marks)
    np.testing.assert_allclose(torch.stack(summary.masses).double().numpy(), masses, rtol=0, atol=SHARE)


def test_compiled_loop(rows: Tensor):
    agrees(summarise_rows(rows, features(rows), last_offset(rows)), rows, last_offset(rows))


def test_each_row_falls_to_one_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    times = np.zeros(7 * WORTH_SHARING, np.int64)

    def loop(start: int, stop: int, out: np.ndarray) -> None:
        assert 0 < stop - start < len(out)
        out[start:stop] += 1

    run_over_rows(loop, len(times), out=(times,))
    assert (times == 1).all()


def test_torch_path(rows: Tensor):
    summary = summarise_rows(rows.double(), features(rows), last_offset(rows))
    assert summary.entropy.dtype == torch.float64
    agrees(summary, rows, last_offset(rows))


@pytest.mark.parametrize("precise", [False, True], ids=["compiled", "torch"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_undefined_rows_stay_undefined(keys: int, sign: float, precise: bool):
    """0 / 0 is a negative NaN on x86; both kinds must come out as NaN, and only in their own rows."""
    rows = torch.randn(2, 3, 4, keys).softmax(-1)
    clean = summarise_rows(rows.double() if precise else rows, features(rows), 0)
    broken = rows.clone()
    broken[1, 2, 3] = torch.tensor(float("nan")).copysign(torch.tensor(sign))
    summary = summarise_rows(broken.double() if precise else broken, features(rows), 0)
    hit = torch.zeros(2, 3, 4, dtype=torch.bool)
    hit[1, 2, 3] = True
    for name in ("entropy", "maximum", "argmax", "distance"):
        assert torch.equal(getattr(summary, name).isnan(), hit), name
        assert torch.equal(getattr(summary, name)[~hit], getattr(clean, name)[~hit])
    assert all(torch.equal(mass.isnan(), hit) for mass in summary.masses)


def test_ties_go_to_the_first_key(keys: int):
    rows = torch.zeros(1, 1, 1, keys)
    tied = sorted({keys // 3, keys // 2, keys - 1})
    rows[..., tied] = 1 / len(tied)
    assert summarise_rows(rows, features(rows), 0).argmax.item() == tied[0]
    assert summarise_rows(rows.double(), features(rows), 0).argmax.item() == tied[0]


def exact(x: np.float32) -> float:
    return float(x) * np.log2(float(x)) if x > 0 else 0.0


def within(x: np.float32) -> float:
    """Bound the error at x: the polynomial's, and float32's own."""
    return float(x) * WORST + 2 * np.finfo(np.float32).eps * abs(exact(x)) + 1e-45


@given(st.floats(min_value=float(SMALLEST_NORMAL), max_value=1, width=32))
def test_any_probability(x: float):
    value = np.float32(x)
    assert abs(float(value * log2(value)) - exact(value)) <= within(value)
