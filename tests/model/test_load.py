"""Checkpoints that can't be loaded are refused by file or name; layers that a config leaves out are noted."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import attnprobe
from attnprobe.errors import AttnprobeError, AttnprobeWarning
from attnprobe.model.load import describe_unread_layers, load_checkpoint
from attnprobe.model.locate import LoadOptions


@pytest.fixture
def folder(saved, tmp_path):
    """Copy a checkpoint, whose files may be changed."""
    return Path(shutil.copytree(saved("bert"), tmp_path / "broken"))


@pytest.mark.parametrize(
    "change",
    [
        {"num_attention_heads": 0},
        {"num_attention_heads": "four"},
        {"hidden_act": "nosuch"},
        {"dtype": "floatx"},
        {"id2label": 7},
    ],
)
def test_impossible_configurations(folder, change):
    config = json.loads((folder / "config.json").read_text()) | change
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(AttnprobeError, match=r"config\.json"):
        load_checkpoint(str(folder), LoadOptions())


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *(("config.json", content) for content in ("[", "[]", "null", '{"a":' * 50_000)),
        *(("tokenizer.json", content) for content in ("{}", "null", "{{", "[" * 50_000)),
        ("tokenizer.json", {"added_tokens": [1]}),
        ("tokenizer.json", {"model": None}),
        *(("tokenizer_config.json", content) for content in ("[]", "null")),
        *(("model.safetensors", content) for content in ("", "\x10\0\0\0\0\0\0\0garbage and more")),
    ],
)
def test_a_damaged_file_is_named(folder, file, content):
    if isinstance(content, dict):
        content = json.dumps(json.loads((folder / file).read_text()) | content)
    (folder / file).write_text(content, encoding="latin-1")
    with pytest.raises(AttnprobeError, match=f"^{file} of broken is damaged: "):
        load_checkpoint(str(folder), LoadOptions())


@pytest.mark.parametrize("name", ["tokenizer_class", "model_max_length", "added_tokens_decoder"])
def test_an_impossible_tokenizer(folder, name):
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {name: [5]}))
    with pytest.raises(AttnprobeError, match="broken holds no tokenizer that loads"):
        load_checkpoint(str(folder), LoadOptions())


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("", {}, "neither a folder here nor to be had from the hub"),
        ("/nowhere/at/all", {}, "There is no folder"),
        ("LOOP", {}, "There is no folder"),
        ("demo", {"adapter": "x"}, "--adapter: choose one of the adapters in demo, which are none"),
    ],
)
def test_names_that_lead_nowhere(tmp_path, name, options, sentence):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(AttnprobeError, match=re.escape(sentence)):
        load_checkpoint(str(tmp_path / "loop") if name == "LOOP" else name, LoadOptions(**options))


@pytest.mark.parametrize("left", [[], ["tokenizer_config.json"]])
def test_what_transformers_makes_up_is_no_tokenizer(saved, tmp_path, left):
    for name in ("config.json", "model.safetensors", *left):
        shutil.copy(saved("bert") / name, tmp_path / name)
    if left:
        (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    with pytest.raises(AttnprobeError, match=r"no tokenizer that loads \(such as .* copy the files"):
        load_checkpoint(str(tmp_path))


@pytest.fixture
def edited(saved, tmp_path):
    """Copy a tiny checkpoint, with another configuration."""

    def edit(name, **changes):
        folder = tmp_path / name
        shutil.copytree(saved(name), folder)
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        return folder

    return edit


@pytest.mark.parametrize(
    ("name", "changes", "parts"),
    [
        ("bert", {"num_hidden_layers": 2}, ["encoder.layer hold 3 layers, of which the config leaves out 2"]),
        (
            "t5", {"num_layers": 1, "num_decoder_layers": 1},
            ["encoder.block hold 3 layers, of which the config leaves out 1 and 2 (counted from 0)",
             "decoder.block hold 2 layers, of which the config leaves out 1"],
        ),
    ],
)  # fmt: skip
def test_layers_left_out(edited, name, changes, parts):
    remarks = load_checkpoint(str(edited(name, **changes))).remarks
    assert len(remarks) == len(parts)
    assert all(part in remark for part, remark in zip(parts, remarks, strict=True))


@pytest.mark.parametrize("name", ["bert", "albert", "t5"])
def test_nothing_is_said_of_a_checkpoint_that_is_whole(saved, name):
    assert load_checkpoint(str(saved(name))).remarks == ()


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
    def test_no_false_alarm(self, tiny, keys):
        model, _ = tiny("llama")
        prefixed = [f"model.{key}" for key in keys]
        assert describe_unread_layers(model, keys) == describe_unread_layers(model, prefixed) == ()

    def test_layers_that_predict_ahead(self, tiny, copied):
        """GLM and DeepSeek hold them behind the others, and the configuration counts them by themselves."""
        keys = ["model.layers.3.self_attn.q_proj.weight", "model.layers.3.mlp.up_proj.weight"]
        assert describe_unread_layers(tiny("llama")[0], keys)
        model, _ = copied("llama")
        model.config.num_nextn_predict_layers = 1
        assert describe_unread_layers(model, keys) == ()


def test_a_census_says_so(edited, saved):
    texts = ["the river bank was slow", "a bird ran"]
    with pytest.warns(AttnprobeWarning, match="leaves out 2"):
        table = attnprobe.census(str(edited("bert", num_hidden_layers=2)), texts)
    whole = attnprobe.census(str(saved("bert")), texts)
    np.testing.assert_allclose(table["entropy"], whole["entropy"][: 2 * 4], atol=1e-6)
