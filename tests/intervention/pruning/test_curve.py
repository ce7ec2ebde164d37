"""The score while heads go, against models whose heads were cut out by hand."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import t, ttest_rel
from torch.nn.functional import cross_entropy

from attnprobe.corpus.source import OpenSource
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.importance import run_importance
from attnprobe.intervention.metrics.score import mean_score
from attnprobe.intervention.pruning.curve import MaskedModel, prune_in_steps, walk_within
from attnprobe.intervention.pruning.orders import mask_heads, order_at_random, plan_steps
from attnprobe.intervention.pruning.writing import Saving
from attnprobe.intervention.request import Criterion, TaskOptions
from attnprobe.intervention.trials import AblationRun
from attnprobe.run.options import CorpusOptions
from attnprobe.sums.documents import in_second_half
from attnprobe.sums.inference import adjust

SHAPE, HEADS = (3, 4), 12
LOSS = mean_score("loss", "nats", higher_is_better=False)
QUARTERS = [0, 3, 6, 9, 12]


@pytest.fixture
def checkpoint(headed):
    return headed("bert", "classification")


@pytest.fixture
def texts(documents):
    return documents("classification")


def halves(documents):
    """Give the texts that rank and those that are scored, and their numbers."""
    second = in_second_half(np.arange(len(documents)))
    numbers = [np.flatnonzero(second == which).tolist() for which in (False, True)]
    return [[documents[number] for number in half] for half in numbers], numbers


def scored(documents):
    return halves(documents)[0][1]


@pytest.fixture
def session(task_session, listener):
    """Make a session of a checkpoint on texts, scored by its loss or another metric."""

    def make(checkpoint, documents, metric="loss", seed=42):
        task, options = TaskOptions(metric=metric, seed=seed), CorpusOptions(batch_tokens=40)
        return task_session(checkpoint, task, options, documents, progress=listener)

    return make


@pytest.fixture
def prune(checkpoint, session):
    """Prune the tiny BERT classifier."""

    def call(documents, criterion="gradient", rank_on=None, metric="loss", seed=42, **options):
        options = {"step": 0.25, "random_orders": 0} | options
        rank_source = None if rank_on is None else OpenSource(iter(rank_on), "ranked", {})
        opened = session(checkpoint, documents, metric, seed)
        return prune_in_steps(opened, Criterion.parse(criterion), rank_source, **options)

    return call


@pytest.fixture
def by_hand(checkpoint, scale_heads, inputs_of):
    """Compute each text's logits without the first heads of an order, and list the right classes."""

    def logits(documents, order, removed):
        model = scale_heads(checkpoint.model, mask_heads(SHAPE, np.asarray(order), removed))
        with torch.no_grad():
            rows = [model(**inputs_of(checkpoint.tokenizer, text)).logits[0] for text in documents]
        return torch.stack(rows), torch.tensor([text.label for text in documents])

    return logits


def score_of(table, name="score"):
    return np.array(table[name], dtype=float)


# Steps


@pytest.mark.parametrize(
    ("heads", "step", "wanted"),
    [
        (24, 0.25, [0, 6, 12, 18, 24]),
        (10, 0.3, [0, 3, 6, 9, 10]),
        (7, 1.0, [0, 7]),
        (12, 1 / 3, [0, 4, 8, 12]),
        (5, 1e-300, list(range(6))),
    ],
)
def test_steps(heads, step, wanted):
    assert plan_steps(heads, step) == wanted


@pytest.mark.parametrize(("heads", "last", "within"), [(72, 30, 30), (72, 0, 0), (144, 99, 98)])
def test_the_last_that_passes_is_reached_in_20_passes(monkeypatch, heads, last, within):
    """In tenths until one fails, then head by head, or, of more than ten heads in a tenth, in parts."""
    tried, draw = [], np.random.default_rng(0)
    base = draw.random(200)

    def run(data, masks, needs, name, untouched=None):
        assert (untouched is None) == (not tried)
        numbers = [int((~mask).sum()) for mask in masks]
        tried.extend(numbers)
        masked = [{"loss": base + float(number > last)} for number in numbers]
        return AblationRun({"loss": base}, [masked])

    monkeypatch.setattr("attnprobe.intervention.pruning.curve.run_trials", run)
    data = SimpleNamespace(model=SimpleNamespace(shape=(heads, 1)), documents=np.arange(200))
    model, order = MaskedModel(data, LOSS), draw.permutation(heads)
    numbers, passed = walk_within(model, order, plan_steps(heads, 0.1), 0.5)
    assert passed == within
    assert numbers == sorted({0, *tried})
    assert len(tried) == len(set(tried)) < 20


