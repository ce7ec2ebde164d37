"""The report in a real browser: one head chosen everywhere, downloads, print, and hostile strings."""

import csv
import io
import re

import numpy as np
import pytest
from test_view import hostile  # noqa: F401 - a fixture

import attnprobe
from attnprobe.reports.report.page import Report
from attnprobe.table.numbers import format_with_error

pytestmark = pytest.mark.slow

TEXTS = ["the river bank was slow .", "a bird ran over the red house", "the dog came late .", "stone"] * 3
WIDTHS = (380, 1400)
#: Each number of the card, by the number of its measure.
NUMBERS = "rows => rows.map(row => [row.dataset.m, row.querySelector('.value').textContent])"


@pytest.fixture(scope="module")
def made(saved):
    options = {"objective": "representation", "out_domain": TEXTS[::-1]}
    return attnprobe.report(saved("bert"), TEXTS, **options)


@pytest.fixture
def opened(visit, tmp_path):
    def open_page(report: Report, **options):
        seen = visit(report.save(tmp_path / "report.html", overwrite=True), **options)
        seen.page.wait_for_function("() => document.documentElement.dataset.chosen !== undefined")
        return seen

    return open_page


def chosen(page, place):
    page.wait_for_function("place => document.documentElement.dataset.chosen === String(place)", arg=place)


def marked(page):
    """Give the heads that are marked, over all charts."""
    return set(page.eval_on_selector_all("[aria-current=true]", "m => m.map(one => one.dataset.h)"))


def test_a_head_chosen_anywhere_is_chosen_everywhere(opened, made):
    seen = opened(made)
    page, census = seen.page, made.tables["census"]
    columns = [
        one for one in census.columns if one.role == "measure" and not np.isnan(census[one.name]).all()
    ]
    grids = page.locator("[data-grid]").count()
    assert grids >= 8  # the atlas, roles, maps of the census and of importance
    for number in range(grids):
        place = (5 * number + 3) % 12
        page.locator("[data-grid]").nth(number).locator(f"[data-h='{place}']").dispatch_event("click")
        chosen(page, place)
        assert marked(page) == {str(place)}
        assert page.locator("[data-grid]:has([aria-current=true])").count() == grids
        assert page.inner_text("#head-title") == f"L{place // 4} H{place % 4}"
        assert made.tables["roles"].data["role"][place] in page.inner_text("#role")
        shown = dict(page.eval_on_selector_all(".numbers tr[data-m]", NUMBERS))
        for which, column in enumerate(columns):
            error = census.data[f"{column.name}_se"][place]
            written = format_with_error(census.data[column.name][place], error)
            assert shown[str(which)] == written, column.name
    assert page.evaluate("location.hash") == f"#head={place // 4}.{place % 4}"
    page.evaluate("location.hash = '#head=2.1'")
    chosen(page, 9)
    page.select_option("#choose", "4")
    chosen(page, 4)
    seen.assert_silent()


def test_the_keyboard_walks_and_a_link_leads_to_a_head(opened, made, visit, tmp_path):
    seen = opened(made)
    page = seen.page
    steps = (("ArrowRight", 1), ("ArrowDown", 5), ("ArrowLeft", 4), ("ArrowUp", 0), ("ArrowUp", 0))
    for section in ("#roles", "#atlas"):
        page.locator(f"{section} [data-h='0']").click()
        chosen(page, 0)
        for key, place in steps:
            page.keyboard.press(key)
            chosen(page, place)
            assert page.evaluate("document.activeElement.dataset.h") == str(place)
        assert page.locator(f"{section} [tabindex='0'][data-h]").count() == 1
    page.locator("#atlas [data-h='7']").focus()
    page.keyboard.press("Enter")
    chosen(page, 7)
    other = visit(f"{(tmp_path / 'report.html').as_uri()}#head=1.2")
    chosen(other.page, 6)
    seen.assert_silent()


def test_a_sentence_shows_where_a_head_looks(opened, made):
    seen = opened(made)
    page = seen.page
    page.select_option("#choose", "7")
    chosen(page, 7)
    first, maps = page.locator(".sentence").first, made.contents.sentences[0].maps[0]
    first.locator(".from button").nth(1).click()
    row = maps.rows[1, 3, 1]
    readout = first.locator(".readout").inner_text()
    best = int(row.argmax())
    assert readout.startswith(f"{maps.queries.labels[1]} looks at {maps.keys.labels[best]} ")
    assert float(readout.split()[4].rstrip(",.")) == pytest.approx(row[best], abs=6e-3)
    assert first.locator("path").count() == (row.round(4) >= 0.02).sum()
    seen.assert_silent()


def test_tables_show_and_download_what_the_commands_write(opened, made, tmp_path):
    seen = opened(made)
    page = seen.page
    for number, (name, table) in enumerate(made.tables.items()):
        details = page.locator(f"details[data-table='{number}']")
        details.locator("summary").click()
        details.locator("table").wait_for()
        assert details.locator("tbody tr").count() == min(400, len(table))
        with page.expect_download() as download:
            details.locator("[data-download]").click()
        download.value.save_as(tmp_path / "got.csv")
        assert download.value.suggested_filename == f"{name}.csv"
        assert (tmp_path / "got.csv").read_text("utf-8") == table.to_csv()
        lines = list(csv.reader(io.StringIO(table.to_csv())))
        assert details.locator("thead th").all_inner_texts() == lines[0]
    page.locator("details[data-table='0'] tbody button").nth(10).click()
    chosen(page, 10)
    seen.opened.clear()
    seen.assert_silent()


@pytest.mark.parametrize("width", WIDTHS)
def test_everyone_can_read_it(opened, made, width):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="no axe: pip install axe-core-python")
    seen = opened(made, viewport={"width": width, "height": 900}, color_scheme="light")
    page = seen.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    page.wait_for_function("() => document.querySelectorAll('.rows').length >= 8")
    # All rows of a table are alike, and each costs axe its time.
    page.evaluate("document.querySelectorAll('tbody tr:nth-child(n + 4)').forEach(row => row.remove())")
    # Of a page in the dark nothing else is other than its colours.
    for scheme, options, least in (("light", {}, 20), ("dark", {"runOnly": ["color-contrast"]}, 0)):
        page.emulate_media(color_scheme=scheme)
        report = axe.Axe().run(page, options=options)
        assert [(scheme, one["id"], one["nodes"][0]["html"]) for one in report["violations"]] == []
        assert len(report["passes"]) > least
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    seen.assert_silent()


def test_hostile_names_tokens_texts_and_tables_are_text(opened, hostile, tmp_path):  # noqa: F811
    texts = [
        "</script><script>alert(1)</script> <b>x</b> {{7*7}} a b c",
        "<img/src=x/onerror=alert(2)> d e f",
    ] * 3
    folder = tmp_path / "tables"
    made = attnprobe.report(hostile, texts, name="<svg onload=alert(7)>", save_tables=folder)
    (folder / "census.csv").rename(folder / "<img src=x onerror=alert(9)>.csv")
    (folder / "census.csv.json").unlink()
    for report in (made, attnprobe.report(from_tables=folder)):
        seen = opened(report)
        page = seen.page
        for summary in page.locator("details summary").all():
            summary.click()
        page.wait_for_timeout(200)
        page.locator("#choose").select_option("5")
        chosen(page, 5)
        assert page.evaluate("document.querySelectorAll('img, b, [onload], iframe').length") == 0
        assert page.evaluate("[...document.scripts].filter(one => !one.type).length") == 1
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00]", page.content())
        assert "<img src=x onerror=alert(6)>" in page.inner_text("h1")
        seen.assert_silent()
