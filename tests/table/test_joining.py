"""Two tables about the same heads, side by side."""

import math

import pytest

from attnprobe import AttnprobeError, HeadTable
from attnprobe.table.cells import to_plain
from attnprobe.table.table import Column

NAN = math.nan


def table(rows, measures, *, keys=("layer", "head"), title="t", model="bert", dataset="text", **more):
    """Make a table of rows, each the cells of its keys; measures are names with their cells."""
    columns = [Column(name, role="key") for name in ("model", "dataset", *keys)]
    data = {"model": [model] * len(rows), "dataset": [dataset] * len(rows)}
    data |= {key: [row[place] for row in rows] for place, key in enumerate(keys)}
    for name, cells in measures.items():
        ending = name.rpartition("_")[2]
        columns.append(Column(name, "nats", {"se": "error"}.get(ending, "measure")))
        data[name] = cells
    return HeadTable(title, columns, data, **more)


ROWS = [(0, 0), (0, 1), (1, 0), (1, 1)]
LEFT = table(ROWS, {"entropy": [1.0, 2.0, 3.0, 4.0], "entropy_se": [0.1] * 4})
RIGHT = table(ROWS[::-1], {"importance": [4.5, 3.5, 2.5, 1.5]}, title="importance of heads")


def test_rows_are_matched_whatever_their_order():
    both = LEFT.join(RIGHT)
    assert list(both.data) == ["model", "dataset", "layer", "head", "entropy", "entropy_se", "importance"]
    assert both["importance"].tolist() == [1.5, 2.5, 3.5, 4.5]
    assert [both.data[name] for name in LEFT.data] == list(LEFT.data.values())
    assert [column.name for column in both.columns] == list(both.data)
    assert both.column("importance") == Column("importance", "nats")


def test_an_encoder_decoder():
    """The same layer and head are there three times, told apart by their attention."""
    keys = ("attention", "layer", "head")
    rows = [(kind, 0, head) for kind in ("encoder", "decoder", "cross") for head in range(2)]
    left = table(rows, {"entropy": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}, keys=keys)
    right = table(rows[3:] + rows[:3], {"jsd": [4.0, 5.0, 6.0, 1.0, 2.0, 3.0]}, keys=keys)
    assert left.join(right)["jsd"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    bare = table([row[1:] for row in rows[:2]], {"jsd": [1.0, 2.0]})
    for first, second in ((left, bare), (bare, left)):
        with pytest.raises(AttnprobeError, match="more than one row for some layer, head"):
            first.join(second)


def test_columns_of_one_name():
    """An error stays behind its measure."""
    cells = {"entropy": [1.0], "entropy_se": [0.1]}
    other = {name: [values[0] + 1] for name, values in cells.items()}
    both = table([(0, 0)], cells).join(table([(0, 0)], other, dataset="notes"))
    names = ["entropy", "entropy_se", "dataset_other", "entropy_other", "entropy_other_se"]
    assert list(both.data)[4:] == names
    assert [both.column(name).role for name in names[3:]] == ["measure", "error"]
    assert both.data["dataset_other"] == ["notes"]
    assert both.column("dataset_other").role == "key"
    assert both.data["entropy_other_se"] == [1.1]


def test_undefined_is_as_undefined(tmp_path):
    """A column without a number, or with gaps, is the same column, whether NaN or None."""
    cells = {"first": [NAN] * 4, "entropy": [1.0, NAN, 3.0, 4.0]}
    again = {"first": [None] * 4, "entropy": [1.0, float("nan"), 3.0, 4.0]}
    both = table(ROWS, cells).join(table(ROWS, again))
    assert list(both.data) == ["model", "dataset", "layer", "head", "first", "entropy"]
    table(ROWS, cells).save(tmp_path / "t.csv")
    assert list(table(ROWS, cells).join(HeadTable.read(tmp_path / "t.csv")).data) == list(both.data)


@pytest.mark.parametrize(
    "other", [{"entropy": [9.0], "entropy_se": [0.1]}, {"entropy": [1.0], "entropy_se": [0.9]}]
)
def test_an_error_has_its_measure(other):
    """Or nobody knows what it is the error of."""
    both = table([(0, 0)], {"entropy": [1.0], "entropy_se": [0.1]}).join(table([(0, 0)], other))
    names = list(both.data)
    assert all(name.removesuffix("_se") in names for name in names)
    assert ("entropy_other" in names) == ("entropy_other_se" in names)
    assert [to_plain(cell) for cell in both.data["entropy_other_se"]] == [to_plain(other["entropy_se"][0])]


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (table(ROWS, {"x": [1.0] * 4}, model="roberta"), "about bert, the other about roberta"),
        (table([*ROWS, (2, 0)], {"x": [1.0] * 5}), "not about the same rows: 1 of them"),
        (table([*ROWS, (0, 0)], {"x": [1.0] * 5}), "more than one row for some layer, head"),
        (table(ROWS, {"entropy_other": [1.0] * 4, "entropy": [5.0] * 4}), "give another suffix"),
        (table([(0,)], {"x": [1.0]}, keys=("check",)), "no columns in common"),
        (table(ROWS, {"x": [1.0] * 4}, keys=("layer_a", "head_a")), "no columns in common"),
    ],
)
def test_tables_that_do_not_fit(other, says):
    with pytest.raises(AttnprobeError, match=says):
        LEFT.join(other)


def test_the_record_is_of_both():
    left = table(ROWS, {"x": [1.0] * 4}, title="a", notes=["one"], provenance={"seed": 1})
    right = table(ROWS, {"y": [1.0] * 4}, title="b", notes=["two"], provenance={"seed": 2})
    both = left.join(right)
    assert both.provenance == {"joined": [{"seed": 1}, {"seed": 2}]}
    assert list(both.notes) == ["one", "two"]
    assert both.title == "a, and b"
    assert left.join(left).title == "a"
    assert (left.provenance, left.notes) == ({"seed": 1}, ["one"])  # as they were
