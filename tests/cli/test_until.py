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
from attnprobe import AttnprobeError, census, entropy
from attnprobe.corpus.order import draw_documents

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
    found = {number: widest(table, "entropy", number) for number, table in tables.items()}
    assert found[128] > found[256] > found[512]
    for number in (128, 256, 512):
        target = found[number] + 1e-9
        code, out, error = invoke("entropy", "demo", "-d", "text.txt", "--until", f"entropy={target}", *SEED)
        assert code == 0, error
        assert f"{number} of 600 documents were read in a random order, which is enough: " in error
        pd.testing.assert_frame_equal(numbers(out), tables[number], rtol=1e-9)
    code, _, error = invoke("entropy", "demo", "-d", "text.txt", "--until", found[512] / 2, *SEED)
    assert code == 0
    assert "which is not enough: the widest 95 % interval of entropy_" in error


def test_all_columns_or_some(invoke, corpus):
    """A width alone is for every column that has an error."""
    words = ("positional", "demo", "-d", "text.txt", "--format", "json")
    table = census("demo", draw_documents(LINES, 128, 42), statistics=["positional"]).to_pandas()
    columns = [name.removesuffix("_se") for name in table if name.endswith("_se")]
    most = max(widest(table, column, 128) for column in columns)
    for until, documents in ((most + 1e-9, 128), (most - 1e-9, 256), ("previous=0.05", 128)):
        code, out, error = invoke(*words, "--until", until)
        assert code == 0, error
        assert json.loads(out)["provenance"]["until"]["documents"] == documents


def test_record_and_rerun(invoke, corpus):
    words = ("entropy", "demo", "-d", "text.txt", "--until", "entropy=0.1", *SEED)
    assert invoke(*words, "-o", "heads.csv")[0] == 0
    record = json.loads((corpus / "heads.csv.json").read_text())["provenance"]
    options = record["options"]
    assert (options["until"], options["sample_seed"]) == ({"entropy": 0.1}, 5)
    until = record["until"]
    assert (until["reached"], until["of"], until["seed"]) == (True, 600, 5)
    assert [look["documents"] for look in until["looks"]] == [128, 256, 512][: len(until["looks"])]
    assert until["documents"] == record["corpus"]["documents"] == until["looks"][-1]["documents"]
    last = until["looks"][-1]["half_widths"]["entropy"]
    assert last == pytest.approx(widest(pd.read_csv(corpus / "heads.csv"), "entropy", until["documents"]))
    assert record["corpus"]["sequences"] == until["documents"]
    assert len(record["corpus"]["texts"]) == len(until["looks"])


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


@pytest.mark.slow
def test_workers_and_processes(invoke, corpus):
    words = (
        "census",
        "demo",
        "-d",
        "text.txt",
        "--until",
        "entropy=0.1,previous=0.02",
        "--batch-tokens",
        "90",
    )
    assert invoke(*words, "--threads", "1", "-o", "one.csv")[0] == 0
    assert invoke(*words, "--threads", "3", "--workers", "3", "-o", "three.csv")[0] == 0
    assert (corpus / "one.csv").read_bytes() == (corpus / "three.csv").read_bytes()
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "attnprobe"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*start, *words, "-o", "two.csv"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    one, two = (pd.read_csv(f"{name}.csv").select_dtypes("number") for name in ("one", "two"))
    np.testing.assert_allclose(two, one, rtol=0, atol=1e-10)
    records = [json.loads((corpus / f"{name}.csv.json").read_text())["provenance"] for name in ("one", "two")]
    assert records[0]["until"]["documents"] == records[1]["until"]["documents"] < 600
    assert records[1]["processes"] == 2


@pytest.mark.parametrize(
    ("words", "column"),
    [
        (("mixing",), "explained_by_others"),
        (("rank",), "logit_rank"),
        (("distance", "--by", "head"), "jsd_mean"),
    ],
)
def test_every_command_with_errors_of_a_pass(invoke, corpus, words, column):
    """Each looks at its own columns."""
    command, *more = words
    code, out, error = invoke(command, "demo", *more, "--until", f"{column}=9", "--format", "json")
    assert code == 0, error
    record = json.loads(out)["provenance"]
    assert record["until"]["documents"] == record["until"]["looks"][0]["documents"] == 128


