"""Checkpoints whose heads transformers 4 removed, and those stored under the other name of tied weights."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
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
from attnprobe.model.load import load_checkpoint

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": 600,
}


def test_removed_heads_are_refused_by_name(saved: Callable[[str], Path], tmp_path: Path):
    shutil.copytree(saved("bert"), tmp_path / "cut")
    path = tmp_path / "cut" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pruned_heads": {"0": [1]}}))
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
def test_tied_weights_under_their_other_name(
    saved: Callable[[str], Path], tmp_path: Path, kind: Any, config: Any, stored: str, other: str
):
    """Only the weights of the head are stored, with which the embeddings are one."""
    torch.manual_seed(0)
    kind(config).save_pretrained(tmp_path / "tied")
    for path in saved("bert").glob("*tokenizer*"):
        shutil.copy(path, tmp_path / "tied")
    shutil.copytree(tmp_path / "tied", tmp_path / "other")
    weights = load_file(tmp_path / "other" / "model.safetensors")
    weights[f"{other}.weight"] = weights.pop(f"{stored}.weight")
    save_file(weights, tmp_path / "other" / "model.safetensors", metadata={"format": "pt"})
    texts = ["the dog ran to the water .", "is it late ?"]
    expected, found = (attnprobe.entropy(str(tmp_path / part), texts) for part in ("tied", "other"))
    assert found["entropy"].tolist() == expected["entropy"].tolist()
    assert load_checkpoint(str(tmp_path / "other")).missing == ()
