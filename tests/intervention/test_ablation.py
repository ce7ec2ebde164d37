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
def test_moved_of_a_classifier(headed: Any, documents: Any, benched: Any, losses: Any, metric: str):
    checkpoint, texts = headed("bert", "classification", double=True), documents("classification")
    whole = losses(np.ones((LAYERS, HEADS)))
    cuts = 1 - np.eye(LAYERS * HEADS).reshape(-1, LAYERS, HEADS)
    without = np.stack([losses(cut) for cut in cuts], -1)
    with benched(checkpoint, texts, "classification") as bench:
        table = tabulate_ablation(bench, build_metric(metric, bench, 42))
    assert [column.unit for column in table.columns if column.name == "moved"] == [
        "share" if metric == "accuracy" else "nats"
    ]
    if metric == "accuracy":  # by how much the score of each changes: its answer, right or wrong
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


def outcome(values: Any, clusters: Any) -> dict[str, Any]:
    return {"loss": np.asarray(values), "cluster": clusters}


class TestDraws:
    """A mask of several draws: its score is their mean, and its error knows how much they scatter."""

    LOSS = mean_score("loss", "nats", higher_is_better=False)

    def drawn(self, seed: int, examples: int = 50, draws: int = 4) -> AblationRun:
        draw = np.random.default_rng(seed)
        untouched = draw.normal(size=examples)
        clusters = np.full(examples, -1)
        # What a draw does to an example: something of the example, and something of the draw.
        own = draw.normal(size=(examples, 1)) * 0.2
        masked = untouched[:, None] + own + draw.normal(size=(examples, draws))
        return AblationRun(outcome(untouched, clusters), [[outcome(one, clusters)] for one in masked.T])

    def test_by_hand(self):
        run = self.drawn(1)
        found, whole = ScoreDeltas.of(self.LOSS, run), run.untouched["loss"]
        mean = np.mean([one["loss"] for (one,) in run.draws], 0)
        assert found.scores.value[0] == pytest.approx(mean.mean())
        assert found.scores.error[0] == pytest.approx(mean.std(ddof=1) / 50**0.5)
        assert found.deltas.value[0] == pytest.approx((mean - whole).mean())
        assert found.deltas.error[0] == pytest.approx((mean - whole).std(ddof=1) / 50**0.5)
        assert found.p[0] == pytest.approx(ttest_1samp(mean - whole, 0).pvalue)
        np.testing.assert_allclose(found.added[:, 0], mean)
        moved = measure_moves(self.LOSS, run)
        sizes = np.mean([np.abs(one["loss"] - whole) for (one,) in run.draws], 0)
        assert moved.value[0] == pytest.approx(sizes.mean())
        assert moved.error[0] == pytest.approx(sizes.std(ddof=1) / 50**0.5)
