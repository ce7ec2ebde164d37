"""Heads are measured while a model trains, and the training is that of a run without it."""

import copy
import os
import subprocess
import sys
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
        ("options", "said"),
        [
            ({"every": 0}, "every must be a number of steps"),
            ({"every": "epoch"}, "every must be a number of steps"),
            ({"limt": 3}, "has no keyword 'limt'."),
            ({"limit": -1}, "limit must be at least 1"),
            ({"resume": "state"}, "resume has no meaning in a training run"),
            ({"output": "heads.docx"}, "docx"),
        ],
    )
    def test_what_is_wrong_is_said_at_once(self, options, said):
        with pytest.raises(AttnprobeError, match=said):
            HeadCallback(TEXTS, **options)


#: Trains a classifier on the embedded encoder, in one process or in several; the weights say whether it does.
SCRIPT = """
import sys
from pathlib import Path
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
import attnprobe

demo, output, watched = sys.argv[1:]
texts = [f"{word} came late ." for word in "parcel dog train night stone".split()]
tokenizer = AutoTokenizer.from_pretrained(demo)
torch.manual_seed(0)
model = AutoModelForSequenceClassification.from_pretrained(demo, dtype=torch.float32)
ids = [tokenizer(text, padding="max_length", max_length=12) for text in texts * 4]
rows = [{**one, "labels": place % 2} for place, one in enumerate(ids)]
arguments = TrainingArguments(
    output + "-run", max_steps=2, per_device_train_batch_size=2, report_to=[], use_cpu=True,
    save_strategy="no",
)
trainer = Trainer(model, arguments, train_dataset=rows, processing_class=tokenizer)
if watched == "yes":
    statistics = ["entropy", "previous"]
    trainer.add_callback(
        attnprobe.HeadCallback(texts, every=1, statistics=statistics, output=output, trainer=trainer)
    )
trainer.train()
# To a file of its own: lines that two processes print may run into one another.
weights = sum(float(weight.double().sum()) for weight in model.parameters())
Path(f"{output}-{watched}-{trainer.args.process_index}").write_text(repr(weights))
"""


@pytest.mark.exhaustive
def test_two_processes_share_the_texts(tmp_path):
    """Their weights are those of a run that is not watched, and each step counts all texts once."""
    (tmp_path / "train.py").write_text(SCRIPT)
    demo = Path(attnprobe.__file__).parent / "demo"
    weights = []
    for watched in ("yes", "no"):
        start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
        command = [*start, tmp_path / "train.py", demo, tmp_path / "heads.csv", watched]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, check=False, env=environment, timeout=240
        )
        assert done.returncode == 0, done.stderr[-3000:]
        weights.append([(tmp_path / f"heads.csv-{watched}-{rank}").read_text() for rank in range(2)])
    assert weights[0] == weights[1]
    table = HeadTable.read(tmp_path / "heads.csv")
    assert sorted(set(table["step"].tolist())) == [0, 1, 2]
    before = attnprobe.census(
        "demo", [f"{word} came late ." for word in "parcel dog train night stone".split()],  # noqa: SIM905
        statistics=["entropy", "previous"],
    )  # fmt: skip
    rows = table["step"] == 0
    assert table["n"][rows].tolist() == before["n"].tolist()
    for name in ("entropy", "entropy_se", "previous"):
        np.testing.assert_allclose(table[name][rows], before[name], rtol=0, atol=1e-6)
