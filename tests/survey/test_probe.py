"""Probes: the optimum, planted relations, chance, folds of documents."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax
from word_corpora import decode, draw_corpus, draw_maps, make_batch

from attnprobe.attention.kinds import Place
from attnprobe.statistics.links import SYNTAX_TASK
from attnprobe.survey import probe
from attnprobe.survey.probe import ProbeData, tabulate_heads, tabulate_labels
from attnprobe.survey.word_maps import AskedCorpus
from attnprobe.table.builder import Labels

PLACES = [Place(number) for number in range(4)]


def read_features(data: ProbeData) -> list[tuple[np.ndarray, np.ndarray]]:
    """Read the features (candidate, feature) of all questions, divided by their spread, and what is right."""
    features = []
    for batch in data.corpus.batches:
        for codes, present, right in zip(batch.codes, batch.present, batch.right, strict=True):
            features.append((decode(codes[present]) * data.scale, right[present]))
    return features


@pytest.fixture
def exactly(monkeypatch: Any) -> None:
    """Let L-BFGS go on in float64 until the gradient is nearly 0."""
    monkeypatch.setattr(probe, "PRECISION", torch.float64)
    monkeypatch.setattr(probe, "TOLERANCE", 1e-10)
    monkeypatch.setattr(probe, "CHANGE", 1e-16)


@pytest.mark.usefixtures("exactly")
@pytest.mark.parametrize("several", [False, True])
def test_the_optimum_is_that_of_scipy(several: bool):
    """Minimised with scipy's own finite differences; of unlike candidates, and several right answers."""
    draw = np.random.default_rng(0)
    maps = [draw_maps(draw, 2, size) for size in draw.integers(4, 7, 30)]
    right = [
        [
            draw.choice([j for j in range(words.shape[1]) if j != i], 1 + several, replace=False)
            for i in range(3)
        ]
        for words in maps
    ]
    data = ProbeData(AskedCorpus((make_batch(maps, right, np.arange(30)),)), 3.0)
    questions = read_features(data)
    features = np.array([np.var(x / data.scale, 0) for x, _ in questions])
    np.testing.assert_allclose(data.spread, features.mean(0) ** 0.5, rtol=1e-9)

    def loss(w: np.ndarray) -> float:
        return 1.5 * w @ w - sum(log_softmax(x @ w)[right].mean() for x, right in questions)

    expected = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-7}).x
    weights = data.fit(data.every)
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    assert loss(weights) <= loss(expected) + 1e-9
    hits = [right[(x @ weights).argmax()] for x, right in questions]
    assert data.answer(weights, data.every).tolist() == hits


def plant_pair(maps: np.ndarray, i: int, draw: Any) -> int:
    """Let two heads attend to two words each, with one in common, which is the answer."""
    others = [j for j in range(maps.shape[1]) if j != i]
    j, first, second = (int(k) for k in draw.permutation(others)[:3])
    maps[0, i], maps[1, i] = 0.02, 0.02
    maps[0, i, [j, first]] = maps[1, i, [j, second]] = 0.44 + draw.random((2,)) * 0.02
    maps[1, i, [j, second]] = 0.44 + draw.random(2) * 0.02
    return j


def tabulate(data: ProbeData, hit: Any = None, heads: int = 3) -> Any:
    answers = data.cross_fit(5) if hit is None else (hit, data.document % 5)
    task, places = replace(SYNTAX_TASK, rules=("1",)), [(head, 0) for head in range(heads)]
    return tabulate_labels(data, answers, task, Labels("m", "d", {}, PLACES), places, [])


def test_a_relation_of_two_heads_is_found_by_no_head_alone():
    table = tabulate(ProbeData(draw_corpus(sentences=120, answer=plant_pair), 10.0))
    row = {name: table[name][0] for name in table.data}
    assert row["n"] == 720
    assert row["accuracy"] == 1
    assert 0.4 < row["best_head_accuracy"] < 0.6
    assert row["direction"] == "dependent_to_head"
    assert row["layer"] in {0, 1}
    assert row["gain"] == pytest.approx(row["accuracy"] - row["best_head_accuracy"])
    assert row["p_adjusted"] < 1e-6


