"""Heads are measured while a model trains, and the training is that of a run without it."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

import attnprobe
from attnprobe import HeadCallback, HeadTable
from attnprobe.errors import AttnprobeError

#: 6 steps of training are enough; the last is no multiple of what is measured.
STEPS, EVERY = 6, 4
TEXTS = ["the river bank was slow , and the dog ran to the water .", "stone", "he walks over the road ."]


@pytest.fixture
def build(tiny, tmp_path):
    """Build a trainer of a tiny classifier with dropout, in train mode; the same at every call."""

    def build(folder: Path = tmp_path / "run", steps: int = STEPS, **more) -> Trainer:
        encoder, tokenizer = tiny("bert")
        torch.manual_seed(5)
        config = copy.deepcopy(encoder.config)
        config.num_labels, config.hidden_dropout_prob = 2, 0.1
        model = AutoModelForSequenceClassification.from_config(config)
        rows = [
            {**tokenizer(text, padding="max_length", max_length=24), "labels": place % 2}
            for place, text in enumerate(TEXTS * 3)
        ]
        arguments = TrainingArguments(
            str(folder), max_steps=steps, per_device_train_batch_size=2, logging_steps=1, save_steps=3,
            report_to=[], disable_tqdm=True, seed=3, use_cpu=True, learning_rate=1e-2,
            lr_scheduler_type="constant",
        )  # fmt: skip
        more.setdefault("processing_class", tokenizer)
        return Trainer(model, arguments, train_dataset=rows, **more)

    return build


def list_losses(trainer: Trainer) -> list[float]:
    return [one["loss"] for one in trainer.state.log_history if "loss" in one]


def test_training_is_bit_for_bit_that_of_a_run_without_it(build):
    plain, states = build(), []
    plain.train()
    states.append(torch.get_rng_state())
    watched = build()
    watched.add_callback(HeadCallback(TEXTS, every=1, statistics=["entropy"], trainer=watched))
    watched.train()
    states.append(torch.get_rng_state())
    assert list_losses(plain) == list_losses(watched)
    assert len(list_losses(plain)) == STEPS
    others = watched.model.state_dict()
    assert all(torch.equal(weight, others[name]) for name, weight in plain.model.state_dict().items())
    assert torch.equal(*states)


def test_the_table_is_that_of_a_census_of_each_step(build, tmp_path):
    kept = {}

    class Keep(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, processing_class=None, **given):
            assert model is not None
            kept[state.global_step] = attnprobe.entropy(model, TEXTS, tokenizer=processing_class)

    path = tmp_path / "heads.csv"
    trainer = build(callbacks=[HeadCallback(TEXTS, every=EVERY, statistics=["entropy"], output=path), Keep()])
    trainer.train()
    table = HeadTable.read(path)
    assert list(dict.fromkeys(table["step"].tolist())) == [0, 4, 6]
    for step in (4, 6):
        rows = table["step"] == step
        np.testing.assert_array_equal(table["entropy"][rows], kept[step]["entropy"])
        np.testing.assert_array_equal(table["entropy_se"][rows], kept[step]["entropy_se"])
    assert np.abs(table["entropy"][table["step"] == 6] - table["entropy"][table["step"] == 0]).max() > 1e-3
    followed = attnprobe.dynamics(["demo", "demo"], TEXTS, measure="entropy", steps=[0, 1])
    assert [column.name for column in table.columns] == [column.name for column in followed.columns]
    assert table.kind == followed.kind


def test_a_resumed_run_goes_on_with_its_table(build, tmp_path):
    path = tmp_path / "heads.parquet"

    def watch(trainer: Trainer, **given) -> HeadCallback:
        callback = HeadCallback(TEXTS, every=2, statistics=["entropy"], output=path)
        trainer.add_callback(callback)
        trainer.train(**given)
        return callback

    whole = watch(build(tmp_path / "whole")).table
    path.unlink()
    watch(build(tmp_path / "part", steps=4))
    kept = str(tmp_path / "part" / "checkpoint-3")
    resumed = watch(build(tmp_path / "part"), resume_from_checkpoint=kept).table
    assert whole is not None
    assert resumed is not None
    assert resumed["step"].tolist()[:12] == [0] * 12
    assert list(dict.fromkeys(resumed["step"].tolist())) == [0, 2, 3, 4, 6]
    rows = resumed["step"] != 3
    np.testing.assert_array_equal(resumed["entropy"][rows], whole["entropy"])
    assert HeadTable.read(path).to_csv() == resumed.to_csv()


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"every": 0}, "every"),
            ({"limt": 3}, "limt"),
            ({"limit": -1}, "limit"),
            ({"resume": "state"}, "resume"),
            ({"output": "heads.docx"}, "docx"),
        ],
    )
    def test_what_is_wrong_is_said_at_once(self, options, says):
        with pytest.raises(AttnprobeError, match=says):
            HeadCallback(TEXTS, **options)

    def test_a_trainer_without_a_tokenizer(self, build):
        trainer = build(processing_class=None, callbacks=[HeadCallback(TEXTS)])
        with pytest.raises(AttnprobeError, match="The trainer has no tokenizer"):
            trainer.train()
