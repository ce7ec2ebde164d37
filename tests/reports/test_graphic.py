"""Pictures of a sentence say the numbers that they are given: read back from lines and cells."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.reports.picture import render_png
from attnprobe.reports.theme import THEMES, mix_colours
from attnprobe.reports.view import graphic
from attnprobe.reports.view.alignment import Mark
from attnprobe.reports.view.graphic import FAINTEST, Block, Panel, draw_all_heads, draw_lines, draw_map
from attnprobe.reports.view.packing import make_visible

SVG = "{http://www.w3.org/2000/svg}"
LIGHT = THEMES["light"]
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
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def marks(root, kind):
    groups = (
        group for group in root.iter(f"{SVG}g") if f"mark-{kind} role-mark" in (group.get("class") or "")
    )
    return [[*group] for group in groups]


def test_every_line_is_as_dark_and_thick_as_its_attention(panel):
    root = ElementTree.fromstring(draw_lines(panel, LIGHT))
    (lines,) = marks(root, "rule")
    expected = {(q, k): panel.rows[q, k] for q, k in np.argwhere(panel.rows >= FAINTEST).tolist()}
    assert len(lines) == len(expected)
    for line, ((query, key), share) in zip(lines, expected.items(), strict=True):
        assert float(line.get("opacity")) == pytest.approx(share, abs=1e-3)
        assert float(line.get("stroke-width")) == pytest.approx(0.8 + 1.6 * share, abs=1e-3)
        top = float(re.search(r"translate\([\d.]+,([\d.]+)\)", line.get("transform"))[1])
        down = float(line.get("y2"))
        assert (top / 18 - 1, down / 18) == pytest.approx((query, key - query), abs=1e-3)
    assert [text for text in texts(root) if len(text) == 1] == list("abcduvwxyz")


def colour_of(share):
    return bytes.fromhex(mix_colours(graphic.RAMPS["light"], np.sqrt(share))[1:])


def test_every_cell_has_the_colour_of_its_attention(panel):
    root = ElementTree.fromstring(draw_map(panel, LIGHT))
    (cells,) = marks(root, "rect")
    expected = [(q, k, panel.rows[q, k]) for q, k in np.ndindex(4, 6)]
    assert len(cells) == len(expected)
    for cell, (query, key, share) in zip(cells, expected, strict=True):
        x, y, *_ = map(float, re.findall(r"[\d.]+", cell.get("d")))
        assert (x / 18, y / 18) == pytest.approx((key, query))
        red_green_blue = list(map(int, re.findall(r"\d+", cell.get("fill"))))
        assert red_green_blue == pytest.approx(list(colour_of(share)), abs=1)


@pytest.mark.parametrize("draw", [draw_lines, draw_map])
def test_gold_links_are_heavy_where_hit_and_dashed_where_possible(panel, draw):
    links = [Mark((0, 1), (2, 4), sure=True, hit=True), Mark((1, 2), (0, 1), sure=False, hit=False)]
    root = ElementTree.fromstring(draw(Panel(**{**vars(panel), "marks": links, "second": (2, 3)}), LIGHT))
    named = {
        mark.get("aria-label"): mark for mark in root.iter() if "link, " in (mark.get("aria-label") or "")
    }
    heavy, thin = named["sure link, hit"], named["possible link, missed"]
    assert float(heavy.get("stroke-width")) > float(thin.get("stroke-width"))
    assert [mark.get("stroke-dasharray") for mark in (heavy, thin)] == ["1,0", "4,3"]
    said = " ".join(texts(root))
    assert all(word in said for word in ("heavy", "thin", "dashed"))


@pytest.mark.parametrize("draw", [draw_lines, draw_map])
def test_hostile_labels_are_text(draw):
    shown = [make_visible(label) for label in HOSTILE]
    content = draw(Panel(make_visible(HOSTILE[0]), np.full((5, 5), 0.2), shown, shown), LIGHT)
    root = ElementTree.fromstring(content)
    assert not {tag.removeprefix(SVG) for tag in (part.tag for part in root.iter())} & {
        "script",
        "img",
        "image",
    }
    assert not re.search(r"\s(on\w+|href)=", re.sub(r'"[^"]*"', '""', re.sub(r">[^<]*<", "><", content)))
    assert sum("⟨202E⟩gnp⟨0000⟩⟨D800⟩" in text for text in texts(root)) == 2
    content.encode("utf-8")


def test_all_heads():
    grid = [[np.eye(4), None], [np.full((4, 4), 0.25), np.eye(4)]]
    blocks = [
        Block("encoder", ["0", "2"], ["0", "rollout"], grid),
        Block("cross", ["0"], ["0", "1"], grid[:1]),
    ]
    root = ElementTree.fromstring(draw_all_heads("All", blocks, LIGHT))
    frames = [frame for group in marks(root, "rect") for frame in group if frame.get("stroke-width") == "0.5"]
    assert [frame.get("stroke-dasharray") for frame in frames] == ["1,0", "1,0", "1,0", "3,3", "1,0", "3,3"]
    cells = [cell for group in marks(root, "rect") for cell in group if cell.get("stroke-width") != "0.5"]
    assert len(cells) == 4 + 16 + 4 + 4
    assert {"All", "encoder", "cross", "rollout", "2"} <= set(texts(root))


@pytest.mark.parametrize("width", [240, 500])
def test_a_picture_is_as_wide_as_it_is_asked_to_be(panel, width):
    for draw in (draw_lines, draw_map):
        root = ElementTree.fromstring(draw(panel, LIGHT, width))
        assert float(root.get("width")) == pytest.approx(width, abs=12)


def test_a_png_that_is_too_large_is_refused():
    svg = draw_map(Panel("t", np.zeros((500, 500)), ["token"] * 500, ["token"] * 500), LIGHT)
    with pytest.raises(AttnprobeError, match="too large for a png"):
        render_png(svg)
