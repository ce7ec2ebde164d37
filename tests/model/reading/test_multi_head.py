"""ViTMAE with every patch, BigBird with full attention and left block-sparse."""

from typing import Any

import every_type
import pytest
import torch
from left_as_found import state
from transformers import AutoConfig, AutoModel

from attnprobe.corpus.tokenizer import NoTokenizer
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quirks import UnsupportedModelError, force_full_attention
from attnprobe.model.reading.blocks import multi_head_attention
from attnprobe.model.reading.capture import capture_attention

LAYERS, HEADS = 3, 4


class TestVitMae:
    @pytest.fixture
    def mae(self):
        model = every_type.build("vit_mae", mask_ratio=0.75)
        return Checkpoint("vit_mae", model, NoTokenizer("vit_mae"), modality="image")

    def test_maps_are_those_of_all_patches_in_their_order(self, mae):
        whole = every_type.build("vit_mae", mask_ratio=0.0)
        given = every_type.inputs("vit_mae", whole)
        expected = [rows for _, rows in every_type.own_maps("vit_mae", whole, given)]
        maps = []
        capture = capture_attention(mae.body, lambda piece: maps.append(piece.probabilities))
        with force_full_attention(mae.body) as warnings, capture:
            mae.forward({"pixel_values": given["pixel_values"]})
        assert "all patches" in warnings[0]
        for rows, theirs in zip(maps, expected, strict=True):
            torch.testing.assert_close(rows, theirs, atol=1e-6, rtol=0)
        assert mae.model.config.mask_ratio == 0.75


def big_bird(kind):
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "big_bird", attention_type=kind, block_size=2, num_random_blocks=1, hidden_size=32, vocab_size=600,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=64,
    )  # fmt: skip
    return AutoModel.from_config(config).eval()


def test_full_attention_of_big_bird_is_what_is_read():
    sparse, full = big_bird("block_sparse"), big_bird("original_full")
    full.load_state_dict(sparse.state_dict())
    ids = torch.randint(200, 600, (2, 40), generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        expected = full(input_ids=ids)[0]
        assert not torch.allclose(sparse(input_ids=ids)[0], expected, atol=1e-3)
        with force_full_attention(sparse) as warnings:
            torch.testing.assert_close(sparse(input_ids=ids)[0], expected)
    assert len(warnings) == 1
    assert "block-sparse" in warnings[0]


def test_big_bird_is_left_as_found():
    model = big_bird("block_sparse").train()
    model.encoder.layer[1].requires_grad_(False)
    before = state(model)
    with force_full_attention(model):
        assert state(model)["modules"] != before["modules"]
        with force_full_attention(model) as inner:  # once is enough
            assert inner == ()
    assert state(model) == before
    with pytest.raises(KeyboardInterrupt), force_full_attention(model):
        raise KeyboardInterrupt
    assert state(model) == before


def test_keys_of_its_own_are_refused():
    given: list[Any] = [None] * 13
    given[9] = True  # add_zero_attn
    with pytest.raises(UnsupportedModelError, match="it adds keys of its own"):
        multi_head_attention(None, *given)  # type: ignore[arg-type]
