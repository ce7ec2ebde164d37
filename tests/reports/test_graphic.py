"""Vector graphics say the numbers that they are given: read back from lines and cells."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from attnprobe.reports.graphic import (
    FAINTEST,
    SHADES,
    Block,
    Panel,
    draw_all_heads,
    draw_lines,
    draw_map,
)
from attnprobe.reports.pen import LEVELS, mix_colour
from attnprobe.reports.view import make_visible

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "</text><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202egnp\x00\ud800",
    "]]>&amp;",
    "{{7*7}}",
]


@pytest.fixture
def panel():
    draw = np.random.default_rng(0)
    rows = np.exp(draw.normal(size=(4, 6)) * 2)
    return Panel("Layer 1, head 2", rows / rows.sum(1, keepdims=True), list("abcd"), list("uvwxyz"))


def texts(root):
    return [one.text for one in root.iter(f"{SVG}text")]


def test_every_line_is_as_dark_as_its_attention(panel):
    root = ElementTree.fromstring(draw_lines(panel))
    found = {}
    for path in root.iter(f"{SVG}path"):
        for x, y, to_x, to_y in re.findall(r"M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)", path.get("d")):
            assert float(x) < float(to_x)
            found[float(y), float(to_y)] = float(path.get("stroke-opacity"))
    places = sorted({y for y, _ in found})
    widths = [
        (float(path.get("stroke-opacity")), float(path.get("stroke-width")))
        for path in root.iter(f"{SVG}path")
    ]
    assert sorted(widths) == sorted(widths, key=lambda one: (one[1], one[0]))  # the darker, the thicker
    ends = sorted({y for ends in found for y in ends})
    assert np.allclose(np.diff(ends), ends[1] - ends[0])
    assert len(places) == 4
    first, step = ends[0], ends[1] - ends[0]
    for query in range(4):
        for key in range(6):
            share = panel.rows[query, key]
            dark = found.get((first + query * step, first + key * step), 0.0)
            assert (dark == 0) == (share < FAINTEST)
            assert dark == 0 or 0 <= dark - share <= 1 / SHADES + 1e-9
    assert [one for one in texts(root) if len(one) == 1] == list("abcduvwxyz")


def cells_of(root):
    """Give the colour of each cell by its left upper corner."""
    found = {}
    for path in root.iter(f"{SVG}path"):
        for corner in re.findall(r"M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)H", path.get("d")):
            x, y, right, below = map(float, corner)
            for step in range(round((right - x) / (below - y))):  # a run of cells of one colour
                found[x + step * (below - y), y] = path.get("fill")
    return found


def test_every_cell_has_the_colour_of_its_attention(panel):
    root = ElementTree.fromstring(draw_map(panel))
    found = cells_of(root)
    frame = next(one for one in root.iter(f"{SVG}rect") if one.get("fill") == "none")
    x, y, cell = float(frame.get("x")), float(frame.get("y")), float(frame.get("width")) / 6
    for query in range(4):
        for key in range(6):
            level = round(np.sqrt(panel.rows[query, key]) * LEVELS)
            assert found.get((x + key * cell, y + query * cell), "#ffffff") == mix_colour(level)


@pytest.mark.parametrize("draw", [draw_lines, draw_map])
def test_hostile_labels_are_text(draw):
    shown = [make_visible(label) for label in HOSTILE]
    content = draw(Panel(make_visible(HOSTILE[0]), np.full((5, 5), 0.2), shown, shown))
    root = ElementTree.fromstring(content)
    assert {one.tag.removeprefix(SVG) for one in root.iter()} <= {"svg", "title", "rect", "text", "path", "g"}
    assert not re.search(r"\s(on\w+|href)=", re.sub(r">[^<]*<", "><", content))
    assert any("⟨202E⟩gnp⟨0000⟩⟨D800⟩".startswith(one.rstrip("…")) for one in texts(root))
    content.encode("utf-8")


def test_all_heads():
    grid = [[np.eye(4), None], [np.full((4, 4), 0.25), np.eye(4)]]
    root = ElementTree.fromstring(
        draw_all_heads(
            "All",
            [Block("encoder", ["0", "1"], list("01"), grid), Block("cross", ["0"], list("01"), grid[:1])],
        )
    )
    frames = [one for one in root.iter(f"{SVG}rect") if one.get("fill") == "none"]
    assert len(frames) == 6
    assert [one.get("stroke-dasharray") is not None for one in frames] == [
        False,
        True,
        False,
        False,
        False,
        True,
    ]
    said = texts(root)
    assert said[0] == "All"
    assert {"encoder", "cross"} <= set(said)


def test_a_png_that_is_too_large_is_refused():
    from attnprobe.errors import AttnprobeError
    from attnprobe.reports.picture import render_png

    svg = draw_map(Panel("t", np.full((500, 500), 0.002), ["token"] * 500, ["token"] * 500))
    with pytest.raises(AttnprobeError, match="too large for a png"):
        render_png(svg)
