"""Whatever strings and numbers a table holds, every format takes them and none obeys them."""

import csv
import io
import math
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
from printed import print_table

from attnprobe.table.cells import clean
from attnprobe.table.table import Column, HeadTable

#: Rich markup, escape sequences, formulas, controls, what turns text around, what no file can hold.
HARM = [
    "[bold]", "[/]", "[/bold]", "[link=http://x]", "[CLS]", "[red", "\\[", ":smile:", "\x1b[31m",
    "\x1b[2J", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x1b", "\x9b31m", "\x90", "\x9c", "\x07",
    "=1+1", "=", "+", "-", "@", "\t", "\r", "\n", "\r\n", "\0", "\x7f", "\x85", "\u2028", " ", "\u00a0",
    "\u3000", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'", '"', ",", ";", "|", "`", "\\", "<script>",
    "&amp;", "$x$", "![](", "_", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067",
    "\u2068", "\u2069", "\u200e", "\u200f", "\u061c", "\ufeff", "\ud800", "\udc00", "\udcff", "\u200b",
    "\u200d", "\u0301", "\u0600", "日本", "👩", "🏽", "\U000e0041", "##ing", "Ġthe", "bert-base", "NaN",
    "None", "1e5", " =1", "\u3000@x",
]  # fmt: skip
LONG = st.builds(lambda piece, times: piece * times, st.sampled_from(HARM), st.sampled_from([50, 2000]))
SHORT = st.lists(st.sampled_from(HARM) | st.text(st.characters(), max_size=3), max_size=5).map("".join)
STRINGS = SHORT | SHORT | SHORT | LONG
NUMBERS = st.floats() | st.integers(-3, 10**6)


@st.composite
def tables(draw: st.DrawFn) -> HeadTable:
    """Make a table of heads, of steps of a pruning, or of anything, with strings that mean harm."""
    rows = draw(st.integers(0, 4))
    keys = draw(
        st.sampled_from([("layer", "head"), ("check",), ("criterion", "seed", "step"), ("layer_a", "head_a")])
    )
    measure = "score" if "step" in keys else "entropy"
    named = (*draw(st.sampled_from([("model", "dataset"), ("model",)])), *keys)
    columns = [Column(name, role="key") for name in named]
    columns += [Column("n", role="count"), Column(measure, draw(SHORT)), Column(f"{measure}_se", "", "error")]
    data = {}
    for column in columns:
        if column.role == "key" and column.name in ("layer", "head", "seed", "step", "layer_a", "head_a"):
            # A layer may have a name instead of a number.
            cells = st.integers(0, 3) | STRINGS if draw(st.booleans()) else st.integers(0, 3)
        else:
            cells = st.none() | STRINGS if column.role == "key" else NUMBERS
        data[column.name] = draw(st.lists(cells, min_size=rows, max_size=rows))
    return HeadTable(
        draw(STRINGS),
        columns,
        data,
        notes=draw(st.lists(STRINGS, max_size=2)),
        provenance=draw(st.dictionaries(SHORT, STRINGS | NUMBERS | st.lists(SHORT, max_size=2), max_size=2)),
    )


def measured(counts: list[float], values: list[float]) -> HeadTable:
    """Make the plainest table of heads."""
    columns = [
        Column("layer", role="key"),
        Column("head", role="key"),
        Column("n", role="count"),
        Column("x"),
    ]
    data = {"layer": [0] * len(values), "head": list(range(len(values))), "n": counts, "x": values}
    return HeadTable("t", columns, data)


# C0 but the line feed, DEL, C1, and what turns text around on the screen.
_STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def is_text(cell: object) -> bool:
    return isinstance(cell, str)


def same(number: float, read: float | None) -> bool:
    """Tell whether a number came back, where NaN comes back as nothing."""
    return read is None if math.isnan(number) else read == number


@given(table=tables(), width=st.sampled_from([20, 80, 300]), encoding=st.sampled_from(["utf-8", "ascii"]))
@settings(max_examples=100)
@example(measured([0.0, math.inf], [0.5, 0.25]), 80, "utf-8")
@example(measured([1, 2], [5e-324, 0.0]), 80, "utf-8")
def test_terminal(table: HeadTable, width: int, encoding: str) -> None:
    coloured = print_table(table, width, encoding, color_system="truecolor", force_terminal=True)
    bare = print_table(table, width, encoding)
    assert not _STEERING.search(bare)
    assert not _STEERING.search(_COLOURS.sub("", coloured))
    assert bare.strip() or not clean(table.title).strip()


#: What a spreadsheet takes for a formula, with full-width forms, and whatever it may trim before it looks.
_FORMULA = re.compile("\\s*[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20]")


@given(table=tables(), precision=st.sampled_from([None, 1, 17]))
@settings(max_examples=120)
@example(
    HeadTable("t", [Column("=1+1", role="key")], {"=1+1": ["\ufeff=1+1", "\x1b[0m=1", "\u3000@x"]}), None
)
@example(HeadTable("t", [Column("a\x1b[31m\r\nb", role="key")], {"a\x1b[31m\r\nb": ["\ud800"]}), None)
def test_csv(table: HeadTable, precision: int | None) -> None:
    raw = table.to_csv(precision)
    assert not _STEERING.search(raw)
    assert raw.count("\n") == len(table) + 1
    header, *rows = csv.reader(io.StringIO(raw, newline=""), strict=True)
    assert [name.removeprefix("'") for name in header] == [clean(column.name) for column in table.columns]
    assert len(rows) == len(table)
    for read, row in zip(rows, table.rows(), strict=True):
        for shown, cell in zip(read, row, strict=True):
            if is_text(cell):
                assert not _FORMULA.match(shown)
                assert shown.removeprefix("'") == clean(cell).removeprefix("'")
            elif precision is None and cell is not None:
                assert same(cell, float(shown) if shown else None)
    assert not any(map(_FORMULA.match, header))
