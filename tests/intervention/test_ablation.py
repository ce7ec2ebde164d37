"""How much examples move, against loops by hand over models with zeroed columns."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from attnprobe.intervention.ablation import ScoreDeltas, measure_moves, tabulate_ablation
from attnprobe.intervention.metrics.score import mean_score
from attnprobe.intervention.task import build_metric
from attnprobe.intervention.trials import AblationRun

LAYERS, HEADS = 3, 4


@pytest.mark.parametrize("metric", ["loss", "mcc", "accuracy"])
def test_moved_of_a_classifier(headed: Any, documents: Any, task_data: Any, losses: Any, metric: str):
    checkpoint, texts = headed("bert", "classification", double=True), documents("classification")
    whole = losses(np.ones((LAYERS, HEADS)))
    masks = 1 - np.eye(LAYERS * HEADS).reshape(-1, LAYERS, HEADS)
    without = np.stack([losses(mask) for mask in masks], -1)
    with task_data(checkpoint, texts, "classification") as data:
        table = tabulate_ablation(data, build_metric(metric, data, 42))
    assert [column.unit for column in table.columns if column.name == "moved"] == [
        "share" if metric == "accuracy" else "nats"
    ]
    if metric == "accuracy":  # the score of an example is its answer, right or wrong
        delta = table["delta"] * len(texts)
        assert ((table["moved"] * len(texts)).round(9) % 1 == 0).all()
        assert (table["moved"] * len(texts) >= np.abs(delta) - 1e-9).all()
        assert (table["moved"] >= 0).all()
        return
    sizes = np.abs(without - whole[:, None])
    np.testing.assert_allclose(table["moved"], sizes.mean(0), rtol=1e-5)
    np.testing.assert_allclose(table["moved_se"], sizes.std(0, ddof=1) / len(texts) ** 0.5, rtol=1e-5)
    note = "mcc is of all examples together, so moved is the size of the change of an example's loss."
    assert (note in table.notes) == (metric == "mcc")
    if metric == "loss":
        assert (table["moved"] >= np.abs(table["delta"]) - 1e-9).all()
        assert (table["moved"] > np.abs(table["delta"]) + 1e-4).any()


def test_several_draws():
    """The score of a mask is the mean of its draws, and its error holds their scatter."""
    draw, loss = np.random.default_rng(1), mean_score("loss", "nats", higher_is_better=False)
    untouched = draw.normal(size=50)
    # What a draw does to an example: something of the example, and something of the draw.
    masked = untouched + draw.normal(size=50) * 0.2 + draw.normal(size=(4, 50))
    run = AblationRun({"loss": untouched}, [[{"loss": values}] for values in masked])
    changes, mean = ScoreDeltas.of(loss, run), masked.mean(0)
    assert changes.scores.value[0] == pytest.approx(mean.mean())
    assert changes.scores.error[0] == pytest.approx(mean.std(ddof=1) / 50**0.5)
    assert changes.deltas.value[0] == pytest.approx((mean - untouched).mean())
    assert changes.deltas.error[0] == pytest.approx((mean - untouched).std(ddof=1) / 50**0.5)
    assert changes.p[0] == pytest.approx(ttest_1samp(mean - untouched, 0).pvalue)
    np.testing.assert_allclose(changes.added[:, 0], mean)
    moved, sizes = measure_moves(loss, run), np.abs(masked - untouched).mean(0)
    assert moved.value[0] == pytest.approx(sizes.mean())
    assert moved.error[0] == pytest.approx(sizes.std(ddof=1) / 50**0.5)
