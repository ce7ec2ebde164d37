"""Orders of heads: by what was measured, by a table, by chance."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas
import pytest
import torch
from torch.nn.functional import cross_entropy

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.ablation import tabulate_ablation
from attnprobe.intervention.pruning.criterion import Criterion
from attnprobe.intervention.pruning.orders import (
    mask_heads,
    measure_importance,
    order_at_random,
    order_by_importance,
    order_stepwise,
)
from attnprobe.intervention.task import build_metric

SHAPE = (3, 4)


@pytest.fixture
def bench(headed, documents, benched):
    """Set the tiny BERT classifier on its texts."""
    with benched(headed("bert", "classification"), documents("classification")) as found:
        yield found


@pytest.fixture
def importance(bench):
    """Measure the importance of heads for the loss."""

    def measure(criterion, open_heads=None):
        metric = build_metric("loss", bench, 42)
        return measure_importance(criterion, bench, metric, open_heads)

    return measure


def losses(checkpoint, documents, inputs_of):
    """Give the loss of every text, one at a time."""
    found = []
    with torch.no_grad():
        for document in documents:
            logits = checkpoint.model(**inputs_of(checkpoint.tokenizer, document)).logits
            found.append(cross_entropy(logits, torch.tensor([document.label])).item())
    return np.array(found)


@pytest.fixture
def loss_of(headed, documents, cut_by_hand, inputs_of):
    """Give the loss of every text with heads cut out by hand."""
    checkpoint = headed("bert", "classification")

    def measure(cut):
        model = cut_by_hand(checkpoint.model, cut)
        return losses(replace(checkpoint, model=model), documents("classification"), inputs_of)

    return measure


# Criteria


def test_a_file_may_have_a_comma_in_its_name(tmp_path):
    path = tmp_path / "a,b.csv"
    path.write_text("layer,head,jsd_mean\n0,0,0.5\n0,1,0.25\n")
    criterion = Criterion.parse(f"{path}:jsd_mean", highest_first=True)
    assert (criterion.path, criterion.highest_first) == (path, True)
    with pytest.raises(AttnprobeError, match="--highest-first is for tables"):
        Criterion.parse("gradient", highest_first=True)


@pytest.mark.parametrize(
    ("name", "instead"),
    [("gradient_signed", "importance"), ("relevance", "relevance_abs"), ("ig", "ig_abs"), ("delta", "moved")],
)
def test_signed_orders_are_refused(tmp_path, name, instead):
    path = tmp_path / "heads.csv"
    path.write_text(f"layer,head,{name},{instead}\n0,0,0.5,1\n0,1,-0.25,2\n")
    with pytest.raises(AttnprobeError, match=f"{name} has a sign: .* instead: .*heads.csv:{instead}"):
        Criterion.parse(f"{path}:{name}")
    assert Criterion.parse(f"{path}:{instead}").side is not None
    if name != "ig":  # which names the size by itself
        with pytest.raises(AttnprobeError, match="has a sign: heads that help some examples"):
            Criterion.parse(name.replace("_", "-"))


@pytest.mark.parametrize(
    "spec", ["", "unknown", "gradient,fisher", ":entropy", "heads.csv:", ":", "heads.csv"]
)
def test_criteria_that_are_none(spec):
    with pytest.raises(AttnprobeError, match="no criterion"):
        Criterion.parse(spec)


def test_a_table_leaves_nothing_to_rank(heads_csv):
    Criterion.parse("fisher").check_measured("--rerank")
    with pytest.raises(AttnprobeError, match=r"--rerank has nothing to rank, as heads.csv:worth is an order"):
        Criterion.parse(heads_csv(range(12))).check_measured("--rerank")


# Orders


def test_the_least_important_goes_first_and_ties_go_by_place():
    importance = np.array([[3.0, 1.0, 2.0], [1.0, 0.0, 3.0]])
    assert order_by_importance(importance).tolist() == [4, 1, 3, 2, 0, 5]


def test_every_head_goes_first_about_as_often():
    firsts = np.bincount(
        [order_at_random(np.ones(SHAPE, bool), seed)[0] for seed in range(1200)], minlength=12
    )
    assert firsts.min() > 60
    assert firsts.max() < 140


def test_cuts_close_the_first_heads_of_an_order():
    order = np.array([5, 0, 11, *(n for n in range(12) if n not in {5, 0, 11})])
    assert mask_heads(SHAPE, order, 0).all()
    assert np.argwhere(~mask_heads(SHAPE, order, 3)).tolist() == [[0, 0], [1, 1], [2, 3]]
    assert not mask_heads(SHAPE, order, 12).any()


@pytest.mark.parametrize("removed", [[0, 1, 2, 3, 4, 5, 6], [0, 2, 4, 6], [0, 6], [0, 4, 6]])
def test_reranking_asks_again_with_those_gone_off(removed):
    """Heads are worth more the more of their neighbours are off: each one's going reorders the rest."""
    shape, asked = (2, 3), []
    base = np.array([[5.0, 1.0, 2.0], [2.5, 4.0, 3.0]])

    def measure(on):
        asked.append(on.copy())
        return base + 10.0 * (~on).sum(-1, keepdims=True)

    order = order_stepwise(shape, removed, measure)
    wanted, gone = [], set()
    for before, after in pairwise(removed):
        score = {
            n: base[divmod(n, 3)] + 10.0 * sum(other // 3 == n // 3 for other in gone)
            for n in range(6)
            if n not in gone
        }
        leaving = sorted(score, key=score.get)[: after - before]
        wanted += leaving
        gone |= set(leaving)
    assert order.tolist() == wanted
    assert [int((~on).sum()) for on in asked] == removed[:-1]


# What heads are worth


def test_ablation_is_how_far_each_loss_moves(importance, loss_of):
    """Whichever way: a head that helps some texts and harms others moves them."""
    found, signed = importance(Criterion("ablation")), np.zeros(SHAPE)
    whole = loss_of(np.ones(SHAPE, bool))
    for place in np.ndindex(SHAPE):
        cut = np.ones(SHAPE, bool)
        cut[place] = False
        apart = loss_of(cut) - whole
        assert found[place] == pytest.approx(np.abs(apart).mean(), abs=2e-6)
        signed[place] = apart.mean()
    assert (found > np.abs(signed) + 1e-3).any()


def test_ablation_of_a_score_that_is_no_mean(bench):
    """How far the loss of each example moves, as the column ``moved`` of ``ablate`` has it."""
    metric = build_metric("mcc", bench, 42)
    found = measure_importance(Criterion("ablation"), bench, metric)
    table = tabulate_ablation(bench, metric)
    np.testing.assert_allclose(found.ravel(), table["moved"], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(
        found, measure_importance(Criterion("ablation"), bench, build_metric("loss", bench, 42))
    )


def test_gradient_is_normalised_in_its_layer(importance):
    found, raw = (importance(Criterion(name)) for name in ("gradient-normed", "gradient"))
    np.testing.assert_allclose((found**2).sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(found, raw / np.sqrt((raw**2).sum(-1, keepdims=True)), rtol=1e-6)
    assert np.ptp(np.linalg.norm(raw, axis=-1)) > 1e-3  # layers of different lengths are left as they are


def test_gradient_is_normalised_over_open_heads(importance):
    """What a closed gate would do counts for nothing, and a layer without heads is worth nothing."""
    at = np.ones(SHAPE, bool)
    at[1, :2] = at[2] = False
    found = importance(Criterion("gradient-normed"), at)
    assert (found[~at] == 0).all()
    np.testing.assert_allclose((found**2).sum(-1), [1, 1, 0], rtol=1e-6)


def test_gradient_with_heads_off_already(headed, documents, importance, cut_by_hand, inputs_of):
    """Against differences of each text's loss, in double precision, with the gates in the weights."""
    at = np.ones(SHAPE)
    at[2, 1:] = at[1, 0] = 0
    checkpoint = headed("bert", "classification", double=True)

    def losses_at(place, value):
        gates = at.copy()
        gates[place] = value
        model = cut_by_hand(checkpoint.model, gates)
        return losses(replace(checkpoint, model=model), documents("classification"), inputs_of)

    slopes = [losses_at((0, head), 1 + 1e-4) - losses_at((0, head), 1 - 1e-4) for head in range(4)]
    slopes = np.array(slopes) / 2e-4
    wanted = np.abs(slopes).mean(-1)
    np.testing.assert_allclose(importance(Criterion("gradient"), at > 0)[0], wanted, rtol=1e-3)
    np.testing.assert_allclose(importance(Criterion("fisher"), at > 0)[0], (slopes**2).mean(-1), rtol=2e-3)
    assert not np.allclose(importance(Criterion("gradient"))[0], wanted, rtol=1e-2)


# Tables


@pytest.fixture
def heads_csv(tmp_path):
    """Write a table of as many heads as the tiny BERT has, rows shuffled."""

    def write(values, rows=12, **more):
        places = {"layer": np.repeat(range(3), 4), "head": np.tile(range(4), 3)}
        frame = pandas.DataFrame(places | {"worth": values} | more).head(rows)
        path = tmp_path / "heads.csv"
        frame.sample(frac=1, random_state=0).to_csv(path, index=False)
        return f"{path}:worth"

    return write


def test_a_column_of_a_table(importance, heads_csv):
    values = np.random.default_rng(0).normal(size=12)
    spec = heads_csv(values)
    np.testing.assert_array_equal(importance(Criterion.parse(spec)), values.reshape(SHAPE))
    order = order_by_importance(importance(Criterion.parse(spec, highest_first=True)))
    assert order.tolist() == sorted(range(12), key=lambda n: -values[n])


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"values": range(12), "rows": 11}, "11 heads, which are not the 3 x 4 of bert"),
        ({"values": [np.nan, *range(11)]}, "undefined for some heads"),
        ({"values": 1.0}, "the same worth"),
        ({"values": range(12), "model": "other"}, "heads.csv is about other, not about bert"),
        ({"values": "x"}, "no number"),
        ({"values": 1.0, "dataset": ["a", "b"] * 6}, "more than one table"),
    ],
)
def test_tables_that_do_not_fit(importance, heads_csv, table, says):
    spec = heads_csv(**table)
    with pytest.raises(AttnprobeError, match=says):
        importance(Criterion.parse(spec))
