"""Checkpoints side by side: paired differences of importance, and where columns vary over seeds."""

import copy

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import BertForMaskedLM

import attnprobe
from attnprobe import AttnprobeError, AttnprobeWarning
from attnprobe.findings.spread import PARTS, SEED, estimate_components
from attnprobe.sums.documents import find_block

pytestmark = [
    pytest.mark.slow,  # checkpoints are loaded and measured one after the other
    pytest.mark.filterwarnings("ignore::attnprobe.AttnprobeWarning"),
]

TEXTS = [
    "the river bank was slow , and the dog ran to the water .",
    "is it late ?",
    "the parcel came by day , and she walks quickly between the red house and the green house .",
    "a bird ran over the red house",
    "he and she walk to the train stop , never by night",
    "quick bird by the river",
    "blue water and red light",
]
LAYERS, HEADS = 3, 4


@pytest.fixture(scope="session")
def seeds(tiny, tmp_path_factory):
    """Save three copies of the tiny BERT, each with noise of its own."""
    folder = tmp_path_factory.mktemp("seeds")
    for seed in range(3):
        model, tokenizer = copy.deepcopy(tiny("bert")[0]), tiny("bert")[1]
        generator = torch.Generator().manual_seed(seed)
        for weight in model.parameters():
            weight.data += 0.3 * weight.std() * torch.randn(weight.shape, generator=generator)
        model.save_pretrained(folder / f"seed-{seed}")
        tokenizer.save_pretrained(folder / f"seed-{seed}")
    return [folder / f"seed-{seed}" for seed in range(3)]


@pytest.fixture(scope="session")
def reordered(tiny, tmp_path_factory):
    """Save copies of the tiny BERT with the heads of each layer turned round by one."""
    folder = tmp_path_factory.mktemp("reordered")
    for turn in range(HEADS):
        model, tokenizer = copy.deepcopy(tiny("bert")[0]), tiny("bert")[1]
        for layer in model.encoder.layer:
            own, out = layer.attention.self, layer.attention.output.dense
            shift = turn * own.query.weight.shape[0] // HEADS
            for projection in (own.query, own.key, own.value):
                projection.weight.data = projection.weight.data.roll(shift, 0)
                projection.bias.data = projection.bias.data.roll(shift, 0)
            out.weight.data = out.weight.data.roll(shift, 1)
        model.save_pretrained(folder / f"turn-{turn}")
        tokenizer.save_pretrained(folder / f"turn-{turn}")
    return [folder / f"turn-{turn}" for turn in range(HEADS)]


def shares(table, row=0):
    return {part: float(table[part][row]) for part in PARTS}


def by_text(model, texts):
    """Give the importance of each text; what a representation is asked for is drawn by the text's number."""
    means = [attnprobe.importance(model, texts[:n])["importance"] for n in range(1, len(texts) + 1)]
    totals = np.array(means) * np.arange(1, len(texts) + 1)[:, None]
    return np.diff(totals, axis=0, prepend=0)


# Importance


def test_differences_of_importance_are_the_paired_t_test(seeds):
    """Each document is a block, so that errors and p are those of scipy, from importance text by text."""
    one, other = seeds[:2]
    table = attnprobe.compare([one, other], TEXTS, measure="importance")
    assert list(table.data) == [
        "model", "dataset", "model_b", "objective", "method", "layer", "head", "n", "importance_a",
        "importance_b", "importance_delta", "importance_delta_se", "importance_p_adjusted",
    ]  # fmt: skip
    assert set(table["model"]) == {"seed-0"}
    assert set(table["model_b"]) == {"seed-1"}
    own = [attnprobe.importance(model, TEXTS)["importance"] for model in (one, other)]
    np.testing.assert_allclose([table["importance_a"], table["importance_b"]], own, rtol=1e-12)
    values = [by_text(model, TEXTS) for model in (one, other)]
    expected = stats.ttest_rel(values[1], values[0])
    delta = (values[1] - values[0]).mean(0)
    np.testing.assert_allclose(table["importance_delta"], delta, rtol=1e-6, atol=1e-9)
    error = (values[1] - values[0]).std(0, ddof=1) / len(TEXTS) ** 0.5
    np.testing.assert_allclose(table["importance_delta_se"], error, rtol=1e-5)
    order, p = np.argsort(expected.pvalue), np.zeros(LAYERS * HEADS)
    steps = expected.pvalue[order] * np.arange(len(order), 0, -1)
    p[order] = np.minimum(np.maximum.accumulate(steps), 1)
    np.testing.assert_allclose(table["importance_p_adjusted"], p, rtol=1e-4)


