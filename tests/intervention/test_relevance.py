"""Relevance of heads over examples: against a pass by hand, its table, and what depends on it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import attnprobe
from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.gradient import head_relevance
from attnprobe.intervention.task import TaskData
from attnprobe.model import relevance as rules
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.gates import gate_attention

LAYERS, HEADS = 3, 4
SHAPE = LAYERS, HEADS
CASES = [
    *(
        ("bert", kind)
        for kind in (
            "classification", "masked-lm", "token-classification", "question-answering", "regression",
            "multi-label",
        )
    ),
    ("t5", "representation"), ("llama", "causal-lm"), ("t5", "seq2seq"),
]  # fmt: skip

Headed = Callable[..., Checkpoint]


def lead(logits: Tensor) -> Tensor:
    best = logits.sort(-1, descending=True).values
    return best[..., 0] - best[..., 1]


def explained(data: TaskData, batch: Batch) -> Tensor:  # noqa: PLR0911 - one for each objective
    """Work out z of each example from what the model gives."""
    kind, checkpoint = data.objective.name, data.model.checkpoint
    objective: Any = data.objective
    if kind == "representation":
        hidden = checkpoint.body(**checkpoint.inputs(batch.inputs))[0].mean(1)
        return (hidden * torch.from_numpy(objective.draw_directions(batch, hidden.shape[-1]))).sum(-1)
    given = checkpoint.inputs(batch.inputs)
    given.pop("decoder_input_ids", None)
    if kind == "masked-lm":
        hidden = objective.choose_hidden(batch)
        given["input_ids"] = torch.where(hidden, checkpoint.tokenizer.mask_token_id, batch.ids)
        logits = checkpoint.model(**given).logits
        return torch.stack([lead(row[places]).mean() for row, places in zip(logits, hidden, strict=True)])
    if kind == "seq2seq":
        given["labels"] = torch.tensor([objective.targets[member] for member in batch.members])
        return lead(checkpoint.model(**given).logits).mean(-1)
    output = checkpoint.model(**given)
    if kind == "question-answering":
        return (lead(output.start_logits) + lead(output.end_logits)) / 2
    if kind == "token-classification":
        places = [torch.from_numpy(objective.targets[member][0]) for member in batch.members]
        return torch.stack([lead(row[at]).mean() for row, at in zip(output.logits, places, strict=True)])
    if kind == "causal-lm":
        return lead(output.logits[:, :-1]).mean(-1)
    if kind == "regression":
        return output.logits[:, 0]
    return output.logits.abs().mean(-1) if kind == "multi-label" else lead(output.logits)


def by_hand(data: TaskData) -> NDArray[np.float64]:
    """Explain every example alone: (example, layer, head)."""
    model, batches = data.model, data.corpus.batches
    relevance, whole = np.zeros((data.corpus.sequences, *model.shape)), batches.plan
    for example in range(len(relevance)):
        batches.plan = [np.array([example])]
        (batch,) = batches
        xi = torch.ones(1, *model.shape, dtype=torch.float64, requires_grad=True)
        with rules.Relevance(), gate_attention(model.checkpoint.body, model.architecture.way) as gates:
            gates.set(xi)
            relevance[example] = torch.autograd.grad(explained(data, batch).sum(), xi)[0][0].numpy()
    batches.plan = whole
    return relevance


class TestValues:
    @pytest.mark.parametrize(("name", "kind"), CASES)
    def test_by_hand(self, headed: Headed, documents: Any, task_data: Any, name: str, kind: str):
        texts = documents(kind)[:6]
        if name == "t5":
            texts = [text for text in texts if text.pair is None]
        if kind == "causal-lm":
            texts = [text for text in texts if text.text != "stone"]
        checkpoint = headed(name, kind, double=True)
        with task_data(checkpoint, texts, kind, batch_tokens=4096) as data:
            assert data.objective.name == kind
            assert data.objective.explains
            expected = by_hand(data)
            together = head_relevance(data)
        with task_data(checkpoint, texts, kind, batch_tokens=1) as data:
            alone = head_relevance(data)
        settings: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-9 * np.abs(expected).max()}
        for sums in (together, alone):
            heads = sums.signed
            np.testing.assert_allclose(heads.average, expected.mean(0), **settings)
            np.testing.assert_allclose(sums.size.average, np.abs(expected).mean(0), **settings)
            np.testing.assert_allclose(heads.alone.variance, expected.var(0, ddof=1), **settings)
        assert (expected != 0).all()

    def test_open_heads(self, headed: Headed, documents: Any, task_data: Any, scale_heads: Any):
        """With heads off, the others have the relevance they have in a model without those heads."""
        closed = np.ones(SHAPE, bool)
        closed[0, 1] = closed[2, :2] = False
        checkpoint = headed("bert", "classification", double=True)
        texts = documents("classification")[:5]
        with task_data(checkpoint, texts) as data:
            relevance = head_relevance(data, closed).signed.average
            whole = head_relevance(data).signed.average
        model = scale_heads(checkpoint.model, closed)
        with task_data(Checkpoint("bert", model, checkpoint.tokenizer, head=checkpoint.head), texts) as data:
            expected = head_relevance(data).signed.average
        np.testing.assert_allclose(relevance[closed], expected[closed], rtol=1e-9)
        assert not expected[~closed].any()
        assert np.abs(relevance - whole)[closed].max() > 1e-3


def test_lost_relevance_is_refused_everywhere(monkeypatch: pytest.MonkeyPatch):
    texts = ["The parcel came late.", "Who rang?", "A bird sat there.", "They walked home."]
    monkeypatch.delitem(rules._RULES, "gelu")
    says = "relevance .* can't be told: without biases, .* use gradient instead"
    for ask in (
        lambda: attnprobe.importance("demo", texts, method="lrp"),
        lambda: attnprobe.prune("demo", texts, by="lrp"),
        lambda: attnprobe.correlate(texts[:2], texts[2:], "demo", measure="lrp"),
    ):
        with pytest.raises(AttnprobeError, match=says):
            ask()
    attnprobe.importance("demo", texts)
