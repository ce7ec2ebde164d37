"""The commands that switch heads off: columns, refusals, and numbers from command line to file."""

import copy
import json

import numpy as np
import pandas
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from attnprobe.cli.app import run
from attnprobe.model.pruning import load_pruned

PLACE = ["layer", "head", "n"]
GRADIENT = [
    "importance", "importance_se", "importance_normalized", "importance_normalized_se", "gradient_signed",
    "gradient_signed_se", "fisher", "fisher_se",
]  # fmt: skip
SCORES = ["baseline", "baseline_se", "score", "score_se", "delta", "delta_se", "p", "p_adjusted"]
CORRELATION = [
    "heads", "pearson", "pearson_low", "pearson_high", "pearson_p", "pearson_true",
    "pearson_true_low", "pearson_true_high", "spearman", "spearman_p",
    "kendall", "kendall_p",
    "reliability_in", "reliability_out",
]  # fmt: skip
LAYERS, HEADS, WIDTH = 3, 4, 8


@pytest.fixture(scope="session")
def tables(tmp_path_factory, classifier, reviews):
    """Write the tables that several tests read, from both halves of the reviews."""
    folder = tmp_path_factory.mktemp("tables")
    commands = {
        "importance": ["importance"],
        "ablate": ["ablate", "--metric", "loss"],
        "alone": ["ablate", "--metric", "loss", "--keep-one"],
        "entropy": ["entropy"],
        "relevance": ["importance", "--method", "lrp"],
    }
    for part in ("first", "second"):
        for name, (command, *words) in commands.items():
            target = folder / f"{name}-{part}.csv"
            data = ["-d", str(reviews / f"{part}.tsv")]
            assert run([command, str(classifier), *data, *words, "-q", "-o", str(target)]) == 0
    return folder


@pytest.fixture
def labelled(tmp_path):
    """Write a small table of texts with labels."""

    def write(labels, name="labelled.csv", column="label"):
        path = tmp_path / name
        rows = [f"the train was {word},{label}" for word, label in zip("abcdefgh", labels, strict=False)]
        path.write_text("\n".join([f"text,{column}", *rows]) + "\n")
        return path

    return write


# Columns


def test_importance_columns(tables):
    table = pandas.read_csv(tables / "importance-first.csv")
    assert list(table) == ["model", "dataset", "objective", "method", *PLACE, *GRADIENT]
    assert set(table["objective"]) == {"classification"}
    assert set(table["n"]) == {6}
    places = list(zip(table["layer"], table["head"], strict=True))
    assert places == [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]


@pytest.mark.parametrize("name", ["ablate", "alone"])
def test_ablate_columns(tables, name):
    table = pandas.read_csv(tables / f"{name}-second.csv")
    moves = ["moved", "moved_se"]
    keys = ["model", "dataset", "objective", "metric", "replaced_by"]
    assert list(table) == [*keys, *PLACE, *SCORES, *moves]
    np.testing.assert_allclose(table["score"] - table["baseline"], table["delta"], atol=1e-9)


def test_correlate_columns(tabulate, tables):
    words = ("--in-domain", tables / "importance-first.csv", "--out-domain", tables / "importance-second.csv")
    table = tabulate("correlate", *words)
    assert list(table) == ["model", "dataset", "in_domain", "out_domain", *CORRELATION]
    heads = tabulate("correlate", *words, "--by", "head")
    numbers = ["importance_in", "importance_out", "rank_in", "rank_out", "disagreement"]
    assert list(heads) == ["model", "dataset", "place", "layer", "head", *numbers]
    assert len(heads) == LAYERS * HEADS


def test_prune_columns(tabulate):
    table = tabulate("prune", "demo", "-L", "6", "--random-orders", "2", "--step", "0.25")
    steps = ["step", "heads_removed", "share_removed"]
    assert list(table) == [
        "model", "dataset", "criterion", "seed", *steps, "metric", "n", "score", "score_se", "delta",
        "delta_se", "p", "p_adjusted", "bound", "delta_random", "delta_random_se", "p_random",
        "p_random_adjusted", "rank_among_random",
    ]  # fmt: skip
    assert table["criterion"].tolist() == ["gradient"] * 5 + ["random"] * 10
    assert table["seed"].tolist()[5:] == [42] * 5 + [43] * 5
    assert table["seed"][:5].isna().all()
    assert table["heads_removed"].tolist() == [0, 6, 12, 18, 24] * 3


# Bad input


def test_labels_that_the_model_lacks(invoke, refused, classifier, labelled):
    names = refused("importance", classifier, "-d", labelled(["good", "bad", "splendid"]))
    assert "'splendid'" in names
    assert "0 (bad), 1 (so-so), 2 (good)" in names
    assert "'3'" in refused("ablate", classifier, "-d", labelled([0, 3, 1]))
    assert "secret" in refused("prune", classifier, "-d", labelled([-1, -1, -1, -1]))
    assert "no column 'stars'" in refused(
        "importance", classifier, "-d", labelled([0]), "--label-column", "stars"
    )
    assert "labels" in refused("importance", classifier, "--objective", "classification", "-L", "3")


def test_a_head_that_is_not_there(tabulate, refused, labelled):
    path = labelled([0, 1, 1, 0])
    words = ("importance", "demo", "-d", path, "--objective", "classification")
    assert "--force-head" in refused(*words)
    table = tabulate(*words, "--force-head")
    assert "made up" in table.attrs["error"]
    assert set(table["objective"]) == {"classification"}
    assert "no trained head" in refused("importance", "demo", "-d", path, "--label-column", "label")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--margin", "0"], "--margin must be more than 0"),
        (["--physical"], "--physical"),
        (["--save", "out", "--share", "0.0001"], "not one of them"),
        (["--by", "gradient", "--highest-first"], "--highest-first"),
        (["-L", "1"], "ranked and scored"),
    ],
)
def test_bad_pruning(refused, monkeypatch, tmp_path, words, says):
    monkeypatch.chdir(tmp_path)
    assert says in refused("prune", "demo", "-L", "4", "--random-orders", "0", *words)
    assert not list(tmp_path.iterdir())