@pytest.mark.parametrize("backward", [False, True])
def test_a_planted_head_is_found_whichever_way_it_attends(backward: bool):
    def plant(maps: np.ndarray, i: int, draw: Any) -> int:
        j = (i + 1 + int(draw.integers(5))) % 6
        maps[2, i, :] = 0.0
        maps[2, i, j] = 1.0
        return j

    corpus = draw_corpus(sentences=80, answer=plant)
    if backward:  # the same attention, the other way round
        corpus = AskedCorpus(
            tuple(
                replace(batch, codes=np.roll(batch.codes, 3, 2), heads=np.roll(batch.heads, 3, 1))
                for batch in corpus.batches
            )
        )
    data = ProbeData(corpus, 10.0)
    table = tabulate(data)
    assert table["accuracy"][0] == 1
    assert table["best_head_accuracy"][0] == 1
    assert table["layer"][0] == 2
    assert table["direction"][0] == ("head_to_dependent" if backward else "dependent_to_head")
    fitted = data.fit(data.every)
    heads = tabulate_heads(
        data, fitted, SYNTAX_TASK, Labels("m", "d", {}, PLACES), [(h, 0) for h in range(3)], []
    )
    assert sum(heads["share"]) == pytest.approx(1)
    best = int(np.argmax(heads["share"]))
    assert (heads["layer"][best], heads["direction"][best]) == (2, table["direction"][0])
    for row in range(6):  # weights are those of attention as it is
        place = heads["layer"][row] + 3 * (heads["direction"][row] == "head_to_dependent")
        assert heads["weight"][row] == pytest.approx(fitted[place] / data.spread[place])
    sizes = np.abs(np.array(heads["weight"])) * data.spread[[0, 3, 1, 4, 2, 5]]
    np.testing.assert_allclose(heads["share"], sizes / sizes.sum())


@pytest.mark.slow
def test_p_is_uniform_where_a_probe_knows_no_more_than_a_head():
    """Two independent guesses: the test of one against the other is not too eager."""
    draw = np.random.default_rng(0)
    p = []
    for seed in range(200):
        data = ProbeData(draw_corpus(seed, sentences=60), 100.0)
        p.append(tabulate(data, draw.random(len(data)) < 0.2)["p"][0])
    assert 0.01 < np.mean(np.array(p) < 0.05) < 0.09


def test_no_question_is_answered_by_a_probe_of_its_own_document():
    data = ProbeData(draw_corpus(sentences=30), 0.1)
    hit, fold = data.cross_fit(3)
    assert [len(set(fold[data.document == left_out])) for left_out in range(data.documents)] == [1] * 30
    for left_out in range(3):
        expected = data.answer(data.fit(fold != left_out), fold == left_out)
        assert hit[fold == left_out].tolist() == expected.tolist()


def test_labels_and_rules():
    """By a loop over folds: the head that finds most in the other folds; the best rule over all links."""
    draw = np.random.default_rng(2)
    maps = [draw_maps(draw, 3, 6) for _ in range(50)]
    right = [[[(i + 1 + int(draw.integers(5))) % 6] for i in range(6)] for _ in maps]
    rules = [draw.random((6, 3)) < [0.2, 0.5, 0.3] for _ in maps]
    batch = make_batch(maps, right, np.arange(50), rules)
    names = np.where(np.arange(300) % 3 == 0, "amod", "det")
    batch = replace(batch, label=np.concatenate([["all"] * 300, names]))
    data = ProbeData(AskedCorpus((batch,)), 10.0)
    hit, fold = data.cross_fit(5)
    task = replace(SYNTAX_TASK, rules=("-1", "1", "2"))
    heads = [(0, 0), (1, 0), (2, 0)]
    table = tabulate_labels(data, (hit, fold), task, Labels("m", "d", {}, PLACES), heads, [])
    assert list(table["relation"]) == ["all", "det", "amod"]
    assert list(table["n"]) == [300, 200, 100]
    hits, ruled = batch.heads, np.concatenate(rules)
    for row, label in enumerate(table["relation"]):
        mine = np.full(300, True) if label == "all" else names == label
        by_head = 0
        for left_out in range(5):
            here, others = mine & (fold == left_out), mine & (fold != left_out)
            by_head += hits[here, hits[others].sum(0).argmax()].sum()
        assert table["best_head_accuracy"][row] == pytest.approx(by_head / mine.sum())
        assert table["baseline"][row] == pytest.approx(ruled[mine].mean(0).max())
        per_document = np.array([hit[mine & (data.document == left_out)].sum() for left_out in range(50)])
        size = np.array([(mine & (data.document == left_out)).sum() for left_out in range(50)])
        left = per_document - size * per_document.sum() / size.sum()
        assert table["accuracy_se"][row] == pytest.approx(
            (np.square(left).sum() * 50 / 49) ** 0.5 / size.sum()
        )
    assert table["baseline_rule"][0] == "offset +1"
    only = tabulate_labels(
        data, (hit, fold), task, Labels("m", "d", {"asked": {"min_links": 150}}, PLACES), heads, []
    )
    assert list(only["relation"]) == ["all", "det"]
    assert any("amod" in note for note in only.notes)
