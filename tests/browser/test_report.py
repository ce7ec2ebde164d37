"""The report in a real browser: one head chosen everywhere, downloads, print, and hostile strings."""

import csv
import io
import re

import numpy as np
import pytest
import report_tables as tables
from test_view import hostile  # noqa: F401 - a fixture

import attnprobe
from attnprobe.reports.report_page.measures import format_number, format_with_error
from attnprobe.reports.report_page.page import write_page
from attnprobe.reports.report_page.report import Report
from attnprobe.reports.report_page.text import MEANINGS
from attnprobe.table.naming import find_role_kind

pytestmark = pytest.mark.slow

TEXTS = ["the river bank was slow .", "a bird ran over the red house", "the dog came late .", "stone"] * 3
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
WIDTHS = (380, 1000, 1400)
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
    assert grids >= 9  # roles, maps of the census and of importance, the map of heads, the scatter
    for number in range(grids):
        place = (5 * number + 3) % 12
        page.locator("[data-grid]").nth(number).locator(f"[data-h='{place}']").dispatch_event("click")
        chosen(page, place)
        assert marked(page) == {str(place)}
        assert page.locator("[data-grid] [aria-current=true]").count() == grids
        assert page.inner_text("#head-title") == f"Layer {place // 4}, head {place % 4}"
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


def test_the_card_says_what_a_role_means_and_how_much_the_head_matters(opened, made):
    seen = opened(made)
    page, table, roles = seen.page, made.tables["importance"], made.tables["roles"]
    order = sorted(table.data["importance"], reverse=True)
    for place in (0, 7, 11):
        page.select_option("#choose", str(place))
        chosen(page, place)
        value, error = (table.data[name][place] for name in ("importance", "importance_se"))
        assert page.inner_text("#importance") == (
            f"Importance for representation, by gradient: {format_with_error(value, error)}, "
            f"rank {order.index(value) + 1} of 12."
        )
        said = page.inner_text("#role")
        if roles.data["measure"][place] is None:
            assert said.startswith("Role: mixed.")
            near, value = (roles.data[name][place] for name in ("nearest", "nearest_value"))
            assert f" The nearest is {near}: " in said
            beyond = value > roles.data["nearest_threshold"][place]
            limit = "not significantly beyond the threshold" if beyond else "where the threshold is"
            assert f", {format_number(value)}, {limit} " in said
        else:
            assert f"(it {MEANINGS[find_role_kind(roles.data['role'][place])]}). Evidence: " in said
            assert format_with_error(roles.data["value"][place], roles.data["value_se"][place]) in said
        assert f"Pattern of its maps: {roles.data['pattern'][place]}." in said
    seen.assert_silent()


