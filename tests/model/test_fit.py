"""Weights and a configuration that speak of different models: said in a sentence, or refused in one."""

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModel, BertForMaskedLM, LlamaConfig, LlamaForCausalLM

import attnprobe
from attnprobe.commands.doctor import doctor
from attnprobe.errors import AttnprobeError, AttnprobeWarning
from attnprobe.model.configuration import describe_unread_layers
from attnprobe.model.load import load_checkpoint
from attnprobe.model.task_heads import MASKED_LM

Saved = Callable[[str], Path]


@pytest.fixture
def edited(saved: Saved, tmp_path: Path) -> Callable[..., Path]:
    """Copy a tiny checkpoint, with another configuration."""

    def edit(name: str, **changes: Any) -> Path:
        folder = tmp_path / name
        shutil.copytree(saved(name), folder)
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        return folder

    return edit


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("bert", {"num_hidden_layers": 2}, ["hold 3 layers, the config reads 2: layer 2 is not measured"]),
        ("roberta", {"num_hidden_layers": 1}, ["the config reads 1: layers 1 and 2 are not measured"]),
        ("distilbert", {"n_layers": 2}, ["hold 3 layers, the config reads 2: layer 2 is not measured"]),
        ("gpt2", {"n_layer": 1}, ["hold 3 layers, the config reads 1: layers 1 and 2 are not measured"]),
        ("llama", {"num_hidden_layers": 2}, ["hold 3 layers, the config reads 2"]),
        ("xlm", {"n_layers": 2}, ["hold 3 layers, the config reads 2"]),
        (
            "t5", {"num_layers": 1, "num_decoder_layers": 1},
            ["hold 3 encoder layers, the config reads 1: layers 1 and 2 are",
             "hold 2 decoder layers, the config reads 1: layer 1 is"],
        ),
        ("bart", {"decoder_layers": 1}, ["hold 2 decoder layers, the config reads 1: layer 1 is"]),
    ],
)  # fmt: skip
def test_layers_left_out(edited: Callable[..., Path], name: str, changes: Any, said: list[str]):
    found = load_checkpoint(str(edited(name, **changes))).remarks
    assert len(found) == len(said)
    assert all(part in remark for part, remark in zip(said, found, strict=True))


@pytest.mark.parametrize(
    "name", ["bert", "albert", "electra", "modernbert", "deberta-v2", "t5", "marian", "gpt2", "xlm"]
)
def test_nothing_is_said_of_a_checkpoint_that_is_whole(saved: Saved, name: str):
    assert load_checkpoint(str(saved(name))).remarks == ()