@pytest.mark.parametrize("method", ["lrp", "confidence"])
def test_other_methods(seeds, method):
    table = attnprobe.compare(seeds[:2], TEXTS, measure="importance", method=method)
    name = "relevance_abs" if method == "lrp" else "importance"
    own = attnprobe.importance(seeds[1], TEXTS, method=method)
    np.testing.assert_allclose(table[f"{name}_b"], own[name], rtol=1e-12)
    assert set(table["method"]) == {method}


def test_a_checkpoint_and_itself(seeds):
    table = attnprobe.compare([seeds[0]] * 2, TEXTS, measure="importance", layers="1")
    assert table["layer"].tolist() == [1] * HEADS
    assert table["importance_delta"].tolist() == [0] * HEADS
    assert table["importance_p_adjusted"].tolist() == [1] * HEADS
    assert any("No head differs significantly" in note for note in table.notes)


def test_checkpoints_of_different_tasks_are_asked_for_what_both_can_be(
    classifier, saved, tiny, reviews, tmp_path
):
    body, tokenizer = tiny("bert")
    masked = BertForMaskedLM(copy.deepcopy(body.config))
    masked.save_pretrained(tmp_path / "masked")
    tokenizer.save_pretrained(tmp_path / "masked")
    asked = {"measure": "importance", "text_column": "review"}
    found = attnprobe.compare([tmp_path / "masked", saved("bert")], reviews, **asked)
    assert set(found["objective"]) == {"representation"}
    assert any("masked-lm of masked and representation of bert" in note for note in found.notes)
    labelled = asked | {"label_column": "stars"}
    with pytest.raises(AttnprobeError, match=r"can't be compared; leave out label_column"):
        attnprobe.compare([classifier, saved("bert")], reviews, **labelled)
    both = attnprobe.compare([classifier, classifier], reviews, **labelled)
    assert set(both["objective"]) == {"classification"}


# Where columns vary


def test_spread_is_that_of_every_checkpoint_and_text(seeds):
    """From a census of each checkpoint over each text; each document is a block."""
    table = attnprobe.compare(seeds, TEXTS, measure="entropy,offset_share", spread=True)
    assert table["measure"].tolist() == ["entropy", "offset_share"]
    assert table["n"].tolist() == [len(TEXTS)] * 2
    assert table["checkpoints"].tolist() == [3, 3]
    found = [attnprobe.census(model, [text], statistics=["entropy"]) for model in seeds for text in TEXTS]
    values = np.array([one["entropy"] for one in found])
    by_head = values.reshape(3, len(TEXTS), LAYERS, HEADS).transpose(0, 2, 3, 1)
    assert len(set(find_block(np.arange(len(TEXTS))).tolist())) == len(TEXTS)
    expected = estimate_components(by_head, np.ones(len(TEXTS)))
    assert shares(table) == pytest.approx(expected.shares, abs=1e-6)
    assert table["sd"][0] == pytest.approx(expected.variance**0.5, rel=1e-6)
    for part in PARTS:
        assert table[f"{part}_se"][0] == pytest.approx(expected.errors[part], abs=1e-6)
    for row in range(2):
        assert sum(shares(table, row).values()) == pytest.approx(1)


def test_the_same_checkpoint_again(seeds):
    table = attnprobe.compare([seeds[0]] * 2, TEXTS, measure="entropy", spread=True)
    found = shares(table)
    assert [found[part] for part in (*SEED, "seeds_by_text", "rest")] == [0] * 5
    assert any("Heads of one number are the same" in note for note in table.notes)


def test_heads_in_another_order(reordered):
    """Every place holds every head once, so that numbers of heads say nothing, and layers what they did."""
    table = attnprobe.compare(reordered, TEXTS, measure="entropy", spread=True)
    same = attnprobe.compare([reordered[0]] * 4, TEXTS, measure="entropy", spread=True)
    assert shares(table)["heads"] == 0
    assert shares(table)["heads_by_seed"] == pytest.approx(shares(same)["heads"], rel=0.1)
    assert shares(table)["layers"] > 0.5 * shares(same)["layers"]
    assert any("The number of a head means nothing" in note for note in table.notes)


