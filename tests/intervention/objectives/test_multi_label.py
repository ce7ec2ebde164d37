"""Multi-label classification: the loss of transformers' own interface, and labels as files spell them."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.classification import MultiLabel
from attnprobe.model.checkpoint import Checkpoint

Headed = Callable[..., Checkpoint]


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_loss(headed: Headed, documents: Any, benched: Any, inputs_of: Any, name: str):
    checkpoint, some, seen = headed(name, "multi-label"), documents("multi-label"), 0
    with benched(checkpoint, some) as bench:
        assert bench.objective.name == "multi-label"
        for batch in bench.corpus.batches:
            answer = bench.objective.answer(batch)
            for row, member in enumerate(batch.members):
                right = torch.zeros(1, 3)
                right[0, list(some[member].label)] = 1
                given = checkpoint.model(**inputs_of(checkpoint.tokenizer, some[member]), labels=right)
                assert answer.loss[row].item() == pytest.approx(given.loss.item(), rel=1e-5, abs=1e-6)
                said = given.logits.sigmoid() > 0.5
                assert answer.value("prediction")[row].tolist() == said[0].tolist()
                assert answer.value("accuracy")[row] == torch.equal(said, right.bool())
                seen += 1
    assert seen == len(some)


@pytest.fixture
def labels(headed: Headed, labelled: Any) -> Callable[..., list[list[float]]]:
    """Read labels for a model that knows three."""
    original = headed("bert", "multi-label")
    model = copy.copy(original.model)
    model.config = copy.deepcopy(model.config)
    model.config.id2label = {0: "joy", 1: "love, or so", 2: "anger"}
    return lambda *given: MultiLabel(replace(original, model=model), labelled(*given)).gold.tolist()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("joy", "ANGER"), [1, 0, 1]), ((0, 2), [1, 0, 1]), ((), [0, 0, 0]), ("joy|anger", [1, 0, 1]),
        ("anger,0", [1, 0, 1]), ("love, or so", [0, 1, 0]), ("love, or so|joy", None), (2, [0, 0, 1]),
        ("joy", [1, 0, 0]), ((1, 0, 1), [1, 0, 1]), ("0|1|1", [0, 1, 1]), ("1,0,0", [1, 0, 0]),
        (("0", "0", "1"), [0, 0, 1]), ((0.0, 1.0, 0.0), [0, 1, 0]),
    ],
)  # fmt: skip
def test_spelled(labels: Any, given: Any, expected: list[int] | None):
    if expected is None:  # a comma in a name parts labels, unless the name stands alone
        with pytest.raises(AttnprobeError, match="The label 'love' is not one that bert knows"):
            labels(given)
    else:
        assert labels(given) == [expected]


def test_unknown(headed: Headed, labels: Any):
    with pytest.raises(AttnprobeError, match=r"The label 'fear' is not one that bert knows: 0 \(joy\)"):
        labels(("joy", "fear"))
    with pytest.raises(AttnprobeError, match="bert predicts a number, not several labels"):
        MultiLabel.check(headed("bert", "regression"))
