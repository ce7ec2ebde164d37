"""Bisection of an order, step by step, beside the whole curve, and how often a step that passes lies."""

from math import floor, log2
from typing import Any

import numpy as np
import pytest

from attnprobe.corpus.sources.text import OpenSource
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.mean import Mean
from attnprobe.intervention.pruning.curve import prune_in_steps
from attnprobe.intervention.pruning.differences import bound_losses
from attnprobe.intervention.pruning.options import Criterion, PruneOptions
from attnprobe.intervention.pruning.search import Search, bisect_steps, describe_search
from attnprobe.intervention.request import TaskOptions
from attnprobe.run.options import CorpusOptions
from attnprobe.run.progress import SilentProgress

LOSS = Mean("loss", "nats", higher_is_better=False)


@pytest.mark.parametrize("last", [1, 2, 3, 9, 23, 71, 143])
def test_every_limit_is_found_to_within_a_step(last: int):
    """Where losses grow, what passes is the limit, or the step before it; never a step that was not tried."""
    for limit in range(last + 1):
        tried = bisect_steps(last, lambda step, limit=limit: step <= limit)
        assert len(tried) == len(set(tried)) <= max(1, floor(log2(last + 1)))
        found = max((step for step in tried if step <= limit), default=0)
        assert limit - 1 <= found <= limit
    assert len(bisect_steps(71, lambda step: True)) == 6


@pytest.fixture
def pruned(headed: Any, documents: Any) -> Any:
    """Prune the tiny BERT classifier on texts of its own, twelve times over."""

    def call(objective: str = "classification", metric: str = "loss", **options: Any) -> Any:
        checkpoint = headed("bert", objective)
        texts = documents("classification" if objective == "classification" else "representation") * 12
        with prune_in_steps(
            lambda *_: checkpoint,
            OpenSource(iter(texts), "x", {}),
            None,
            CorpusOptions(batch_tokens=400),
            TaskOptions(objective=objective, metric=metric),
            PruneOptions(Criterion.parse_several("gradient"), **{"step": 0.01, "random_orders": 0} | options),
            facts={},
            progress=SilentProgress(),
        ) as (found, _):
            return found

    return call