def test_a_margin_has_one_curve_of_what_was_tried(prune, texts, by_hand):
    pruned = prune(texts, margin=0.05)
    table = pruned.table.to_pandas()
    assert table["heads_removed"].is_monotonic_increasing
    passing = table["bound"].to_numpy()[1:] <= 0.05
    within = table["heads_removed"].to_numpy()[1:][: int(np.argmin(passing))].max(initial=0)
    assert pruned.within == within
    for number, score in zip(table["heads_removed"], table["score"], strict=True):
        wanted = cross_entropy(*by_hand(scored(texts), pruned.order, number)).item()
        assert score == pytest.approx(wanted, rel=1e-5)


def test_how_long_it_takes_is_told(prune, texts, listener):
    prune(texts, margin=0.05)
    line = re.compile(r"ranking takes about 3 passes, scoring at most \d+: some .* in all.")
    assert any(map(line.fullmatch, listener.sentences))


def test_layers_that_share_their_weights_are_refused(headed, documents, session):
    albert = session(headed("albert", "classification"), documents("classification"))
    with pytest.raises(AttnprobeError, match="Layers of albert share their weights"):
        prune_in_steps(albert, Criterion("gradient"), step=0.1, random_orders=0)


# Curves


@pytest.mark.parametrize("criterion", ["gradient", "ablation"])
def test_scores_are_those_of_models_without_the_heads(prune, texts, by_hand, criterion):
    pruned = prune(texts, criterion)
    assert sorted(pruned.order) == list(range(HEADS))
    wanted = [by_hand(scored(texts), pruned.order, removed) for removed in QUARTERS]
    np.testing.assert_allclose(
        score_of(pruned.table), [cross_entropy(*pair).item() for pair in wanted], rtol=1e-5
    )
    losses = [cross_entropy(*pair, reduction="none").numpy() for pair in wanted]
    errors = [loss.std(ddof=1) / len(loss) ** 0.5 for loss in losses]
    np.testing.assert_allclose(score_of(pruned.table, "score_se"), errors, rtol=1e-4)
    accurate = prune(texts, criterion, metric="accuracy")
    if criterion != "ablation":  # whose order is by the metric
        shares = [(logits.argmax(-1) == right).float().mean() for logits, right in wanted]
        np.testing.assert_allclose(score_of(accurate.table), shares, rtol=1e-6)


def rank_heads(session, kind):
    """Rank heads by the table that ``importance`` writes."""
    columns = {"gradient-normed": "importance_normalized", "fisher": "fisher", "lrp": "relevance_abs"}
    method = "lrp" if kind == "lrp" else "gradient"
    values = run_importance(session, method)[columns[kind]]
    return sorted(range(HEADS), key=lambda head: values[head])


@pytest.mark.parametrize("kind", ["gradient-normed", "fisher", "lrp"])
def test_orders_are_those_of_the_other_half(prune, session, checkpoint, texts, kind):
    (first, second), (_, numbers) = halves(texts)
    pruned = prune(texts, kind)
    assert pruned.order.tolist() == rank_heads(session(checkpoint, first), kind)
    assert pruned.order.tolist() != rank_heads(session(checkpoint, second), kind)
    assert set(pruned.table["n"]) == {len(numbers)}
    named = prune(second, kind, rank_on=first)
    assert named.order.tolist() == pruned.order.tolist()
    np.testing.assert_allclose(score_of(named.table), score_of(pruned.table), rtol=1e-5)


def test_random_orders_stand_beside(prune, texts, by_hand):
    pruned = prune(texts, random_orders=3, seed=7)
    table = pruned.table.to_pandas()
    chance = table[table["criterion"] == "random"]
    assert chance["seed"].tolist() == [7] * 5 + [8] * 5 + [9] * 5
    assert chance["heads_removed"].tolist() == QUARTERS * 3
    for seed, curve in chance.groupby("seed"):
        order = order_at_random(np.ones(SHAPE, bool), int(seed))
        wanted = [cross_entropy(*by_hand(scored(texts), order, removed)).item() for removed in QUARTERS]
        np.testing.assert_allclose(curve["score"], wanted, rtol=1e-5)
    again = prune(texts, random_orders=3, seed=7).table.to_pandas()
    assert again.equals(table)
    ends = table[table["heads_removed"].isin([0, HEADS])].groupby("heads_removed")["score"]
    assert ends.nunique().tolist() == [1, 1]


# Differences


def losses_of(by_hand, documents, order):
    logits = [by_hand(documents, order, removed) for removed in QUARTERS]
    return np.array([cross_entropy(*pair, reduction="none").tolist() for pair in logits])


