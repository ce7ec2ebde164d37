"""WavLM's true heads, and ViTMAE with every patch."""

import every_type
import pytest
import torch
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention

from attnprobe.corpus.tokenization import NoTokenizer
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.gates import gate_attention
from attnprobe.model.processing import Processor
from attnprobe.model.reading.blocks import force_full_attention, multi_head_attention
from attnprobe.model.reading.capture import capture_attention
from attnprobe.model.verifying.dry_run import inspect

LAYERS, HEADS = 3, 4


@pytest.fixture(scope="module")
def wavlm():
    class Noise:
        def noise(self, number):
            return every_type.inputs("wavlm", model, batch=1, seed=number)

    model = every_type.build("wavlm")
    processor: Processor = Noise()  # type: ignore[assignment]
    return Checkpoint("wavlm", model, NoTokenizer("wavlm"), modality="sound", processor=processor)


@torch.no_grad()
def by_hand(xi: torch.Tensor):
    """Build the model again, and scale the columns of the projections that read each head."""
    scaled = every_type.build("wavlm")
    for layer, row in zip(scaled.encoder.layers, xi, strict=True):
        weight = layer.attention.out_proj.weight
        weight.mul_(row.repeat_interleave(weight.shape[1] // HEADS))
    return scaled


def test_gates_against_columns(wavlm: Checkpoint):
    given = every_type.inputs("wavlm", wavlm.model)
    way = inspect(wavlm).way
    untouched = every_type.run(wavlm.model, given)[0]
    with gate_attention(wavlm.body, way) as gates:
        gates.set(torch.ones(1, LAYERS, HEADS))
        torch.testing.assert_close(wavlm.forward(given), untouched, atol=5e-6, rtol=0)
        for layer in range(LAYERS):
            for head in range(HEADS):
                xi = torch.ones(LAYERS, HEADS)
                xi[layer, head] = 0
                gates.set(xi[None])
                expected = every_type.run(by_hand(xi), given)[0]
                torch.testing.assert_close(wavlm.forward(given), expected, atol=5e-6, rtol=0)
                assert not torch.allclose(expected, untouched, atol=1e-3)
    assert torch.equal(every_type.run(wavlm.model, given)[0], untouched)


def test_heads_are_those_of_torch(wavlm: Checkpoint):
    given = every_type.inputs("wavlm", wavlm.model)
    expected = every_type.maps_of_every_head(every_type.eager("wavlm", wavlm.model), given)
    found = []
    with capture_attention(wavlm.body, lambda piece: found.append(piece.probabilities), inspect(wavlm).way):
        wavlm.forward(given)
    assert len(found) == len(expected) == LAYERS
    for rows, own in zip(found, expected, strict=True):
        torch.testing.assert_close(rows, own, atol=1e-6, rtol=0)
        assert float((rows - rows.mean(1, keepdim=True)).abs().max()) > 0.01


@pytest.mark.parametrize("spread", [False, True], ids=["of all heads", "of each head"])
def test_what_a_mask_of_truths_hides_is_what_torch_hides(spread: bool):
    """True is a key that is not seen, contrary to the masks of torch's attention without projections."""
    draw = torch.Generator().manual_seed(5)
    tokens, batch, width = 6, 2, 16
    states = torch.randn(tokens, batch, width, generator=draw)
    weight, bias = torch.randn(3 * width, width, generator=draw), torch.randn(3 * width, generator=draw)
    out, shift = torch.randn(width, width, generator=draw), torch.randn(width, generator=draw)
    hidden = torch.rand((batch * HEADS, tokens, tokens) if spread else (tokens, tokens), generator=draw) < 0.4
    hidden[..., 0] = False  # or a row would be empty
    given = (states, states, states, width, HEADS, weight, bias, None, None, False, 0.0, out, shift)
    found, _ = multi_head_attention(
        lambda q, k, v, mask: scaled_dot_product_attention(q, k, v, attn_mask=mask), *given, attn_mask=hidden
    )
    expected, _ = multi_head_attention_forward(*given, attn_mask=hidden, need_weights=False)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


class TestVitMae:
    @pytest.fixture
    def found(self):
        model = every_type.build("vit_mae", mask_ratio=0.75)
        return Checkpoint("vit_mae", model, NoTokenizer("vit_mae"), modality="image")

    def test_maps_are_those_of_all_patches_in_their_order(self, found: Checkpoint):
        whole = every_type.build("vit_mae", mask_ratio=0.0)
        given = every_type.inputs("vit_mae", whole)
        expected = [rows for _, rows in every_type.own_maps("vit_mae", whole, given)]
        maps = []
        capture = capture_attention(found.body, lambda piece: maps.append(piece.probabilities))
        with force_full_attention(found.body) as warnings, capture:
            found.forward({"pixel_values": given["pixel_values"]})
        assert "all patches" in warnings[0]
        for rows, own in zip(maps, expected, strict=True):
            torch.testing.assert_close(rows, own, atol=1e-6, rtol=0)
        assert found.model.config.mask_ratio == 0.75

    def test_no_chance_is_left(self, found: Checkpoint):
        pixels = every_type.inputs("vit_mae", found.model)["pixel_values"]
        with force_full_attention(found.body):
            first, second = (found.forward({"pixel_values": pixels}) for _ in range(2))
        assert torch.equal(first, second)

    def test_put_back_after_an_error(self, found: Checkpoint):
        with pytest.raises(KeyboardInterrupt), force_full_attention(found.body):
            raise KeyboardInterrupt
        assert found.model.config.mask_ratio == 0.75
