"""Contract of every command: help, columns, streams, exit codes, files."""

import csv
import hashlib
import io
import json
import shutil
import subprocess
import sys
from importlib.resources import files

import pytest
from safetensors.torch import load_file, save_file

from attnprobe.commands import COMMANDS

#: Commands that read a model, but for the one about images with texts, which test_pairs.py tests, and the one
#: about pairs of heads, which test_interact.py does.
OTHERS = {"merge", "plot", "modality", "interact"}
MODELLED = [name for name in COMMANDS if name not in OTHERS]
INTERVENING = ["importance", "ablate", "correlate", "prune"]
#: Those that take several models.
SEVERAL = ["compare", "dynamics"]

# The contract of INTERFACE: other programs read these names.
HEAD = ["model", "dataset", "layer", "head", "n"]
FAMILIES = {
    "entropy": ["entropy", "entropy_normalized", "entropy_first", "confidence"],
    "positional": [
        "previous", "self", "next", "offset", "offset_share", "attention_distance",
        "attention_distance_ratio",
    ],
    "special": ["first", "separator", "punctuation", "other", "sink_share"],
    "rare": ["rare_mass", "rare_lift", "rarest_share", "rarest_two_share"],
}  # fmt: skip
WITHOUT_ERROR = {"offset"}


def reading(name, data):
    """Give the words that make a command read some data, on both sides or with two models if it has two."""
    if name == "dynamics":
        return ["demo", "--steps", "1,2", "-d", str(data)]
    if name == "compare":
        return ["demo", "-d", str(data)]
    if name == "prune":  # in two steps, beside one other order
        return ["-d", str(data), "--step", "0.5", "--random-orders", "1"]
    if name != "correlate":
        return ["-d", str(data)]
    return ["--in-domain", str(data), "--out-domain", str(data)]


def rows(out):
    return list(csv.DictReader(io.StringIO(out)))


def expected(*families):
    names = []
    for family in families:
        for name in FAMILIES[family]:
            names += [name] if name in WITHOUT_ERROR else [name, f"{name}_se"]
            names += [f"{name}_n"] if name in {"rare_mass", "rare_lift", "rarest_two_share"} else []
    return HEAD + names


