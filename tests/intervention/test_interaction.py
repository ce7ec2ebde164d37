"""Interactions: by hand, of planted backup heads, and refusals."""

import copy
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ttest_1samp
from transformers import BertConfig, BertForMaskedLM

import attnprobe
from attnprobe.corpus.document import Document
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.interaction import (
    agree_both_ways,
    confirm_pairs,
    find_interactions,
    propose_pairs,
    tabulate_pairs,
)
from attnprobe.intervention.task import build_metric
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.sums.inference import SIGNIFICANT

LAYERS, HEADS = 3, 4
WORDS = "the river bank was slow a bird ran over red house dog cat stone".split()  # noqa: SIM905


def test_proposals_by_hand(headed: Any, documents: Any, task_data: Any, losses: Any):
    """Changes of finite differences of models with scaled columns."""
    checkpoint, texts = headed("bert", "classification", double=True), documents("classification")[:5]
    with task_data(checkpoint, texts, "classification") as data:
        heads, proposed = propose_pairs(data)
    assert heads == [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    step = 1e-5

    def slope(off: int | None, by: int) -> float:
        sides = []
        for side in (1 + step, 1 - step):
            mask = np.ones(LAYERS * HEADS)
            if off is not None:
                mask[off] = 0
            mask[by] = side
            mask = mask.reshape(LAYERS, HEADS)
            sides.append(losses(mask, checkpoint, texts).mean())
        return (sides[0] - sides[1]) / (2 * step)

    for first, second in combinations([1, 4, 7, 10], 2):
        changes = [slope(off, by) - slope(None, by) for off, by in ((first, second), (second, first))]
        agree = changes[0] * changes[1] > 0
        expected = -min(changes, key=abs) if agree else 0.0
        assert proposed[first, second] == pytest.approx(expected, abs=1e-6)
        assert proposed[second, first] == proposed[first, second]
    assert (np.diag(proposed) == 0).all()


def test_bilinear_losses_are_proposed_exactly():
    """L = a g_i g_j: both directions are a, and I = a."""
    changed = np.array([[0, -3.0], [-3.0, 0]])
    assert agree_both_ways(changed).tolist() == [[0, 3.0], [3.0, 0]]


def test_confirmed_by_hand(headed: Any, documents: Any, task_data: Any, losses: Any):
    checkpoint, texts = headed("bert", "classification", double=True), documents("classification")
    pairs = [((0, 1), (2, 3)), ((1, 0), (1, 2))]
    with task_data(checkpoint, texts, "classification") as data:
        confirmed = confirm_pairs(data, pairs, build_metric("loss", data, 0))

    def without(*heads: Any) -> Any:
        mask = np.ones((LAYERS, HEADS))
        for head in heads:
            mask[head] = 0
        return losses(mask)

    for column, (first, second) in enumerate(pairs):
        expected = without(first, second) - without(first) - without(second) + without()
        assert confirmed.average[column] == pytest.approx(expected.mean(), abs=1e-7)
        error = expected.std(ddof=1) / len(texts) ** 0.5
        assert confirmed.standard_error[column] == pytest.approx(error, rel=1e-5)
        p = ttest_1samp(expected, 0).pvalue
        assert confirmed.estimate.p()[column] == pytest.approx(p, rel=1e-4)


def planted(headed: Any, *, backup: bool) -> Checkpoint:
    """Let heads 0 and 2 of layer 1 give the same, and much; the norm behind them hides the loss of one."""
    checkpoint = headed("bert", "classification")
    model = copy.deepcopy(checkpoint.model)
    layer = model.bert.encoder.layer[1].attention
    width = model.config.hidden_size // HEADS
    first, second = slice(0, width), slice(2 * width, 3 * width)
    with torch.no_grad():
        if backup:
            for part in (layer.self.query, layer.self.key, layer.self.value):
                part.weight[second], part.bias[second] = part.weight[first], part.bias[first]
            layer.output.dense.weight[:, first] *= 6
            layer.output.dense.weight[:, second] = layer.output.dense.weight[:, first]
        model.classifier.weight *= 3
    return Checkpoint("planted", model, checkpoint.tokenizer, head=checkpoint.head)


def sentences(checkpoint: Checkpoint, number: int) -> list[Document]:
    """Write random sentences, each with the class that the model itself gives to it."""
    draw = np.random.default_rng(3)
    texts = [" ".join(draw.choice(WORDS, draw.integers(4, 12))) for _ in range(number)]
    with torch.no_grad():
        read = [checkpoint.tokenizer(text, return_tensors="pt")["input_ids"] for text in texts]
        classes = [int(checkpoint.model(input_ids=ids).logits.argmax()) for ids in read]
    return [Document(text, label=label) for text, label in zip(texts, classes, strict=True)]


def test_planted_backup_heads_come_out(headed: Any, task_data: Any):
    """The pair that stands in for each other is proposed first and confirmed; without the plant it is not."""
    pair, loudest = ((1, 0), (1, 2)), 0.0
    for backup in (True, False):
        checkpoint = planted(headed, backup=backup)
        with task_data(checkpoint, sentences(checkpoint, 120), "classification") as data:
            pairs, proposed, confirmed = find_interactions(data, 12)
            table = tabulate_pairs(data, pairs, proposed, confirmed)
        at, average = pairs.index(pair) if pair in pairs else None, confirmed.average
        positive = (table["p_adjusted"] < SIGNIFICANT) & (average > 0)
        if not backup:
            assert at is None or average[at] < 0.2 * loudest
            continue
        assert at == 0
        assert positive[0]
        loudest = average[0]
        assert average[0] == average.max()
        assert average[0] > 3 * np.delete(np.abs(average), 0).max()
        assert table.kind == "interactions"
        assert [table[name][0] for name in ("layer_a", "head_a", "layer_b", "head_b")] == [1, 0, 1, 2]


def test_refusals(headed: Any, documents: Any, task_data: Any):
    with (
        task_data(headed("bert", "representation"), documents("representation"), "representation") as data,
        pytest.raises(
            AttnprobeError, match="interact needs a loss of each example, and --objective represent"
        ),
    ):
        find_interactions(data, 5)
    with (
        task_data(
            headed("bert", "classification"), documents("classification")[:2], "classification"
        ) as data,
        pytest.raises(AttnprobeError, match="interact needs at least two documents in either half"),
    ):
        find_interactions(data, 5)


def test_a_lone_head_is_refused(tiny: Any):
    model = BertForMaskedLM(BertConfig(num_hidden_layers=1, num_attention_heads=1))
    with pytest.raises(AttnprobeError, match="at least two heads"):
        attnprobe.interact(model, ["the dog", "a cat", "a bird", "stone"] * 3, tokenizer=tiny("bert")[1])
