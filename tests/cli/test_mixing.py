"""`mixing` from a command line: its columns, jobs that add up, what is refused."""

import csv
import io

import numpy as np
import pytest

KEYS = ["model", "dataset", "layer"]
LINES = [
    f"the {word} ran to the river by night {place}" for place, word in enumerate(["dog", "cat", "bird"] * 6)
]


def rows_of(out):
    return list(csv.DictReader(io.StringIO(out)))


def with_errors(*names):
    return [column for name in names for column in (name, f"{name}_se")]


@pytest.mark.parametrize(
    ("by", "keys", "measures"),
    [
        ("head", ["head", "n"], ["explained_by_others", "explained_by_others_null", "contribution_norm"]),
        ("layer", ["n"], ["effective_heads", "effective_heads_null", "cancellation"]),
        (
            "pair",
            ["head_a", "head_b", "n"],
            ["logit_correlation", "logit_correlation_null", "contribution_cosine"],
        ),
    ],
)
def test_columns(invoke, saved, text, by, keys, measures):
    code, out, _ = invoke("mixing", saved("bert"), "-d", text, "--by", by)
    assert code == 0
    rows = rows_of(out)
    assert list(rows[0]) == [*KEYS, *keys, *with_errors(*measures)]
    assert len(rows) == {"head": 12, "layer": 3, "pair": 18}[by]
    assert all(row[name] for row in rows for name in with_errors(*measures))
    named = rows_of(invoke("mixing", saved("bart"), "-d", text, "--by", by)[1])
    assert {row["attention"] for row in named} == {"encoder", "decoder", "cross"}


@pytest.mark.parametrize("by", ["head"])
def test_jobs_add_up(invoke, saved, tmp_path, by):
    """Means are those of the whole; errors are over other blocks of documents, and about as large."""
    parts = {"whole": LINES, "first": LINES[:7], "second": LINES[7:]}
    for part, lines in parts.items():
        (tmp_path / f"{part}.txt").write_text("\n".join(lines) + "\n")
        words = ["mixing", saved("bert"), "-d", tmp_path / f"{part}.txt", "--by", by]
        assert invoke(*words, "-o", tmp_path / f"{part}.csv")[0] == 0
    code, out, _ = invoke("merge", tmp_path / "first.csv", tmp_path / "second.csv", "-q")
    assert code == 0
    merged, whole = rows_of(out), rows_of((tmp_path / "whole.csv").read_text())
    assert len(merged) == len(whole)
    for name in whole[0]:
        found, expected = ([row[name] for row in rows] for rows in (merged, whole))
        if name in {"model", "dataset"}:
            continue
        if name.endswith("_se"):
            ratio = np.array(found, float) / np.array(expected, float)
            assert (np.abs(np.log(ratio)) < np.log(2.5)).all(), (name, ratio)
        else:
            np.testing.assert_allclose(np.array(found, float), np.array(expected, float), rtol=1e-9)
