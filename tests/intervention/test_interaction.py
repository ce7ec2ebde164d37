"""Interactions: by hand, of planted backup heads, and under a null."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from attnprobe.corpus.sources.document import Document
from attnprobe.errors import AttnprobeError
from attnprobe.intervention import interaction
from attnprobe.intervention.interaction import (
    confirm_pairs,
    find_interactions,
    propose_interactions,
    propose_pairs,
)
from attnprobe.intervention.interaction_table import tabulate_pairs
from attnprobe.intervention.metrics.mean import Mean
from attnprobe.intervention.task import build_metric
from attnprobe.intervention.trials import Trials
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.sums.inference import SIGNIFICANT

LAYERS, HEADS = 3, 4
WORDS = [
    "the",
    "river",
    "bank",
    "was",
    "slow",
    "a",
    "bird",
    "ran",
    "over",
    "red",
    "house",
    "dog",
    "cat",
    "stone",
]


def losses(checkpoint: Any, texts: Any, inputs_of: Any, cut_by_hand: Any, mask: Any) -> Any:
    model = cut_by_hand(checkpoint.model, np.asarray(mask, float))
    with torch.no_grad():
        logits = [model(**inputs_of(checkpoint.tokenizer, text)).logits[0] for text in texts]
    right = torch.tensor([text.label for text in texts])
    return torch.nn.functional.cross_entropy(torch.stack(logits), right, reduction="none").numpy()


def test_proposals_by_hand(headed: Any, documents: Any, benched: Any, inputs_of: Any, cut_by_hand: Any):
    """Changes of finite differences of models with scaled columns."""
    checkpoint, texts = headed("bert", "classification", double=True), documents("classification")[:5]
    with benched(checkpoint, texts, "classification") as bench:
        heads, proposed = propose_pairs(bench)
    assert heads == [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    step, some = 1e-5, [1, 4, 7, 10]

    def slope(off: int | None, by: int) -> float:
        found = []
        for side in (1 + step, 1 - step):
            mask = np.ones(LAYERS * HEADS)
            if off is not None:
                mask[off] = 0
            mask[by] = side
            mask = mask.reshape(LAYERS, HEADS)
            found.append(losses(checkpoint, texts, inputs_of, cut_by_hand, mask).mean())
        return (found[0] - found[1]) / (2 * step)

    for one in some:
        for other in some:
            if one < other:
                changes = [slope(one, other) - slope(None, other), slope(other, one) - slope(None, one)]
                agree = changes[0] * changes[1] > 0
                expected = -min(changes, key=abs) if agree else 0.0
                assert proposed[one, other] == pytest.approx(expected, abs=1e-6)
                assert proposed[other, one] == proposed[one, other]
    assert (np.diag(proposed) == 0).all()


def test_bilinear_losses_are_proposed_exactly():
    """L = a g_i g_j: both directions are a, and I = a."""
    changed = np.array([[0, -3.0], [-3.0, 0]])
    assert propose_interactions(changed).tolist() == [[0, 3.0], [3.0, 0]]


def test_confirmed_by_hand(headed: Any, documents: Any, benched: Any, inputs_of: Any, cut_by_hand: Any):
    checkpoint, texts = headed("bert", "classification", double=True), documents("classification")
    pairs = [((0, 1), (2, 3)), ((1, 0), (1, 2))]
    with benched(checkpoint, texts, "classification") as bench:
        found = confirm_pairs(bench, pairs, np.zeros(2), build_metric("loss", bench, 0))

    def without(*heads: Any) -> Any:
        mask = np.ones((LAYERS, HEADS))
        for head in heads:
            mask[head] = 0
        return losses(checkpoint, texts, inputs_of, cut_by_hand, mask)

    for column, (one, other) in enumerate(pairs):
        expected = without(one, other) - without(one) - without(other) + without()
        np.testing.assert_allclose(found.values[:, column], expected, atol=1e-7)
        assert found.means[column] == pytest.approx(expected.mean(), abs=1e-7)
        assert found.errors[column] == pytest.approx(expected.std(ddof=1) / len(texts) ** 0.5, rel=1e-5)


def planted(headed: Any, *, backup: bool) -> Checkpoint:
    """Let heads 0 and 2 of layer 1 say the same, loudly; the norm behind them hides that one is gone."""
    found = headed("bert", "classification")
    model = copy.deepcopy(found.model)
    layer = model.bert.encoder.layer[1].attention
    width = model.config.hidden_size // HEADS
    one, other = slice(0, width), slice(2 * width, 3 * width)
    with torch.no_grad():
        if backup:
            for part in (layer.self.query, layer.self.key, layer.self.value):
                part.weight[other], part.bias[other] = part.weight[one], part.bias[one]
            layer.output.dense.weight[:, one] *= 6
            layer.output.dense.weight[:, other] = layer.output.dense.weight[:, one]
        model.classifier.weight *= 3
    return Checkpoint("planted", model, found.tokenizer, head=found.head)


def sentences(checkpoint: Checkpoint, number: int) -> list[Document]:
    """Write random sentences, each with the class that the model itself gives to it."""
    draw = np.random.default_rng(3)
    texts = [" ".join(draw.choice(WORDS, draw.integers(4, 12))) for _ in range(number)]
    with torch.no_grad():
        read = [checkpoint.tokenizer(text, return_tensors="pt")["input_ids"] for text in texts]
        classes = [int(checkpoint.model(input_ids=ids).logits.argmax()) for ids in read]
    return [Document(text, label=label) for text, label in zip(texts, classes, strict=True)]


def test_planted_backup_heads_come_out(headed: Any, benched: Any):
    """The pair that stands in for each other is proposed first and confirmed; without the plant it is not."""
    pair, loudest = ((1, 0), (1, 2)), 0.0
    for backup in (True, False):
        checkpoint = planted(headed, backup=backup)
        with benched(checkpoint, sentences(checkpoint, 120), "classification") as bench:
            found = find_interactions(bench, 12)
            table = tabulate_pairs(bench, found, "texts", {})
        at = found.pairs.index(pair) if pair in found.pairs else None
        positive = (found.adjusted < SIGNIFICANT) & (found.means > 0)
        if not backup:
            assert at is None or found.means[at] < 0.2 * loudest
            continue
        assert at == 0
        assert positive[0]
        loudest = found.means[0]
        assert found.means[0] == found.means.max()
        assert found.means[0] > 3 * np.delete(np.abs(found.means), 0).max()
        assert table.kind == "interactions"
        assert [table[name][0] for name in ("layer_a", "head_a", "layer_b", "head_b")] == [1, 0, 1, 2]


def test_p_is_uniform_where_effects_add_up(headed: Any, documents: Any, benched: Any, monkeypatch: Any):
    checkpoint, texts = headed("bert", "classification"), documents("classification")
    pairs = [((0, one), (2, other)) for one in range(4) for other in range(4)]
    found = []
    with benched(checkpoint, texts, "classification") as bench:
        for seed in range(30):
            draw = np.random.default_rng(seed)

            def simulate(_: Any, cuts: Any, *more: Any, draw=draw) -> Trials:
                number, own = len(texts), draw.normal(size=(LAYERS, HEADS, len(texts)))
                whole = draw.normal(size=number)
                outcomes = [
                    whole + own[~cut].sum(0) + draw.normal(size=number) * ((~cut).sum() > 1) for cut in cuts
                ]
                every = [{"loss": one, "cluster": np.full(number, -1)} for one in (whole, *outcomes)]
                return Trials(every[0], every[1:])

            monkeypatch.setattr(interaction, "run_trials", simulate)
            found.append(
                confirm_pairs(bench, pairs, np.zeros(16), Mean("loss", "nats", higher_is_better=False))
            )
    p = np.concatenate([one.p for one in found])
    assert kstest(p, "uniform").pvalue > 0.01
    assert np.mean([(one.adjusted < SIGNIFICANT).any() for one in found]) < 0.2


def test_refusals(headed: Any, documents: Any, benched: Any):
    with (
        benched(headed("bert", "representation"), documents("representation"), "representation") as bench,
        pytest.raises(
            AttnprobeError, match="interact needs a loss of each example, and --objective represent"
        ),
    ):
        find_interactions(bench, 5)
    with (
        benched(headed("bert", "classification"), documents("classification")[:2], "classification") as bench,
        pytest.raises(AttnprobeError, match="interact needs at least two documents in either half"),
    ):
        find_interactions(bench, 5)
