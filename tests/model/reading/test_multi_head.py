"""WavLM's true heads, and ViTMAE with every patch."""

import every_type
import pytest
import torch

from attnprobe.corpus.tokenizer import NoTokenizer
from attnprobe.model.check.dry_run import inspect
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.processing import Processor
from attnprobe.model.quirks import force_full_attention
from attnprobe.model.reading.capture import capture_attention
from attnprobe.model.reading.gates import gate_attention

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
