"""The examples run as they are, and what they write can be read."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import outputs
import pandas
import pytest
import torch
from block_parts import build_uniform_block
from transformers import AutoModelForSequenceClassification

import attnprobe
from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.kinds import Observed
from attnprobe.corpus.open import read_documents, read_embedded
from attnprobe.corpus.source import Source

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[1] / "examples"
#: A line each, long enough for a census.
CORPUS = [document.text for document in read_embedded()][:24]


load_script = importlib.import_module  # pytest has examples/ and docs/scripts/ on its path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train the classifier as its script does; give the folder with its checkpoint and its sentences."""
    folder = tmp_path_factory.mktemp("trained")
    load_script("train_classifier").main(str(folder))
    return folder


def test_a_few_steps_give_a_checkpoint(tmp_path):
    text = tmp_path / "english.txt"
    text.write_text("\n".join(document.text for document in read_embedded()), encoding="utf-8")
    output = tmp_path / "encoder"
    small = {"layers": 2, "heads": 2, "width": 16, "feed_forward": 16, "vocabulary": 300, "batch_tokens": 256}
    load_script("train_demo").main(text, output, steps=3, snapshots=2, **small)
    assert json.loads((output / "training.json").read_text())["step"] == 3
    for folder in (output, output / "snapshots" / "step-2"):
        table = attnprobe.census(str(folder), ["The parcel came late."], statistics=["entropy"])
        assert len(table) == 4


def test_a_statistic_of_ones_own(capsys):
    script = load_script("own_statistic")
    uniform = build_uniform_block(5)
    block = replace(uniform, observed=Observed(scores=torch.zeros(1, 1, 5, 5)))
    assert (script.above_mean(block) == 0).all()
    scores = torch.full((1, 1, 5, 5), -9.0)
    scores[..., 2] = 9.0
    sure = AttentionBlock(scores.softmax(-1), block.layout, observed=Observed(scores))
    assert (script.above_mean(sure) > 0.99).all()
    script.main("demo")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["layer", "head", "n", "above_mean", "above_mean_se", "entropy"]
    assert len(lines) == 6


def test_a_classifier_that_anybody_can_train(trained):
    model = AutoModelForSequenceClassification.from_pretrained(trained / "genre")
    assert model.config.id2label == {0: "narrative", 1: "technical"}
    seen = pandas.read_csv(trained / "genre.csv")
    assert set(seen["label"]) == {"narrative", "technical"}
    scores = attnprobe.ablate(str(trained / "genre"), seen[:60], text_column="text", label_column="label")
    assert scores["baseline"][0] > 0.75  # guessing is right for half


def test_prune_and_reload(trained, tmp_path, capsys, monkeypatch):
    """With the classifier that is trained already, and every third of the sentences."""
    script, calls = load_script("prune_and_reload"), []

    def train(folder, *, steps):
        calls.append((folder, steps))
        shutil.copytree(trained, folder, dirs_exist_ok=True)
        pandas.read_csv(trained / "genre.csv")[::3].to_csv(tmp_path / "genre.csv", index=False)

    monkeypatch.setattr(script.train_classifier, "main", train)
    script.main(str(tmp_path), steps=12)
    assert calls == [(str(tmp_path), 12)]
    zeroed, smaller = (line for line in capsys.readouterr().out.splitlines() if line.startswith("half"))
    assert zeroed.split(":")[1].split(",")[0] == smaller.split(":")[1].split(",")[0]  # the same answers
    whole, cut = (attnprobe.load_pruned(tmp_path / name).num_parameters() for name in ("zeroed", "smaller"))
    assert cut < whole


def test_atom_maps(tmp_path):
    """Atoms lose their numbers, and links join those that had the same one."""
    script = load_script("atom_maps")
    reaction = "[CH3:1][OH:2].[nH:3]1[cH:4][Cl:5]>>[CH3:1][O-:2].[C@H:9]([nH:3]1)[Cl:5]"
    row = script.make_row(reaction, between="")
    assert row["text"] == "CO.[nH]1cCl>>C[O-].[C@H]([nH]1)Cl"
    joined = [
        (link["label"], *(row["text"][slice(*link[end])] for end in ("target", "source")))
        for link in row["links"]
    ]
    assert joined == [("C", "C", "C"), ("O", "O", "[O-]"), ("N", "[nH]", "[nH]"), ("Cl", "Cl", "Cl")]
    assert all(link["target"] < link["source"] for link in row["links"])
    script.main(str(tmp_path / "reactions.jsonl"))
    table = attnprobe.links("demo", tmp_path / "reactions.jsonl", by="head", min_links=1)
    made = "".join(line.partition(">>")[2] for line in script.REACTIONS.splitlines())
    numbers = {"all": made.count(":"), "C": len(re.findall(r"\[[Cc](?!l)", made))}
    for label, number in numbers.items():
        counts = table["n"][(table["label"] == label) & (table["direction"] == "source_to_target")]
        assert (counts == number).all()


