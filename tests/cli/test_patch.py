"""patch from the command line and from Python: files, formats, options, what is said, and what is refused."""

import csv
import gzip
import io
import json

import numpy as np
import pandas
import pytest
import torch
import transformers

import attnprobe
from attnprobe import AttnprobeError
from attnprobe.intervention.objectives.contrast import MaskContrast

SUBJECTS = [("boy", "boys"), ("man", "men"), ("girl", "girls"), ("woman", "women"), ("house", "houses")]
PAIRS = [
    {"clean": f"The {one} {where} [MASK] late .", "corrupted": f"The {several} {where} [MASK] late .",
     "answer": "was", "other": "were"}
    for one, several in SUBJECTS for where in ("there", "in the garden")
]  # fmt: skip


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def data(tmp_path):
    """Write the pairs in a format."""

    def write(kind):
        path, frame = tmp_path / f"pairs.{kind}", pandas.DataFrame(PAIRS)
        if kind in {"csv", "tsv"}:
            frame.to_csv(path, sep="\t" if kind == "tsv" else ",", index=False)
        elif kind == "parquet":
            frame.to_parquet(path)
        elif kind == "json":
            path.write_text(json.dumps(PAIRS))
        else:
            lines = "\n".join(map(json.dumps, PAIRS)).encode()
            path.write_bytes(gzip.compress(lines) if kind.endswith("gz") else lines)
        return path

    return write


@pytest.fixture(scope="module")
def causal(tmp_path_factory, tiny):
    """Write a tiny GPT-2 with its head to a folder."""
    base, tokenizer = tiny("gpt2")
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(base.config)
    model.transformer.load_state_dict(base.state_dict())
    folder = tmp_path_factory.mktemp("causal") / "gpt"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_what_the_sum_of_effects_is_shared_by(data):
    """The share of the gap is the sum of effects over the sum of gaps, which stands on record."""
    table = attnprobe.patch("demo", data("csv"))
    gap = table.provenance["patching"]["total_effect"]
    np.testing.assert_allclose(table["recovered"], table["effect"] / gap)
    noised = attnprobe.patch("demo", data("csv"), noising=True)
    assert noised.provenance["patching"]["total_effect"] == pytest.approx(-gap)
    assert set(noised["method"]) == {"noising"}
    assert not np.allclose(noised["effect"], -table["effect"])


def test_fast_confirms_the_first_heads_and_no_others(data):
    every = attnprobe.patch("demo", data("csv"))
    fast = attnprobe.patch("demo", data("csv"), fast=True, top=3)
    np.testing.assert_allclose(fast["attribution"], every["attribution"], rtol=1e-9)
    chosen = np.isfinite(fast["effect"])
    assert chosen.sum() == 3
    assert set(np.flatnonzero(chosen)) == set(np.argsort(-np.abs(every["attribution"]))[:3])
    np.testing.assert_allclose(fast["effect"][chosen], every["effect"][chosen], rtol=1e-6)
    np.testing.assert_allclose(fast["p"][chosen], every["p"][chosen], rtol=1e-6)
    # The smallest p is multiplied by all 24 heads that could have been chosen.
    assert np.nanmin(fast["p_adjusted"]) == pytest.approx(min(1, 24 * np.nanmin(fast["p"])))
    none = attnprobe.patch("demo", data("csv"), fast=True, top=0)
    assert np.isnan(none["effect"]).all()
    assert np.isfinite(none["attribution"]).all()


def test_positions(invoke, data, tmp_path):
    path = tmp_path / "positions.csv"
    code, _, _ = invoke("patch", "demo", "-d", data("csv"), "--positions", "-L", "4", "-o", path, "-q")
    found = pandas.read_csv(path)
    assert code == 0
    longest = found["position"].max() + 1
    assert len(found) == 24 * longest
    assert found["token"][:2].tolist() == ["[CLS]", "the"]
    counts = found[found["layer"].eq(0) & found["head"].eq(0)]["n"].tolist()
    assert counts[:7] == [4] * 7
    assert counts[-1] == 2  # of the longer sentences alone
    code, out, _ = invoke("plot", path, "-o", tmp_path / "positions.svg")
    assert code == 0
    assert "<svg" in (tmp_path / "positions.svg").read_text()
    code, out, _ = invoke("patch", "demo", "-d", data("csv"), "--positions", "-L", "4", "--format", "table")
    assert "rows: layers, columns: positions" in out
    assert "1 the" in out


def test_columns_by_name(invoke, tmp_path):
    names = {"clean": "good", "corrupted": "bad", "answer": "gold", "other": "rival"}
    path = tmp_path / "named.csv"
    pandas.DataFrame(PAIRS).rename(columns=names).to_csv(path, index=False)
    words = [
        "--text-column",
        "good",
        "--text-pair-column",
        "2",
        "--label-column",
        "gold",
        "--other-column",
        "rival",
    ]
    code, out, _ = invoke("patch", "demo", "-d", path, *words, "-q")
    assert code == 0
    expected = attnprobe.patch("demo", PAIRS)["effect"]
    np.testing.assert_allclose([float(row["effect"]) for row in rows(out)], expected)


