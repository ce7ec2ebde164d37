"""Orders of heads: by what was measured, by a table, by chance."""

import numpy as np
import pandas
import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.pruning.orders import mask_heads, measure_importance, order_by_importance
from attnprobe.intervention.request import Criterion
from attnprobe.intervention.task import build_metric

SHAPE = (3, 4)


@pytest.fixture
def importance(headed, documents, task_data):
    """Measure the importance of the heads of the tiny BERT for its loss."""

    def measure(criterion):
        with task_data(headed("bert", "classification"), documents("classification")) as data:
            return measure_importance(criterion, data, build_metric("loss", data, 42))

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
    with pytest.raises(AttnprobeError, match=r"--rerank has nothing to rank, as heads.csv:size is an order"):
        Criterion.parse(heads_csv(range(12))).check_measured("--rerank")


# Orders


def test_the_least_important_goes_first_and_ties_go_by_place():
    importance = np.array([[3.0, 1.0, 2.0], [1.0, 0.0, 3.0]])
    assert order_by_importance(importance).tolist() == [4, 1, 3, 2, 0, 5]


def test_masks_close_the_first_heads_of_an_order():
    order = np.array([5, 0, 11, *(n for n in range(12) if n not in {5, 0, 11})])
    assert mask_heads(SHAPE, order, 0).all()
    assert np.argwhere(~mask_heads(SHAPE, order, 3)).tolist() == [[0, 0], [1, 1], [2, 3]]
    assert not mask_heads(SHAPE, order, 12).any()


# Ablation


def test_ablation_is_how_far_each_loss_moves(importance, losses):
    """Whichever way: a head that helps some texts and harms others moves them."""
    whole = losses(np.ones(SHAPE))
    masks = 1 - np.eye(12).reshape(-1, *SHAPE)
    change = np.stack([losses(mask) - whole for mask in masks], -1).reshape(-1, *SHAPE)
    moved = importance(Criterion("ablation"))
    np.testing.assert_allclose(moved, np.abs(change).mean(0), atol=2e-6)
    assert (moved > np.abs(change.mean(0)) + 1e-3).any()


# Tables


@pytest.fixture
def heads_csv(tmp_path):
    """Write a table of as many heads as the tiny BERT has, rows shuffled."""

    def write(values, rows=12, **more):
        places = {"layer": np.repeat(range(3), 4), "head": np.tile(range(4), 3)}
        frame = pandas.DataFrame(places | {"size": values} | more).head(rows)
        path = tmp_path / "heads.csv"
        frame.sample(frac=1, random_state=0).to_csv(path, index=False)
        return f"{path}:size"

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
        ({"values": 1.0}, "the same size"),
        ({"values": range(12), "model": "other"}, "heads.csv is about other, not about bert"),
        ({"values": "x"}, "no number"),
        ({"values": 1.0, "dataset": ["a", "b"] * 6}, "more than one table"),
    ],
)
def test_tables_that_do_not_fit(importance, heads_csv, table, says):
    spec = heads_csv(**table)
    with pytest.raises(AttnprobeError, match=says):
        importance(Criterion.parse(spec))
