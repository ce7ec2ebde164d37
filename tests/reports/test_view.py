"""What a page holds of maps, read back."""

import base64
import zlib

import numpy as np
import pytest

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Grid
from attnprobe.reports.view import (
    SCALE,
    add_rollout,
    pack_layer,
    pack_small_maps,
    select_tokens,
    shrink_maps,
)
from attnprobe.survey.tokens import Maps, Side, group_tokens

DRAW = np.random.default_rng(1)


def softmax(*shape):
    found = np.exp(DRAW.normal(size=shape) * 3)
    return (found / found.sum(-1, keepdims=True)).astype(np.float32)


def maps_of(length, *, grid=None, special=(0, -1), rolled=False):
    marked = np.zeros(length, bool)
    marked[list(special)] = True
    words = np.arange(length) // 2
    side = Side(
        tuple(f"t{n}" for n in range(length)), tuple(f"t{n}" for n in range(length)), marked,
        words, tuple(f"w{n}" for n in range(words[-1] + 1)), np.append(False, words[1:] == words[:-1]), grid,
    )  # fmt: skip
    rows = softmax(3, 2, length, length)
    return Maps(
        Kind.ENCODER, (0, 1, 2), rows, side, side, np.ones((3, 2), bool),
        softmax(3, length, length) if rolled else None,
    )  # fmt: skip


def test_layers_are_rounded_to_four_decimals():
    rows = softmax(4, 7, 9)
    rows[0, 0] = np.eye(9)[3]
    content = np.frombuffer(zlib.decompress(base64.b64decode(pack_layer(rows))), np.uint8).reshape(2, 4, 7, 9)
    found = (content[0].astype(int) * 256 + content[1]) / SCALE
    assert np.abs(found - rows).max() <= 0.5 / SCALE + 1e-7
    assert found[0, 0, 3] == 1


def test_small_maps_are_bytes_of_square_roots():
    rows = softmax(2, 2, 5, 5)
    content = np.frombuffer(zlib.decompress(base64.b64decode(pack_small_maps(rows))), np.uint8)
    np.testing.assert_allclose(content / 255, np.sqrt(rows).ravel(), atol=0.5 / 255 + 1e-7)


@pytest.mark.parametrize("length", [5, 32, 33, 256])
def test_small_maps_hold_the_most_of_their_cells(length):
    maps = maps_of(length, rolled=True)
    found = shrink_maps(maps, most=8)
    assert found.shape == (3, 3, min(length, 8), min(length, 8))
    if length <= 8:
        np.testing.assert_array_equal(found, add_rollout(maps))
        return
    bins = [np.arange(8)[:, None] * length // 8, (np.arange(8)[:, None] + 1) * length // 8]
    for row in range(8):
        for column in range(8):
            part = add_rollout(maps)[
                :, :, bins[0][row, 0] : bins[1][row, 0], bins[0][column, 0] : bins[1][column, 0]
            ]
            np.testing.assert_array_equal(found[:, :, row, column], part.max((2, 3)))


def test_special_tokens_and_words():
    maps = maps_of(6)
    np.testing.assert_array_equal(shrink_maps(maps, special=False), maps.rows[:, :, 1:-1, 1:-1])
    np.testing.assert_allclose(
        shrink_maps(maps, words=True), group_tokens(maps.rows, maps.queries.words, maps.keys.words), atol=1e-6
    )
    assert select_tokens(maps.queries, words=False, special=False)[1] == ("t1", "t2", "t3", "t4")
    assert select_tokens(maps.queries, words=True, special=False)[1] == (
        "w0",
        "w1",
        "w2",
    )  # half a word is shown


@pytest.mark.parametrize("extra", [0, 1])
def test_small_maps_of_an_image_are_the_image(extra):
    maps = maps_of(12 + extra, grid=Grid(extra, 3, 4), special=range(extra))
    found = shrink_maps(maps)
    given = maps.rows[:, :, 0, 1:] if extra else maps.rows.mean(2)
    expected = given / given.max(-1, keepdims=True)
    np.testing.assert_allclose(found, expected.reshape(3, 2, 3, 4), rtol=1e-5)
