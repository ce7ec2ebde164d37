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
from attnprobe.intervention.pruning.criterion import Criterion
from attnprobe.intervention.pruning.curve import MaskedModel, prune_in_steps, walk_within
from attnprobe.intervention.pruning.orders import mask_heads, order_at_random, plan_steps
from attnprobe.intervention.pruning.writing import Saving
from attnprobe.intervention.request import TaskOptions
from attnprobe.intervention.task import TaskSession
from attnprobe.intervention.trials import AblationRun
from attnprobe.run.options import CorpusOptions
from attnprobe.run.progress import SilentProgress
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


def opened(documents, name="x"):
    return OpenSource(iter(documents), name, {})


def make_session(checkpoint, documents, metric="loss", *, progress=None, seed=42):
    options = CorpusOptions(batch_tokens=40)
    task = TaskOptions(metric=metric, seed=seed)
    return TaskSession(lambda *_: checkpoint, opened(documents), options, task, progress or SilentProgress())


@pytest.fixture
def pruned(checkpoint):
    """Prune the tiny BERT classifier."""

    def call(documents, criterion="gradient", rank_on=None, metric="loss", seed=42, said=None, **options):
        progress = None if said is None else Listener(said)
        options = {"step": 0.25, "random_orders": 0} | options
        session = make_session(checkpoint, documents, metric, progress=progress, seed=seed)
        rank_source = None if rank_on is None else opened(rank_on, "ranked")
        return prune_in_steps(session, Criterion.parse(criterion), rank_source, **options)

    return call


class Listener(SilentProgress):
    def __init__(self, said):
        self.said = said

    def say(self, sentence):
        self.said.append(sentence)


@pytest.fixture
def by_hand(checkpoint, scale_heads, inputs_of):
    """Give each text's logits with the first heads of an order cut out, and the right classes."""

    def logits(documents, order, removed):
        model = scale_heads(checkpoint.model, mask_heads(SHAPE, np.asarray(order), removed))
        with torch.no_grad():
            found = [model(**inputs_of(checkpoint.tokenizer, text)).logits[0] for text in documents]
        return torch.stack(found), torch.tensor([text.label for text in documents])

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


class TestWalk:
    """Within a margin: in tenths until one fails, then through its heads."""

    def walk(self, monkeypatch, heads, margin, curve, metric=LOSS):
        """Walk an order of heads whose removal costs what ``curve`` says of their number."""
        asked, draw = [], np.random.default_rng(0)
        base = draw.random(200)

        def run(data, cuts, needs, name, untouched=None):
            assert (untouched is None) == (not asked)
            outcomes = []
            for cut in cuts:
                asked.append(int((~cut).sum()))
                outcomes.append({metric.name: base + curve(asked[-1])})
            return AblationRun({metric.name: base}, [outcomes])

        monkeypatch.setattr("attnprobe.intervention.pruning.curve.run_trials", run)
        data = SimpleNamespace(model=SimpleNamespace(shape=(heads, 1)), documents=np.arange(200))
        order, model = draw.permutation(heads), MaskedModel(data, metric)
        numbers, within = walk_within(model, order, plan_steps(heads, 0.1), margin)
        assert numbers == sorted({0, *asked})
        assert len(asked) == len(set(asked))
        return asked, within

    @pytest.mark.parametrize(("heads", "last", "within"), [(72, 30, 30), (72, 0, 0), (144, 99, 98)])
    def test_the_last_that_passes_in_20_passes(self, monkeypatch, heads, last, within):
        """Head by head, or of a tenth with more than ten heads in parts of it."""
        asked, found = self.walk(monkeypatch, heads, 0.5, lambda number: float(number > last))
        assert found == within
        assert 1 + len(asked) <= 20


def test_a_margin_has_one_curve_of_what_was_tried(pruned, texts, by_hand):
    found = pruned(texts, margin=0.05)
    table = found.table.to_pandas()
    assert table["heads_removed"].is_monotonic_increasing
    passing = table["bound"].to_numpy()[1:] <= 0.05
    within = table["heads_removed"].to_numpy()[1:][: int(np.argmin(passing))].max(initial=0)
    assert found.within == within
    for number, score in zip(table["heads_removed"], table["score"], strict=True):
        wanted = cross_entropy(*by_hand(scored(texts), found.order, number)).item()
        assert score == pytest.approx(wanted, rel=1e-5)