def test_a_census_for_a_paper(tmp_path, capsys):
    texts, output = tmp_path / "texts.txt", tmp_path / "census.csv"
    texts.write_text("\n".join(CORPUS), encoding="utf-8")
    load_script("census_for_a_paper").main("demo", str(texts), str(output))
    printed = capsys.readouterr().out
    census = pandas.read_csv(output)
    rows = [line for line in printed.splitlines() if line.startswith(tuple("012345"))]
    assert len(rows) == 6
    best = census.loc[census[["previous", "next"]].max(axis=1).idxmax()]
    assert f"{int(best['layer'])}-{int(best['head'])} & ${best['previous']:.3f} \\pm" in printed
    assert printed.startswith("\\begin{tabular}")


def shell(script, *arguments, **environment):
    command = ["bash", str(EXAMPLES / script), *map(str, arguments)]
    settings = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def whole_census(corpus):
    return attnprobe.census("demo", corpus, workers=1).to_pandas()


def test_a_slurm_array(tmp_path):
    """Its tasks read every line once, and their tables add up to that of the whole; one can come later."""
    corpus, folder = tmp_path / "corpus.txt", tmp_path / "census"
    corpus.write_text("\n".join(CORPUS) + "\n", encoding="utf-8")
    for task in "13":
        shell("slurm_array.sh", "demo", corpus, folder, "3", SLURM_ARRAY_TASK_ID=task)
    two_of_three = attnprobe.merge([folder / f"part{task}.csv" for task in "13"])
    assert "Part 2 of 3 of corpus.txt is missing." in two_of_three.notes
    shell("slurm_array.sh", "demo", corpus, folder, "3", SLURM_ARRAY_TASK_ID="2")
    merged = attnprobe.merge([folder / f"part{task}.csv" for task in "123"]).to_pandas()
    whole = whole_census(CORPUS)
    for column in ("entropy", "entropy_se", "previous", "jsd_mean"):
        pandas.testing.assert_series_equal(merged[column], whole[column], rtol=1e-6)


def test_torchrun(tmp_path):
    """Two processes write the table of one."""
    corpus, table = tmp_path / "corpus.txt", tmp_path / "heads.csv"
    corpus.write_text("\n".join(CORPUS) + "\n", encoding="utf-8")
    shell("torchrun.sh", "demo", corpus, table)
    whole, shared = whole_census(CORPUS), pandas.read_csv(table)
    for column in ("entropy", "entropy_se", "rare_lift", "offset_share"):
        pandas.testing.assert_series_equal(shared[column], whole[column], rtol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", outputs.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook(path):
    """It runs, and shows what it printed when it was last saved, figure by figure."""
    before = path.read_text(encoding="utf-8")
    after = outputs.executed(before)
    shown, printed = (outputs.printed(nbformat.reads(text, 4)) for text in (before, after))
    assert shown
    assert not outputs.differences(shown, printed)


def test_winobias(tmp_path):
    """The pronoun asks which of two occupations is meant; the file tells which words are occupations."""
    lines = [
        "1 [The welder] waved to the pilot, because [he] was early.",
        "2 The welder\u2019s boss waved to [the  tour pilot] because [she] was early.",
        "3 Nobody came, because [they] slept.",
    ]
    path = tmp_path / "anti_stereotyped_type1.txt.dev"
    path.write_text("\n".join(lines) + "\n")
    output = tmp_path / "links.jsonl"
    subprocess.run([sys.executable, EXAMPLES / "winobias.py", output, path], check=True)
    words = [
        [document.text[span.start : span.stop] for span in (link.source, link.target, *link.candidates)]
        for document in read_documents(Source(str(output), annotated=True))
        for link in document.annotation.links
    ]
    assert words == [["he", "welder", "welder", "pilot"], ["she", "pilot", "welder", "pilot"]]
    assert "anti-stereotypical" in output.read_text()
