"""Reaching attention: rightly, and leaving no trace; models that can't be read are refused."""

import re
from unittest.mock import Mock

import pytest
import torch
from left_as_found import state
from transformers import AutoConfig, AutoModel

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.model.check.dry_run import inspect
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.capture import capture_attention
from attnprobe.model.reading.ways import Way

SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3,
}  # fmt: skip
SENTENCES = ["the dog ran .", ("is it late ?", "it is not late .")]


class TestLeftAsFound:
    """A model that was handed over comes back unchanged."""

    @pytest.mark.parametrize(
        ("name", "implementation"), [("bert", "eager"), ("albert", "sdpa"), ("t5", "sdpa")]
    )
    def test_after_a_census(self, copied, name, implementation):
        model, tokenizer = copied(name)
        model.set_attn_implementation(implementation)
        model.requires_grad_(True)
        before = state(model)
        attnprobe.census(model, SENTENCES, tokenizer=tokenizer)
        assert state(model) == before
        assert set(before["attention"].values()) == {implementation}

    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
    @pytest.mark.parametrize(("name", "way"), [("bert", Way.REGISTRY), ("deberta-v2", Way.TAP)])
    def test_after_an_exception(self, copied, name, way, error):
        model, tokenizer = copied(name)
        model.train()
        next(model.children()).eval()  # a module of its own mind
        before = state(model)

        def breaks(piece):
            raise error(f"at layer {piece.layer}")

        with pytest.raises(error, match="at layer 0"), capture_attention(model, breaks, way):
            model(**tokenizer("the dog", return_tensors="pt"))
        assert state(model) == before

    @pytest.mark.parametrize("name", ["bert", "modernbert", "t5"])
    def test_training_can_go_on(self, copied, name):
        """Nothing that was computed without gradients stays behind, such as cached rotations."""
        model, tokenizer = copied(name)
        model.requires_grad_(True)
        attnprobe.census(model, SENTENCES, tokenizer=tokenizer)
        encoder = model.get_encoder() if model.config.is_encoder_decoder else model
        encoder(input_ids=tokenizer("the dog ran", return_tensors="pt")["input_ids"])[0].sum().backward()


@pytest.mark.parametrize("name", ["bert", "t5", "llama"])
class TestReading:
    """Maps and hidden states are the model's own."""

    def test_float64_is_exact(self, copied, name):
        model, tokenizer = copied(name)
        architecture = inspect(Checkpoint(name, model.double(), tokenizer))
        shape = architecture.layers, architecture.heads, architecture.head_width
        assert shape == (7 if name == "t5" else 3, 4, 8)
        text = " ".join(architecture.evidence)
        assert "maps equal the model's own eager maps" in text
        limit = 1e-5 if name == "llama" else 1e-12  # transformers keeps rotations in float32
        assert all(float(number) < limit for number in re.findall(r"[\d.]+e-\d+", text))


class TestRefused:
    """What can't be read is refused by name, with the reason, before anything is measured."""

    def test_sinks_that_nobody_passes_on(self, copied):
        """Rows would sum to 1, and what becomes of them would not show."""
        model, tokenizer = copied("bert")
        model.encoder.layer[0].attention.self.sinks = torch.zeros(4)
        with pytest.raises(AttnprobeError, match="attention sinks"):
            attnprobe.census(model, SENTENCES, tokenizer=tokenizer)
        model.set_attn_implementation = Mock(side_effect=ValueError("no registry"))
        with pytest.raises(AttnprobeError, match=r"its attention can't be replaced \(no registry\)"):
            attnprobe.census(model, SENTENCES, tokenizer=tokenizer)

    def test_a_tokenizer_of_another_model(self, tiny):
        model = AutoModel.from_config(AutoConfig.for_model("bert", vocab_size=40, **SMALL)).eval()
        with pytest.raises(AttnprobeError, match="do not belong together"):
            attnprobe.census(model, ["the zyx filler"], tokenizer=tiny("bert")[1])

    def test_a_loaded_model_without_its_tokenizer(self, tiny):
        with pytest.raises(AttnprobeError, match="needs its tokenizer"):
            attnprobe.census(tiny("bert")[0], SENTENCES)