def test_how_long_it_takes_is_said(pruned, texts):
    said = []
    pruned(texts, margin=0.05, said=said)
    assert any(
        re.fullmatch(r"ranking takes about 3 passes, scoring at most \d+: some .* in all.", one)
        for one in said
    )


def test_layers_that_share_their_weights_are_refused(headed, documents):
    session = make_session(headed("albert", "classification"), documents("classification"))
    with pytest.raises(AttnprobeError, match="Layers of albert share their weights"):
        prune_in_steps(session, Criterion("gradient"), step=0.1, random_orders=0)


# Curves


@pytest.mark.parametrize("criterion", ["gradient", "ablation"])
def test_scores_are_those_of_models_without_the_heads(pruned, texts, by_hand, criterion):
    found = pruned(texts, criterion)
    assert sorted(found.order) == list(range(HEADS))
    wanted = [by_hand(scored(texts), found.order, removed) for removed in QUARTERS]
    np.testing.assert_allclose(
        score_of(found.table), [cross_entropy(*pair).item() for pair in wanted], rtol=1e-5
    )
    losses = [cross_entropy(*pair, reduction="none").numpy() for pair in wanted]
    errors = [loss.std(ddof=1) / len(loss) ** 0.5 for loss in losses]
    np.testing.assert_allclose(score_of(found.table, "score_se"), errors, rtol=1e-4)
    accurate = pruned(texts, criterion, metric="accuracy")
    if criterion != "ablation":  # whose order is by the metric
        shares = [(logits.argmax(-1) == right).float().mean() for logits, right in wanted]
        np.testing.assert_allclose(score_of(accurate.table), shares, rtol=1e-6)


def ranked_by(checkpoint, documents, kind):
    """Rank heads by the table that the other command writes of some texts."""
    columns = {"gradient-normed": "importance_normalized", "fisher": "fisher", "lrp": "relevance_abs"}
    method = "lrp" if kind == "lrp" else "gradient"
    values = run_importance(make_session(checkpoint, documents), method)[columns[kind]]
    return sorted(range(HEADS), key=lambda head: values[head])


@pytest.mark.parametrize("kind", ["gradient-normed", "fisher", "lrp"])
def test_orders_are_those_of_the_other_half(pruned, checkpoint, texts, kind):
    (first, second), (_, numbers) = halves(texts)
    found = pruned(texts, kind)
    assert found.order.tolist() == ranked_by(checkpoint, first, kind)
    assert found.order.tolist() != ranked_by(checkpoint, second, kind)
    assert set(found.table["n"]) == {len(numbers)}
    named = pruned(second, kind, rank_on=first)
    assert named.order.tolist() == found.order.tolist()
    np.testing.assert_allclose(score_of(named.table), score_of(found.table), rtol=1e-5)


def test_random_orders_stand_beside(pruned, texts, by_hand):
    found = pruned(texts, random_orders=3, seed=7)
    table = found.table.to_pandas()
    chance = table[table["criterion"] == "random"]
    assert chance["seed"].tolist() == [7] * 5 + [8] * 5 + [9] * 5
    assert chance["heads_removed"].tolist() == QUARTERS * 3
    for seed, curve in chance.groupby("seed"):
        order = order_at_random(np.ones(SHAPE, bool), int(seed))
        wanted = [cross_entropy(*by_hand(scored(texts), order, removed)).item() for removed in QUARTERS]
        np.testing.assert_allclose(curve["score"], wanted, rtol=1e-5)
    again = pruned(texts, random_orders=3, seed=7).table.to_pandas()
    assert again.equals(table)
    ends = table[table["heads_removed"].isin([0, HEADS])].groupby("heads_removed")["score"]
    assert ends.nunique().tolist() == [1, 1]


# Differences


def losses_of(by_hand, documents, order):
    logits = [by_hand(documents, order, removed) for removed in QUARTERS]
    return np.array([cross_entropy(*pair, reduction="none").tolist() for pair in logits])