def test_what_ships_with_attnprobe(invoke, causal):
    code, out, error = invoke("patch", "demo")
    assert code == 0
    assert {row["dataset"] for row in rows(out)} == {"embedded"}
    assert {row["n"] for row in rows(out)} == {"36"}
    assert "m is the logit of the answer" in error
    code, _, error = invoke("patch", "demo", "--label-column", "answer")
    assert (code, "name none" in error) == (2, True)


def test_blimp_compares_sentences_as_they_are(causal, tiny):
    """m is the log probability of a sentence."""
    sentences = [
        {"sentence_good": "the dog ran to the house .", "sentence_bad": "the cat ran to the house ."},
        {"sentence_good": "never stop by the river", "sentence_bad": "never stop by the road"},
        {"sentence_good": "the train was late", "sentence_bad": "the train was dog"},
    ]
    tokenizer = tiny("gpt2")[1]
    lengths = [{len(tokenizer(text)["input_ids"]) for text in pair.values()} for pair in sentences]
    lengths = [{len(tokenizer(text)["input_ids"]) for text in pair.values()} for pair in sentences]
    kept = [pair for pair, found in zip(sentences, lengths, strict=True) if len(found) == 1]
    assert kept
    model = transformers.AutoModelForCausalLM.from_pretrained(causal)

    def tokens(text):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            log_p = model(ids).logits[0, :-1].log_softmax(-1)
        return log_p.gather(-1, ids[0, 1:, None])[:, 0].double(), ids[0]

    sides = [[tokens(pair[name]) for pair in kept] for name in ("sentence_good", "sentence_bad")]
    good, bad = (np.mean([float(log_p.sum()) for log_p, _ in side]) for side in sides)
    table = attnprobe.patch(causal, sentences)
    patching = table.provenance["patching"]
    assert patching["clean"] == pytest.approx(good, abs=1e-4)
    assert patching["corrupted"] == pytest.approx(bad, abs=1e-4)
    assert set(table["n"]) == {len(kept)}


def test_unequal_lengths_are_counted():
    uneven = {
        "clean": "The boy [MASK] late .",
        "corrupted": "The boys in the garden [MASK] late .",
        "answer": "was",
    }
    table = attnprobe.patch("demo", [*PAIRS, uneven])
    assert set(table["n"]) == {10}
    assert table.provenance["task"]["pairs"]["unequal"] == 1


@pytest.mark.parametrize(
    ("pairs", "options", "says"),
    [
        ([], {}, "no pairs"),
        (["a"], {}, "Pair 1 is of type str"),
        (5, {}, "not int"),
        ([{"clean": "a", "corrupted": "b"}], {}, "write \\[MASK\\] for one word"),
        ([{"text": "a"}], {}, "no column 'clean'"),
        (PAIRS, {"top": 3}, "fast"),
        (PAIRS, {"truncate": True}, "truncate"),
        (PAIRS, {"objective": "similarity"}, "reads nothing off"),
        (PAIRS, {"objective": "classification"}, "no trained"),
        (PAIRS, {"max_length": 2}, "--max-length"),
        ("missing.csv", {}, "no file missing.csv"),
    ],
)
def test_refusals(pairs, options, says):
    with pytest.raises(AttnprobeError, match=says):
        attnprobe.patch("demo", pairs, **options)


@pytest.mark.parametrize("content", ["", "clean,corrupted,answer\n", "one text\nanother\n"])
def test_files_without_pairs(invoke, tmp_path, content):
    path = tmp_path / ("text.txt" if content.startswith("one") else "pairs.csv")
    path.write_text(content)
    target = tmp_path / "heads.csv"
    code, out, error = invoke("patch", "demo", "-d", path, "-o", target)
    assert (code, out) == (2, "")
    assert error.startswith(f"attnprobe: {path} holds ") or error.startswith(f"attnprobe: {path.name} holds ")
    assert len(error.splitlines()) == 1
    assert not target.exists()


def test_a_run_that_is_stopped_goes_on(invoke, data, tmp_path, monkeypatch):
    words, state = ["patch", "demo", "-d", data("csv"), "--batch-tokens", "16"], tmp_path / "state"
    code, expected, _ = invoke(*words)
    assert code == 0
    compute, count = MaskContrast.compute, {"left": 60}

    def stopped(self, batch, *, corrupted):
        count["left"] -= 1
        if not count["left"]:
            raise KeyboardInterrupt
        return compute(self, batch, corrupted=corrupted)

    with monkeypatch.context() as patch:
        patch.setattr(MaskContrast, "compute", stopped)
        assert invoke(*words, "--resume", state)[0] == 130
    code, out, error = invoke(*words, "--resume", state)
    assert (code, out) == (0, expected)

    assert "2 of 8 batches are done" in error
    assert invoke(*words, "--noising", "--resume", state)[0] == 2  # another question