@pytest.mark.parametrize(
    ("objective", "metric"),
    [("classification", "loss"), ("classification", "accuracy"), ("representation", "similarity")],
)
def test_rows_are_those_of_the_whole_curve(pruned: Any, objective: str, metric: str):
    """To the last bit, though no pass is made with all heads on but the first."""
    whole = pruned(objective, metric).table.to_pandas().set_index("step")
    margins = sorted({float(one) for one in whole["bound"].to_numpy()[1:-1] if one > 0})
    for margin in (margins[0] - 1e-9, margins[len(margins) // 2] + 1e-9, margins[-1] + 1e-9):
        found = pruned(objective, metric, margin=margin, search="bisect")
        table = found.table.to_pandas().set_index("step")
        assert found.table.kind == "pruning"
        tried = bisect_steps(11, lambda step, margin=margin: bool(whole["bound"][step] <= margin))
        assert table.index.tolist() == [0, *sorted(tried)]
        assert table["tried"].tolist() == [0, *(tried.index(step) + 1 for step in sorted(tried))]
        passing = [step for step in tried if whole["bound"][step] <= margin]
        assert found.removed == max(passing, default=0)
        for name in ("heads_removed", "score", "score_se", "bound"):
            np.testing.assert_array_equal(table[name], whole[name][table.index], err_msg=name)
        for name in ("delta", "delta_se", "p"):
            np.testing.assert_array_equal(table[name][1:], whole[name][table.index][1:], err_msg=name)
        said = f"{found.removed} of 12 heads can go" if passing else "None of the steps that were tried lies"
        assert said in found.table.notes[0]
        assert found.table.provenance["pruning"]["search"] == "bisect"


def test_accuracy_and_the_most_frequent_label_stand_beside(pruned: Any):
    found = pruned(metric="loss", margin=100.0, search="bisect").table
    whole = pruned(metric="accuracy").table.to_pandas().set_index("step")
    table = found.to_pandas().set_index("step")
    np.testing.assert_array_equal(table["accuracy"], whole["score"][table.index])
    np.testing.assert_allclose(table["accuracy_se"], whole["score_se"][table.index], rtol=1e-12)
    majority = next(note for note in pruned(metric="accuracy").table.notes if "most frequent label" in note)
    assert f"{table['majority'][0]:.4g}" in majority
    assert f"Always naming the most frequent label has {table['majority'][0]:.4g}" in found.notes[1]


def test_a_collapsed_model_is_called_so():
    """Its loss may be lower than that of a model that is right more often, and too sure of itself."""
    names, right = np.full(200, -1), np.arange(200) % 10 > 0
    whole = {"loss": np.where(right, 0.0, 30.0), "accuracy": right, "cluster": names}
    collapsed = {"loss": np.full(200, 0.69), "accuracy": np.arange(200) % 2 > 0, "cluster": names}
    bounds = bound_losses(LOSS, [whole, collapsed], whole)
    found = Search(LOSS, 0.01, [0, 9], [0, 9], [0, 1], whole, [whole, collapsed], bounds, (10, 10), 0.5)
    first, second, third = describe_search(found, 200)
    assert first.startswith("A step that passes a margin of 0.01: 9 of 10 heads can go")
    assert "accuracy is 0.5, and 0.9 with all heads" in second
    assert third.startswith("The step passes, and the model has collapsed")


def draw_curve(draw: np.random.Generator, steps: int) -> Any:
    """Draw the true losses of an order: they rise in the end, and go back at four of ten steps."""
    rise = draw.uniform(0.0002, 0.002) * np.linspace(0, 2, steps) ** draw.uniform(1, 4)
    return np.cumsum(rise + draw.normal(size=steps) * draw.uniform(0.001, 0.004))


def test_how_often_a_step_that_passes_lies():
    """Of drawn curves that go up and down, the truth lies beyond the margin in .03 of searches or fewer."""
    margin, steps, examples, runs = 0.01, 71, 300, 600
    beyond, tried, back = 0, [], []
    for run in range(runs):
        draw = np.random.default_rng([run, 26])
        curve = draw_curve(draw, steps)
        back.append((np.diff(curve)[:40] < 0).mean())
        # What examples have in common at neighbouring steps, and tails as those of losses.
        scale = draw.exponential(size=examples)
        noise = np.cumsum(draw.normal(size=(steps, examples)), 0) * scale * 0.02
        names = np.full(examples, -1)
        whole = {"loss": np.zeros(examples), "cluster": names}

        def passes(step: int, noise: Any = noise, curve: Any = curve, whole: Any = whole) -> bool:
            lost = {"loss": curve[step - 1] + noise[step - 1], "cluster": whole["cluster"]}
            return bool(bound_losses(LOSS, [whole, lost], whole)[1] <= margin)

        order = bisect_steps(steps, passes)
        found = max((step for step in order if passes(step)), default=0)
        tried.append(found)
        beyond += found > 0 and curve[found - 1] > margin
    assert np.mean(back) > 0.4  # no curve is monotone
    assert 3 < np.mean(tried) < 60
    assert beyond / runs <= 0.03


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "--search bisect looks for a step within a margin"),
        ({"margin": 0.1, "rerank": True}, "--rerank ranks anew after every step"),
    ],
)
def test_refusals(options: Any, said: str):
    with pytest.raises(AttnprobeError, match=said):
        PruneOptions([Criterion("gradient")], search="bisect", **options)
    with pytest.raises(AttnprobeError, match="follows one order"):
        PruneOptions([Criterion("gradient"), Criterion("norm")], margin=0.1, search="bisect")
