"""Gradient importance against finite differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.models.t5.modeling_t5 import T5LayerNorm

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.gradient import gradient_importance
from attnprobe.intervention.objectives.objective import Answer
from attnprobe.intervention.task import TaskData
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.gates import gate_attention

LAYERS, HEADS = 3, 4
SHAPE = LAYERS, HEADS
CASES = [
    *(
        ("bert", kind)
        for kind in (
            "classification", "masked-lm", "representation", "token-classification", "question-answering",
            "regression", "multi-label",
        )
    ),
    ("llama", "causal-lm"), ("t5", "seq2seq"),
]  # fmt: skip
STEP = 1e-4
#: Its rotary embeddings round to float32, whatever its weights.
COARSE = {"llama"}

Headed = Callable[..., Checkpoint]


def differences(
    data: TaskData, at: NDArray[Any], heads: NDArray[np.bool_], step: float = STEP
) -> NDArray[np.float64]:
    """Differentiate every example's loss by the gates of heads (layer, head): (example, layer, head)."""
    slopes = np.zeros((data.corpus.sequences, *heads.shape))
    way = data.model.architecture.way
    with gate_attention(data.model.checkpoint.body, way) as gates, torch.inference_mode():
        for batch in data.corpus.batches:
            for layer, head in np.argwhere(heads):
                sides = []
                for steps in (2, 1, -1, -2):
                    xi = torch.from_numpy(at.astype(float))[None]
                    xi[0, layer, head] += steps * step
                    gates.set(xi)
                    sides.append(data.objective.answer(batch).loss.numpy())
                far, near, back, behind = sides  # five points: the error is of the fourth order
                slopes[batch.members, layer, head] = (8 * (near - back) - (far - behind)) / (12 * step)
    return slopes


def norm(self: Any, hidden: Tensor) -> Tensor:
    """Compute T5's norm without its rounding to float32."""
    return self.weight * hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True) + self.variance_epsilon)


@pytest.fixture
def exact_norms(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(T5LayerNorm, "forward", norm)


class TestDerivative:
    @pytest.mark.usefixtures("exact_norms")
    @pytest.mark.parametrize(("name", "kind"), CASES)
    def test_finite_differences(self, headed: Headed, documents: Any, task_data: Any, name: str, kind: str):
        texts = documents(kind)[:5]
        if name == "t5":
            texts = [text for text in texts if text.pair is None]
        if kind == "causal-lm":  # a single token has nothing to predict
            texts = [text for text in texts if text.text != "stone"]
        with task_data(headed(name, kind, double=True), texts, kind) as data:
            assert data.objective.name == kind
            shape = data.model.shape
            # A third of the heads, of every layer; another third in the next case.
            third = (
                np.add.outer(np.arange(shape[0]), np.arange(shape[1])) + CASES.index((name, kind))
            ) % 3 == 0
            step = 0.02 if name in COARSE else STEP
            signed = differences(data, np.ones(shape), third, step)[:, third]
            expected = np.abs(signed)
            sums = gradient_importance(data)
        assert sums.size.count.min() == sums.size.count.max() == len(texts)
        atol = 1e-4 if name in COARSE else 1e-8
        average, variance = sums.size.average[third], sums.size.alone.variance[third]
        np.testing.assert_allclose(average, expected.mean(0), rtol=0, atol=atol)
        np.testing.assert_allclose(variance, expected.var(0, ddof=1), rtol=0, atol=atol)
        np.testing.assert_allclose(sums.signed.average[third], signed.mean(0), rtol=0, atol=atol)
        np.testing.assert_allclose(sums.squares.average[third], (signed**2).mean(0), rtol=0, atol=2 * atol)
        assert expected.mean(0).min() > 10 * atol  # so that it is about something

    def test_open_heads(self, headed: Headed, documents: Any, task_data: Any):
        """Where some heads are off, the derivative is taken there, and those that are off have one too."""
        closed = np.ones(SHAPE, bool)
        closed[0, 1] = closed[2, :2] = False
        with task_data(
            headed("bert", "classification", double=True), documents("classification")[:5]
        ) as data:
            expected = np.abs(differences(data, closed, np.ones(SHAPE, bool))).mean(0)
            importance = gradient_importance(data, open_heads=closed).size.average
            elsewhere = gradient_importance(data).size.average
        np.testing.assert_allclose(importance, expected, rtol=1e-7, atol=1e-8)
        assert np.abs(importance - elsewhere).max() > 1e-3

    def test_nan(self, headed: Headed, documents: Any, task_data: Any, monkeypatch: pytest.MonkeyPatch):
        with task_data(headed("bert", "classification"), documents("classification")) as data:
            right = data.objective.answer
            monkeypatch.setattr(
                data.objective, "answer", lambda batch: Answer(right(batch).loss * float("nan"))
            )
            with pytest.raises(AttnprobeError, match="bert gives NaN or infinite gradients; try --dtype"):
                gradient_importance(data)