@pytest.mark.parametrize("command", ["importance", "ablate", "compare", "syntax", "roles", "prune"])
def test_only_the_census_family_has_it(refused, corpus, command):
    assert "--until" in refused(command, "demo", "--until", "0.1")


def test_a_unit_is_a_document_not_a_window(invoke, corpus):
    """Documents that are cut into windows are read whole."""
    (corpus / "long.txt").write_text("\n".join(" ".join(LINES[place : place + 5]) for place in range(300)))
    code, out, error = invoke(
        "entropy", "demo", "-d", "long.txt", "--max-length", "24", "--until", "9", "--format", "json"
    )
    assert code == 0, error
    record = json.loads(out)["provenance"]
    assert record["corpus"]["documents"] == record["corpus"]["clusters"] == 128
    assert record["corpus"]["sequences"] > 250
    assert error.count("cut into") == 1  # said once, of all that was read


def test_what_is_counted_over_the_whole_text_is_left_out(invoke, corpus):
    code, out, error = invoke("census", "demo", "-d", "text.txt", "--until", "entropy=9")
    assert code == 0
    assert not [name for name in numbers(out) if name.startswith("rare")]
    assert "rarest_two_share are left out: what is rare is counted over the whole text." in error
    with pytest.raises(AttnprobeError, match="counted over the whole text; leave out --until"):
        attnprobe.rare("demo", until=0.1)
    with pytest.raises(AttnprobeError, match="counted over the whole text; leave out --until"):
        census("demo", LINES, statistics=["rare_mass"], until=0.1)


def test_python(corpus):
    """Lists, generators and mappings."""
    table = entropy("demo", LINES, until={"entropy": 9})
    assert table.provenance["until"]["documents"] == 128
    assert entropy("demo", iter(LINES), until=9.0).to_csv() == table.to_csv()
    assert entropy("demo", "text.txt", until="entropy=9", name="texts").to_csv() == table.to_csv()
    expected = entropy("demo", draw_documents(LINES, 128, 42)).to_pandas()
    np.testing.assert_allclose(table["entropy"], expected["entropy"], rtol=1e-9)


def test_standard_input(invoke, corpus, monkeypatch):
    with (corpus / "text.txt").open() as piped:
        monkeypatch.setattr(sys, "stdin", piped)
        code, out, error = invoke("entropy", "demo", "-d", "-", "--until", "9", *SEED)
    assert code == 0, error
    assert "128 of 600 documents" in error
    pd.testing.assert_frame_equal(numbers(out), run_drawn(invoke, 128), rtol=1e-9)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--until", "0"), "--until must be above 0, not 0"),
        (("--until", "-0.1"), "--until must be above 0, not -0.1"),
        (("--until", "nan"), "--until must be above 0, not nan"),
        (("--until", "inf"), "--until must be above 0, not inf"),
        (("--until", "soon"), "such as entropy=0.1,previous=0.02; not 'soon'"),
        (("--until", "entropy="), "--until must be the half-width of the widest 95 % interval"),
        (("--until", "=0.1"), "--until must be the half-width of the widest 95 % interval"),
        (("--until", "entropy=1,entropy=2"), "--until names entropy twice"),
        (("--until", "entrpy=0.1"), "takes a column that has an error, not 'entrpy'"),
    ],
)
def test_refusals(refused, corpus, words, said):
    assert said in refused("entropy", "demo", "-d", "text.txt", *words, "-o", "heads.csv")
    assert sorted(path.name for path in corpus.iterdir()) == ["text.txt"]


@pytest.mark.parametrize("content", ["", "\n \n", "{}"])
def test_files_without_text(refused, corpus, content):
    (corpus / "empty.jsonl").write_text(content)
    refused("entropy", "demo", "-d", "empty.jsonl", "--until", "0.1")
