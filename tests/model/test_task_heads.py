"""Task heads: found where a checkpoint holds every weight of them, never made up unasked."""

import copy
import shutil
from functools import cache
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file
from spoil import edit_weights
from transformers import AutoConfig
from transformers.models.marian import modeling_marian as marian

from attnprobe.errors import ModelError
from attnprobe.model.load import load_checkpoint
from attnprobe.model.task_heads import (
    CAUSAL_LM,
    CLASSIFICATION,
    MASKED_LM,
    SEQ2SEQ,
    TASK_HEADS,
    find_head,
    read_weights,
)

TOKENS, ANSWERS = (head for head in TASK_HEADS if head.name in {"token classification", "question answering"})


@pytest.fixture(scope="module")
def kept(tiny, tmp_path_factory):
    """Write a tiny checkpoint with a head."""

    @cache
    def save(name, head):
        base, tokenizer = tiny(name)
        config = copy.deepcopy(base.config)
        if head is CLASSIFICATION:
            config.num_labels = 3
        if config.is_encoder_decoder:
            config.decoder_start_token_id = 0
        torch.manual_seed(3)
        model = getattr(transformers, head.auto if head else "AutoModel").from_config(config)
        folder = tmp_path_factory.mktemp("heads") / name
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return save


def read(folder, *wanted, **options):
    return read_weights(folder, folder.name, AutoConfig.from_pretrained(folder), wanted, **options)


def change(folder, edit, tmp_path):
    """Copy a folder with other weights."""
    other = Path(shutil.copytree(folder, tmp_path / "changed"))
    edit_weights(other, edit)
    return other


def same(model, folder):
    stored, ours = load_file(folder / "model.safetensors"), model.state_dict()
    return bool(stored) and all(key in ours and torch.equal(ours[key], w) for key, w in stored.items())


@pytest.mark.parametrize(
    ("name", "head"), [("bert", MASKED_LM), ("modernbert", CLASSIFICATION), ("t5", SEQ2SEQ)]
)
def test_a_head_that_is_there(kept, name, head):
    folder = kept(name, head)
    for wanted in ([MASKED_LM, CLASSIFICATION, SEQ2SEQ], [head]):
        weights = read(folder, *wanted)
        assert weights.head is head
        assert weights.missing == weights.unused == ()
        assert same(weights.model, folder)


@pytest.mark.parametrize("head", [None, ANSWERS])
def test_a_head_that_is_not_there(kept, head):
    """The encoder alone is loaded, and its weights are those of the file."""
    folder = kept("bert", head)
    weights = read(folder, CLASSIFICATION, SEQ2SEQ, MASKED_LM)
    assert weights.head is None
    assert all("pooler" in key for key in weights.missing)
    stored = load_file(folder / "model.safetensors")
    for key, weight in weights.model.state_dict().items():
        if "pooler" not in key:
            assert any(k.endswith(key) and torch.equal(weight, w) for k, w in stored.items())


def test_token_classification_with_a_pooler(tiny, tmp_path):
    """Old checkpoints that tag names (dslim/bert-base-NER) hold a pooler and a ``classifier``."""
    base, _ = tiny("bert")
    model = transformers.BertForTokenClassification(copy.deepcopy(base.config))
    model.bert = transformers.BertModel(base.config)
    model.save_pretrained(tmp_path)
    assert read(tmp_path, CLASSIFICATION).head is None


@pytest.mark.parametrize("key", ["classifier.bias", "bert.pooler.dense.weight", "classifier.weight"])
def test_half_a_head_is_none(kept, tmp_path, key):
    folder = change(kept("bert", CLASSIFICATION), lambda weights: weights.pop(key), tmp_path)
    weights = read(folder, CLASSIFICATION)
    assert weights.head is None
    forced = read(folder, CLASSIFICATION, force=True)
    assert forced.head is CLASSIFICATION
    assert forced.missing == (key,)


def test_a_head_is_made_up_from_a_fixed_seed(kept):
    first, second = (read(kept("bert", None), CLASSIFICATION, force=True) for _ in range(2))
    assert first.head is CLASSIFICATION
    assert first.missing == ("classifier.bias", "classifier.weight")
    weight = first.model.classifier.weight
    assert torch.equal(weight, second.model.classifier.weight)
    assert weight.std() > 0


def test_an_incomplete_encoder(kept, tmp_path):
    """Not even with --force-head are weights of the encoder believed; heads aside, they are refused."""
    key = "bert.encoder.layer.1.attention.self.query.weight"
    folder = change(kept("bert", CLASSIFICATION), lambda weights: weights.pop(key), tmp_path)
    for wanted in ((), (CLASSIFICATION,), (MASKED_LM, CLASSIFICATION)):
        with pytest.raises(ModelError, match=r"lacks 1 weight of its encoder \(such as encoder"):
            read(folder, *wanted)


@pytest.mark.parametrize("computed", [True, False])
def test_what_is_computed_may_be_left_out(kept, tmp_path, monkeypatch, computed):
    """Sinusoids need not be in a file; frozen zeros are what a weight is before it is read."""
    if not computed:
        table = marian.MarianSinusoidalPositionalEmbedding
        monkeypatch.setattr(table, "create_weight", lambda self: torch.zeros_like(self.weight))

    def drop(weights):
        for key in [key for key in weights if "embed_positions" in key]:
            del weights[key]

    folder = change(kept("marian", None), drop, tmp_path)
    if computed:
        assert all("embed_positions" in key for key in read(folder).missing)
        return
    with pytest.raises(ModelError, match=r"lacks 2 weights of its encoder .*embed_positions"):
        read(folder)


def test_load_checkpoint(kept):
    folder = str(kept("distilbert", CLASSIFICATION))
    loaded = load_checkpoint(folder, heads=(CLASSIFICATION, MASKED_LM))
    assert loaded.head is CLASSIFICATION
    assert type(loaded.body).__name__ == "DistilBertModel"
    assert not loaded.model.training
    assert not any(weight.requires_grad for weight in loaded.model.parameters())
    assert load_checkpoint(folder).head is load_checkpoint(folder, heads=(MASKED_LM,)).head is None
    forced = load_checkpoint(folder, heads=(MASKED_LM,), force_head=True)
    assert forced.head is MASKED_LM
    assert forced.missing


def test_tokenizer_of_targets(kept, tiny, tmp_path):
    folder = change(kept("bart", SEQ2SEQ), lambda _: None, tmp_path)
    assert load_checkpoint(str(folder), heads=(SEQ2SEQ,)).target_tokenizer is None
    other = tiny("t5")[1]
    other.save_pretrained(folder / "target_tokenizer")
    loaded = load_checkpoint(str(folder), heads=(SEQ2SEQ,))
    assert loaded.target_tokenizer("a dog")["input_ids"] == other("a dog")["input_ids"]
    assert loaded.tokenizer("a dog")["input_ids"] != other("a dog")["input_ids"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("BertForMaskedLM", MASKED_LM),
        ("ModernBertForTokenClassification", TOKENS),
        ("T5ForConditionalGeneration", SEQ2SEQ),
        ("LlamaForCausalLM", CAUSAL_LM),
        ("BertModel", None),
        ("ElectraForPreTraining", None),  # tells tokens that were replaced, and has no words to give
    ],
)
def test_head_of(name, expected):
    assert find_head(name) is expected
