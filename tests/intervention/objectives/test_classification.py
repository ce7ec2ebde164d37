"""Classification: the loss of transformers' own interface, and labels as files spell them."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.classification import Classification
from attnprobe.model.checkpoint import Checkpoint

Headed = Callable[..., Checkpoint]
ARCHITECTURES = ("bert", "modernbert", "roberta")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_loss(headed: Headed, documents: Any, benched: Any, inputs_of: Any, name: str):
    checkpoint, some = headed(name, "classification"), documents("classification")
    with benched(checkpoint, some) as bench:
        seen = 0
        for batch in bench.corpus.batches:
            answer = bench.objective.answer(batch)
            for row, member in enumerate(batch.members):
                document = some[member]
                given = checkpoint.model(
                    **inputs_of(checkpoint.tokenizer, document), labels=torch.tensor([document.label])
                )
                assert answer.loss[row].item() == pytest.approx(given.loss.item(), rel=2e-5, abs=2e-6)
                guess = given.logits.argmax().item()
                assert answer.value("prediction")[row] == guess
                assert answer.value("accuracy")[row] == (guess == document.label)
                seen += 1
    assert seen == len(some)


def test_half_precision_gives_a_precise_loss(headed: Headed, documents: Any, benched: Any):
    original = headed("bert", "classification")
    model = copy.deepcopy(original.model).to(torch.bfloat16)
    checkpoint = Checkpoint("bert", model, original.tokenizer, head=original.head)
    with benched(checkpoint, documents("classification")) as bench:
        answer = bench.objective.answer(next(iter(bench.corpus.batches)))
    assert answer.loss.dtype == torch.float32
    assert answer.value("loss").dtype == np.float32


# Labels


def named(headed: Headed, names: list[str], **options: Any) -> Checkpoint:
    original = headed("bert", "classification", classes=len(names))
    model = copy.copy(original.model)
    model.config = copy.deepcopy(model.config)
    model.config.id2label = dict(enumerate(names))
    for key, value in options.items():
        setattr(model.config, key, value)
    return Checkpoint("sst", model, original.tokenizer, head=original.head)


@pytest.fixture
def classes(labelled: Any) -> Callable[[Checkpoint, list[Any]], list[int]]:
    """Read the classes of labels."""
    return lambda checkpoint, labels: Classification(checkpoint, labelled(*labels)).gold.tolist()


SENTIMENT = ["NEGATIVE", "POSITIVE", "Neutral"]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("NEGATIVE", 0), ("positive", 1), (" Neutral ", 2), ("nEuTrAl", 2),
        (0, 0), (2, 2), ("1", 1), (" 1 ", 1), ("1.0", 1), (1.0, 1), (2.0, 2), (np.int64(1), 1),
        (np.float32(2), 2),
    ],
)  # fmt: skip
def test_label(headed: Headed, classes: Any, label: Any, expected: int):
    assert classes(named(headed, SENTIMENT), [label]) == [expected]


LISTED = r"0 \(NEGATIVE\), 1 \(POSITIVE\), 2 \(Neutral\)"


@pytest.mark.parametrize(
    "label", ["bad", 3, "3", "0.5", 0.5, "", "nan", float("nan"), "inf", "1e400", "-2", True]
)
def test_unknown(headed: Headed, classes: Any, label: Any):
    spelled = str(label).strip()
    with pytest.raises(AttnprobeError, match=f"'{spelled}' is not one that sst knows: {LISTED}\\.$"):
        classes(named(headed, SENTIMENT), ["positive", label])


@pytest.mark.parametrize("options", [{"problem_type": "regression"}, {"num_labels": 1}])
def test_regression_is_refused(headed: Headed, options: dict[str, Any]):
    with pytest.raises(AttnprobeError, match="sst predicts a number, not one class"):
        Classification.check(named(headed, SENTIMENT, **options))
