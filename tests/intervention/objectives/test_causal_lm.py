"""Next tokens, against the loss of transformers, one example at a time."""

from collections.abc import Callable
from typing import Any

import pytest

from attnprobe.model.checkpoint import Checkpoint

Headed = Callable[..., Checkpoint]


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("batch_tokens", [1, 4096])
def test_loss(headed: Headed, documents: Any, benched: Any, inputs_of: Any, name: str, batch_tokens: int):
    checkpoint, some, seen = headed(name, "causal-lm"), documents("causal-lm"), 0
    with benched(checkpoint, some, batch_tokens=batch_tokens) as bench:
        assert bench.objective.name == "causal-lm"
        for batch in bench.corpus.batches:
            answer = bench.objective.answer(batch)
            for row, member in enumerate(batch.members):
                inputs = inputs_of(checkpoint.tokenizer, some[member])
                ids = inputs["input_ids"]
                given = checkpoint.model(**inputs, labels=ids)
                assert answer.loss[row].item() == pytest.approx(given.loss.item(), rel=2e-5)
                right = (given.logits[0, :-1].argmax(-1) == ids[0, 1:]).double().mean().item()
                assert answer.value("accuracy")[row] == pytest.approx(right)
                seen += 1
    alone = sum(len(checkpoint.tokenizer(d.text)["input_ids"]) == 1 for d in some)
    assert seen == len(some) - alone
    assert (alone > 0) == (name == "gpt2")
