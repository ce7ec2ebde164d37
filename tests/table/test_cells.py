import math
import sys

import pytest

from attnprobe.table.cells import clean, format_cell


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07rest", "rest"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\after", "after"),
        ("\x1bcreset", "reset"),
        ("\x1b]0;never ends", "0;never ends"),
        ("bell\x07 nul\x00 del\x7f", "bell nul del"),
        ("a\u202eb\u2066c\u200fd\u061ce\ufefff", "abcdef"),
        ("two\r\nlines\tand\u2028more", "two lines and more"),
        ("lone \udcff", "lone \ufffd"),
        ("[CLS] ##ing Ġthe 日本 👩\u200d🔬 é", "[CLS] ##ing Ġthe 日本 👩\u200d🔬 é"),
    ],
)
def test_clean(text, expected):
    assert clean(text) == expected


def test_nothing_that_clean_returns_can_steer_a_terminal():
    everything = "".join(map(chr, range(0x3000))) + "\x1b" * 3 + "[31m" + "\x1b\x9d\x9d\x1b]"
    left = clean(everything)
    forbidden = {*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
    assert not forbidden & {ord(character) for character in left}
    assert len(left) > 0x2F00


def test_cleaning_takes_linear_time():
    # Quadratic matching would take minutes here, not milliseconds.
    assert clean("\x1b]" * 200_000) == ""
    assert clean("\x9d" * 200_000) == ""


@pytest.mark.parametrize("value", [0.1 + 0.2, 1 / 3, -1e-300, 5e-324, sys.float_info.max, 1e22, -0.0])
def test_written_numbers_read_back_exactly(value):
    assert float(format_cell(value)) == value
    assert math.copysign(1, float(format_cell(value))) == math.copysign(1, value)
