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
    bench: TaskData, at: NDArray[Any], step: float = STEP, some: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Differentiate every example's loss by every gate, with a step to both sides: (example, layer, head).

    ``some`` names the gates (layer, head) that are asked about; the others have 0.
    """
    shape = bench.model.shape
    found = np.zeros((bench.corpus.sequences, *shape))
    encoder = bench.model.checkpoint.body
    way = bench.model.architecture.way
    with gate_attention(encoder, way) as gates, torch.inference_mode():
        for batch in bench.corpus.batches:
            for layer, head in np.argwhere(np.ones(shape, bool) if some is None else some):
                sides = []
                for steps in (2, 1, -1, -2):
                    xi = torch.from_numpy(at.astype(float))[None]
                    xi[0, layer, head] += steps * step
                    gates.set(xi)
                    sides.append(bench.objective.answer(batch).loss.numpy())
                far, near, back, behind = sides  # five points: the error is of the fourth order
                found[batch.members, layer, head] = (8 * (near - back) - (far - behind)) / (12 * step)
    return found


def norm(self: Any, hidden: Tensor) -> Tensor:
    """T5's, which rounds to float32, without that."""
    return self.weight * hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True) + self.variance_epsilon)


@pytest.fixture
def exact_norms(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(T5LayerNorm, "forward", norm)


class TestDerivative:
    @pytest.mark.usefixtures("exact_norms")
    @pytest.mark.parametrize(("name", "kind"), CASES)
    def test_finite_differences(self, headed: Headed, documents: Any, benched: Any, name: str, kind: str):
        some = documents(kind)[:5]
        if name == "t5":
            some = [d for d in some if d.pair is None]
        if kind == "causal-lm":  # a single token has nothing to predict
            some = [d for d in some if d.text != "stone"]
        with benched(headed(name, kind, double=True), some, kind) as bench:
            assert bench.objective.name == kind
            shape = bench.model.shape
            # A third of the heads, of every layer; another third in the next case.
            third = (
                np.add.outer(np.arange(shape[0]), np.arange(shape[1])) + CASES.index((name, kind))
            ) % 3 == 0
            step = 0.02 if name in COARSE else STEP
            signed = differences(bench, np.ones(shape), step, third)[:, third]
            expected = np.abs(signed)
            found = gradient_importance(bench)
        assert found.size.count.min() == found.size.count.max() == len(some)
        atol = 1e-4 if name in COARSE else 1e-8
        average, variance = found.size.average[third], found.size.alone.variance[third]
        np.testing.assert_allclose(average, expected.mean(0), rtol=0, atol=atol)
        np.testing.assert_allclose(variance, expected.var(0, ddof=1), rtol=0, atol=atol)
        np.testing.assert_allclose(found.signed.average[third], signed.mean(0), rtol=0, atol=atol)
        np.testing.assert_allclose(found.squares.average[third], (signed**2).mean(0), rtol=0, atol=2 * atol)
        assert expected.mean(0).min() > 10 * atol  # so that it is about something

    def test_open_heads(self, headed: Headed, documents: Any, benched: Any):
        """Where some heads are off, the derivative is taken there, and those that are off have one too."""
        closed = np.ones(SHAPE, bool)
        closed[0, 1] = closed[2, :2] = False
        with benched(headed("bert", "classification", double=True), documents("classification")[:5]) as bench:
            expected = np.abs(differences(bench, closed)).mean(0)
            found = gradient_importance(bench, open_heads=closed).size.average
            elsewhere = gradient_importance(bench).size.average
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)
        assert np.abs(found - elsewhere).max() > 1e-3

    def test_nan(self, headed: Headed, documents: Any, benched: Any, monkeypatch: pytest.MonkeyPatch):
        with benched(headed("bert", "classification"), documents("classification")) as bench:
            right = bench.objective.answer
            monkeypatch.setattr(
                bench.objective, "answer", lambda batch: Answer(right(batch).loss * float("nan"))
            )
            with pytest.raises(AttnprobeError, match="bert gives NaN or infinite gradients; try --dtype"):
                gradient_importance(bench)