def test_with_a_task_head(tiny: Callable[[str], Any], tmp_path: Path):
    """The names of weights then begin with that of the base model; of the head itself nothing is said."""
    base, tokenizer = tiny("bert")
    BertForMaskedLM(copy.deepcopy(base.config)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert load_checkpoint(str(tmp_path)).remarks == ()
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_hidden_layers": 2}))
    for heads in ((), (MASKED_LM,)):
        found = load_checkpoint(str(tmp_path), heads=heads)
        assert (found.head is None) == (not heads)
        assert "layer 2 is not measured" in found.remarks[0]


class TestOrdinary:
    """Weights without a place that are no layers of attention."""

    @pytest.mark.parametrize(
        "keys",
        [
            ["pooler.dense.weight", "cls.predictions.bias", "embeddings.position_ids", "lm_head.weight"],
            ["mtp.layers.0.self_attn.q_proj.weight", "mtp.fc.weight"],
            ["layers.3.self_attn.q_proj.weight", "layers.3.eh_proj.weight", "layers.3.enorm.weight"],
            ["layers.1.self_attn.rotary_emb.inv_freq", "layers.2.self_attn.masked_bias"],
            ["vision_model.layers.5.self_attn.q_proj.weight", "vision.layers.7.attn.weight"],
            ["layers.5.mlp.gate.weight"],
        ],
    )
    def test_no_false_alarm(self, tiny: Callable[[str], Any], keys: list[str]):
        model, _ = tiny("llama")
        prefixed = [f"model.{key}" for key in keys]
        assert describe_unread_layers(model, keys) == describe_unread_layers(model, prefixed) == ()

    def test_layers_that_predict_ahead(self, tiny: Callable[[str], Any], copied: Callable[[str], Any]):
        """GLM and DeepSeek hold them behind the others, and the configuration counts them by themselves."""
        keys = ["model.layers.3.self_attn.q_proj.weight", "model.layers.3.mlp.up_proj.weight"]
        assert describe_unread_layers(tiny("llama")[0], keys)
        model, _ = copied("llama")
        model.config.num_nextn_predict_layers = 1
        assert describe_unread_layers(model, keys) == ()

    def test_many(self, tiny: Callable[[str], Any]):
        keys = [f"layers.{layer}.self_attn.q_proj.weight" for layer in range(3, 12)]
        (said,) = describe_unread_layers(tiny("llama")[0], keys)
        assert said == "the weights hold 12 layers, the config reads 3: layers 3 to 11 are not measured"


class TestSaid:
    """Wherever such a checkpoint is asked, its user is told."""

    def test_census(self, edited: Callable[..., Path], saved: Saved):
        texts = ["the river bank was slow", "a bird ran"]
        with pytest.warns(AttnprobeWarning, match="layer 2 is not measured"):
            table = attnprobe.census(str(edited("bert", num_hidden_layers=2)), texts)
        whole = attnprobe.census(str(saved("bert")), texts)
        np.testing.assert_allclose(table["entropy"], whole["entropy"][: 2 * 4], atol=1e-6)

    def test_importance(self, edited: Callable[..., Path]):
        with pytest.warns(AttnprobeWarning, match="layer 2 is not measured"):
            attnprobe.importance(str(edited("bert", num_hidden_layers=2)), ["the river bank was slow"] * 2)

    def test_doctor(self, edited: Callable[..., Path]):
        table = doctor(str(edited("bert", num_hidden_layers=2)))
        (said,) = [
            detail
            for check, status, detail in zip(table["check"], table["status"], table["detail"], strict=True)
            if check == "checkpoint" and status == "warning"
        ]
        assert "the weights hold 3 layers, the config reads 2" in said


class TestContradictions:
    """Sizes that differ are named, with what the configuration says of them."""

    def test_width(self, edited: Callable[..., Path]):
        folder = edited("bert", intermediate_size=24)
        with pytest.raises(AttnprobeError) as refused:
            load_checkpoint(str(folder))
        assert str(refused.value) == (
            "The weights of bert contradict its config.json: encoder.layer.0.intermediate.dense.weight is "
            "48 x 32, and the config asks for 24 x 32 (intermediate_size 24); 8 more disagree. Take the "
            "config.json that was saved with these weights."
        )

    def test_heads(self, edited: Callable[..., Path]):
        folder = edited("llama", num_attention_heads=2)
        with pytest.raises(AttnprobeError, match=r"q_proj.weight|o_proj.weight") as refused:
            load_checkpoint(str(folder))
        assert "num_attention_heads 2 x head_dim 8" in str(refused.value)
        assert "5 more disagree" in str(refused.value)

    def test_one_weight(self, saved: Saved, tmp_path: Path):
        shutil.copytree(saved("bert"), tmp_path / "bert")
        path = tmp_path / "bert" / "model.safetensors"
        weights = load_file(path)
        weights["encoder.layer.1.output.dense.bias"] = torch.zeros(7)
        save_file(weights, path, {"format": "pt"})
        with pytest.raises(AttnprobeError, match=r"1.output.dense.bias is 7, and the config asks for 32"):
            load_checkpoint(str(tmp_path / "bert"))


class TestNoTokenizer:
    """What transformers makes up from nothing is no tokenizer."""

    @pytest.mark.parametrize("left", [[], ["tokenizer_config.json"]])
    def test_refused(self, saved: Saved, tmp_path: Path, left: list[str]):
        for name in ("config.json", "model.safetensors", *left):
            shutil.copy(saved("bert") / name, tmp_path / name)
        if left:
            (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
        with pytest.raises(AttnprobeError, match=r"holds no tokenizer \(such as .* copy the files"):
            load_checkpoint(str(tmp_path))


def test_the_weights_that_are_named_are_those_of_transformers(tmp_path: Path):
    """What is left out is what transformers itself does not load."""
    sizes = {"hidden_size": 16, "intermediate_size": 16, "vocab_size": 20, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=5, num_key_value_heads=2, **sizes))
    model.save_pretrained(tmp_path)
    config = LlamaConfig(num_hidden_layers=3, num_key_value_heads=2, **sizes)
    transformers.logging.set_verbosity_error()
    found, info = AutoModel.from_pretrained(tmp_path, config=config, output_loading_info=True)
    (said,) = describe_unread_layers(found, info["unexpected_keys"])
    assert said == "the weights hold 5 layers, the config reads 3: layers 3 and 4 are not measured"
