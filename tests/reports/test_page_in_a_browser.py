"""Pictures in a real browser: drawn, silent, and whatever strings they hold, no script runs but ours."""

import picture_tables as tables
import pytest

from attnprobe.reports.charts.draw import draw_picture
from attnprobe.table.table import Column, HeadTable

pytestmark = pytest.mark.slow

#: Strings that try to run, to fetch, to end what they stand in, or to turn text around.
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    '"><svg onload=alert(3)>',
    "javascript:alert(4)",
    "<!--<script>",
    "{{ 7 * 7 }}${alert(5)}",
    "datum['x'] + alert(6)",
    "user\u202egnp.exe \u2066x\u2069",
    "https://example.org/x.png",
    "]]><script>alert(7)</script>",
    "<style>@import 'https://example.org/x.css';</style>",
    "\x1b[31mred\x1b[0m\x00",
]


def harmful(kind):
    """Give a table of a kind whose every string is hostile: names of models, columns, units, labels."""
    table = tables.NATURAL[kind][0]()
    structural = {"criterion", "direction", "status", "attention"}
    data, columns = {}, []
    for place, column in enumerate(table.columns):
        cells = list(table.data[column.name])
        words = column.role in {"key", "text"} and any(isinstance(cell, str) for cell in cells)
        if words and column.name not in structural:
            unique = {
                cell: HOSTILE[(place + n) % len(HOSTILE)] for n, cell in enumerate(dict.fromkeys(cells))
            }
            cells = [unique[cell] for cell in cells]
        data[column.name] = cells
        mean = HOSTILE[place % len(HOSTILE)]
        title = mean if column.role == "measure" else ""
        columns.append(Column(column.name, mean, column.role, column.headline, title))
    return HeadTable(HOSTILE[0] + HOSTILE[7], columns, data)


def painted(seen):
    """Count the colours on the canvases of a page: a chart that was drawn has more than a few."""
    return seen.page.evaluate(
        """() => [...document.querySelectorAll('canvas')].map(canvas => {
            const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            const found = new Set();
            for (let i = 0; i < data.length; i += 4)
                found.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
            return found.size;
        })"""
    )


@pytest.mark.parametrize("kind", tables.NATURAL)
def test_a_page_is_drawn_and_silent_whatever_it_holds(visit, tmp_path, kind):
    path = draw_picture([harmful(kind)], title=HOSTILE[1]).save(tmp_path / "page.html")
    seen = visit(path)
    seen.page.wait_for_selector("canvas")
    assert all(colours > 5 for colours in painted(seen))
    box = seen.page.query_selector("canvas").bounding_box()
    for across in range(1, 12):  # over whatever has a tooltip
        for down in range(1, 6):
            seen.page.mouse.move(box["x"] + box["width"] * across / 12, box["y"] + box["height"] * down / 6)
    seen.assert_silent()
    # Nothing of theirs became an element.
    assert seen.page.evaluate("document.querySelectorAll('img, iframe, object, embed, link, a').length") == 0
    assert seen.page.evaluate("document.querySelectorAll('script:not([type])').length") == 2
    assert "\u202e" not in seen.page.content()


def test_a_column_named_as_an_order_of_the_tooltip_is_only_text(visit, tmp_path):
    """Vega shows ``image`` as a picture, which it would fetch, and ``title`` as a heading."""
    columns = [Column(name, role="key") for name in ("model", "dataset", "layer", "head")]
    columns += [Column("image", headline=True), Column("title", headline=True)]
    data = {"model": ["m"], "dataset": ["d"], "layer": [0], "head": [0], "image": [0.5], "title": [0.5]}
    seen = visit(draw_picture([HeadTable("x", columns, data)]).save(tmp_path / "page.html"))
    seen.page.wait_for_selector("canvas")
    box = seen.page.query_selector("canvas").bounding_box()
    shown = ""
    for across in range(0, int(box["width"]), 12):
        for down in range(0, int(box["height"]), 12):
            seen.page.mouse.move(box["x"] + across, box["y"] + down)
            tip = seen.page.query_selector("#vg-tooltip-element.visible")
            shown += tip.inner_html() if tip is not None else ""
    assert "column image" in shown
    assert "column title" in shown
    assert "<img" not in shown
    seen.assert_silent()


def test_a_policy_stops_a_script_that_is_not_ours(visit, tmp_path):
    """The walls stand one behind the other: what got past escaping would still not run."""
    path = draw_picture([tables.of_heads("entropy")]).save(tmp_path / "page.html")
    broken = path.read_text().replace("<main>", "<main><script>document.title = 'taken'</script>")
    path.write_text(broken)
    seen = visit(path)
    seen.page.wait_for_selector("canvas")
    assert seen.page.title() == "heads"
    assert any("Content Security Policy" in line for line in seen.console)
