"""Checkpoints whose heads transformers 4 removed, and those stored under the other name of tied weights."""

import re
import shutil

import pytest
import torch
from spoil import edit_json, edit_weights
from transformers import (
    BertConfig,
    BertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.model.check.dry_run import examine
from attnprobe.model.check.trace import draw_probe_inputs
from attnprobe.model.load import load_checkpoint

#: In the files of each type: what gives heads their queries, keys and values, and what reads the heads.
STORED = {
    "bert": (
        r"layer\.(\d+)\.attention\.self\.(query|key|value)\.",
        r"layer\.(\d+)\.attention\.output\.dense\.",
    ),
    "albert": (
        r"layer_groups\.(\d+)\.albert_layers\.0\.attention\.(query|key|value)\.",
        r"layer_groups\.(\d+)\.albert_layers\.0\.attention\.dense\.",
    ),
    "distilbert": (r"layer\.(\d+)\.attention\.[qkv]_lin\.", r"layer\.(\d+)\.attention\.out_lin\."),
    "gpt2": (r"h\.(\d+)\.attn\.c_attn\.", r"h\.(\d+)\.attn\.c_proj\."),
    "vit": (
        r"layer\.(\d+)\.attention\.attention\.(query|key|value)\.",
        r"layer\.(\d+)\.attention\.output\.dense\.",
    ),
}
GONE = {"0": [0, 2], "1": [1]}
HEADS = 4
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": 600,
}


def remove_heads(folder, name, gone):
    """Do to the files of a checkpoint what ``prune_heads`` and ``save_pretrained`` of transformers 4 did."""
    inputs, output = STORED[name]

    def cut(weights):
        for key, weight in weights.items():
            read, written = re.search(output, key), re.search(inputs, key)
            match = read or written
            lost = gone.get(match[1], []) if match else []
            width = weight.shape[-1] // HEADS // (3 if "c_attn" in key else 1)
            stays = torch.tensor([head not in lost for head in range(HEADS)]).repeat_interleave(width)
            if read and weight.ndim == 2:
                weights[key] = weight[stays] if name == "gpt2" else weight[:, stays]
            elif written:
                columns = stays.repeat(3) if name == "gpt2" else stays
                weights[key] = weight[..., columns] if name == "gpt2" else weight[columns]

    edit_weights(folder, cut)
    edit_json(folder / "config.json", pruned_heads=gone)


def silence_heads(folder, name, gone):
    """Zero what reads the heads, which is as if they were not there."""

    def silence(weights):
        for key, weight in weights.items():
            match = re.search(STORED[name][1], key)
            for head in gone.get(match[1], []) if match and weight.ndim == 2 else ():
                columns = weight if name == "gpt2" else weight.T
                columns.unflatten(0, (HEADS, -1))[head] = 0

    edit_weights(folder, silence)


@pytest.mark.parametrize("name", STORED)
def test_heads_that_transformers_4_removed(saved, media_model, tmp_path, name):
    """The outputs are those of the model whose heads are silent."""
    gone = {"0": [0, 2]} if name == "albert" else GONE
    modality = "image" if name == "vit" else "text"
    for part in ("cut", "silent"):
        shutil.copytree(media_model("vit") if name == "vit" else saved(name), tmp_path / part)
    remove_heads(tmp_path / "cut", name, gone)
    silence_heads(tmp_path / "silent", name, gone)
    cut, silent = (load_checkpoint(str(tmp_path / part), modality=modality) for part in ("cut", "silent"))
    given = draw_probe_inputs(silent)
    torch.testing.assert_close(cut.forward(given), silent.forward(given), rtol=0, atol=1e-6)
    _, architecture = examine(cut)
    layers = range(architecture.layers)
    lost = (
        dict.fromkeys(map(str, layers), gone["0"]) if name == "albert" else gone
    )  # which share their weights
    expected = [[head not in lost.get(str(layer), []) for head in range(HEADS)] for layer in layers]
    assert architecture.kept.tolist() == expected


@pytest.mark.parametrize(
    ("name", "gone"),
    [("t5", {"0": [1]}), *(("bert", gone) for gone in ({"9": [1]}, {"0": [77]}, {"0": [0, 1, 2, 3]}, [1]))],
)
def test_others_are_refused_by_name(saved, tmp_path, name, gone):
    shutil.copytree(saved(name), tmp_path / "cut")
    edit_json(tmp_path / "cut" / "config.json", pruned_heads=gone)
    with pytest.raises(AttnprobeError, match="pruned_heads"):
        load_checkpoint(str(tmp_path / "cut"))


@pytest.mark.parametrize(
    ("kind", "config", "stored", "other"),
    [
        (LlamaForCausalLM, LlamaConfig(tie_word_embeddings=True, **SIZES), "model.embed_tokens", "lm_head"),
        (BertForMaskedLM, BertConfig(**SIZES), "bert.embeddings.word_embeddings", "cls.predictions.decoder"),
        (T5ForConditionalGeneration, T5Config(**SIZES), "shared", "lm_head"),
    ],
)
def test_tied_weights_under_their_other_name(saved, tmp_path, kind, config, stored, other):
    """Only the weights of the head are stored, with which the embeddings are one."""
    torch.manual_seed(0)
    kind(config).save_pretrained(tmp_path / "tied")
    for path in saved("bert").glob("*tokenizer*"):
        shutil.copy(path, tmp_path / "tied")
    shutil.copytree(tmp_path / "tied", tmp_path / "other")
    edit_weights(tmp_path / "other", lambda w: w.update({f"{other}.weight": w.pop(f"{stored}.weight")}))
    texts = ["the dog ran to the water .", "is it late ?"]
    expected, table = (attnprobe.entropy(str(tmp_path / part), texts) for part in ("tied", "other"))
    assert table["entropy"].tolist() == expected["entropy"].tolist()
    assert load_checkpoint(str(tmp_path / "other")).missing == ()
