"""``attnprobe correlate`` of checkpoints on one dataset: as two runs of their own, snapshots, refusals."""

import io
import json
import shutil
import sys

import numpy as np
import pandas
import pytest
from safetensors.torch import load_file, save_file

import attnprobe
from attnprobe.model import load

pytestmark = pytest.mark.slow  # checkpoints are loaded and measured one after the other

MEASURES = [
    (["importance"], []),
    (["importance", "--method", "lrp"], ["--measure", "lrp"]),
    (["ablate", "--metric", "loss"], ["--measure", "ablation", "--metric", "loss"]),
]
#: Of the tiny BERT.
HEADS, WIDTH = 4, 8


def changed(folder, target, change):
    """Copy a checkpoint with other weights."""
    shutil.copytree(folder, target)
    weights = load_file(target / "model.safetensors")
    change(weights)
    save_file(weights, target / "model.safetensors", {"format": "pt"})
    return target


def shaken(seed, size):
    """Add noise to the projections of attention."""

    def change(weights):
        draw = np.random.default_rng(seed)
        for name in sorted(weights):
            if ".attention." in name and name.endswith("weight") and weights[name].ndim == 2:
                weights[name] += size * weights[name].new_tensor(draw.normal(size=weights[name].shape))

    return change


@pytest.fixture(scope="module")
def run(classifier, tmp_path_factory):
    """Write snapshots of a training run; the further from its end, the more noise."""
    folder = tmp_path_factory.mktemp("snapshots") / "run"
    folder.mkdir()
    shutil.copytree(classifier, folder / "checkpoint-1000")
    for step, size in ((100, 0.2), (900, 0.05)):
        changed(classifier, folder / f"checkpoint-{step}", shaken(step, size))
    return folder


@pytest.fixture
def loaded(monkeypatch):
    """Note which checkpoints are loaded."""
    found, real = [], load.find_weights

    def noted(folder, name, **more):
        found.append(name)
        return real(folder, name, **more)

    monkeypatch.setattr(load, "find_weights", noted)
    return found


def frame(out):
    return pandas.read_csv(io.StringIO(out), keep_default_na=False, na_values=[""])


def said(error):
    return [line.removeprefix("attnprobe: ") for line in error.splitlines()]


# The same numbers as two runs and their tables


@pytest.mark.parametrize(
    ("own", "words", "by"), [*((own, words, []) for own, words in MEASURES), (*MEASURES[0], ["--by", "head"])]
)
def test_two_checkpoints_are_two_runs(invoke, run, reviews, tmp_path, own, words, by):
    models, data = [run / "checkpoint-1000", run / "checkpoint-100"], ["-d", reviews / "all.tsv"]
    for number, model in enumerate(models):
        assert invoke(own[0], model, *data, *own[1:], "-o", tmp_path / f"{number}.csv", "-q")[0] == 0
    tables = ["--in-domain", tmp_path / "0.csv", "--out-domain", tmp_path / "1.csv"]
    code, wanted, _ = invoke("correlate", *tables, "--across-models", *by)
    assert code == 0
    code, out, error = invoke("correlate", *models, *data, *words, *by)
    assert (code, out) == (0, wanted), error
    found = frame(out)
    assert set(found["model"]) == {"checkpoint-1000"}
    assert set(found["model_out"]) == {"checkpoint-100"}
    assert set(found["dataset"]) == {"all.tsv"}
    assert len(found) == (12 if by else 1)
    if not by:
        assert abs(found["pearson"][0]) < 1
        assert np.isfinite(found["pearson_true_low"][0])
        assert list(found)[:6] == ["model", "dataset", "model_out", "in_domain", "out_domain", "heads"]
        assert any("read the same examples" in note for note in said(error))


def test_a_checkpoint_with_itself(invoke, classifier, reviews):
    code, out, _ = invoke("correlate", classifier, classifier, "-d", reviews / "all.tsv")
    row = frame(out).iloc[0]
    names = [f"pearson{more}" for more in ("", "_low", "_high", "_true", "_true_low", "_true_high")]
    assert code == 0
    assert row[[*names, "spearman", "kendall"]].tolist() == pytest.approx([1] * 8)


def test_the_head_that_was_changed_disagrees_most(invoke, classifier, reviews, tmp_path):
    """One head's output is made four times as large in the other checkpoint."""

    def change(weights):
        name = "bert.encoder.layer.1.attention.output.dense.weight"
        weights[name][:, 2 * WIDTH : 3 * WIDTH] *= 4

    other = changed(classifier, tmp_path / "loud", change)
    words = ["correlate", classifier, other, "-d", reviews / "all.tsv"]
    top = frame(invoke(*words, "--by", "head")[1]).iloc[0]
    assert (top["layer"], top["head"], top["place"]) == (1, 2, 1)
    assert top["disagreement"] > 1


# Snapshots


def test_a_checkpoint_with_its_snapshots(invoke, run, reviews, loaded):
    """A row for each, in the order of their numbers; the checkpoint itself is none of the pattern's."""
    data = ["-d", reviews / "all.tsv", "--batch-tokens", 32]
    code, out, _ = invoke("correlate", run / "checkpoint-1000", run / "checkpoint-*", *data)
    assert code == 0
    assert loaded == ["checkpoint-1000", "checkpoint-100", "checkpoint-900"]
    found = frame(out)
    assert found["model_out"].tolist() == ["checkpoint-100", "checkpoint-900"]
    assert found["pearson"][0] < found["pearson"][1] < 1
    heads = frame(
        invoke("correlate", run / "checkpoint-1000", run / "checkpoint-*", *data, "--by", "head")[1]
    )
    assert heads["model_out"].tolist() == ["checkpoint-100"] * 12 + ["checkpoint-900"] * 12
    assert heads["place"].tolist() == [*range(1, 13)] * 2
    for place, step in enumerate((100, 900)):
        alone = ("correlate", run / "checkpoint-1000", run / f"checkpoint-{step}", *data)
        pandas.testing.assert_frame_equal(
            frame(invoke(*alone)[1]), found.iloc[[place]].reset_index(drop=True), check_exact=True
        )


