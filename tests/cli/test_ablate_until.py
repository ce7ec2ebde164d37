"""``ablate --until``: each head is off in as many examples as it takes; against full runs, look by look."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from attnprobe import ablate
from attnprobe.corpus.sources.opening import draw_documents

RANDOM = np.random.default_rng(9)
WORDS = "the dog ran to old house by a river and slept under green trees while it rained at night".split()  # noqa: SIM905
PAIRS = [
    (" ".join(RANDOM.choice(WORDS, RANDOM.integers(3, 8))) + f" {n} .", "good" if n % 3 else "bad")
    for n in range(300)
]
LOOKS = (128, 256, 300)


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.tsv").write_text("text\tlabel\n" + "\n".join("\t".join(pair) for pair in PAIRS))
    return tmp_path


@pytest.fixture
def full(classifier):
    """Ablate the first examples of the random order; give the table and half the widths of delta."""

    def run(number, **options):
        texts, labels = zip(*draw_documents(PAIRS, number, 42), strict=True)
        table = ablate(classifier, texts, labels, metric="loss", **options).to_pandas()
        return table, stats.t.ppf(0.975, number - 1) * table["delta_se"].to_numpy()

    return run


@pytest.mark.parametrize("options", [{}, {"keep_one": True}])
def test_each_head_leaves_at_its_own_look(corpus, classifier, full, options):
    tables, widths = zip(*(full(number, **options) for number in LOOKS), strict=True)
    target = float(np.quantile(widths[0], 0.4))
    target = max(target, float(np.sort(widths[2])[2]))
    found = ablate(
        classifier, "text.tsv", metric="loss", until=target, name="texts", correction="bh", **options
    )
    table = found.to_pandas()
    leaves = [next((k for k in range(3) if widths[k][head] <= target), 2) for head in range(len(table))]
    assert table["n"].tolist() == [LOOKS[k] for k in leaves]
    assert len(set(leaves)) > 1
    for head, look in enumerate(leaves):
        for name in (
            "baseline",
            "baseline_se",
            "score",
            "score_se",
            "delta",
            "delta_se",
            "moved",
            "moved_se",
            "p",
        ):
            assert table[name][head] == pytest.approx(tables[look][name][head], rel=1e-4, abs=1e-6), name
    record = found.provenance["until"]
    read = int(table["n"].to_numpy().max())
    assert (record["documents"], record["of"], record["targets"]) == (read, 300, {"delta": target})
    still = sum(not any(widths[k][head] <= target for k in range(3)) for head in range(len(table)))
    assert record["reached"] == (not still)
    assert record["looks"][-1]["open"] == still
    assert record["passes"] == pytest.approx(table["n"].sum() / (300 * len(table)))
    assert any(f"{record['passes']:.0%} of the passes were made" in note for note in found.notes)
    assert any(
        f"{still} of {len(table)} heads {'was' if still == 1 else 'were'} still open" in note
        for note in found.notes
    ) == bool(still)


def test_without_a_target_the_table_is_that_of_all_examples(corpus, classifier, full):
    """Too narrow a target reads all of them, and gives the full run's numbers."""
    found = ablate(classifier, "text.tsv", metric="loss", until=1e-9, name="texts").to_pandas()
    expected, _ = full(300)
    names = ["n", "baseline", "score", "delta", "delta_se", "p_adjusted", "moved", "rank_low", "rank_high"]
    np.testing.assert_allclose(found[names], expected[names], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["reliability"], expected["reliability"], atol=0.05)


def test_moved_and_strictly(corpus, classifier):
    wide = ablate(classifier, "text.tsv", metric="loss", until=9.0, strict=True)
    assert set(wide["n"]) == {256}
    assert "at two looks in a row" in "".join(wide.notes)
    table = ablate(classifier, "text.tsv", metric="loss", until={"moved": 9.0, "delta": 9.0})
    assert set(table["n"]) == {128}
    assert table.provenance["until"]["targets"] == {"moved": 9.0, "delta": 9.0}


def test_few_examples_are_looked_at_once(corpus, classifier):
    texts, labels = zip(*PAIRS[:20], strict=True)
    table = ablate(classifier, texts, labels, metric="loss", until=9.0)
    assert [look["documents"] for look in table.provenance["until"]["looks"]] == [20]
    assert set(table["n"]) == {20}


