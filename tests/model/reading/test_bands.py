"""Bands spread out over all keys, against a loop over rows."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from attnprobe.model.reading.blocks import spread_band


@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 11), st.integers(1, 12))
def test_against_a_loop(keys: int, side: int, first: int, queries: int):
    """Also where rows of padding come along, and where the window is wider than the text."""
    band = torch.rand(2, 3, queries, 2 * side + 1, generator=torch.Generator().manual_seed(0))
    expected = torch.zeros(2, 3, queries, keys)
    for row in range(queries):
        for place in range(2 * side + 1):
            key = first + row + place - side
            if 0 <= key < keys:
                expected[:, :, row, key] = band[:, :, row, place]
    assert torch.equal(spread_band(band, first, keys), expected)
