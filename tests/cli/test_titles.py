"""Contract of every table: each measure is named for a reader, and each is drawn under that name."""

import json
import shlex

import pytest

from attnprobe.cli.app import COMMANDS
from attnprobe.reports.pictures.choosing import list_kinds
from attnprobe.table.head_table import HeadTable

#: What makes a table of every sort of rows and columns.
LINES = [
    "census demo --everything",
    "census demo --weights both",
    "entropy demo",
    "positional demo --control",
    "special demo",
    "rare demo",
    "distance demo",
    "distance demo --by head",
    "distance demo --by layer",
    "distance demo --all-pairs",
    "mixing demo",
    "mixing demo --by pair",
    "mixing demo --by layer",
    "rank demo --map-rank",
    "roles demo",
    "syntax demo --min-links 1",
    "syntax demo --min-links 1 --by head",
    "syntax demo --min-links 1 --trees",
    "coreference demo --min-links 1",
    "links demo --min-links 1",
    "induction demo --length 9 --sequences 5",
    "importance demo --method gradient",
    "importance demo --method lrp",
    "importance demo --method confidence",
    "ablate demo",
    "ablate demo --keep-one",
    "ablate demo --with mean",
    "ablate demo --with resample",
    "probe demo -L 40",
    "probe demo -L 40 --by head",
    "interact demo --pairs 3",
    "patch demo",
    "patch demo --positions --noising",
    "prune demo --step 0.5 --random-orders 1",
    "correlate demo --in-domain embedded --out-domain embedded",
    "correlate demo --in-domain embedded --out-domain embedded --by head",
    "compare demo demo",
    "compare demo demo --by layer",
    "compare demo demo --match layer",
    "dynamics demo demo --steps 1,2 --measure entropy",
    "dynamics demo demo --steps 1,2 --measure entropy --by step",
    "dynamics demo demo --steps 1,2 --measure prune --random-orders 1",
]


def test_every_command_that_measures_is_here():
    others = {"view", "report", "merge", "plot", "doctor", "modality"}  # see test_pairs.py
    assert {line.split()[0] for line in LINES} == {command.__name__ for command in COMMANDS} - others


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_every_measure_has_a_title(invoke, tmp_path, line):
    path = tmp_path / "table.json"
    read = 60 if line.startswith(("syntax", "links", "coreference")) else 6
    words = [] if line.startswith("induction") else ["-L", read]
    code, _, said = invoke(*shlex.split(line), *words, "-q", "-o", path)
    assert code == 0, said
    table = json.loads(path.read_text())
    measures = {one["name"]: one.get("title", "") for one in table["columns"] if one["role"] == "measure"}
    assert [name for name, title in measures.items() if not title.strip() or "_" in title] == []
    titles = list(measures.values())
    assert {title for title in titles if titles.count(title) > 1} == set()
    assert list_kinds(HeadTable.read(path))