def test_mean_of_the_first_look(corpus, classifier):
    table = ablate(classifier, "text.tsv", metric="loss", until=9.0, replaced_by="mean", name="texts")
    texts, labels = zip(*draw_documents(PAIRS, 128, 42), strict=True)
    expected = ablate(classifier, texts, labels, metric="loss", replaced_by="mean")
    np.testing.assert_allclose(table["score"], expected["score"], rtol=1e-5)
    assert "over the examples of the first look" in "".join(table.notes)


@pytest.mark.slow
def test_record_and_rerun(invoke, corpus, classifier):
    words = ("ablate", classifier, "-d", "text.tsv", "--metric", "accuracy", "--until", "0.02", "--seed", "5")
    assert invoke(*words, "-o", "heads.csv")[0] == 0
    record = json.loads((corpus / "heads.csv.json").read_text())["provenance"]
    assert (record["options"]["until"], record["until"]["seed"]) == ({"": 0.02}, 5)
    assert record["corpus"]["documents"] == record["until"]["documents"] >= 256  # none is known at 128
    code, _, error = invoke("rerun", "heads.csv")
    assert code == 0, error
    assert "digit for digit" in error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--until", "score=1", "--metric", "loss"), "--until of ablate is about delta or moved, not about"),
        (("--until", "1", "--metric", "mcc"), "mcc is of all examples together; leave it out, or take"),
        (("--until", "1", "--with", "resample"), "--with resample draws from all examples"),
        (("--until", "0"), "--until must be above 0"),
        (("--strict",), "--strict is about --until"),
    ],
)
def test_refusals(refused, corpus, classifier, words, said):
    assert said in refused("ablate", classifier, "-d", "text.tsv", *words)


def test_refuses_what_hangs_on_all_texts_together(refused, corpus):
    rows = [f"{one}\t{other}\t{place % 5}" for place, (one, other) in enumerate(PAIRS[:50])]
    (corpus / "pairs.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]))
    said = refused("ablate", "demo", "-d", "pairs.tsv", "--until", "0.1", "--objective", "similarity")
    assert "The score of similarity hangs on all texts together; leave out --until." in said


@pytest.mark.slow
def test_killed_and_resumed_heads_leave_at_the_same_looks(invoke, corpus, classifier):
    from tests.cli.test_until import KILLED

    words = ("ablate", str(classifier), "-d", "text.tsv", "--metric", "loss", "--threads", "1")
    words = (*words, "--batch-tokens", "200", "--until", "0.01")
    assert invoke(*words, "-o", "whole.csv")[0] == 0
    looks = json.loads((corpus / "whole.csv.json").read_text())["provenance"]["until"]["looks"]
    assert len(looks) >= 2
    for batch in (3, 12):
        command = [sys.executable, "-c", KILLED, str(batch), *words, "--resume", "state", "-o", "cut.csv"]
        done = subprocess.run(command, capture_output=True, check=False, timeout=120, env=dict(os.environ))
        assert done.returncode == -signal.SIGKILL, done.stderr
    code, _, error = invoke(*words, "--resume", "state", "-o", "cut.csv")
    assert code == 0, error
    assert "going on from state" in error
    assert (corpus / "cut.csv").read_bytes() == (corpus / "whole.csv").read_bytes()


@pytest.mark.slow
def test_workers_and_processes(invoke, corpus, classifier):
    words = ("ablate", str(classifier), "-d", "text.tsv", "--metric", "loss", "--until", "0.01")
    words = (*words, "--batch-tokens", "200")
    assert invoke(*words, "--threads", "1", "-o", "one.csv")[0] == 0
    assert invoke(*words, "--threads", "3", "--workers", "3", "-o", "three.csv")[0] == 0
    assert (corpus / "one.csv").read_bytes() == (corpus / "three.csv").read_bytes()
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "attnprobe"]
    done = subprocess.run(
        [*start, *words, "-o", "two.csv"], capture_output=True, text=True, check=False, timeout=240,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    one, two = (pd.read_csv(f"{name}.csv").select_dtypes("number") for name in ("one", "two"))
    np.testing.assert_array_equal(two, one)
