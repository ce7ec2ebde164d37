"""Which metric scores an objective."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attnprobe.errors import AttnprobeError
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


def classification(classes: list[int], members: list[int] | None = None) -> Any:
    found = object.__new__(Classification)
    found.classes, found.count = np.array(classes), 3
    scored = np.arange(len(classes)) if members is None else np.array(members)
    corpus = SimpleNamespace(batches=SimpleNamespace(members=scored))
    return SimpleNamespace(objective=found, corpus=corpus, model=SimpleNamespace(shape=(2, 4)))


@pytest.mark.parametrize(
    ("name", "higher", "needs"),
    [
        ("accuracy", True, ("accuracy",)), ("loss", False, ("loss",)), ("similarity", True, ("similarity",)),
        ("mcc", True, ("label", "prediction")), ("f1", True, ("label", "prediction")),
    ],
)  # fmt: skip
def test_metric_of(name: str, higher: bool, needs: tuple[str, ...]):
    found = build_metric(name, classification([0, 1]), 0)
    assert (found.name, found.higher_is_better, found.needs) == (name, higher, needs)


@pytest.mark.parametrize("name", ["mcc", "f1"])
def test_scores(name: str):
    """Three right of four: MCC by hand, and the mean F1 of three classes."""
    outcome = {"label": np.array([0, 1, 2, 2.0]), "prediction": np.array([0, 1, 2, 1.0])}
    expected = {"mcc": (3 * 4 - 5) / np.sqrt((16 - 6) * (16 - 6)), "f1": (1 + 2 / 3 + 2 / 3) / 3}[name]
    assert build_metric(name, classification([0, 1, 2, 2]), 0).score(outcome) == pytest.approx(expected)


def bench(kind: type[Any], **attributes: Any) -> Any:
    found = object.__new__(kind)
    vars(found).update(attributes)
    members = np.arange(3)
    corpus = SimpleNamespace(batches=SimpleNamespace(members=members))
    return SimpleNamespace(objective=found, corpus=corpus, model=SimpleNamespace(shape=(2, 4)))


def test_numbers_that_are_all_alike():
    flat = bench(Regression, values=np.array([2.0, 2.0, 2.0]))
    for name in ("pearson", "spearman"):
        assert build_metric(name, bench(Regression, values=np.array([2.0, 1.0, 2.0])), 0).name == name
        with pytest.raises(AttnprobeError, match=f"same label, which leaves {name} undefined"):
            build_metric(name, flat, 0)
    found = build_metric("mse", flat, 0)
    assert (found.name, found.unit, found.higher_is_better) == ("mse", "", False)


@pytest.mark.parametrize(
    ("kind", "name", "needs"),
    [
        (TokenClassification, "accuracy", ("words",)), (TokenClassification, "loss", ("loss",)),
        (MultiLabel, "f1_micro", ("label", "prediction")), (MultiLabel, "f1_macro", ("label", "prediction")),
        (MultiLabel, "accuracy", ("accuracy",)), (QuestionAnswering, "f1", ("f1",)),
        (QuestionAnswering, "exact_match", ("exact_match",)),
    ],
)  # fmt: skip
def test_metrics_of_other_objectives(kind: type[Any], name: str, needs: tuple[str, ...]):
    found = build_metric(name, bench(kind), 0)
    assert (found.name, found.needs, found.higher_is_better) == (name, needs, name != "loss")


def test_entities(monkeypatch: pytest.MonkeyPatch):
    classes = SimpleNamespace(names={0: "O", 1: "B-PER"})
    targets = [np.array([[1, 2], [0, 0]])] * 3
    with pytest.raises(AttnprobeError, match="Not one entity is in the examples that are scored"):
        build_metric("f1", bench(TokenClassification, targets=targets, _classes=classes), 0)
    targets[2] = np.array([[1], [1]])
    asked = bench(TokenClassification, targets=targets, _classes=classes)
    assert build_metric("f1", asked, 0).needs == ("entities",)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(AttnprobeError, match=r"needs seqeval: pip install seqeval, or pass"):
        build_metric("f1", asked, 0)
