"""``--until``: as much text as it takes, on record, resumed, merged and made again."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import attnprobe
from attnprobe import AttnprobeError, census
from attnprobe.corpus.store import draw_documents

RANDOM = np.random.default_rng(8)
WORDS = "the dog ran to old house by a river and slept under green trees while it rained at night".split()  # noqa: SIM905
#: Sentences of 3 to 12 words: some 40 to 60 documents a length.
LINES = [" ".join(RANDOM.choice(WORDS, RANDOM.integers(3, 13))) + f" {place} ." for place in range(600)]
SEED = ("--seed", "5")


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n")
    return tmp_path


def numbers(out):
    return pd.read_csv(io.StringIO(out)).drop(columns="dataset")


def widest(table, column, documents):
    return stats.t.ppf(0.975, documents - 1) * table[f"{column}_se"].max()


def run_drawn(invoke, number):
    """Give the table of a file of so many documents, drawn as samples are."""
    Path("drawn.txt").write_text("\n".join(draw_documents(LINES, number, 5)))
    code, out, error = invoke("entropy", "demo", "-d", "drawn.txt")
    assert code == 0, error
    return numbers(out)


def test_it_stops_at_the_first_look_that_is_precise_enough(invoke, corpus):
    """Its table is that of a file of the first 128, 256, ... documents; the rule is applied by hand here."""
    tables = {number: run_drawn(invoke, number) for number in (128, 256, 512)}
    widths = {number: widest(table, "entropy", number) for number, table in tables.items()}
    assert widths[128] > widths[256] > widths[512]
    for number in (128, 256, 512):
        target = widths[number] + 1e-9
        code, out, error = invoke("entropy", "demo", "-d", "text.txt", "--until", f"entropy={target}", *SEED)
        assert code == 0, error
        assert f"{number} of 600 documents were read in a random order, which is enough: " in error
        pd.testing.assert_frame_equal(numbers(out), tables[number], rtol=1e-9)
    code, _, error = invoke("entropy", "demo", "-d", "text.txt", "--until", widths[512] / 2, *SEED)
    assert code == 0
    assert "which is not enough: the widest 95 % interval of entropy_" in error


#: The program, but a state is written after every batch, and it is killed at one of them.
KILLED = """
import os, signal, sys
from attnprobe.__main__ import main
from attnprobe.run import state

last, done = int(sys.argv.pop(1)), []
state.State.__init__.__defaults__, state._REST = (0.0,), 0
reached = state.Stage.mark_batch_done

def struck(self, snapshot):
    reached(self, snapshot)
    done.append(1)
    if len(done) == last:
        os.kill(os.getpid(), signal.SIGKILL)

state.Stage.mark_batch_done = struck
main()
"""


@pytest.mark.slow
def test_killed_and_resumed_it_stops_at_the_same_look_with_the_same_bits(invoke, corpus):
    words = ("positional", "demo", "-d", "text.txt", "--threads", "1", "--batch-tokens", "60", "--control")
    words = (*words, "--until", "previous=0.008")
    assert invoke(*words, "-o", "whole.csv")[0] == 0
    looks = json.loads((corpus / "whole.csv.json").read_text())["provenance"]["until"]["looks"]
    assert len(looks) >= 2
    for batch in (5, 60):  # in the first look; in another, or under the control
        command = [sys.executable, "-c", KILLED, str(batch), *words, "--resume", "state", "-o", "cut.csv"]
        done = subprocess.run(command, capture_output=True, check=False, timeout=120, env=dict(os.environ))
        assert done.returncode == -signal.SIGKILL, done.stderr
    code, _, error = invoke(*words, "--resume", "state", "-o", "cut.csv")
    assert code == 0, error
    assert "going on from state" in error
    assert (corpus / "cut.csv").read_bytes() == (corpus / "whole.csv").read_bytes()
    code, _, error = invoke(*words[:-1], "previous=0.5", "--resume", "state")  # and looks back
    assert code == 0, error
    assert "128 of 600 documents were read" in error
    code, _, error = invoke(*words, "--resume", "state", "--seed", "6")
    assert code == 2
    assert "belongs to a run with another setting" in error


def test_what_is_counted_over_the_whole_text_is_left_out(invoke, corpus):
    code, out, error = invoke("census", "demo", "-d", "text.txt", "--until", "entropy=9")
    assert code == 0
    assert not [name for name in numbers(out) if name.startswith("rare")]
    assert "rarest_two_share are left out: what is rare is counted over the whole text." in error
    with pytest.raises(AttnprobeError, match="counted over the whole text; leave out --until"):
        attnprobe.rare("demo", until=0.1)
    with pytest.raises(AttnprobeError, match="counted over the whole text; leave out --until"):
        census("demo", LINES, statistics=["rare_mass"], until=0.1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        *(
            (("--until", width), "--until must be the half-width of the widest 95 % interval, above 0")
            for width in ("0", "-0.1", "nan", "soon", "entropy=", "entropy=1,entropy=2", "entropy=1,2")
        ),
        (("--until", "entrpy=0.1"), "takes a column that has an error, not 'entrpy'"),
    ],
)
def test_refusals(refused, corpus, words, says):
    assert says in refused("entropy", "demo", "-d", "text.txt", *words, "-o", "heads.csv")
    assert sorted(path.name for path in corpus.iterdir()) == ["text.txt"]
