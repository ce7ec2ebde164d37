"""Labels as files spell them, and what models and labels are refused."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnprobe.corpus.document import Document, Tagged
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.classification import Classification, MultiLabel, Regression
from attnprobe.intervention.objectives.language_modelling import MaskedLanguageModel, SequenceToSequence
from attnprobe.model.checkpoint import Checkpoint

Headed = Callable[..., Checkpoint]
SENTIMENT = ["NEGATIVE", "POSITIVE", "Neutral"]
EMOTIONS = ["joy", "love, or so", "anger"]


@pytest.fixture
def read(headed: Headed, labelled: Any) -> Callable[..., Any]:
    """Read labels for a model that knows three, by names."""

    def give(objective: Any, names: list[str], *labels: Any) -> Any:
        checkpoint = headed("bert", objective.name)
        model = copy.copy(checkpoint.model)
        model.config = copy.deepcopy(model.config)
        model.config.id2label = dict(enumerate(names))
        return objective(replace(checkpoint, model=model), labelled(*labels)).gold.tolist()

    return give


@pytest.mark.parametrize(
    ("label", "expected"),
    [("NEGATIVE", 0), (" nEuTrAl ", 2), (0, 0), (" 1 ", 1), ("1.0", 1), (2.0, 2), (np.int64(1), 1)],
)
def test_class(read: Any, label: Any, expected: int):
    assert read(Classification, SENTIMENT, label) == [expected]


@pytest.mark.parametrize("label", ["bad", 3, "0.5", "", float("nan"), "1e400", "-2", True])
def test_unknown_class(read: Any, label: Any):
    listed = r"0 \(NEGATIVE\), 1 \(POSITIVE\), 2 \(Neutral\)"
    with pytest.raises(AttnprobeError, match=f"'{label}' is not one that bert knows: {listed}"):
        read(Classification, SENTIMENT, "positive", label)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (("joy", "ANGER"), [1, 0, 1]), ((0, 2), [1, 0, 1]), ((), [0, 0, 0]), ("joy|anger", [1, 0, 1]),
        ("anger,0", [1, 0, 1]), ("love, or so", [0, 1, 0]), (2, [0, 0, 1]), ((1, 0, 1), [1, 0, 1]),
        ("1,0,0", [1, 0, 0]), (("0", "0", "1"), [0, 0, 1]),
    ],
)  # fmt: skip
def test_several_classes(read: Any, label: Any, expected: list[int]):
    assert read(MultiLabel, EMOTIONS, label) == [expected]


@pytest.mark.parametrize(("label", "unknown"), [("love, or so|joy", "love"), (("joy", "fear"), "fear")])
def test_unknown_classes(read: Any, label: Any, unknown: str):
    """A comma in a name parts labels, unless the name stands alone."""
    with pytest.raises(AttnprobeError, match=rf"'{unknown}' is not one that bert knows: 0 \(joy\)"):
        read(MultiLabel, EMOTIONS, label)


@pytest.mark.parametrize("label", ["good", float("nan"), "inf", (1, 2), "1,5", 10**400])
def test_what_is_no_number(headed: Headed, labelled: Any, label: Any):
    with pytest.raises(AttnprobeError, match="is not a number, which regression needs"):
        Regression(headed("bert", "regression"), labelled(label))


@pytest.mark.parametrize("tag", ["B-ORG", 5])
def test_unknown_tag(headed: Headed, task_data: Any, tag: Any):
    texts = [Document("stone", label=Tagged(("stone",), (tag,)))]
    with (
        pytest.raises(AttnprobeError, match=rf"'{tag}' is not one that bert knows: 0 \(O\), 1 \(B-PER\)"),
        task_data(headed("bert", "token-classification"), texts),
    ):
        pass


@pytest.mark.parametrize(
    ("objective", "kind", "message"),
    [
        (Classification, "regression", "bert predicts a number, not one class"),
        (MultiLabel, "regression", "bert predicts a number, not several labels"),
        (Regression, "regression", "bert predicts 3 numbers at once"),
    ],
)
def test_heads_of_another_objective(
    headed: Headed, monkeypatch: pytest.MonkeyPatch, objective: Any, kind: str, message: str
):
    checkpoint = headed("bert", kind)
    monkeypatch.setattr(checkpoint.model.config, "num_labels", 3)
    with pytest.raises(AttnprobeError, match=message):
        objective.check(checkpoint)


def test_no_mask(headed: Headed):
    with pytest.raises(AttnprobeError, match=r"t5 .* its tokenizer has no mask token"):
        MaskedLanguageModel.check(headed("t5", "representation"))


def test_targets_have_their_own_tokenizer(headed: Headed, tiny: Any, labelled: Any):
    checkpoint, other = headed("bart", "seq2seq"), tiny("t5")[1]
    translated = SequenceToSequence(replace(checkpoint, target_tokenizer=other), labelled("a dog ran"))
    assert translated.targets == [other("a dog ran")["input_ids"]]
    assert translated.targets != SequenceToSequence(checkpoint, labelled("a dog ran")).targets
    unframed = replace(checkpoint, target_tokenizer=tiny("bert-unframed")[1])
    with pytest.raises(AttnprobeError, match="The target '' gives not a single token"):
        SequenceToSequence(unframed, labelled("a dog", ""))