@pytest.mark.parametrize("name", MODELLED)
def test_help_has_a_summary_and_examples(invoke, name):
    code, out, _ = invoke(name, "--help")
    assert code == 0
    assert "Examples:" in out
    assert f"attnprobe {name} demo" in out
    data = {"correlate": ["--in-domain", "--out-domain"], "induction": ["--length"], "view": ["--target"]}
    data = data.get(name, ["--dataset"])
    for option in (*data, "--revision", "--output"):
        assert option in out


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["entropy", "--help"], {"torch", "transformers", "numba", "pandas", "scipy", "numpy"}),
        (["entropy", "demo", "-L", "1", "-q"], {"rich", "pandas"}),  # which writes csv into a pipe
    ],
)
def test_nothing_is_imported_that_is_not_needed(words, heavy):
    script = (
        f"import sys, attnprobe.session.survey; from attnprobe.cli.app import run; run({words});"
        f"heavy = {heavy} & set(sys.modules); sys.exit(f'imported {{heavy}}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_version(invoke):
    from importlib.metadata import version

    assert invoke("--version")[:2] == (0, f"attnprobe {version('attnprobe')}\n")


@pytest.mark.parametrize("family", FAMILIES)
def test_family_columns(read_rows, family, text):
    table = read_rows(family, "demo", "-d", text)
    assert list(table[0]) == expected(family)
    assert {row["n"] for row in table} == {"3"}
    assert [(int(r["layer"]), int(r["head"])) for r in table] == sorted(
        (int(r["layer"]), int(r["head"])) for r in table
    )


def test_census_is_the_union(read_rows, text):
    census = read_rows("census", "demo", "-d", text)
    assert list(census[0]) == [*expected(*FAMILIES), "jsd_mean", "jsd_mean_se"]
    for row, whole in zip(read_rows("positional", "demo", "-d", text), census, strict=True):
        assert {name: whole[name] for name in row} == row


def test_doctor_is_satisfied_with_the_demo(read_rows, text):
    table = read_rows("doctor", "demo", "-d", text)
    assert list(table[0]) == ["model", "dataset", "check", "status", "detail"]
    assert {row["status"] for row in table} == {"ok"}
    details = {row["check"]: row["detail"] for row in table}
    assert "masked language model" in details["trained heads"]
    assert "safetensors" in details["weights"]
    assert {"architecture", "attention", "dry run", "maximum length"} <= set(details)


def test_doctor_finds_broken_weights_and_leaves_with_1(invoke, tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(str(files("attnprobe") / "demo"), folder)
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in weights if "layers.0" in name)
    weights[name] = weights[name] * float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    code, out, error = invoke("doctor", folder)
    assert code == 1
    assert [row["status"] for row in rows(out)] == ["failed"]
    assert "NaN" in rows(out)[0]["detail"]
    assert "NaN" in error
    assert invoke("entropy", folder)[0] == 2


@pytest.mark.parametrize(
    "name", ["census", "distance", "ablate", "correlate", "prune", "compare", "dynamics"]
)
def test_data_on_stdout_and_everything_else_on_stderr(invoke, name, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("word " * 300)
    words = reading(name, path)
    if name == "prune":  # the windows of one document can't be ranked and scored on
        assert "One document" in invoke(name, "demo", *words)[2]
        words += ["--rank-data", str(path)]
    code, out, error = invoke(name, "demo", *words)
    assert code == 0
    assert "cut into 3 windows" in error
    assert "are of 1 document" in error
    assert out.startswith("model,dataset,")
    counter, number = ("heads", "24") if name == "correlate" else ("n", "3")
    assert {row[counter] for row in rows(out)} == {number}
    assert invoke(name, "demo", *words, "--quiet") == (0, out, "")


@pytest.mark.parametrize("name", ["entropy", "syntax", "prune", "correlate", "dynamics", "patch"])
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--max-length", "2"], "--max-length 2"),
        (["--max-length", "100000"], "100000"),
        (["--dtype", "int8"], "int8"),
        (["--device", "nonsense"], "nonsense"),
        (["--format", "docx"], "docx"),
        (["-o", "heads.docx"], "docx"),
        (["--limit", "0"], "--limit"),
        (["--no-such-option"], "no-such-option"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(invoke, monkeypatch, tmp_path, name, words, says):
    monkeypatch.chdir(tmp_path)
    data = reading(name, "embedded") if name in {"correlate", *SEVERAL} else []
    assert_refused(invoke(name, "demo", *data, *words), says)
    assert not list(tmp_path.iterdir())


def assert_refused(outcome, says):
    code, out, error = outcome
    assert (code, out) == (2, "")
    assert says in error.splitlines()[-1]
    assert error.splitlines()[-1].startswith("attnprobe: ")
    assert "Traceback" not in error


def test_stdin(invoke, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"One line.\nAnother.\n")))
    code, out, _ = invoke("entropy", "demo", "-d", "-")
    assert code == 0
    assert {(row["dataset"], row["n"]) for row in rows(out)} == {("stdin", "2")}


@pytest.mark.parametrize("name", ["entropy", *INTERVENING])
def test_files_carry_provenance(invoke, text, tmp_path, name):
    target = tmp_path / "heads.csv"
    words = (name, "demo", *reading(name, text), "-o", target)
    code, out, error = invoke(*words)
    assert (code, out) == (0, "")
    assert "heads.csv" in error
    record = json.loads((tmp_path / "heads.csv.json").read_text())["provenance"]
    assert record["options"]["content_only"] is False
    digest = hashlib.sha256(text.read_bytes()).hexdigest()
    for side in ("in_domain", "out_domain") if name == "correlate" else ("dataset",):
        assert record[side]["sha256"] == digest
    assert record["model"]["weights"]
    assert {"torch", "transformers", "attnprobe"} <= set(record["versions"])
    assert ("task" in record) == (name in INTERVENING)
    assert_refused(invoke(*words), "--overwrite")
    assert invoke(*words, "--overwrite")[0] == 0


@pytest.mark.slow
def test_a_closed_pipe_is_quiet():
    """Start once, as a user does: nobody reads what is written."""
    script = f"""
import os, sys
from attnprobe.cli.app import run
data = {{"correlate": ["--in-domain", "embedded", "--out-domain", "embedded"], "distance": ["--all-pairs"]}}
data["prune"] = ["--step", "0.5", "--random-orders", "0"]
for name in {["distance", *INTERVENING]}:
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 1)
    code = run([name, "demo", "-L", "2", "-q", *data.get(name, [])])
    if code:
        sys.exit(f"{{name}}: {{code}}")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_unexpected_errors_show_no_traceback_without_v(invoke, monkeypatch):
    from attnprobe.run import preparation

    def broken(*_args, **_options):
        raise RuntimeError("wires crossed\nsecond line")

    monkeypatch.setattr(preparation, "examine", broken)
    code, out, error = invoke("entropy", "demo")
    assert (code, out) == (2, "")
    assert "wires crossed" in error
    assert "Traceback" not in error
    assert "Traceback" in invoke("entropy", "demo", "-v")[2]


@pytest.mark.parametrize("name", ["entropy", "doctor", "prune", "correlate", "dynamics", "view", "report"])
def test_ctrl_c_says_that_nothing_was_written(invoke, monkeypatch, tmp_path, name):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    for module in ("run.preparation", "survey.diagnosis"):
        monkeypatch.setattr(f"attnprobe.{module}.examine", interrupted)
    words = ["--save", tmp_path / "saved", "--share", "0.5"] if name == "prune" else []
    data = reading(name, "embedded") if name in {"correlate", *SEVERAL} else []
    pages = {"view": (["the dog"], "view.html"), "report": (data, "report.html")}
    data, file = pages.get(name, (data, "heads.csv"))
    code, out, error = invoke(name, "demo", *data, *words, "-o", tmp_path / file)
    assert (code, out) == (130, "")
    assert "stopped; nothing was written" in error
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())
