"""Tasks of embedding models from the command line: similarity, triplets, retrieval."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest

from attnprobe.intervention.objectives.embeddings import RelatedTexts

PASSAGES = [
    "the river bank",
    "a red bird",
    "the dog and the cat",
    "a stone house",
    "a late train",
    "the green parcel",
]
QUERIES = [
    "slow water",
    "who ran ?",
    "the cat",
    "a house",
    "is it late ?",
    "the early parcel",
    "red light",
    "bird",
]


@pytest.fixture
def beir(tmp_path):
    """Write queries and passages as BEIR lays them out."""
    path = tmp_path / "beir"
    (path / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", PASSAGES), ("queries", QUERIES)):
        lines = [json.dumps({"_id": f"{name[0]}{place}", "text": text}) for place, text in enumerate(texts)]
        (path / f"{name}.jsonl").write_text("\n".join(lines))
    rows = [f"q{place}\tc{place * 5 % 6}\t1" for place in range(len(QUERIES))]
    (path / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]))
    return path


@pytest.fixture
def rows(tmp_path):
    """Write pairs with a score and triplets."""
    pairs = [f"{one},{PASSAGES[place % 6]},{place % 4}" for place, one in enumerate(QUERIES)]
    triplets = [f"{one},{PASSAGES[place % 6]},{PASSAGES[place % 5]}x" for place, one in enumerate(QUERIES)]
    for name, header, lines in (
        ("similarity", "sentence1,sentence2,score", pairs), ("triplet", "anchor,positive,negative", triplets),
    ):  # fmt: skip
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *lines]))
    return tmp_path


def test_a_folder_is_for_retrieval(invoke, refused, saved, beir, tmp_path):
    """Which is chosen by the data; the record says what was read."""
    target = tmp_path / "ablation.csv"
    code, _, error = invoke("ablate", saved("bert"), "-d", beir, "-o", target, "--limit", 6)
    assert code == 0, error
    assert "the objective is retrieval, by the cosine of embeddings." in error
    table = pandas.read_csv(target)
    assert set(table["metric"]) == {"ndcg"}
    assert set(table["n"]) == {6}
    record = json.loads(target.with_name(f"{target.name}.json").read_text())["provenance"]
    assert record["dataset"]["name"] == "beir"
    assert record["task"]["examples"] == 6
    assert "are for --objective retrieval" in refused("census", "demo", "-d", beir)
    assert "take gradient" in refused("importance", saved("bert"), "-d", beir, "--method", "lrp")


@pytest.mark.parametrize("kind", ["similarity", "triplet"])
def test_rows(invoke, refused, saved, rows, kind):
    path = rows / f"{kind}.csv"
    code, out, error = invoke("importance", saved("bert"), "-d", path, "--objective", kind, "-q")
    assert code == 0, error
    assert f",{kind},gradient,0,0," in out
    other = {"similarity": "triplet", "triplet": "similarity"}[kind]
    said = refused("importance", saved("bert"), "-d", path, "--objective", other)
    assert "has no column called" in said
    assert "--objective retrieval needs queries with the passages that answer them" in refused(
        "importance", saved("bert"), "--objective", "retrieval", "-L", 5
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [["importance"], ["ablate", "--metric", "loss"], ["prune", "--rerank", "--step", "0.5"], ["correlate"]],
    ids=" ".join,
)
def test_stopped_and_gone_on(invoke, saved, beir, monkeypatch, tmp_path, command):
    """Run until some batches are done, again and again: the same table, byte for byte."""
    count = {"batches": 0, "stop": None}
    answer = RelatedTexts.answer

    def answered(objective, batch, untouched=None):
        if untouched is None:
            if count["batches"] == count["stop"]:
                raise KeyboardInterrupt
            count["batches"] += 1
        return answer(objective, batch, untouched)

    monkeypatch.setattr(RelatedTexts, "answer", answered)
    data = ["--in-domain", beir, "--out-domain", beir] if command[0] == "correlate" else ["-d", beir]
    words = [command[0], saved("bert"), *data, *command[1:], "--batch-tokens", "8", "--threads", 1]
    code, expected, error = invoke(*words)
    assert code == 0, error
    total, done = count["batches"], 0
    while True:
        count |= {"batches": 0, "stop": total // 3}
        code, out, error = invoke(*words, "--resume", tmp_path / "state")
        done += count["batches"]
        if code == 0:
            break
        assert (code, out) == (130, ""), error
    assert out == expected
    assert done == total


@pytest.mark.exhaustive
def test_two_processes(invoke, saved, beir, tmp_path):
    """Embeddings of both are put together before queries are scored."""
    for name, words in {
        "ablate": ["ablate", saved("bert"), "-d", beir, "--threads", 1],
        "importance": ["importance", saved("bert"), "-d", beir, "--threads", 1, "--batch-tokens", 8],
    }.items():
        assert invoke(*words, "-o", tmp_path / f"{name}1.csv")[0] == 0
        start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2, "--no-python"]
        command = [*start, "attnprobe", *words, "-o", tmp_path / f"{name}2.csv"]
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, check=False, timeout=240
        )
        assert done.returncode == 0, done.stderr
        one, two = (pandas.read_csv(tmp_path / f"{name}{number}.csv") for number in (1, 2))
        numbers = one.select_dtypes("number").columns
        np.testing.assert_allclose(two[numbers], one[numbers], rtol=0, atol=1e-7)


@pytest.mark.exhaustive
def test_minilm(invoke, minilm, tmp_path):
    """A real embedding model finds everyday passages, also without any one of its heads."""
    data = Path(__file__).parents[2] / "examples" / "everyday.csv"
    words = ["-d", data, "--objective", "retrieval", "-L", 8, "-q"]
    assert invoke("ablate", minilm, *words, "-o", tmp_path / "a.csv")[0] == 0
    table = pandas.read_csv(tmp_path / "a.csv")
    assert table["baseline"].iloc[0] > 0.9
    assert table["score"].min() > 0.8
    assert len(table) == 72
