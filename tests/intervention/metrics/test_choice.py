"""Which metric scores an objective."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attnprobe.corpus.document import Document, Tagged
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.score import Score
from attnprobe.intervention.objectives.choosing import import_objective
from attnprobe.intervention.objectives.classification import (
    Classification,
    MultiLabel,
    Regression,
    TokenClassification,
)
from attnprobe.intervention.objectives.embeddings import Representation
from attnprobe.intervention.objectives.language_modelling import MaskedLanguageModel, SequenceToSequence
from attnprobe.intervention.objectives.objective import Objective
from attnprobe.intervention.objectives.question_answering import QuestionAnswering
from attnprobe.intervention.request import check_metric
from attnprobe.intervention.task import build_metric
from attnprobe.tasks import METRICS, OBJECTIVES

USUAL = {
    Classification: "accuracy", MultiLabel: "f1_micro", Regression: "pearson", TokenClassification: "f1",
    QuestionAnswering: "f1", MaskedLanguageModel: "accuracy", SequenceToSequence: "loss",
    Representation: "similarity",
}  # fmt: skip


@pytest.mark.parametrize(("objective", "usual"), USUAL.items())
def test_usual(objective: type[Objective], usual: str):
    assert check_metric(None, objective.name) == usual
    for name in METRICS:
        if name in OBJECTIVES[objective.name].metrics:
            assert check_metric(name, objective.name) == name
        else:
            with pytest.raises(AttnprobeError, match=f"{objective.name} has no metric '{name}'; "):
                check_metric(name, objective.name)


def test_what_is_told_before_torch_is_imported_is_true_of_the_objectives():
    assert [import_objective(name).name for name in OBJECTIVES] == list(OBJECTIVES)
    assert {name for spec in OBJECTIVES.values() for name in spec.metrics} == METRICS.keys()


@pytest.fixture
def scored(headed: Any, labelled: Any) -> Callable[..., Score]:
    """Build a metric for all examples of a task with some labels."""

    def build(kind: str, name: str, labels: list[Any]) -> Score:
        objective = import_objective(kind)(headed("bert", kind), labelled(*labels))
        return objective.build_metric(name, np.arange(len(labels)))

    return build


@pytest.mark.parametrize(
    ("kind", "name"),
    [("regression", "pearson"), ("regression", "spearman"), ("classification", "mcc")],
)
def test_labels_that_are_all_alike(scored: Any, kind: str, name: str):
    with pytest.raises(AttnprobeError, match=f"same label, which leaves {name} undefined"):
        scored(kind, name, [2, 2, 2])
    assert scored(kind, "mse" if kind == "regression" else "accuracy", [2, 2, 2])


def test_entities(headed: Any, documents: Any, task_data: Any, monkeypatch: pytest.MonkeyPatch):
    checkpoint, kind = headed("bert", "token-classification"), "token-classification"
    nobody = [Document("a dog", label=Tagged(("a", "dog"), ("O", "O")))]
    with (
        task_data(checkpoint, nobody) as data,
        pytest.raises(AttnprobeError, match="Not one entity is in the examples that are scored"),
    ):
        build_metric("f1", data, 0)
    with task_data(checkpoint, documents(kind)) as data:
        assert build_metric("f1", data, 0).needs == ("entities",)
        assert build_metric("accuracy", data, 0).needs == ("words",)
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
        with pytest.raises(AttnprobeError, match=r"f1 needs seqeval: pip install seqeval"):
            build_metric("f1", data, 0)
