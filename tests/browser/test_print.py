"""Pictures at one column of a page: text of 6 points or more, inside of the picture, no two on each other."""

import itertools
from functools import cache
from typing import get_args

import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.reports.theme import JOURNALS, parse_width
from attnprobe.table.kinds import PictureKind

pytestmark = pytest.mark.slow

SIZES = ((1, 2), (6, 12), (12, 12), (24, 16))
#: Kinds of pictures that grow with the heads of a model, each of a table of so many layers and heads.
SIZED = {
    "atlas": lambda layers, heads: [tables.profiles(layers, heads)],
    "heatmap": lambda layers, heads: [tables.census(layers, heads)],
    "scatter": lambda layers, heads: [tables.census(layers, heads)],
    "depth": lambda layers, heads: [tables.census(layers, heads)],
    "roles": lambda layers, heads: [tables.roles(layers, heads)],
    "change": lambda layers, heads: [tables.change(layers, heads)],
    "positions": lambda layers, heads: [tables.at_positions(WORDS, layers, heads)],
    "lines": lambda layers, heads: [tables.over_training("entropy", layers, heads)],
    "matrix": lambda layers, heads: [tables.within_layers(layers, heads)],
    "map": lambda layers, heads: [all_pairs(layers, heads)],
    "dendrogram": lambda layers, heads: [all_pairs(layers, heads)],
    "clustermap": lambda layers, heads: [all_pairs(layers, heads), tables.roles(layers, heads)],
    "relations": lambda layers, heads: [tables.found(layers, heads)],
    "pairs": lambda layers, heads: [tables.interactions(layers, heads)],
    "groups": lambda layers, heads: [tables.by_group(layers, heads)],
    "modality": lambda layers, heads: [tables.modalities(layers, heads)],
    "errors": lambda layers, heads: [tables.aligning(layers, heads)],
}
WORDS = tuple("[CLS] the keys to the cabinet are on the table [SEP]".split())  # noqa: SIM905
#: A model of two heads has no distances but one.
IMPOSSIBLE = {(kind, (1, 2)) for kind in ("map", "dendrogram", "clustermap", "groups")}
all_pairs = cache(tables.all_pairs)  # of 384 heads, to draw them takes a while
PLAIN = parse_width(JOURNALS["plain"].columns[0])
#: Points of the smallest text, and pixels by which boxes may touch: ascenders and descenders are empty.
LEAST, TOUCH, LINE = 6, 1.5, 0.3
#: Of this family, a word of these letters is so many of its sizes wide. Others are laid out otherwise.
WORD, WIDE = "Hamburg", 4.112

MEASURE = """svg => {
    document.body.innerHTML = svg;
    const boxes = [], marks = [];
    for (const text of document.querySelectorAll("text")) {
        const {opacity, stroke} = getComputedStyle(text);
        if (!text.textContent.trim() || opacity === "0") continue;
        if (stroke !== "none") continue;  // the edge of a text, which stands there once more
        const {x, y, width, height} = text.getBoundingClientRect();
        const size = parseFloat(getComputedStyle(text).fontSize);
        // Turned text: its own box, and the middle of the one around it, turned back.
        const {a, b} = text.getScreenCTM(), angle = Math.atan2(b, a), own = text.getBBox();
        const [u, v] = [x + width / 2, y + height / 2];
        const back = [u * Math.cos(angle) + v * Math.sin(angle), v * Math.cos(angle) - u * Math.sin(angle)];
        const turned = [back[0] - own.width / 2, back[1] - own.height / 2, own.width, own.height];
        boxes.push([text.textContent, x, y, width, height, size, angle, turned]);
    }
    for (const mark of document.querySelectorAll("path, line, rect, image")) {
        if (mark.closest("defs, clipPath, [clip-path]") || mark.classList.contains("background")) continue;
        const {x, y, width, height} = mark.getBoundingClientRect();
        if (width || height) marks.push([x, y, width, height]);
    }
    const {x, y, width, height} = document.querySelector("svg").getBoundingClientRect();
    return [[x, y, width, height], boxes, marks];
}"""


@pytest.fixture(scope="module")
def measure(browser):
    """Measure the texts of an svg, where the browser has the font that pictures are laid out in."""
    page = browser.new_page()
    page.set_content(f'<span style="font: 100px Liberation Sans, Arial, Helvetica">{WORD}</span>')
    wide = page.evaluate("document.querySelector('span').getBoundingClientRect().width")
    if abs(wide / 100 - WIDE) > 0.01:
        pytest.skip("no font with the widths of Liberation Sans: apt-get install fonts-liberation")
    yield lambda svg: page.evaluate(MEASURE, svg)
    page.close()


def draw(kind, size, journal):
    """Draw a kind for a model of some size; of a kind that does not grow, the one that there is."""
    makers = tables.NATURAL
    given = SIZED[kind](*size) if kind in SIZED and size is not None else [makers[kind][0]()]
    return draw_picture(given, kind, columns=1, journal=journal)


def check(measure, drawn, *, print_width):
    canvas, boxes, marks = measure(drawn.rendered("svg").decode())
    left, top, wide, high = canvas
    assert boxes
    assert wide <= 1.1 * print_width
    for text, x, y, width, height, size, *_ in boxes:
        assert size * 72 / 96 >= LEAST, text
        assert left - 1 <= x, text
        assert top - 1 <= y, text
        assert x + width <= left + wide + 1, text
        assert y + height <= top + high + 1 + LINE * height, text
    for x, y, width, height in marks:
        assert left - 1 <= x
        assert top - 1 <= y
        assert x + width <= left + wide + 1
        assert y + height <= top + high + 1
    for one, other in itertools.combinations(boxes, 2):
        alike = one[6] and abs(one[6] - other[6]) < 1e-6  # turned as far: they are compared as they are read
        first, second = (box[7] if alike else box[1:5] for box in (one, other))
        across = min(first[0] + first[2], second[0] + second[2]) - max(first[0], second[0])
        down = min(first[1] + first[3], second[1] + second[3]) - max(first[1], second[1])
        assert across <= TOUCH or down <= LINE * min(first[3], second[3]), (one[0], other[0])


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("kind", SIZED)
def test_a_picture_of_every_size_of_model_can_be_printed(measure, kind, size):
    """In the narrowest column, whose text is not the smallest."""
    if (kind, size) in IMPOSSIBLE:
        pytest.skip("such a model has no such picture")
    check(measure, draw(kind, size, "plain"), print_width=PLAIN)


@pytest.mark.parametrize("journal", ["nature", "plain"])  # the smallest text; and a narrow column
@pytest.mark.parametrize("kind", get_args(PictureKind))
def test_every_kind_can_be_printed(measure, kind, journal):
    """Those that have no table of a size of their own are drawn here alone."""
    if kind in SIZED and journal == "plain":
        pytest.skip("drawn above")
    drawn = draw(kind, (6, 12) if kind not in tables.NATURAL else None, journal)
    check(measure, drawn, print_width=parse_width(JOURNALS[journal].columns[0]))


def test_the_relations_of_a_treebank_can_be_printed(measure):
    drawn = draw_picture([tables.many_relations()], "relations", columns=1, journal="plain")
    check(measure, drawn, print_width=PLAIN)
