"""Numbers in the cells of heat maps, and labels beside larger ones, as they come out in the svg."""

import re

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.reports.pictures.cells import measure_text, spread_places, write_numbers
from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.reports.theme import compute_luminance
from attnprobe.table.head_table import HeadTable

CELL = re.compile(
    r'<path aria-label="[^"]*layer (\d+), head (\d+)[^"]*"[^>]* d="M([\d.-]+),([\d.-]+)h([\d.]+)v([\d.]+)h'
    r'[^"]*"[^>]*?fill="([^"]+)"([^>]*)>'
)
TEXT = re.compile(
    r'<text text-anchor="middle" transform="translate\(([\d.-]+),([\d.-]+)\)"[^>]*font-size="(\d+)px"'
    r'[^>]*fill="(#\w+)"[^>]*>([+\u2212]?\d*\.\d+)</text>'
)


def contrast(one, other):
    first, second = sorted(compute_luminance(colour) for colour in (one, other))
    return (second + 0.05) / (first + 0.05)


def as_hex(colour):
    parts = re.findall(r"\d+", colour)
    return colour if colour.startswith("#") else "#" + "".join(f"{int(part):02x}" for part in parts[:3])


def read_cells(drawn):
    """Read the cells of an svg, with the number and its ink where there is one: by layer and head."""
    svg = drawn.rendered("svg").decode()
    texts = [(float(x), float(y), int(size), ink, said) for x, y, size, ink, said in TEXT.findall(svg)]
    found = {}
    for layer, head, x, y, wide, high, fill, more in CELL.findall(svg):
        left, top = float(x), float(y)
        own = [
            one
            for one in texts
            if left < one[0] < left + float(wide) and top < one[1] < top + 1.6 * float(high) / 2 + 8
            and abs(one[0] - left - float(wide) / 2) < 1 and 0 < one[1] - top < float(high)
        ]  # fmt: skip
        found[int(layer), int(head)] = (as_hex(fill), 'fill-opacity="0.3"' in more, float(wide), own)
    return found


@pytest.mark.parametrize("theme", ["light", "dark", "paper"])
@pytest.mark.parametrize("low", [0.0, -1.0])
def test_every_number_is_the_tables_own_and_has_contrast(theme, low):
    table = tables.of_heads("entropy", layers=6, heads=12, low=low)
    cells = read_cells(draw_picture([table], theme=theme))
    values = dict(
        zip(zip(table.data["layer"], table.data["head"], strict=True), table.data["entropy"], strict=True)
    )
    errors = dict(zip(values, table.data["entropy_se"], strict=True))
    assert cells.keys() == values.keys()
    for place, (fill, pale, wide, own) in cells.items():
        sure = low == 0 or abs(values[place]) > 1.96 * errors[place]
        assert len(own) == sure
        assert pale == (not sure)
        for *_, size, ink, said in own:
            assert abs(float(said.replace("\u2212", "-")) - values[place]) <= 0.005 + 1e-9
            assert contrast(fill, ink) >= 4.5
            assert size >= 8
            assert size * measure_text(said) <= wide


def test_colours_are_mixed_as_vega_does():
    """Otherwise ink would be chosen for another colour than that of the cell."""
    from attnprobe.reports.pictures.cells import find_fill
    from attnprobe.reports.scales import fit_scale
    from attnprobe.reports.theme import THEMES

    for theme in ("light", "dark"):
        for low in (0.0, -1.0):
            table = tables.of_heads("entropy", layers=12, heads=12, low=low)
            data = {**table.data, "entropy_se": [1e-9] * 144}
            table = HeadTable(table.title, table.columns, data)
            values = table.data["entropy"]
            scale = fit_scale([(values, data["entropy_se"])], effect=low < 0)
            cells = list(read_cells(draw_picture([table], theme=theme)).values())
            assert len(cells) == 144
            for value, (fill, *_) in zip(values, cells, strict=True):
                mine = bytes.fromhex(find_fill(value, scale, THEMES[theme])[1:])
                assert np.abs(np.array(list(mine)) - list(bytes.fromhex(fill[1:]))).max() <= 1


def test_narrow_cells_have_no_numbers_and_a_legend_below_makes_room():
    table = tables.of_heads("entropy", layers=6, heads=12)
    assert all(own for *_, own in read_cells(draw_picture([table], columns=1)).values())
    assert not any(own for *_, own in read_cells(draw_picture([table], width=200)).values())


def test_undefined_heads_have_no_number():
    table = tables.of_heads("entropy")
    table.data["entropy"][5] = float("nan")
    cells = read_cells(draw_picture([table]))
    assert sum(bool(own) for *_, own in cells.values()) == 11


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_of_many_heads_five_are_labelled(low):
    table = tables.of_heads("entropy", layers=24, heads=16, low=low)
    if low:  # the largest effect is not significant
        table.data["entropy"][17], table.data["entropy_se"][17] = 1.0, 5.0
    values, errors = np.array(table.data["entropy"]), np.array(table.data["entropy_se"])
    svg = draw_picture([table], columns=1).rendered("svg").decode()
    labels = re.findall(r">L(\d+) H(\d+) ([+\u2212]?\d\.\d+)<", svg)
    if low:
        order = np.argsort(-np.where(np.abs(values) > 1.96 * errors, np.abs(values), -1), kind="stable")
    else:
        order = np.argsort(-np.abs(values - np.median(values)), kind="stable")  # none is an outlier
    assert {16 * int(layer) + int(head) for layer, head, _ in labels} == set(order[:5].tolist())
    for layer, head, said in labels:
        assert abs(float(said.replace("\u2212", "-")) - values[16 * int(layer) + int(head)]) <= 0.005 + 1e-9


def test_numbers_have_two_digits_of_the_largest():
    assert [one.texts for one in write_numbers([12.4, 0.3], signed=False)] == [["12", "0"]]
    assert [one.texts for one in write_numbers([0.0312, -0.002], signed=True)] == [
        ["+0.031", "\u22120.002"], ["+.031", "\u2212.002"],
    ]  # fmt: skip
    assert write_numbers([0.0, None], signed=False) == []
    assert write_numbers([1e-7], signed=False) == []


@pytest.mark.parametrize("seed", range(20))
def test_labels_are_spread_and_stay_in_order(seed):
    places = np.random.default_rng(seed).uniform(0, 60, 5).tolist()
    found = spread_places(places, 9)
    assert np.all(np.diff(found) >= 9 - 1e-9)
    if np.all(np.diff(sorted(places)) >= 9):
        assert found == pytest.approx(sorted(places))
    assert np.mean(found) == pytest.approx(np.mean(places))
