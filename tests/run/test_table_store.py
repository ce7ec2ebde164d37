"""Tables of finished steps: kept to the last bit, refused where they belong to something else."""

import numpy as np
import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.run import state
from attnprobe.run.process_group import Ranks
from attnprobe.run.state import TableStore, decode_table, encode_table
from attnprobe.table.table import Column, HeadTable

KEY = {"measure": "entropy"}


def table(value=1.5):
    columns = [
        Column("model", role="key"),
        Column("x", "nats", headline=True, title="an x"),
        Column("n", role="count"),
    ]
    data = {"model": ["m\x1b", None], "x": [value, float("nan")], "n": [3, 2**60]}
    return HeadTable("a title", columns, data, ["A note."], {"folder": {"b", "a"}, "nan": float("nan")})


@pytest.mark.parametrize("value", [0.1 + 0.2, 5e-324, -0.0, 1e308, float("inf")])
def test_tables_come_back_to_the_last_bit(value):
    one, two = table(value), decode_table(encode_table(table(value)))
    assert (two.title, two.columns, two.notes) == (one.title, one.columns, one.notes)
    assert np.float64(two.data["x"][0]).tobytes() == np.float64(value).tobytes()
    assert np.isnan(two.data["x"][1])
    assert (two.data["model"], two.data["n"]) == (one.data["model"], one.data["n"])
    assert two.provenance == {"folder": ["a", "b"], "nan": None}
    assert encode_table(two) == encode_table(one)


def test_what_is_kept_is_taken_up(tmp_path):
    path = tmp_path / "state"
    kept = TableStore(path, KEY)
    assert kept.load({5: "five"}) == {}
    beside = kept.part_file(5)
    beside.write_text("what the step has reached")
    kept.keep(5, "five", table(2.5))
    assert not beside.exists()
    again = TableStore(path, KEY).load({4: "four", 5: "five"})
    assert list(again) == [5]
    assert again[5].data["x"][0] == 2.5


def test_nothing_is_kept_without_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = TableStore(None, {})
    kept.keep(5, "five", table())
    assert kept.part_file(5) is None
    assert kept.load({5: "five"}) == {}
    assert list(tmp_path.iterdir()) == []


def test_states_of_others_are_refused(tmp_path):
    path = tmp_path / "state"
    TableStore(path, KEY).keep(5, "five", table())
    with pytest.raises(AttnprobeError, match="another measure"):
        TableStore(path, {"measure": "rank"})
    with pytest.raises(AttnprobeError, match="another checkpoint of step 5"):
        TableStore(path, KEY).load({5: "another"})
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(AttnprobeError, match="damaged"):
        TableStore(path, KEY)


def test_a_table_that_is_none_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "state"
    with monkeypatch.context() as patched:
        patched.setattr(state, "encode_table", lambda _: b'{"title": 3}')
        TableStore(path, KEY).keep(5, "five", table())
    with pytest.raises(AttnprobeError, match="damaged"):
        TableStore(path, KEY).load({5: "five"})


def test_processes_agree_on_what_is_done(tmp_path, monkeypatch):
    """The other one was stopped before it wrote the last step: both measure it again."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    path = tmp_path / "state"
    kept = TableStore(path, KEY)
    for step in (5, 6):
        kept.keep(step, "one", table(step))
    assert [file.name for file in tmp_path.iterdir()] == ["state.1"]

    class Met:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def gather(self, mine):
            return [{5}, mine]

    monkeypatch.setattr(Ranks, "join", lambda _: Met())
    assert list(TableStore(path, KEY).load({5: "one", 6: "one"})) == [5]
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(AttnprobeError, match="another number of processes"):
        TableStore(path, KEY)