# What they are asked


def test_a_classifier_and_its_base_need_an_objective(invoke, refused, classifier, saved, reviews):
    words = [classifier, saved("bert"), "-d", reviews / "all.tsv"]
    assert "--objective representation" in refused("correlate", *words)
    code, out, _ = invoke("correlate", *words, "--objective", "representation")
    assert code == 0
    assert frame(out)["pearson"][0] == pytest.approx(1)  # their encoders are one


def test_a_document_that_one_tokenizer_skips(invoke, saved, tmp_path):
    """Then documents of one number are not the same ones, and nothing is taken out."""
    text = tmp_path / "text.txt"
    lines = [f"the {word} ran" for word in ["dog", "cat", "bird", "he", "she"] * 3]
    text.write_text("\n".join(["\u200b", *lines]))  # no token for WordPiece, some for bytes
    code, out, _ = invoke("correlate", saved("bert"), saved("roberta"), "-d", text)
    assert code == 0
    assert np.isnan(frame(out)["pearson_true"][0])


# Refusals


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["demo", "demo", "--in-domain", "x.txt"], "compared on one dataset, --dataset DATA"),
        (["demo", "demo", "--column", "importance"], "--column is for tables"),
        (["demo", "demo", "--across-models"], "--across-models is for tables"),
        (["demo", "demo", "--metric", "loss"], "--metric is for --measure ablation"),
        (["demo", "-d", "x.txt"], "--dataset DATA is for two or more checkpoints"),
        (["demo"], "or two checkpoints and --dataset DATA"),
        ([], "--in-domain and --out-domain"),
        (["demo", "nothing-*"], "No folder matches nothing-*"),
        (["-d", "x.txt"], "give a MODEL before"),
    ],
)
def test_refused_at_once(refused, words, says, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "transformers", None)  # before anything slow
    assert says in refused("correlate", *words)


def test_other_shapes_are_refused_before_anything_is_loaded(refused, saved, loaded):
    sentence = refused("correlate", saved("bert"), "demo")
    assert "has 3 layers of 4 heads and demo has 6 layers of 4 heads" in sentence
    assert f"`attnprobe compare {saved('bert')} demo`" in sentence
    assert loaded == []


# Python, record, formats, resuming


def test_from_python(classifier, run, reviews, invoke):
    models = [str(classifier), run / "checkpoint-100"]
    texts = [line.split("\t") for line in (reviews / "all.tsv").read_text().splitlines()[1:]]
    listed = ([text for text, _ in texts], [label for _, label in texts])
    found = attnprobe.correlate(model=models, texts=iter(listed[0]), labels=iter(listed[1]), by="head")
    out = invoke("correlate", *models, "-d", reviews / "all.tsv", "--by", "head")[1]
    np.testing.assert_array_equal(found["importance_out"], frame(out)["importance_out"])
    with pytest.raises(attnprobe.AttnprobeError, match="not a loaded BertModel"):
        attnprobe.correlate(model=[_model(), _model()], texts=["a"])
    with pytest.raises(attnprobe.AttnprobeError, match="texts=DATA is for two or more checkpoints"):
        attnprobe.correlate(model=str(classifier), texts=["a"])


def _model():
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=2, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    return BertModel(config)


def test_every_checkpoint_is_on_record(invoke, run, reviews, tmp_path):
    words = ["correlate", run / "checkpoint-1000", run / "checkpoint-*", "-d", reviews / "all.tsv"]
    for extension in ("csv", "parquet"):
        assert invoke(*words, "-o", tmp_path / f"{extension}.{extension}")[0] == 0
    record = json.loads((tmp_path / "csv.csv.json").read_text())["provenance"]
    names = [one["model"]["name"] for one in record["checkpoints"]]
    assert names == ["checkpoint-1000", "checkpoint-100", "checkpoint-900"]
    assert len({str(one["model"]["weights"]) for one in record["checkpoints"]}) == 3
    assert all(one["task"]["objective"] == "classification" for one in record["checkpoints"])
    assert record["dataset"]["sha256"]
    wanted = pandas.read_csv(tmp_path / "csv.csv")
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / "parquet.parquet"), wanted)
    read = attnprobe.HeadTable.read(tmp_path / "csv.csv")
    assert read.column("model_out").role == "key"


def test_killed_and_resumed(invoke, kill, refused, run, reviews, tmp_path, loaded):
    state = tmp_path / "state"
    words = ["correlate", run / "checkpoint-1000", run / "checkpoint-*", "-d", reviews / "all.tsv"]
    wanted = invoke(*words)[1]
    kill(*words, "--resume", state)
    loaded.clear()
    code, out, error = invoke(*words, "--resume", state)
    assert (code, out) == (0, wanted)
    assert "1 of 3 checkpoints are done" in error
    assert loaded == ["checkpoint-100", "checkpoint-900"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state"]
    loaded.clear()
    assert invoke(*words, "--resume", state)[1] == wanted
    assert loaded == []
    turned = ["correlate", run / "checkpoint-900", run / "checkpoint-*", *words[3:]]
    assert "belongs to a run with another checkpoint 1;" in refused(*turned, "--resume", state)
    for more, another in ((["--measure", "lrp"], "measure"), (["--seed", "7"], "setting")):
        assert f"belongs to a run with another {another};" in refused(*words, *more, "--resume", state)
