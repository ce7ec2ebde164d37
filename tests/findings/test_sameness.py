"""Whether two tables hold the same numbers."""

import math

import pytest

from attnprobe.findings.sameness import compare_tables
from attnprobe.table.table import Column, Table

COLUMNS = [Column("model", role="key"), Column("head", role="key"), Column("x"), Column("n", role="count")]


def table(x, model="m", n=(3, 3, 3)):
    data = {"model": [model] * len(x), "head": list(range(len(x))), "x": list(x), "n": list(n[: len(x)])}
    return Table("t", COLUMNS, data)


def test_the_same():
    result = compare_tables(table([1.0, math.nan, 0.1]), table([1.0, math.nan, 0.1]))
    assert result.exact
    assert result.sentences() == ["The numbers are those on record, digit for digit."]


def test_a_difference_is_a_share_of_the_largest_value():
    """Not of the number itself, which may be nothing but rounding."""
    result = compare_tables(table([-4.0, 1e-17, 2.0]), table([-4.0, 3e-17, 2.0]))
    assert result.columns == {"x": pytest.approx(2e-17 / 4)}
    assert (result.exact, result.close) == (False, True)
    result = compare_tables(table([-4.0, 1.0, 2.0]), table([-4.0, 1.0, 2.0 + 8e-6]))
    assert result.columns == {"x": pytest.approx(2e-6)}
    assert not result.close


@pytest.mark.parametrize(("ours", "theirs"), [(1.0, math.nan), (math.nan, 1.0), (1.0, math.inf)])
def test_what_is_defined_once_differs(ours, theirs):
    result = compare_tables(table([ours, 2.0]), table([theirs, 2.0]))
    assert result.columns == {"x": math.inf}
    assert not result.close


def test_digits_on_record_are_all_that_counts():
    record, again = table([0.123, 4.56]), table([0.12345678, 4.5601])
    assert not compare_tables(record, again).close
    assert compare_tables(record, again, precision=3).exact


def test_other_rows_words_and_columns():
    assert list(compare_tables(table([1.0]), table([1.0, 2.0])).others) == [
        "There are 2 rows, and 1 on record."
    ]
    assert list(compare_tables(table([1.0]), table([1.0], model="o")).others) == [
        "The column model differs in 1 row."
    ]
    less = Table("t", COLUMNS[:3], {name: [one] for name, one in (("model", "m"), ("head", 0), ("x", 1.0))})
    assert list(compare_tables(less, table([1.0])).others) == ["Columns that are not on record: n."]
    assert list(compare_tables(table([1.0]), less).others) == ["Columns that are on record only: n."]
    assert compare_tables(table([1.0]), less, whole=False).exact
