"""Pictures at one column of a page: text of 6 points or more, inside of the picture, no two on each other."""

import itertools

import picture_tables as tables
import pytest

from attnprobe.reports.pictures.choosing import draw_picture, list_kinds
from attnprobe.reports.theme import JOURNALS, parse_width

pytestmark = pytest.mark.slow

SIZES = ((1, 2), (6, 12), (12, 12), (24, 16))
#: Every kind that there is, and those that grow with the number of heads at several sizes.
TABLES = {
    **{f"{kind}": make for kind, (make, _) in tables.NATURAL.items()},
    **{
        f"{layers} x {heads}": lambda layers=layers, heads=heads: tables.of_heads(
            "entropy", "previous", layers=layers, heads=heads
        )
        for layers, heads in SIZES
    },
    "modalities of 24 x 16": lambda: tables.modalities(24, 16),
    "alignments of 24 x 16": lambda: tables.aligning(24, 16),
    "relations of a treebank": tables.many_relations,
    "positions of 12 x 12": lambda: tables.at_positions(tuple("abcdefgh"), 12, 12),
    **{
        f"pairs of {layers} x {heads}": lambda layers=layers, heads=heads: tables.all_pairs(layers, heads)
        for layers, heads in SIZES[1:]
    },
}
#: Points of the smallest text, and pixels by which boxes may touch: ascenders and descenders are empty.
LEAST, TOUCH, LINE = 6, 1.5, 0.3
#: Of this family, a word of these letters is so many of its sizes wide. Others are laid out otherwise.
WORD, WIDE = "Hamburg", 4.112

MEASURE = """svg => {
    document.body.innerHTML = svg;
    const boxes = [];
    for (const text of document.querySelectorAll("text")) {
        if (!text.textContent.trim() || getComputedStyle(text).opacity === "0") continue;
        const {x, y, width, height} = text.getBoundingClientRect();
        const size = parseFloat(getComputedStyle(text).fontSize);
        boxes.push([text.textContent, x, y, width, height, size]);
    }
    const {x, width} = document.querySelector("svg").getBoundingClientRect();
    return [[x, width], boxes];
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


@pytest.mark.parametrize("journal", ["nature", "plain"])  # the smallest text; and a narrow column
@pytest.mark.parametrize("name", TABLES)
def test_text_at_one_column(measure, name, journal):
    table = TABLES[name]()
    kinds = ["roles"] if name == "roles" else list_kinds(table)  # its values are of several measures
    for kind in kinds:
        drawn = draw_picture([table], kind, columns=1, journal=journal)
        (left, wide), boxes = measure(drawn.rendered("svg").decode())
        assert boxes, kind
        assert wide <= 1.1 * parse_width(JOURNALS[journal].columns[0]), kind
        for text, x, _, width, _, size in boxes:
            assert size * 72 / 96 >= LEAST, (kind, text)
            assert left - 1 <= x, (kind, text)
            assert x + width <= left + wide + 1, (kind, text)
        for one, other in itertools.combinations(boxes, 2):
            across = min(one[1] + one[3], other[1] + other[3]) - max(one[1], other[1])
            down = min(one[2] + one[4], other[2] + other[4]) - max(one[2], other[2])
            assert across <= TOUCH or down <= LINE * min(one[4], other[4]), (kind, one[0], other[0])
