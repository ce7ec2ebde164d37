"""Every kind of picture in a real browser: drawn, silent, walked by keys, and no string of a table runs."""

import re

import picture_tables as tables
import pytest

from attnprobe.reports.charts.draw import draw_picture
from attnprobe.table.table import Column, HeadTable

pytestmark = pytest.mark.slow

#: Count the colours of each canvas: a chart that was drawn has more than a few.
COLOURS = """() => [...document.querySelectorAll('canvas')].map(canvas => {
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = new Set();
    for (let i = 0; i < data.length; i += 4)
        colours.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
    return colours.size;
})"""
KEYS = ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "PageDown", "End")


@pytest.fixture
def opened(visit, tmp_path):
    def open_page(picture):
        visited = visit(picture.save(tmp_path / "page.html"))
        visited.page.wait_for_selector(".chart[data-marks] canvas")
        return visited

    return open_page


def hover(page, across, down):
    """Move over a chart, and give the tooltips on the way."""
    box, tips = page.query_selector("canvas").bounding_box(), []
    for x in range(1, across):
        for y in range(1, down):
            page.mouse.move(box["x"] + box["width"] * x / across, box["y"] + box["height"] * y / down)
            tip = page.query_selector("#vg-tooltip-element.visible")
            tips.append(tip.inner_html() if tip is not None else "")
    return "".join(tips)


@pytest.mark.parametrize("kind", tables.NATURAL)
def test_a_page_is_drawn_walked_and_silent_whatever_it_holds(opened, kind):
    visited = opened(draw_picture([tables.make_hostile(kind)], kind, title=tables.HOSTILE[1]))
    page = visited.page
    assert all(colours > 5 for colours in page.evaluate(COLOURS))
    hover(page, 12, 6)
    assert int(page.get_attribute(".chart", "data-marks")) > 0
    page.focus(".chart")
    for key in KEYS:
        page.keyboard.press(key)
        spoken = page.inner_text("#text")
        assert re.search(r"\w", spoken)
        assert not re.search("undefined|NaN", spoken)
    visited.assert_silent()
    # Nothing of theirs became an element.
    assert page.evaluate("document.querySelectorAll('img, iframe, object, embed, link, a').length") == 0
    assert page.evaluate("document.querySelectorAll('script:not([type])').length") == 2
    assert "\u202e" not in page.content()


def test_a_column_named_as_an_order_of_the_tooltip_is_only_text(opened):
    """Vega shows ``image`` as a picture, which it would fetch, and ``title`` as a heading."""
    columns = [Column(name, role="key") for name in ("model", "dataset", "layer", "head")]
    columns += [Column("image", headline=True), Column("title", headline=True)]
    data = {"model": ["m"], "dataset": ["d"], "layer": [0], "head": [0], "image": [0.5], "title": [0.5]}
    visited = opened(draw_picture([HeadTable("x", columns, data)]))
    tips = hover(visited.page, 40, 20)
    assert "column image" in tips
    assert "column title" in tips
    assert "<img" not in tips
    visited.assert_silent()


def test_a_policy_stops_a_script_that_is_not_ours(visit, tmp_path):
    """A script that got past escaping would still not run."""
    path = draw_picture([tables.of_heads("entropy")]).save(tmp_path / "page.html")
    broken = path.read_text().replace("<main>", "<main><script>document.title = 'taken'</script>")
    path.write_text(broken)
    visited = visit(path)
    visited.page.wait_for_selector("canvas")
    assert visited.page.title() == "heads"
    assert any("Content Security Policy" in line for line in visited.console)
