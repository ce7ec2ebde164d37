"""What is read out of a picture: no more digits than its tooltips show."""

import re
from html import unescape

import picture_tables as tables
import pytest

from attnprobe.reports.picture import describe_marks
from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.table.head_table import HeadTable


def heard(drawn):
    """Give what is said of each mark; titles, axes and legends are said of the whole."""
    svg = drawn.rendered("svg").decode()
    marks = re.findall(r'<(?:path|text|line)[^>]*aria-label="([^"]*)"', svg)
    return [unescape(one) for one in marks]


@pytest.mark.parametrize("kind", tables.NATURAL)
def test_marks_are_announced_with_few_digits(kind):
    said = heard(draw_picture([tables.NATURAL[kind][0]()]))
    assert said
    for one in said:
        for digits in re.findall(r"\d+\.?\d*", one):
            assert len(digits.replace(".", "").lstrip("0")) <= 4, one


def test_a_mark_says_its_place_its_number_and_its_error():
    table = tables.of_heads("entropy", layers=1, heads=2)
    data = {**table.data, "entropy": [0.123456789, None], "entropy_se": [0.0123456789, None]}
    said = heard(draw_picture([HeadTable("x", table.columns, data)]))
    assert "layer 0, head 0: entropy (share), 0.1235 ± 0.012; n 40" in said
    assert "layer 0, head 1: n 40" in said


def test_a_hostile_title_is_said_and_not_run():
    name = '"+alert(1)+"\u2028\\'
    table = tables.of_heads(name, layers=1, heads=2)
    assert any('"+alert(1)+"' in one for one in heard(draw_picture([table])))


def test_the_rows_of_a_chart_are_no_marks_of_it():
    """A column that is called mark, as of what a point stands for, stays as it is."""
    rows = [{"mark": "best head", "x": 1}]
    layer = {"mark": "point", "encoding": {"x": {"field": "x"}}}
    spec = {"datasets": {"rows": rows}, "data": {"values": rows}, "layer": [layer]}
    described = describe_marks(spec)
    assert described["datasets"] == {"rows": rows}
    assert described["data"] == {"values": rows}
    assert described["layer"][0]["mark"] == {"type": "point", "aria": False}


def test_the_best_heads_are_points():
    svg = draw_picture([tables.NATURAL["relations"][0]()]).rendered("svg").decode()
    points = re.findall(r'aria-roledescription="point"[^>]*>', svg)
    circles = [one for one in points if "rotate" not in one]
    assert circles
    assert all('stroke="#' in one for one in circles)
