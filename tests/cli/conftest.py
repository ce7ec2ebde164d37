"""Running command lines inside the test."""

import csv
import io

import numpy as np
import pandas
import pytest

from attnprobe.cli.app import run
from attnprobe.sums.documents import in_second_half

#: Texts and their classes; either half has every class.
REVIEWS = [
    ("the river bank was slow", "bad"),
    ("a bird ran over the red house", "bad"),
    ("the dog and the cat", "so-so"),
    ("never stop by the river at night", "so-so"),
    ("he and she walk to the train stop , never by night , always by day", "good"),
    ("the parcel came early", "so-so"),
    ("a cat ran under the green house", "bad"),
    ("blue water and red light", "so-so"),
    ("light", "good"),
    ("the parcel was late , and the train was slow", "bad"),
    ("stone", "good"),
    ("quick bird", "good"),
]


@pytest.fixture
def invoke(capfd, monkeypatch):
    """Run a command line; give exit code, standard output and standard error."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # as a command sets it

    def call(*words):
        capfd.readouterr()
        code = run([str(word) for word in words])
        return code, *capfd.readouterr()

    return call


@pytest.fixture
def read_rows(invoke):
    """Run a command line that succeeds; give the rows of its table, each a dict of strings."""

    def call(*words):
        code, out, error = invoke(*words)
        assert code == 0, error
        return list(csv.DictReader(io.StringIO(out)))

    return call


@pytest.fixture
def tabulate(invoke):
    """Run a command line that succeeds; give its table, with standard error in ``attrs["error"]``."""

    def call(*words):
        code, out, error = invoke(*words)
        assert code == 0, error
        table = pandas.read_csv(io.StringIO(out), keep_default_na=False, na_values=[""])
        table.attrs["error"] = error
        return table

    return call


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("The parcel came late.\nShe signed for it, grumbling, and shut the door.\nWho rang?\n")
    return path


@pytest.fixture(scope="session")
def reviews(tmp_path_factory):
    """Write labelled texts: all of them, those of the half that ranks, those of the half that is scored."""
    folder = tmp_path_factory.mktemp("reviews")
    parts = {"all": REVIEWS, "first": [], "second": []}
    for row, second in zip(REVIEWS, in_second_half(np.arange(len(REVIEWS))), strict=True):
        parts["second" if second else "first"].append(row)
    for name, part in parts.items():
        lines = ["text\tlabel", *("\t".join(row) for row in part)]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def refused(invoke):
    """Run a command line that must end in one sentence with exit code 2, and give the sentence."""

    def call(*words):
        code, out, error = invoke(*words)
        assert (code, out) == (2, ""), error
        assert "Traceback" not in error
        assert "unexpected" not in error
        *_, sentence = error.splitlines()
        assert sentence.startswith("attnprobe: ")
        assert sentence.endswith(".")
        return sentence

    return call
