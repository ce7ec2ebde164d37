"""Heads of layers that share their weights, as ALBERT's do, are ranked, removed and written together."""

import json

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForSequenceClassification, LlamaConfig, LlamaForCausalLM

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.pruning.options import Criterion
from attnprobe.intervention.pruning.ranking import mask_heads, measure_worth, order_at_random, rank_stepwise
from attnprobe.intervention.task import build_metric

SHAPE = (3, 4)
TIES = np.zeros(3, np.int64)


@pytest.fixture
def checkpoint(headed):
    return headed("albert", "classification")


@pytest.fixture
def worth(checkpoint, documents, benched):
    def measure(name, open_heads=None):
        with benched(checkpoint, documents("classification")) as bench:
            return measure_worth(Criterion.parse(name), bench, build_metric("loss", bench, 42), open_heads)

    return measure


def test_gradients_are_summed_before_their_size_is_taken(worth, albert_losses):
    """One gate in three layers, against differences of each text's loss."""
    slopes = []
    for head in range(4):
        gates = np.ones((2, *SHAPE))
        gates[0, :, head], gates[1, :, head] = 1 + 1e-4, 1 - 1e-4
        slopes.append(np.abs(albert_losses(gates[0]) - albert_losses(gates[1])).mean())
    found = worth("gradient")
    np.testing.assert_allclose(found[0], np.divide(slopes, 2e-4), rtol=1e-3)
    np.testing.assert_allclose(worth("gradient-normed")[0], slopes / np.linalg.norm(slopes), rtol=1e-3)
    assert np.isnan(found[1:]).all()


def test_ablation_closes_all_of_them(worth, albert_losses):
    whole = albert_losses(np.ones(SHAPE))
    found = worth("ablation")
    for head in range(4):
        gates = np.ones(SHAPE)
        gates[:, head] = 0
        assert found[0, head] == pytest.approx(np.abs(albert_losses(gates) - whole).mean(), abs=2e-6)
    assert np.isnan(found[1:]).all()


@pytest.mark.parametrize("name", ["fisher", "ig", "lrp", "norm", "magnitude", "entropy", "confidence"])
def test_every_criterion_orders_units(worth, name):
    found = worth(name)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1:]).all()


def test_cuts_and_orders():
    units = np.array([[True] * 4, [False] * 4, [False] * 4])
    order = order_at_random(units, 0)
    assert sorted(order) == [0, 1, 2, 3]
    assert mask_heads(SHAPE, order, 1, TIES).sum(1).tolist() == [3, 3, 3]
    asked = []

    def measure(on):
        asked.append(on)
        return np.where(units, np.arange(12).reshape(SHAPE), np.nan)

    assert rank_stepwise(SHAPE, [0, 2, 4], measure, TIES).tolist() == [0, 1, 2, 3]
    assert asked[1].sum(1).tolist() == [2, 2, 2]


@pytest.mark.parametrize("physical", [False, True])
def test_what_is_written_is_what_was_scored(
    checkpoint, documents, albert_losses, inputs_of, tmp_path, physical
):
    texts = documents("classification")
    words = [text.text for text in texts if text.pair is None]
    labels = [text.label for text in texts if text.pair is None]
    table = attnprobe.prune(
        checkpoint.model, words, labels, tokenizer=checkpoint.tokenizer, metric="loss", random_orders=2,
        step=0.25, save=tmp_path / "less", share=0.5, physical=physical, progress=False,
    )  # fmt: skip
    assert list(table["heads_removed"]) == [0, 3, 6, 9, 12] * 3
    assert (
        "Layer 0, layer 1, layer 2 share their weights, so that a head goes from all of them at once."
        in table.notes
    )
    assert any("6 of 12 heads removed" in note for note in table.notes)
    read = attnprobe.load_pruned if physical else AutoModelForSequenceClassification.from_pretrained
    model = read(tmp_path / "less").eval()
    removed = np.array(json.loads((tmp_path / "less" / "attnprobe.json").read_text())["removed"])
    gates = np.ones(SHAPE)
    gates[tuple(removed.T)] = 0
    assert (gates == gates[0]).all()
    wanted = albert_losses(gates)
    with torch.no_grad():
        found = [
            cross_entropy(model(**inputs_of(checkpoint.tokenizer, text)).logits, torch.tensor([text.label]))
            for text in texts
        ]
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_what_can_not_be_removed_is_refused_before_the_curve(tiny, monkeypatch, tmp_path):
    """Grouped queries can't be cut out; that was said after hours of scores."""
    config = LlamaConfig(
        vocab_size=120, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip
    torch.manual_seed(0)
    model, tokenizer = LlamaForCausalLM(config).eval(), tiny("llama")[1]
    monkeypatch.setattr("attnprobe.intervention.pruning.curve.bind_task", None)
    with pytest.raises(AttnprobeError, match=r"leave out (--)?physical"):
        attnprobe.prune(
            model, ["a bird ran over", "the red house"], tokenizer=tokenizer, save=tmp_path / "x", share=0.5,
            physical=True, progress=False,
        )  # fmt: skip
    assert not list(tmp_path.iterdir())
