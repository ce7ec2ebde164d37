"""Regression: the loss of transformers' own interface, and labels that are numbers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.classification import Regression
from attnprobe.model.checkpoint import Checkpoint

Headed = Callable[..., Checkpoint]


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_loss(headed: Headed, documents: Any, benched: Any, inputs_of: Any, name: str):
    checkpoint, some, seen = headed(name, "regression"), documents("regression"), 0
    with benched(checkpoint, some) as bench:
        assert bench.objective.name == "regression"  # chosen by what the head says of itself
        for batch in bench.corpus.batches:
            answer = bench.objective.answer(batch)
            for row, member in enumerate(batch.members):
                inputs = inputs_of(checkpoint.tokenizer, some[member])
                given = checkpoint.model(**inputs, labels=torch.tensor([float(some[member].label)]))
                assert answer.loss[row].item() == pytest.approx(given.loss.item(), rel=1e-5, abs=1e-6)
                assert answer.value("mse")[row] == answer.loss[row].item()
                assert answer.value("prediction")[row] == pytest.approx(given.logits.item(), abs=1e-5)
                seen += 1
    assert seen == len(some)


@pytest.mark.parametrize("label", ["good", "nan", "inf", float("nan"), (1, 2), "1,5", 10**400])
def test_what_is_no_number(headed: Headed, labelled: Any, label: Any):
    with pytest.raises(AttnprobeError, match="is not a number, which regression needs"):
        Regression(headed("bert", "regression"), labelled(label))
