"""``--sample``: for every command that reads documents, on record, resumed and merged."""

import io
import json

import pandas as pd
import pytest

from attnprobe.corpus.order import draw_documents

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


def test_samples_of_parts_are_merged(invoke, corpus):
    (corpus / "a.txt").write_text("\n".join(LINES[:20]))
    (corpus / "b.txt").write_text("\n".join(LINES[20:]))
    for name, number in (("a", 3), ("b", 4)):
        words = ("entropy", "demo", "-d", f"{name}.txt", "--sample", number, "-o", f"{name}.csv")
        assert invoke(*words)[0] == 0
    code, out, error = invoke("merge", "a.csv", "b.csv", "--format", "json")
    assert code == 0, error
    assert {row["n"] for row in json.loads(out)["rows"]} == {7}