def test_differences_from_the_whole_model_are_paired(prune, texts, by_hand):
    """Of every order, against Student's t of the examples' own differences."""
    pruned = prune(texts, random_orders=2, seed=3)
    orders = [pruned.order, *(order_at_random(np.ones(SHAPE, bool), seed) for seed in (3, 4))]
    table = pruned.table.to_pandas()
    for number, order in enumerate(orders):
        losses = losses_of(by_hand, scored(texts), order)
        rows = table.iloc[5 * number : 5 * number + 5]
        assert rows[["delta", "delta_se", "p", "p_adjusted"]].iloc[0].isna().all()
        for step in range(1, 5):
            lost = losses[step] - losses[0]
            row = rows.iloc[step]
            assert row["delta"] == pytest.approx(lost.mean(), rel=1e-3)
            assert row["delta_se"] == pytest.approx(lost.std(ddof=1) / len(lost) ** 0.5, rel=1e-3)
            assert row["p"] == pytest.approx(ttest_rel(losses[step], losses[0]).pvalue, rel=1e-2)
        assert rows["p_adjusted"].iloc[1:].tolist() == pytest.approx(adjust(rows["p"].iloc[1:]).tolist())


def test_differences_from_random_orders_are_paired(prune, texts, by_hand):
    pruned = prune(texts, random_orders=2, seed=3)
    orders = [pruned.order, *(order_at_random(np.ones(SHAPE, bool), seed) for seed in (3, 4))]
    ours, *others = (losses_of(by_hand, scored(texts), order) for order in orders)
    table = pruned.table.to_pandas()
    names = ["delta_random", "delta_random_se", "p_random", "p_random_adjusted", "rank_among_random"]
    assert table.iloc[[0, 4, *range(5, 15)]][names].isna().all(axis=None)
    for step in range(1, 4):
        lost = ours[step] - (others[0][step] + others[1][step]) / 2
        row = table.iloc[step]
        assert row["delta_random"] == pytest.approx(lost.mean(), rel=1e-3)
        means = [other[step].mean() for other in others]
        error = np.sqrt(np.var(means, ddof=1) * 1.5 + lost.var(ddof=1) / len(lost))
        assert row["delta_random_se"] == pytest.approx(error, rel=1e-3)
        within = min(means) <= ours[step].mean() <= max(means)
        p = 1 if within else 2 * t.sf(abs(lost.mean()) / error, 1)
        assert row["p_random"] == pytest.approx(p, rel=1e-2)
        assert row["rank_among_random"] == 1 + sum(mean <= ours[step].mean() for mean in means)
    adjusted = table["p_random_adjusted"].iloc[1:4].tolist()
    assert adjusted == pytest.approx(adjust(table["p_random"].iloc[1:4]).tolist())


# Ranking again


def test_reranked_ablation_is_greedy(prune, texts, by_hand):
    """One head at a time: each is the one whose going moves the losses of the first half least."""
    pruned = prune(texts, "ablation", rerank=True, step=1 / HEADS)
    first, gone = halves(texts)[0][0], []

    def losses(order):
        return cross_entropy(*by_hand(first, np.array(order, int), len(order)), reduction="none").numpy()

    for head in pruned.order[:2]:
        left = [other for other in range(HEADS) if other not in gone]
        moved = {other: np.abs(losses([*gone, other]) - losses(gone)).mean() for other in left}
        assert moved[head] == pytest.approx(min(moved.values()), abs=1e-6)
        gone.append(int(head))


# What can't be


def test_one_text_can_not_rank_and_be_scored(prune, texts, tmp_path):
    with pytest.raises(AttnprobeError, match="ranked and scored"):
        prune(texts[:1])
    pruned = prune(texts[:1], rank_on=texts[1:])
    assert set(pruned.table["n"]) == {1}
    pruned = prune(texts[:1], ranks_csv(tmp_path))
    assert pruned.order.tolist() == list(range(HEADS))


def ranks_csv(folder):
    path = folder / "heads.csv"
    rows = [f"{layer},{head},{layer * 4 + head}" for layer in range(3) for head in range(4)]
    path.write_text("\n".join(["layer,head,size", *rows]))
    return f"{path}:size"


def test_grouped_heads_are_written(headed, documents, session, tmp_path):
    texts = [text for text in documents("causal-lm") if len(text.text) > 5]
    llama, saving = session(headed("llama", "causal-lm"), texts), Saving(tmp_path / "less", 0.25)
    pruned = prune_in_steps(llama, Criterion("gradient"), saving=saving, step=0.5, random_orders=0)
    saving.write(pruned, replace(llama, facts={"command": "prune"}))
    assert (tmp_path / "less" / "config.json").is_file()