def test_differences_from_the_whole_model_are_paired(pruned, texts, by_hand):
    """Of every order, against Student's t of the examples' own differences."""
    found = pruned(texts, random_orders=2, seed=3)
    orders = [found.order, *(order_at_random(np.ones(SHAPE, bool), seed) for seed in (3, 4))]
    table = found.table.to_pandas()
    for number, order in enumerate(orders):
        losses = losses_of(by_hand, scored(texts), order)
        rows = table.iloc[5 * number : 5 * number + 5]
        assert rows[["delta", "delta_se", "p", "p_adjusted"]].iloc[0].isna().all()
        for step in range(1, 5):
            apart = losses[step] - losses[0]
            row = rows.iloc[step]
            assert row["delta"] == pytest.approx(apart.mean(), rel=1e-3)
            assert row["delta_se"] == pytest.approx(apart.std(ddof=1) / len(apart) ** 0.5, rel=1e-3)
            assert row["p"] == pytest.approx(ttest_rel(losses[step], losses[0]).pvalue, rel=1e-2)
        assert rows["p_adjusted"].iloc[1:].tolist() == pytest.approx(adjust(rows["p"].iloc[1:]).tolist())


def test_differences_from_random_orders_are_paired(pruned, texts, by_hand):
    found = pruned(texts, random_orders=2, seed=3)
    orders = [found.order, *(order_at_random(np.ones(SHAPE, bool), seed) for seed in (3, 4))]
    ours, *others = (losses_of(by_hand, scored(texts), order) for order in orders)
    table = found.table.to_pandas()
    names = ["delta_random", "delta_random_se", "p_random", "p_random_adjusted", "rank_among_random"]
    assert table.iloc[[0, 4, *range(5, 15)]][names].isna().all(axis=None)
    for step in range(1, 4):
        apart = ours[step] - (others[0][step] + others[1][step]) / 2
        row = table.iloc[step]
        assert row["delta_random"] == pytest.approx(apart.mean(), rel=1e-3)
        means = [other[step].mean() for other in others]
        error = np.sqrt(np.var(means, ddof=1) * 1.5 + apart.var(ddof=1) / len(apart))
        assert row["delta_random_se"] == pytest.approx(error, rel=1e-3)
        within = min(means) <= ours[step].mean() <= max(means)
        p = 1 if within else 2 * t.sf(abs(apart.mean()) / error, 1)
        assert row["p_random"] == pytest.approx(p, rel=1e-2)
        assert row["rank_among_random"] == 1 + sum(mean <= ours[step].mean() for mean in means)
    adjusted = table["p_random_adjusted"].iloc[1:4].tolist()
    assert adjusted == pytest.approx(adjust(table["p_random"].iloc[1:4]).tolist())


# Ranking again


def test_reranked_ablation_is_greedy(pruned, texts, by_hand):
    """One head at a time: each is the one whose going moves the losses of the first half least."""
    found = pruned(texts, "ablation", rerank=True, step=1 / HEADS)
    first, gone = halves(texts)[0][0], []

    def losses(order):
        return cross_entropy(*by_hand(first, np.array(order, int), len(order)), reduction="none").numpy()

    for head in found.order[:2]:
        left = [other for other in range(HEADS) if other not in gone]
        moved = {other: np.abs(losses([*gone, other]) - losses(gone)).mean() for other in left}
        assert moved[head] == pytest.approx(min(moved.values()), abs=1e-6)
        gone.append(int(head))


# What can't be


def test_one_text_can_not_rank_and_be_scored(pruned, texts, tmp_path):
    with pytest.raises(AttnprobeError, match="ranked and scored"):
        pruned(texts[:1])
    found = pruned(texts[:1], rank_on=texts[1:])
    assert set(found.table["n"]) == {1}
    found = pruned(texts[:1], ranks_csv(tmp_path))
    assert found.order.tolist() == list(range(HEADS))


def ranks_csv(folder):
    path = folder / "heads.csv"
    rows = [f"{layer},{head},{layer * 4 + head}" for layer in range(3) for head in range(4)]
    path.write_text("\n".join(["layer,head,worth", *rows]))
    return f"{path}:worth"


def test_grouped_heads_are_written(headed, documents, tmp_path):
    checkpoint = headed("llama", "causal-lm")
    session = make_session(checkpoint, [text for text in documents("causal-lm") if len(text.text) > 5])
    saving = Saving(tmp_path / "less", 0.25)
    found = prune_in_steps(session, Criterion("gradient"), saving=saving, step=0.5, random_orders=0)
    saving.write(found, replace(session, facts={"command": "prune"}))
    assert (tmp_path / "less" / "config.json").is_file()