# Pruning


def zeroed(model, removed):
    """Copy a BERT without some heads: the columns of the output projections that read them are zero."""
    without = copy.deepcopy(model)
    with torch.no_grad():
        for number in removed:
            layer, head = divmod(int(number), HEADS)
            reader = without.bert.encoder.layer[layer].attention.output.dense
            reader.weight[:, head * WIDTH : (head + 1) * WIDTH] = 0
    return without


def answers(model, tokenizer, path):
    """Give the logits and right classes, text by text."""
    table = pandas.read_csv(path, sep="\t")
    right = torch.tensor([model.config.label2id[label] for label in table["label"]])
    with torch.no_grad():
        logits = [model(**tokenizer(text, return_tensors="pt")).logits[0] for text in table["text"]]
    return torch.stack(logits), right


def mean_loss(model, tokenizer, path):
    return cross_entropy(*answers(model, tokenizer, path)).item()


@pytest.fixture(scope="session")
def loaded(classifier):
    """Load the classifier as any user of transformers would."""
    return AutoModelForSequenceClassification.from_pretrained(
        classifier
    ).eval(), AutoTokenizer.from_pretrained(classifier)


def sorted_by(path, column, *, highest_first=False):
    values = pandas.read_csv(path)[column]
    return values.sort_values(ascending=not highest_first, kind="stable").index.to_numpy()


@pytest.mark.parametrize(
    ("by", "table", "column"),
    [
        ("gradient", "importance", "importance"),
        ("gradient-normed", "importance", "importance_normalized"),
        ("fisher", "importance", "fisher"),
        ("lrp", "relevance", "relevance_abs"),
        ("ablation", "ablate", "moved"),
    ],
)
@pytest.mark.slow
def test_curves_by_criterion(tabulate, tables, classifier, reviews, loaded, by, table, column):
    """Rank on one half of the examples and score on the other: as if the others had never been there."""
    words = ("--by", by, "--metric", "loss", "--step", "0.25", "--random-orders", "0")
    curve = tabulate("prune", classifier, "-d", reviews / "all.tsv", *words)
    order = sorted_by(tables / f"{table}-first.csv", column, highest_first=False)
    wanted = [
        mean_loss(zeroed(loaded[0], order[:n]), loaded[1], reviews / "second.tsv") for n in (0, 3, 6, 9, 12)
    ]
    assert set(curve["n"]) == {6}
    np.testing.assert_allclose(curve["score"], wanted, rtol=1e-5)
    assert np.ptp(wanted) > 0.01
    ranked = ("--rank-data", reviews / "first.tsv")
    other = tabulate("prune", classifier, "-d", reviews / "second.tsv", *ranked, *words)
    np.testing.assert_allclose(other["score"], wanted, rtol=1e-5)


def test_a_margin_says_which_heads_to_save(invoke, tables, classifier, reviews, tmp_path):
    """A wide margin lets all go but the last; where no step lies within it, only the table is written."""
    words = ["prune", classifier, "-d", reviews / "all.tsv", "--random-orders", "0", "--step", "0.25"]
    words += ["--by", f"{tables / 'importance-second.csv'}:importance", "--save", tmp_path / "less"]
    code, out, error = invoke(*words, "--metric", "accuracy", "--margin", "1e-9")
    assert code == 2
    assert "nothing is written" in error
    assert [line.split(",")[5] for line in out.splitlines()[1:]] == ["0", "1", "3", "12"]
    assert not (tmp_path / "less").exists()
    code, out, error = invoke(*words, "--metric", "accuracy", "--margin", "1")
    assert code == 0
    assert "Within a margin of 1, 12 of 12 heads can go" in error
    assert "11 of 12 heads removed, written" in error  # a checkpoint needs a head
    record = json.loads((tmp_path / "less" / "attnprobe.json").read_text())
    assert len(record["removed"]) == 11


@pytest.mark.parametrize("physical", [False, True])
def test_saved_checkpoints(invoke, refused, tables, classifier, reviews, loaded, tmp_path, physical):
    folder = tmp_path / "pruned"
    words = ["--by", f"{tables / 'importance-second.csv'}:importance", "--random-orders", "0", "--step", "1"]
    words += ["--save", folder, "--share", "0.4", *(["--physical"] if physical else [])]
    code, _, error = invoke("prune", classifier, "-d", reviews / "all.tsv", *words)
    assert code == 0
    assert "5 of 12 heads removed" in error
    order = sorted_by(tables / "importance-second.csv", "importance")
    wanted = answers(zeroed(loaded[0], order[:5]), loaded[1], reviews / "all.tsv")[0]
    read = load_pruned if physical else AutoModelForSequenceClassification.from_pretrained
    logits = answers(read(folder).eval(), AutoTokenizer.from_pretrained(folder), reviews / "all.tsv")[0]
    torch.testing.assert_close(logits, wanted, rtol=1e-4, atol=1e-5)
    assert (wanted - answers(*loaded, reviews / "all.tsv")[0]).abs().max() > 0.01
    record = json.loads((folder / "attnprobe.json").read_text())
    assert sorted(map(tuple, record["removed"])) == sorted(divmod(int(number), HEADS) for number in order[:5])
    assert "--overwrite" in refused("prune", classifier, "-d", reviews / "all.tsv", *words)
