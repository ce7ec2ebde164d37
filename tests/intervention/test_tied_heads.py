"""Heads of layers that share their weights, as ALBERT's do, have one mask, one row and one test."""

import numpy as np
import pytest
import torch
from scipy.stats import ttest_rel
from transformers import AlbertConfig, AlbertForMaskedLM

import attnprobe
from attnprobe.findings.pair import Side
from attnprobe.intervention import ablation
from attnprobe.intervention.ablation import tabulate_ablation
from attnprobe.intervention.importance import TABLES
from attnprobe.intervention.pruning.options import Criterion
from attnprobe.intervention.pruning.ranking import measure_worth
from attnprobe.intervention.relevance import head_relevance
from attnprobe.intervention.task import build_metric

SHAPE = (3, 4)
NOTE = (
    "Layer 0, layer 1, layer 2 share their weights: a head has one mask in all that share it, and one row, "
    "which names the first of them."
)


@pytest.fixture
def bench(headed, documents, benched):
    with benched(headed("albert", "classification"), documents("classification")) as found:
        yield found


@pytest.fixture
def two_groups(tiny):
    """Make an ALBERT of four layers, of which two and two share their weights."""
    config = AlbertConfig(
        vocab_size=120, hidden_size=32, embedding_size=16, intermediate_size=32, num_hidden_layers=4,
        num_hidden_groups=2, num_attention_heads=4,
    )  # fmt: skip
    torch.manual_seed(0)
    model = AlbertForMaskedLM(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape) * 0.2)
    texts = ["the river bank was slow", "a bird ran over the red house", "stone", "the dog and the cat"]
    return model.eval(), texts, tiny("albert")[1]


def adjust_by_holm(p):
    """Multiply the smallest by the number of tests, the next by one less, and so on."""
    order, found = np.argsort(p), np.empty(len(p))
    found[order] = np.maximum.accumulate(np.sort(p) * np.arange(len(p), 0, -1)).clip(max=1)
    return found


@pytest.mark.parametrize("keep_one", [False, True])
def test_ablation_masks_them_together(bench, albert_losses, monkeypatch, keep_one):
    """Against losses of a model whose layers have weights of their own, masked by hand; one pass a row."""
    run, passes = ablation.run_trials, []
    monkeypatch.setattr(ablation, "run_trials", lambda *given: passes.extend(given[1]) or run(*given))
    table = tabulate_ablation(bench, build_metric("loss", bench, 42), "texts", facts={}, keep_one=keep_one)
    assert list(zip(table["layer"], table["head"], strict=True)) == [(0, head) for head in range(4)]
    assert len(passes) == 4
    whole, p = albert_losses(np.ones(SHAPE)), []
    for head in range(4):
        masks = np.full(SHAPE, 0.0 if keep_one else 1.0)
        masks[:, head] = 1 - masks[:, head]
        losses = albert_losses(masks)
        assert table["score"][head] == pytest.approx(losses.mean(), abs=2e-6)
        assert table["delta"][head] == pytest.approx((losses - whole).mean(), abs=2e-6)
        p.append(ttest_rel(losses, whole).pvalue)
    np.testing.assert_allclose(table["p"], p, rtol=1e-3)
    np.testing.assert_allclose(table["p_adjusted"], adjust_by_holm(np.array(p)), rtol=1e-3)
    assert NOTE in table.notes
    assert not any("removed" in note for note in table.notes)
    side = Side.from_table(table, "table")  # what correlate reads
    assert side.sample is not None
    assert side.sample.total.shape[1] == 4


def test_gradients_are_by_one_mask(bench, albert_losses):
    """Against differences of each text's loss."""
    signed = []
    for head in range(4):
        masks = np.ones((2, *SHAPE))
        masks[0, :, head], masks[1, :, head] = 1 + 1e-4, 1 - 1e-4
        signed.append((albert_losses(masks[0]) - albert_losses(masks[1])) / 2e-4)
    slopes = np.abs(signed).mean(-1)
    table = TABLES["gradient"](bench, "texts", facts={})
    assert list(table["layer"]) == [0] * 4
    np.testing.assert_allclose(table["importance"], slopes, rtol=1e-3)
    np.testing.assert_allclose(table["gradient_signed"], np.mean(signed, -1), atol=1e-3 * slopes.max())
    np.testing.assert_allclose(table["fisher"], np.square(signed).mean(-1), rtol=2e-3)
    np.testing.assert_allclose(
        table["importance_normalized"], np.divide(slopes, np.linalg.norm(slopes)), rtol=1e-3
    )
    assert table.notes[0].startswith("Within its layer, importance is highest for head")
    assert NOTE in table.notes


def test_relevance_is_summed_over_layers(bench):
    table = TABLES["lrp"](bench, "texts", facts={})
    layers = head_relevance(bench).signed.heads.average
    np.testing.assert_allclose(table["relevance"], layers.sum(0), rtol=1e-6)
    assert sum(table["relevance_share"]) == pytest.approx(1)
    assert any(note.startswith("The largest share of its layer's relevance") for note in table.notes)


def test_several_groups(two_groups):
    model, texts, tokenizer = two_groups
    for ask in (attnprobe.ablate, attnprobe.importance):
        table = ask(model, texts, tokenizer=tokenizer, progress=False)
        assert sorted(set(zip(table["layer"], table["head"], strict=True))) == sorted(
            (layer, head) for layer in (0, 2) for head in range(4)
        )
        assert any(
            note.startswith("Layer 0, layer 1; layer 2, layer 3 share their weights") for note in table.notes
        )


def test_layers_of_their_own_have_rows_of_their_own(headed, documents, benched):
    with benched(headed("bert", "classification"), documents("classification")) as bench:
        table = tabulate_ablation(bench, build_metric("loss", bench, 42), "texts", facts={})
    assert len(table) == 12
    assert not any("share their weights" in note for note in table.notes)


@pytest.mark.parametrize("command", ["ablate", "census"])
def test_prune_reads_tables_of_units_and_of_all_heads(bench, headed, documents, tmp_path, command):
    """A table of masks has a row for heads that share their weights, one of attention a row for each."""
    metric = build_metric("loss", bench, 42)
    checkpoint = headed("albert", "classification")
    if command == "ablate":
        table, column = tabulate_ablation(bench, metric, "texts", facts={}), "score"
        expected = np.array(table[column])
    else:
        words = [text.text for text in documents("classification")]
        table, column = attnprobe.census(checkpoint.model, words, tokenizer=checkpoint.tokenizer), "entropy"
        expected = np.reshape(table[column], SHAPE).mean(0)
    table.to_pandas().drop(columns="model").to_csv(tmp_path / "heads.csv", index=False)
    found = measure_worth(Criterion.parse(f"{tmp_path / 'heads.csv'}:{column}"), bench, metric)
    np.testing.assert_allclose(found[0], expected)
    assert np.isnan(found[1:]).all()
