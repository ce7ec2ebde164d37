"""A model with random weights is the same architecture, without any trained weight, and is read alike."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import BertForMaskedLM, T5ForConditionalGeneration

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.model.borrowing import wrap_model
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.load import randomise_weights

NAMES = ["bert", "t5", "llama"]


def wrap(tiny, name):
    return Checkpoint(name, *tiny(name))


@pytest.mark.parametrize("name", NAMES)
def test_no_trained_weight_is_left(tiny, name):
    """Every weight of a tiny model was redrawn or moved since it was built, norms and biases too."""
    checkpoint = wrap(tiny, name)
    before = copy.deepcopy(checkpoint.model.state_dict())
    drawn = dict(randomise_weights(checkpoint).model.named_parameters())
    assert drawn.keys() == dict(checkpoint.model.named_parameters()).keys()
    for key, weight in checkpoint.model.named_parameters():
        assert drawn[key].shape == weight.shape
        assert not torch.equal(drawn[key], weight), key
        assert torch.equal(weight, before[key])


@pytest.mark.parametrize(
    ("name", "query", "spread"),
    [
        ("bert", "encoder.layer.1.attention.self.query", 0.02),
        ("t5", "encoder.block.1.layer.0.SelfAttention.q", (32 * 8) ** -0.5),  # without a division by its root
    ],
)
def test_weights_are_drawn_as_the_architecture_has_them(tiny, name, query, spread):
    checkpoint = wrap(tiny, name)
    drawn = torch.cat(
        [
            randomise_weights(checkpoint, seed).model.get_parameter(f"{query}.weight").flatten()
            for seed in range(8)
        ]
    )
    assert drawn.std().item() == pytest.approx(spread, rel=0.06)
    assert abs(drawn.mean().item()) < 0.06 * spread
    bias = dict(randomise_weights(checkpoint).model.named_parameters()).get(f"{query}.bias")
    assert bias is None or not bias.any()


def test_a_seed_gives_the_same_weights_and_leaves_the_random_state(tiny):
    checkpoint = wrap(tiny, "bert")
    state = torch.get_rng_state()
    first, again, other = (randomise_weights(checkpoint, seed).model.state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), state)
    key = "encoder.layer.0.attention.self.query.weight"
    assert all(torch.equal(first[one], again[one]) for one in first)
    assert not torch.equal(first[key], other[key])
    assert not any(module.training for module in randomise_weights(checkpoint).model.modules())
    assert randomise_weights(checkpoint, 3).origin["random_weights"] == 3


@pytest.mark.parametrize("kind", [BertForMaskedLM, T5ForConditionalGeneration])
def test_tied_weights_stay_tied(tiny, kind):
    body, tokenizer = tiny("bert" if kind is BertForMaskedLM else "t5")
    config = copy.deepcopy(body.config)
    config.tie_word_embeddings = True
    built: Any = randomise_weights(Checkpoint("tied", kind(config), tokenizer)).model
    assert built.get_output_embeddings().weight is built.get_input_embeddings().weight


def test_what_can_not_be_built_is_refused_with_a_sentence(tiny, copied):
    checkpoint = wrap(tiny, "bert")
    packed = replace(checkpoint, quantisation="torchao, Int8Tensor")
    with pytest.raises(AttnprobeError, match=r"quantised \(torchao, Int8Tensor\)"):
        randomise_weights(packed)
    model, tokenizer = copied("bert")
    model.hf_device_map = {"embeddings": "cpu", "encoder": "disk"}
    with pytest.raises(AttnprobeError, match="spread over devices"):
        randomise_weights(Checkpoint("bert", model, tokenizer))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of peft, by transformers
def test_adapters_in_place_are_refused(copied):
    model, tokenizer = copied("bert")
    adapted = get_peft_model(model, LoraConfig(target_modules=["query"]))
    with pytest.raises(AttnprobeError, match="adapters, fewer heads"):
        randomise_weights(wrap_model(adapted, tokenizer))


class TestOption:
    """``--random-weights SEED``, which every command that loads a model has."""

    def test_seeds(self):
        plain, first, again, other = (
            attnprobe.importance("demo", limit=4, random_weights=seed) for seed in (None, 3, 3, 4)
        )
        assert first.data == again.data
        for table in (plain, other):
            assert not np.allclose(table["importance"], first["importance"])
        assert set(first["model"]) == {"demo (random weights 3)"}
        assert first.provenance["model"]["random_weights"] == 3

    def test_another_seed_is_another_run(self, tmp_path):
        options = {"limit": 4, "resume": tmp_path / "state"}
        attnprobe.entropy("demo", random_weights=1, **options)
        with pytest.raises(AttnprobeError, match="belongs to a run with another"):
            attnprobe.entropy("demo", random_weights=2, **options)
