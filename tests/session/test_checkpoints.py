"""The steps of a training run: what names say, and what is refused."""

import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.session.checkpoints import list_run, parse_steps, read_steps


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("out/checkpoint-500", 500),
        ("out/checkpoint-500/", 500),
        ("epoch-04", 4),
        ("step1000", 1000),
        ("stage1-step1000-tokens5B", 1000),
        ("epoch=3-step=500", 500),
        ("Checkpoint-9", 9),
    ],
)
def test_names(name, step):
    assert read_steps([name]) == [step]


@pytest.mark.parametrize("name", ["main", "final", "step", "checkpoint-1.5", "run-17", f"step{'9' * 40}"])
def test_names_without_a_step(name):
    with pytest.raises(AttnprobeError, match="--steps 0,500,1000"):
        read_steps([name])


def test_epochs_and_steps_do_not_mix():
    with pytest.raises(AttnprobeError, match="count epochs, and others steps"):
        read_steps(["epoch-2", "step100"])


def test_in_the_order_of_training():
    run = list_run(["a/checkpoint-1000", "a/checkpoint-50"])
    assert [(step.step, step.model, step.revision) for step in run] == [
        (50, "a/checkpoint-50", None),
        (1000, "a/checkpoint-1000", None),
    ]
    run = list_run(["org/model"], ["step20", "step3"])
    assert [(step.step, step.model, step.revision) for step in run] == [
        (3, "org/model", "step3"),
        (20, "org/model", "step20"),
    ]
    assert [step.model for step in list_run(["last", "first"], steps=[9, 1])] == ["first", "last"]


def test_patterns_match_folders_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("run/step-10", "run/step-9", "[a]-step-1"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "run" / "step-11").touch()
    assert [step.model for step in list_run(["run/step-*"])] == ["run/step-9", "run/step-10"]
    assert [step.model for step in list_run(["[a]-step-1", "run/step-9"])] == ["[a]-step-1", "run/step-9"]


def test_the_current_folder_has_a_name(tmp_path, monkeypatch):
    for name in ("step-3", "step-4"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "step-4")
    assert [step.step for step in list_run([".", "../step-3"])] == [3, 4]


@pytest.mark.parametrize(("models", "revisions"), [([], None), (["org/model"], [])])
def test_no_checkpoint_at_all(models, revisions):
    with pytest.raises(AttnprobeError, match="none is named"):
        list_run(models, revisions)


@pytest.mark.parametrize(
    ("given", "steps"), [("0, 500,1000", [0, 500, 1000]), ([3, 4], [3, 4]), (range(2), [0, 1]), (None, None)]
)
def test_given_steps(given, steps):
    assert parse_steps(given) == steps


@pytest.mark.parametrize("given", ["0,x", "1.5", "", "-1", [1.5], [True], [-1], [None], "9" * 30, "²"])
def test_steps_that_are_none(given):
    with pytest.raises(AttnprobeError, match="--steps must be whole numbers"):
        parse_steps(given)
