"""BigBird is read with full attention, and left block-sparse."""

import pytest
import torch
from left_as_found import state
from transformers import AutoConfig, AutoModel, PreTrainedModel

from attnprobe.model.quirks import force_full_attention

LONG = 40


def big_bird(kind: str) -> PreTrainedModel:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "big_bird", attention_type=kind, block_size=2, num_random_blocks=1, hidden_size=32, vocab_size=600,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=64,
    )  # fmt: skip
    return AutoModel.from_config(config).eval()


def some_ids(length: int = LONG) -> torch.Tensor:
    return torch.randint(200, 600, (2, length), generator=torch.Generator().manual_seed(2))


def test_full_attention_is_what_is_read():
    sparse, full = big_bird("block_sparse"), big_bird("original_full")
    full.load_state_dict(sparse.state_dict())
    with torch.inference_mode():
        expected = full(input_ids=some_ids())[0]
        assert not torch.allclose(sparse(input_ids=some_ids())[0], expected, atol=1e-3)
        with force_full_attention(sparse) as warnings:
            torch.testing.assert_close(sparse(input_ids=some_ids())[0], expected)
    assert len(warnings) == 1
    assert "block-sparse" in warnings[0]


@pytest.mark.parametrize("training", [False, True])
def test_left_as_found(training: bool):
    model = big_bird("block_sparse").train(training)
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
