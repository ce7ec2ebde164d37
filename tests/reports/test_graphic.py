"""Pictures of a sentence say the numbers that they are given: read back from lines and cells."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from picture_tables import HOSTILE

from attnprobe.attention.kinds import Kind
from attnprobe.errors import AttnprobeError
from attnprobe.reports.picture import convert_svg
from attnprobe.reports.theme import THEMES, mix_colours
from attnprobe.reports.view import graphic
from attnprobe.reports.view.graphic import FAINTEST, HeadPicture, draw_all_heads, draw_lines, draw_map
from attnprobe.reports.view.packing import Start, make_visible
from attnprobe.table.sequence import Maps, SequenceAttention, Side

SVG = "{http://www.w3.org/2000/svg}"
LIGHT = THEMES["light"]


@pytest.fixture
def panel():
    draw = np.random.default_rng(0)
    rows = np.exp(draw.normal(size=(4, 6)) * 2)
    return HeadPicture("Layer 1, head 2", rows / rows.sum(1, keepdims=True), list("abcd"), list("uvwxyz"))


def texts(root):
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def marks(root, kind):
    groups = (
        group for group in root.iter(f"{SVG}g") if f"mark-{kind} role-mark" in (group.get("class") or "")
    )
    return [[*group] for group in groups if len(group)]


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
    (labels,) = marks(root, "text")[-1:]
    lefts = [float(re.search(r"translate\((-?[\d.]+),", label.get("transform"))[1]) for label in labels]
    assert lefts == [-8] * 5 + [208] * 7  # beside the lines, which are 200 long


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
def test_hostile_labels_are_text(draw):
    labels = [make_visible(label) for label in (*HOSTILE, "\u202egnp\x00\ud800")]
    rows = np.full((len(labels), len(labels)), 0.2)
    content = draw(HeadPicture(labels[0], rows, labels, labels), LIGHT)
    root = ElementTree.fromstring(content)
    assert not {part.tag.removeprefix(SVG) for part in root.iter()} & {"script", "img", "image"}
    assert not re.search(r"\s(on\w+|href)=", re.sub(r'"[^"]*"', '""', re.sub(r">[^<]*<", "><", content)))
    assert sum("⟨202E⟩gnp⟨0000⟩⟨D800⟩" in text for text in texts(root)) == 2
    content.encode("utf-8")


def test_all_heads():
    """Cells have the place and the colour of their numbers; a head that was removed is an empty frame."""
    draw, side = np.random.default_rng(0), Side(tuple("abcd"), tuple("abcd"), np.zeros(4, bool))
    kept = np.array([[True, False], [True, True]])
    rows = draw.dirichlet(np.ones(4), (2, 2, 4)).astype(np.float32) * kept[..., None, None]
    maps = Maps(Kind.ENCODER, (0, 2), rows, side, side, kept, rows.mean(1))
    cross = Maps(Kind.CROSS, (0,), rows[:1], side, side, kept[:1])
    start = Start("encoder", 0, 0, "lines", words=False, special=True)
    root = ElementTree.fromstring(
        draw_all_heads(SequenceAttention("All", ("a",), (maps, cross)), start, LIGHT)
    )
    assert {"Attention of All", "encoder", "cross", "rollout", "2"} <= set(texts(root))
    groups = marks(root, "rect")
    dashes = [frame.get("stroke-dasharray") for group in (groups[1], groups[3]) for frame in group]
    assert dashes == ["1,0", "3,3", "1,0", "1,0", "1,0", "1,0", "1,0", "3,3"]
    shown = np.concatenate([rows, rows.mean(1)[:, None]], 1)
    frames = {(box[0], box[1]): box for box in map(read_box, groups[1])}
    corners = sorted(frames, key=lambda corner: corner[::-1])
    assert len(corners) == 6
    expected = [place for place in np.ndindex(shown.shape) if shown[place] >= graphic.NOTHING]
    assert len(groups[0]) == len(expected)
    for cell, (layer, head, row, column) in zip(groups[0], expected, strict=True):
        (x, y, wide, high), (left, top, width, height) = read_box(cell), frames[corners[3 * layer + head]]
        assert (wide, high) == pytest.approx((width / 4, height / 4), abs=1e-2)
        assert (x, y) == pytest.approx((left + column * wide, top + row * high), abs=1e-2)
        red_green_blue = list(map(int, re.findall(r"\d+", cell.get("fill"))))
        assert red_green_blue == pytest.approx(list(colour_of(shown[layer, head, row, column])), abs=1)


def read_box(mark):
    """Read left, top, width and height off the path of a rectangle."""
    x, y, wide, high, *_ = map(float, re.findall(r"-?[\d.]+", mark.get("d")))
    return x, y, wide, high


def test_a_png_that_is_too_large_is_refused():
    svg = draw_map(HeadPicture("t", np.zeros((500, 500)), ["token"] * 500, ["token"] * 500), LIGHT)
    with pytest.raises(AttnprobeError, match="too large for a png"):
        convert_svg(svg, "png")
    with pytest.raises(AttnprobeError, match="the picture could not be drawn"):
        convert_svg("<svg", "pdf")