def test_importance_over_seeds(seeds):
    table = attnprobe.compare(seeds[:2], TEXTS[:3], measure="importance", spread=True)
    assert table["measure"].tolist() == ["importance"]
    values = np.array([by_text(model, TEXTS[:3]) for model in seeds[:2]])
    expected = estimate_components(values.reshape(2, 3, LAYERS, HEADS).transpose(0, 2, 3, 1), np.ones(3))
    assert shares(table) == pytest.approx(expected.shares, abs=1e-5)


def test_weights_and_every_column_of_the_census(seeds):
    table = attnprobe.compare(seeds[:2], TEXTS, spread=True, weights="both", content_only=True)
    names = table["measure"].tolist()
    assert {"entropy", "entropy_norm", "offset_share_norm"} <= set(names)
    assert len(names) == len(set(names))


def test_kinds_of_attention_stand_apart(saved):
    table = attnprobe.compare([saved("t5")] * 2, TEXTS, measure="entropy", spread=True)
    assert table["attention"].tolist() == ["encoder", "decoder", "cross"]
    for row in range(3):
        assert sum(shares(table, row).values()) == pytest.approx(1)


def test_tokenizers_may_differ(saved):
    table = attnprobe.compare([saved("bert"), saved("roberta")], TEXTS, measure="entropy", spread=True)
    assert any("different tokenizers" in note for note in table.notes)


def test_cut_documents_are_texts(seeds):
    table = attnprobe.compare(seeds[:2], TEXTS, measure="entropy", spread=True, max_length=8)
    assert table["n"][0] > len(TEXTS)
    assert any("a text is a document then" in note for note in table.notes)


def test_checkpoints_that_are_done_are_kept(seeds, tmp_path):
    asked = {"texts": TEXTS, "measure": "entropy", "spread": True}
    state = tmp_path / "state"
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in seeds[2].iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    weights = next(broken.glob("*.safetensors"))
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(AttnprobeError, match="The 2 checkpoints are kept"):
        attnprobe.compare([*seeds[:2], broken], resume=state, **asked)
    weights.write_bytes(whole)
    with pytest.warns(AttnprobeWarning, match="2 of 3 checkpoints are done"):
        found = attnprobe.compare([*seeds[:2], broken], resume=state, **asked)
    expected = attnprobe.compare(seeds, **asked)
    for part in PARTS:
        assert found[part].tolist() == expected[part].tolist()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"spread": True, "match": "layer"}, "spread=True has one row a column; leave out match"),
        ({"spread": True, "by": "layer"}, "leave out by"),
        ({"spread": True, "nearest": False}, "leave out"),
        ({"spread": True, "layers": "1"}, "leave out layers"),
        ({"spread": True, "objective": "masked-lm"}, "objective is for measure importance; leave it out"),
        ({"spread": True, "seed": 7}, "seed is for sample, until and measure importance; leave it out"),
        ({"seed": 7, "measure": "entropy"}, "seed is for sample, until and measure importance; leave it out"),
        ({"method": "lrp"}, "method is for measure importance"),
        ({"labels": ["x"] * 7}, "has no decoder beside an encoder that could read targets"),
        ({"measure": "importance", "by": "layer"}, "measure importance is about heads of one number"),
        ({"measure": "importance", "match": "model"}, "leave out match"),
        ({"measure": "importance", "weights": "norm"}, "weights is about attention weights"),
        ({"measure": "importance", "content_only": True}, "content_only"),
        ({"measure": "importance", "revisions": "a,b"}, "revisions"),
        ({"measure": "nothing", "spread": True}, "There is no statistic 'nothing'"),
    ],
)
def test_options_that_have_no_use(seeds, asked, says):
    with pytest.raises(AttnprobeError, match=says):
        attnprobe.compare(seeds[:2], TEXTS, **asked)


def test_checkpoints_that_can_not_be_put_side_by_side(seeds, saved, tiny):
    with pytest.raises(AttnprobeError, match="is the only checkpoint"):
        attnprobe.compare(seeds[0], TEXTS, spread=True)
    with pytest.raises(AttnprobeError, match="compares two checkpoints, not 3"):
        attnprobe.compare(seeds, TEXTS, measure="importance")
    with pytest.raises(AttnprobeError, match="needs at least two"):
        attnprobe.compare(seeds, TEXTS[:1], spread=True, measure="entropy")
    with pytest.raises(AttnprobeError, match="layers of"):
        attnprobe.compare(["demo", seeds[0]], TEXTS, spread=True, measure="entropy")
    with pytest.raises(AttnprobeError, match="not a loaded"):
        attnprobe.compare([tiny("bert")[0]] * 2, TEXTS, spread=True)
