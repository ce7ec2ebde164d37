"""``--sample``: for every command that reads documents, on record, resumed and merged."""

import io
import json
from itertools import count

import pandas as pd
import pytest

from attnprobe.corpus.open import read_documents
from attnprobe.corpus.order import draw_documents, select
from attnprobe.corpus.source import Source

LINES = [f"the dog number {place} ran to the old house ." for place in range(40)]
DRAWN = draw_documents(LINES, 8, 5)
SAMPLE = ("--sample", "8", "--seed", "5")


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n")
    (tmp_path / "drawn.txt").write_text("\n".join(DRAWN) + "\n")
    table = "\n".join(["text\tlabel", *(f"{line}\t{line.count('1') % 2}" for line in LINES)])
    (tmp_path / "labelled.tsv").write_text(table + "\n")
    return tmp_path


def numbers(out):
    table = pd.read_csv(io.StringIO(out))
    return table.drop(columns="dataset")


@pytest.mark.parametrize("more", [(), ("--workers", "2", "--batch-tokens", "16"), ("-L", "40")])
def test_a_sample_is_as_a_file_of_what_is_drawn(invoke, corpus, more):
    code, expected, _ = invoke("entropy", "demo", "-d", "drawn.txt")
    assert code == 0
    code, out, _ = invoke("entropy", "demo", "-d", "text.txt", *SAMPLE, *more)
    assert code == 0
    pd.testing.assert_frame_equal(numbers(out), numbers(expected), rtol=1e-6)


def test_a_treebank_gives_whole_documents(invoke, corpus):
    """Three documents of 1, 2 and 3 sentences: a sample of one has the sentences of one of them."""
    word = "1\tdogs\tdog\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\trun\trun\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    (corpus / "t.conllu").write_text("".join("# newdoc\n" + word * size for size in (1, 2, 3)))
    trees = Source(str(corpus / "t.conllu"))
    for size in (1, 2, 3):
        drawn = (len([*select(read_documents(trees), None, 1, seed)]) for seed in count())
        seed = next(seed for seed, found in enumerate(drawn) if found == size)
        words = ("syntax", "demo", "-d", "t.conllu", "--sample", "1", "--seed", seed, "--format", "json")
        code, out, error = invoke(*words)
        assert code == 0, error
        assert json.loads(out)["provenance"]["corpus"]["documents"] == size


def test_samples_of_parts_are_merged(invoke, corpus):
    (corpus / "a.txt").write_text("\n".join(LINES[:20]))
    (corpus / "b.txt").write_text("\n".join(LINES[20:]))
    for name, number in (("a", 3), ("b", 4)):
        words = ("entropy", "demo", "-d", f"{name}.txt", "--sample", number, "-o", f"{name}.csv")
        assert invoke(*words)[0] == 0
    code, out, error = invoke("merge", "a.csv", "b.csv", "--format", "json")
    assert code == 0, error
    assert {row["n"] for row in json.loads(out)["rows"]} == {7}


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--sample", "0"), "sample"), (("--sample", "x"), "sample"), (("--seed", "-1"), "seed")],
)
def test_refusals(invoke, corpus, words, said):
    code, out, error = invoke("entropy", "demo", *words)
    assert (code, out) == (2, "")
    assert said in error
