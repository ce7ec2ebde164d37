"""Tasks of embedding models from the command line: similarity, triplets, retrieval."""

import json

import pandas
import pytest

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
