"""Weights of more layers than the configuration has: said in a sentence."""

import json
import shutil

import numpy as np
import pytest

import attnprobe
from attnprobe.errors import AttnprobeWarning
from attnprobe.model.load import describe_unread_layers, load_checkpoint


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
