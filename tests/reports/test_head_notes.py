"""What tables say of the heads that a page shows: which are refused, the head of a role, and the lines."""

import numpy as np
import pytest

from attnprobe.attention.kinds import Kind
from attnprobe.errors import AttnprobeError
from attnprobe.reports.view.notes import check_notes, find_role, list_notes, read_notes
from attnprobe.table.numbers import format_with_error
from attnprobe.table.sequence import Maps, SequenceAttention, Side
from attnprobe.table.table import Column, HeadTable

LAYERS, HEADS = 2, 3


def maps_of(kind=Kind.ENCODER, layers=(0, 1), *, standing=None):
    side = Side(("a", "b"), ("a", "b"), np.zeros(2, bool))
    rows = np.full((len(layers), HEADS, 2, 2), 0.5, np.float32)
    standing = np.ones((len(layers), HEADS), bool) if standing is None else standing
    return Maps(kind, layers, rows, side, side, standing)


def checked(table, *maps):
    return check_notes(read_notes(table), SequenceAttention("toy", ("a b",), maps or (maps_of(),)))


def table_of(places, *, attention=None, **columns):
    """Make a table with one row per place (layer, head), and further columns."""
    keys = {"layer": [layer for layer, _ in places], "head": [head for _, head in places]}
    if attention is not None:
        keys = {"attention": attention, **keys}
    described = [Column(name, role="key") for name in keys]
    for name in columns:
        words = name in {"role", "measure", "also"}
        role = "error" if name.endswith("_se") else "key" if words else "measure"
        described.append(Column(name, "share", role))
    return HeadTable("numbers", described, {**keys, **columns})


EVERY = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]


def test_numbers_go_to_their_heads_in_whatever_order_rows_come():
    order = np.random.default_rng(0).permutation(6)
    values = np.arange(6) / 10
    table = table_of(
        [EVERY[place] for place in order], previous=[values[place] for place in order],
        previous_se=[0.01] * 6, blank=[None] * 6,
    )  # fmt: skip
    (note,) = list_notes(checked(table), maps_of())
    assert note["names"] == ["previous (share)"]  # one without a number is left out, and so is an error
    assert note["heads"] == [
        [[(0, format_with_error(value, 0.01))] for value in line]
        for line in ([0.0, 0.1, 0.2], [0.3, 0.4, 0.5])
    ]
    assert not note["roles"]


def test_the_head_of_a_role_is_the_one_of_the_highest_value():
    roles = ["previous", "mixed", "previous", "syntactic: det", "syntactic: case", "mixed"]
    values = [0.91, None, 0.95, 0.5, 0.7, None]
    table = table_of(EVERY, role=roles, measure=["offset_share"] * 6, value=values)
    maps = maps_of()
    assert find_role([table], "previous", maps) == (0, 2)
    assert find_role([table], "syntactic", maps) == (1, 1)
    assert find_role([table], "syntactic: det", maps) == (1, 0)
    standing = np.ones((2, 3), bool)
    standing[0, 2] = False
    assert find_role([table], "previous", maps_of(standing=standing)) == (0, 0)
    with pytest.raises(AttnprobeError, match="has the role 'next'; it has previous, syntactic: det and"):
        find_role([table], "next", maps)
    with pytest.raises(AttnprobeError, match="names roles; give one that `attnprobe roles` wrote"):
        find_role([table_of(EVERY, previous=values)], "previous", maps)
    (note,) = list_notes([table], maps)
    assert note["names"] == ["role", "offset share"]
    assert note["heads"][0][2] == [(0, "previous"), (1, "0.95")]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (table_of(EVERY[:-1], x=[1.0] * 5), "5 heads of the encoder, and they are not the 2 x 3 heads"),
        (table_of([*EVERY, (2, 0)], x=[1.0] * 7), "7 heads of the encoder, and they are not the 2 x 3 heads"),
        (table_of([*EVERY, (0, 0)], x=[1.0] * 7), "has several rows for one head"),
        (table_of(EVERY, attention=["cross"] * 6, x=[1.0] * 6), "about no attention that toy has here"),
        (HeadTable("t", [Column("x")], {"x": [1.0]}), "has no columns layer and head"),
        (
            HeadTable("t", [Column("layer"), Column("head")], {"layer": [], "head": []}),
            "about no attention that toy has here",
        ),
    ],
)
def test_tables_of_other_heads_are_refused(table, says):
    with pytest.raises(AttnprobeError, match=says):
        checked(table)
    with pytest.raises(AttnprobeError, match="does not say which attention"):
        checked(table_of(EVERY, x=[1.0] * 6), maps_of(), maps_of(Kind.DECODER))
