"""What needs no model to be refused is refused before torch is imported, by commands and by functions."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import attnprobe
from attnprobe.table.table import Column

pytestmark = pytest.mark.slow  # processes are started

# No torch, no transformers, no numba: to ask for them is an error.
WITHOUT = """
import json, sys
class Never:
    def find_spec(self, name, *_):
        if name in {"torch", "transformers", "numba"}:
            raise RuntimeError(f"{name} was asked for")
sys.meta_path.insert(0, Never())
"""
COMMANDS = """
import contextlib, io
from attnprobe.cli.app import run
answers = []
for words in json.loads(sys.argv[1]):
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = run(words)
    answers.append([code, out.getvalue(), error.getvalue()])
print(json.dumps(answers))
"""


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("body,title\nthe dog ran,a\nshe came late,b\n")
    Path("in.txt").write_text("the dog ran\n")
    Path("blank.txt").write_text("\n\n")
    Path("in.json").write_text('{"body": "the dog ran"}')
    Path("in.conllu").write_text("1\tdog\n")
    Path("no_model").mkdir()
    Path("pictures").mkdir()
    Path("pictures/dog.png").write_bytes(b"dog")
    Path("notes.txt").write_text("no state\n")
    columns = [Column("model", role="key"), Column("layer", role="key"), Column("head", role="key")]
    for number in (1, 2):
        cells = {"model": [f"m{number}"] * 4, "layer": [0, 0, 1, 1], "head": [0, 1, 0, 1]}
        data = {**cells, "importance": np.arange(4.0) * number, "same": [1.0] * 4}
        names = [*columns, Column("importance"), Column("same")]
        attnprobe.HeadTable("t", names, data).save(f"heads{number}.csv")
    return tmp_path


def ask(code, request):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + code, json.dumps(request)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


REFUSED = {
    "entropy nowhere/at/all": "There is no folder nowhere/at/all",
    "entropy no_model": "no_model holds no config.json",
    "entropy in.txt": "in.txt is a file",
    "entropy demo --dtype float33": "'float33' is no floating-point type",
    "entropy demo --device the:gpu": "There is no device 'the:gpu'",
    "entropy demo -d gone.csv": "there is no file gone.csv",
    "entropy demo -d in.csv": "which column of in.csv holds the text is not clear",
    "entropy demo -d in.csv --text-column text": "in.csv has no column 'text'",
    "census demo -d in.csv --text-column body --label-column goal": "in.csv has no column 'goal'",
    "special demo -d in.csv --text-column body --target-column goal": "in.csv has no column 'goal'",
    "importance demo -d in.conllu --label-column goal": "in.conllu is CoNLL-U; --label-column takes",
    "census demo -d pictures --label-column goal": "pictures has no metadata.csv that could hold",
    "entropy demo -d in.json": "in.json holds neither an array nor an object with just one array",
    "census demo --everything --statistics entropy": "--everything measures all there is",
    "probe demo --gold coreference --subtypes": "--subtypes is about treebanks",
    "probe demo --by head --folds 3": "--by head gives the weights of one probe",
    "links demo --targets in.txt": "--targets and --one-based go with --alignments",
    "links demo --alignments in.txt": "--alignments needs the texts that are aligned",
    "links demo -d in.txt -d in.csv --alignments in.txt": "--alignments goes with one file of pairs",
    "links demo -d in.csv --text-column body --alignments in.txt --targets in.txt": "--targets is a file of",
    "links demo --by-group genre --weights norm": "--by-group scores the best heads of all groups",
    "view demo hello --role next -o page.html": "--role needs a --census",
    "view demo hello --alignment 0-0 -o page.html": "--alignment is between the words of two texts",
    "correlate --in-domain heads1.csv --out-domain heads2.csv --measure gradient": "Two tables are compared",
    "syntax demo -d no_model": "no_model is a folder; give one file of it",
    "syntax demo --trees --relations nsubj": "--trees is about whole trees",
    "syntax demo --trees --folds 3": "--trees chooses no heads",
    "syntax demo --by head --folds 3": "--folds is about the best heads",
    "links demo --metric aer --labels name": "--metric aer scores whole alignments",
    "links demo --metric aer --control links": "--metric aer has no control",
    "entropy demo -d in.txt --part 9/2": "--part must be the number of a part",
    "roles demo --links in.txt --name a:b": "Roles by links can't be called 'a:b'",
    "roles demo --name atom-map": "--name says what roles by links are called",
    "induction demo --prompt query": "Random tokens have no prompt",
    "dynamics demo demo --steps 1": "There are 2 checkpoints, but 1 --steps",
    "report demo -o page.html --sections sentences": "A report needs a section with numbers",
    "plot heads1.csv -o heads.svg --columns 1 --width 300": "leave one out",
    "plot heads1.csv -o heads.svg --kind scatter --only importance": "a scatter takes two measures",
    "positional demo -d blank.txt": "blank.txt holds no text",
    "distance demo --all-pairs --by head": "--all-pairs gives one row per pair",
    "rare demo --resume notes.txt": "notes.txt is no state of attnprobe",
    "rare demo --resume gone/state": "There is no folder gone to keep the state",
    "doctor demo -d gone.csv": "there is no file gone.csv",
    "importance demo --force-head": "--force-head needs to know which head",
    "importance demo --method confidence --objective masked-lm": "--method confidence needs no task",
    "importance demo --content-only": "--content-only is for --method confidence",
    "importance demo -d in.txt --objective classification": "classification needs one label a text",
    "ablate demo -d in.csv --text-column title --target-column gone": "in.csv has no column 'gone'",
    "ablate demo --objective masked-lm --metric bleu": "The objective masked-lm has no metric 'bleu'",
    "importance demo --nodes 3": "--nodes is for --method ig",
    "ablate demo --draws 8": "--draws is for --with resample",
    "importance demo --method ig --nodes 0": "--nodes must be at least 1",
    "patch demo -d in.txt": "in.txt holds texts, not pairs of them",
    "prune demo --by gradient-signed": "gradient-signed has a sign",
    "prune demo --by gradient,fisher": "There is no criterion 'gradient,fisher'",
    "prune demo --step 2": "--step must be at most 1",
    "prune demo --by wishes": "There is no criterion 'wishes'",
    "prune demo --by heads1.csv:gone": "heads1.csv has no column 'gone'",
    "prune demo --by heads1.csv:same": "All heads have the same same",
    "prune demo --by heads1.csv:importance --rank-data in.txt": "--rank-data has nothing to rank",
    "prune demo --rank-data gone.txt": "there is no file gone.txt",
    "prune demo --save no_model": "--save and --share go together",
    "prune demo --save in.txt --share 0.5": "in.txt can't be written (not a directory)",
    "correlate demo --in-domain in.txt --out-domain gone.txt": "there is no file gone.txt",
    "correlate demo --in-domain in.txt --out-domain in.csv --text-column x": "leave out --text-column",
    "correlate demo --in-domain in.txt --out-domain in.txt --column same": "--column is for tables",
    "correlate demo --in-domain in.txt --out-domain in.txt --across-models": "--across-models is for tables",
    "correlate demo --in-domain in.txt --out-domain in.txt --metric accuracy": "--metric is for --measure",
    "correlate --in-domain heads1.csv --out-domain heads2.csv": "heads1.csv is about m1 and heads2",
    "correlate --in-domain heads1.csv --out-domain gone.csv": "There is no file gone.csv",
    "correlate --in-domain heads1.csv --out-domain in.csv": "in.csv has no columns layer and head",
    "merge heads1.csv gone.csv": "no record of a table that can be merged",
    "entropy demo -o gone/heads.csv": "the folder",
    "entropy demo --layers 3-1": "--layers must be numbers from 0",
    "entropy demo --threads 1025": "--threads must be at most 1024",
}


def test_commands(data):
    for words, (code, out, error) in zip(REFUSED, ask(COMMANDS, [w.split() for w in REFUSED]), strict=True):
        assert REFUSED[words] in error, words
        assert (code, out, error.count("\n")) == (2, "", 1), words


def test_two_tables_are_compared_without_torch(data):
    sides = ["correlate", "--in-domain", "heads1.csv", "--out-domain", "heads1.csv"]
    ((code, out, error),) = ask(COMMANDS, [sides])
    assert (code, out.count("\n")) == (0, 2), error


def test_tables_are_drawn_without_torch(data):
    ((code, out, error),) = ask(COMMANDS, [["plot", "heads1.csv", "-o", "heads.svg"]])
    assert (code, out) == (0, ""), error
    assert Path("heads.svg").read_text().startswith("<svg")
