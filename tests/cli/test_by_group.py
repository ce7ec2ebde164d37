"""``--by-group`` from the command line: hostile names, refusals, merging, the terminal, a picture."""

import csv
import json

import numpy as np
import pytest

NAMES = ["=cmd()", "\x1b[31mred\x1b[0m", "12", 'a, "b"']
TESTS = ["entropy_q", "entropy_q_p", "entropy_q_p_adjusted"]


@pytest.fixture
def rows(tmp_path):
    """Write lines of JSON with the groups that are given, one after the other."""

    def write(groups, name="it.jsonl", first=0):
        path = tmp_path / name
        draw = np.random.default_rng(first)
        words = ["the", "dog", "ran", "late", "house", "bird"]
        lines = [
            json.dumps({"text": " ".join(draw.choice(words, 2 + n % 5)) + f" {first + n}", "genre": group})
            for n, group in enumerate(groups)
        ]
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


def test_a_table_of_hostile_groups(invoke, rows):
    path = rows(NAMES * 6)
    code, out, error = invoke("entropy", "demo", "-d", path, "--by-group", "genre", "--layers", "0")
    table = list(csv.DictReader(out.splitlines()))
    assert code == 0
    heads = len({row["head"] for row in table})
    names = [row["group"] for row in table[::heads]]
    assert names == ["all groups", "12", "'=cmd()", 'a, "b"', "red"]  # as other cells are guarded and cleaned
    assert len(table) == 5 * heads
    assert [name for name in table[0] if name.startswith("entropy_q")] == TESTS
    assert all(row["entropy_q_p"] == "" for row in table[heads:])
    assert "\x1b" not in out + error
    assert "4 groups, with their documents: 12 (6), =cmd() (6), a, " in error


@pytest.mark.parametrize(
    ("groups", "words", "says"),
    [
        (
            range(10_000),
            (),
            "more than 100 values, such as '100'; name a column of fewer with --by-group",
        ),
        (["a"], ("--by-group", "h"), "has no column 'h'; its columns are 'text', 'genre'"),
    ],
)
def test_refusals(invoke, rows, tmp_path, groups, words, says):
    path = rows(groups)
    words = words or ("--by-group", "genre")
    code, out, error = invoke("entropy", "demo", "-d", path, *words, "-o", tmp_path / "x.csv")
    assert (code, out) == (2, "")
    assert says in " ".join(error.split())
    assert not (tmp_path / "x.csv").exists()