def test_on_a_phone_every_number_of_the_card_is_in_sight(opened, made):
    seen = opened(made, **PHONE)
    seen.page.locator("#card details summary").click()
    wide = "tables => tables.filter(one => one.scrollWidth > one.parentElement.clientWidth).length"
    assert seen.page.eval_on_selector_all(".numbers", wide) == 0
    for one in seen.page.locator(".numbers .ticks").all():
        assert one.is_hidden()  # what is not there is not spoken of
    cut = "cells => cells.filter(one => one.scrollWidth > one.clientWidth + 1).length"
    assert seen.page.eval_on_selector_all(".numbers td.value, .numbers td.rank", cut) == 0
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
    first, maps = page.locator(".sentence").first, made.contents.seen[0].maps[0]
    first.locator(".from button").nth(1).click()
    row = maps.rows[1, 3, 1]
    said = first.locator(".readout").inner_text()
    best = int(row.argmax())
    assert said.startswith(f"{maps.queries.labels[1]} looks at {maps.keys.labels[best]} ")
    assert float(said.split()[4].rstrip(",.")) == pytest.approx(row[best], abs=6e-3)
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
    page.wait_for_function("() => document.querySelectorAll('.rows').length > 12")
    # All rows of a table are alike, and each costs axe its time.
    page.evaluate("document.querySelectorAll('tbody tr:nth-child(n + 4)').forEach(row => row.remove())")
    # Of a page in the dark nothing else is other than its colours.
    for scheme, options, least in (("light", {}, 20), ("dark", {"runOnly": ["color-contrast"]}, 0)):
        page.emulate_media(color_scheme=scheme)
        found = axe.Axe().run(page, options=options)
        assert [(scheme, one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []
        assert len(found["passes"]) > least
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    seen.assert_silent()


@pytest.mark.parametrize("width", WIDTHS[1:])
@pytest.mark.parametrize("shape", [(6, 12), (12, 12)])
def test_the_first_screen_has_the_findings_and_the_first_picture(visit, tmp_path, shape, width):
    path = draw_page(tmp_path, *shape, title="A title", author="Me", note="One line that says what this is.")
    seen = visit(path, viewport={"width": width, "height": 900})
    page = seen.page
    boxes = [one.bounding_box() for one in page.locator(".highlights a").all()]
    assert 3 <= len(boxes) <= 5
    assert max(box["y"] + box["height"] for box in boxes) < 700
    assert len({box["y"] for box in boxes}) == 1
    assert page.locator("[data-grid]").first.bounding_box()["y"] < 850
    clipped = "marks => marks.filter(one => one.scrollWidth > one.clientWidth + 1).length"
    assert page.eval_on_selector_all(".highlights a, .highlights span", clipped) == 0
    lefts = {round(page.locator(f"#{one}").bounding_box()["x"]) for one in ("roles", "card", "maps")}
    assert len(lefts) == (2 if width >= 1200 else 1)
    seen.assert_silent()


def test_a_finding_leads_to_its_section_and_chooses_its_head(visit, tmp_path):
    seen = visit(draw_page(tmp_path, 4, 6), viewport={"width": 1400, "height": 900})
    page = seen.page
    page.wait_for_selector("html[data-chosen]")
    links = page.locator(".highlights a").all()
    assert len({one.get_attribute("href") for one in links}) > 2
    for link in links:
        target, head = link.get_attribute("href"), link.get_attribute("data-h")
        link.focus()
        page.keyboard.press("Enter")
        page.wait_for_function("target => location.hash === target", arg=target)
        top = page.locator(target).bounding_box()["y"]
        assert -1 <= top < 900
        if head is not None:
            chosen(page, head)
            assert {
                *page.eval_on_selector_all(f"{target} [aria-current]", "m => m.map(one => one.dataset.h)")
            } == {head}
    seen.assert_silent()


def test_a_table_is_sorted_and_filtered_by_the_keyboard(opened, made):
    seen = opened(made)
    page, census = seen.page, made.tables["census"]
    box = page.locator("details[data-table='0']")
    box.locator("summary").press("Enter")
    box.locator("tbody tr").first.wait_for()
    names, values = [one.name for one in census.columns], np.array(census.data["entropy"], float)
    head = box.locator("th").nth(names.index("entropy"))
    assert head.get_attribute("aria-sort") == "none"

    def read(name):
        cells = box.locator(f"tbody td:nth-child({names.index(name) + 1})").all_inner_texts()
        return [float(one) for one in cells]

    for order, said in (("descending", "highest first"), ("ascending", "lowest first")):
        head.locator("button").press("Enter")
        assert head.get_attribute("aria-sort") == order
        assert page.locator("[aria-sort=ascending], [aria-sort=descending]").count() == 1
        assert box.locator("[role=status]").inner_text() == f"Sorted by entropy, {said}. 12 rows."
        expected = np.sort(values)[:: -1 if order == "descending" else 1]
        assert read("entropy") == [float(format_number(one)) for one in expected]
    filtering = box.locator("input")
    middle = float(np.median(values))
    for words, kept in {
        f"entropy>{middle}": values > middle,
        f"layer=1, entropy<={middle}": (values <= middle) & (np.arange(12) // 4 == 1),
        "no such words": np.zeros(12, bool),
        "": np.ones(12, bool),
    }.items():
        filtering.fill(words)
        rows = [
            int(one) for one in box.locator("tbody tr").evaluate_all("rows => rows.map(r => r.dataset.h)")
        ]
        assert sorted(rows) == np.flatnonzero(kept).tolist()
        number = "12" if kept.all() else f"{kept.sum()} of 12"
        assert box.locator("[role=status]").inner_text() == f"{number} rows."
    page.locator("#roles [data-h='7']").click()
    assert box.locator("tr[aria-current=true]").get_attribute("data-h") == "7"
    seen.assert_silent()


def test_the_numbers_of_a_map_are_under_it(opened, made):
    seen = opened(made)
    values = made.tables["census"].data["previous"]
    number = [one.name for one in made.tables["census"].columns if one.role == "measure"].index("previous")
    box = seen.page.locator(f"#map-{number} details")
    box.locator("summary").click()
    box.locator("tbody tr").first.wait_for()
    assert box.locator("thead th").all_inner_texts() == ["layer", "head", "previous", "previous_se"]
    rows = box.locator("tbody tr").evaluate_all("rows => rows.map(row => Number(row.dataset.h))")
    assert [values[row] for row in rows] == sorted(values, reverse=True)
    assert "Sorted by previous, highest first" in box.locator("[role=status]").inner_text()
    seen.assert_silent()


def test_every_mark_is_announced_and_every_grid_is_one_stop_of_the_tab_key(opened, made):
    seen = opened(made)
    marks = seen.page.eval_on_selector_all(
        "[data-grid] [data-h]", "m => m.map(o => o.getAttribute('aria-label'))"
    )
    assert len(marks) > 100
    for one in marks:
        assert re.fullmatch(r"layer \d, head \d: \S.*", one), one
    stops = "grids => grids.map(one => one.querySelectorAll('[tabindex=\"0\"]').length)"
    assert set(seen.page.eval_on_selector_all("[data-grid]", stops)) == {1}
    seen.assert_silent()


@pytest.mark.parametrize("shape", [(6, 12), (12, 12)])
def test_it_is_printed_on_eight_pages_at_most(visit, tmp_path, shape):
    seen = visit(draw_page(tmp_path, *shape, note="A note. " * 40))
    seen.page.wait_for_selector("html[data-chosen]")
    seen.page.wait_for_selector(".sentence path", state="attached")
    pages = re.findall(rb"/Type\s*/Page\b", seen.page.pdf(format="A4", prefer_css_page_size=True))
    assert 2 < len(pages) <= 8
    seen.assert_silent()


def draw_page(folder, layers, heads, **words):
    path = folder / "drawn.html"
    path.write_text(write_page(tables.draw_contents(layers, heads, **words)), encoding="utf-8")
    return path


def test_on_paper_no_chart_is_cut(opened, made):
    """A page of A4 has 180 mm between its margins; nothing is wider, and nothing hides a part."""
    seen = opened(made, color_scheme="dark", viewport={"width": 680, "height": 960})
    seen.page.emulate_media(media="print", color_scheme="dark")
    page = seen.page
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator(".bar").is_hidden()
    cut = page.evaluate(
        "() => [...document.querySelectorAll('.chart, .grid, .lines, .numbers')].filter(one => {"
        " if (one.closest('details:not([open])')) return false;"
        " const box = one.getBoundingClientRect();"
        " return box.width === 0 || box.right > innerWidth || box.height > 960"
        " && getComputedStyle(one).breakInside === 'avoid'; }).map(one => one.outerHTML.slice(0, 80))"
    )
    assert cut == []
    assert {
        *page.eval_on_selector_all(".chart, .grid", "c => c.map(one => getComputedStyle(one).breakInside)")
    } == {"avoid"}
    assert page.evaluate("document.documentElement.scrollWidth") <= 680


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
        assert (
            page.evaluate("document.images.length + document.querySelectorAll('b, [onload], iframe').length")
            == 0
        )
        assert page.evaluate("[...document.scripts].filter(one => !one.type).length") == 1
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00]", page.content())
        assert "<img src=x onerror=alert(6)>" in page.inner_text("h1")
        seen.assert_silent()


def test_a_notebook_shows_it_in_a_frame(visit, made, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><title>x</title>{made._repr_html_()}", encoding="utf-8")
    seen = visit(path)
    inside = seen.page.frames[1]
    inside.wait_for_function("() => document.documentElement.dataset.chosen !== undefined")
    assert inside.evaluate("origin") == "null"
    seen.assert_silent()


@pytest.mark.parametrize("shape", [(6, 12), (12, 12)])
def test_both_columns_of_a_wide_screen_are_filled(visit, tmp_path, shape):
    """Similar heads stand under the card: neither column ends more than a screen before the other."""
    seen = visit(draw_page(tmp_path, *shape), viewport={"width": 1400, "height": 900})
    boxes = {
        name: seen.page.locator(f"#{name}").bounding_box() for name in ("roles", "maps", "card", "distance")
    }
    ends = {name: box["y"] + box["height"] for name, box in boxes.items()}
    assert boxes["roles"]["x"] == boxes["maps"]["x"] < boxes["card"]["x"] == boxes["distance"]["x"]
    assert boxes["distance"]["y"] > ends["card"]
    assert abs(ends["maps"] - ends["distance"]) < 900
    seen.assert_silent()


def test_the_atlas_is_headed_by_what_its_roles_bear_out(opened, made):
    page = opened(made).page
    roles = list(made.tables["roles"].data["role"])
    near = sum(role in ("previous", "next") for role in roles)
    named = near or sum(role != "mixed" for role in roles)
    heading = page.inner_text("#atlas-title")
    if not named:
        assert heading == "What each head looks at"
        return
    assert heading.startswith(f"What each head looks at: {named} of {len(roles)} heads ")
    assert ("look at a neighbour" in heading.replace("looks", "look")) == bool(near)
