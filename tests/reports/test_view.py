"""What a page holds of maps, read back."""

import base64
import zlib

import numpy as np
import pytest

from attnprobe.attention.kinds import Kind
from attnprobe.reports.view.packing import SCALE, add_rollout, pack_layer, shrink_maps
from attnprobe.table.sequence import Maps, Side

DRAW = np.random.default_rng(1)


def softmax(*shape):
    values = np.exp(DRAW.normal(size=shape) * 3)
    return (values / values.sum(-1, keepdims=True)).astype(np.float32)


def test_layers_are_rounded_to_four_decimals():
    rows = softmax(4, 7, 9)
    rows[0, 0] = np.eye(9)[3]
    content = np.frombuffer(zlib.decompress(base64.b64decode(pack_layer(rows))), np.uint8).reshape(2, 4, 7, 9)
    values = (content[0].astype(int) * 256 + content[1]) / SCALE
    assert np.abs(values - rows).max() <= 0.5 / SCALE + 1e-7
    assert values[0, 0, 3] == 1


@pytest.mark.parametrize("length", [5, 32, 33, 256])
def test_small_maps_hold_the_most_of_their_cells(length):
    labels = tuple(map(str, range(length)))
    side = Side(labels, labels, np.zeros(length, bool))
    rows, rolled = softmax(3, 2, length, length), softmax(3, length, length)
    maps = Maps(Kind.ENCODER, (0, 1, 2), rows, side, side, np.ones((3, 2), bool), rolled)
    values = shrink_maps(maps, most=8)
    assert values.shape == (3, 3, min(length, 8), min(length, 8))
    if length <= 8:
        np.testing.assert_array_equal(values, add_rollout(maps))
        return
    bins = [np.arange(8)[:, None] * length // 8, (np.arange(8)[:, None] + 1) * length // 8]
    for row in range(8):
        for column in range(8):
            part = add_rollout(maps)[
                :, :, bins[0][row, 0] : bins[1][row, 0], bins[0][column, 0] : bins[1][column, 0]
            ]
            np.testing.assert_array_equal(values[:, :, row, column], part.max((2, 3)))
