"""The page of a report: its header, what stands first, and what each cell shows and says."""

import html
import json
import re

import numpy as np
import pytest
import report_tables as tables

from attnprobe.reports.report_page.measures import format_with_error
from attnprobe.reports.report_page.page import write_page
from attnprobe.reports.report_page.report import Contents, sort_tables
from attnprobe.table.naming import LETTERS, find_role_kind

LAYERS, HEADS = 4, 6


@pytest.fixture(scope="module")
def contents():
    return tables.draw_contents(LAYERS, HEADS)


@pytest.fixture(scope="module")
def page(contents):
    return write_page(contents)


def cells(page, figure):
    """Give the cells of a figure by head: the sign inside, and the label."""
    part = page.partition(f'id="{figure}"')[2].partition("</table>")[0]
    found = re.findall(r'data-h="(\d+)"(?: class="[^"]*")? aria-label="([^"]*)">([^<]*)</button>', part)
    return {int(place): (html.unescape(label), sign) for place, label, sign in found}


def test_the_header_has_title_author_and_note(contents):
    assert "<h1><bdi>Attention heads of m</bdi></h1>" in write_page(contents)
    words = {"title": "Heads & <b>tails", "author": "A. \u202eName", "note": "First.\n\nSecond <i>line."}
    page = write_page(tables.draw_contents(LAYERS, HEADS, **words))
    head = page.partition("<main")[0]
    assert "<h1><bdi>Heads &amp; &lt;b&gt;tails</bdi></h1>" in head
    assert "<title>Heads &amp; &lt;b&gt;tails</title>" in head
    assert "Attention heads of <bdi>m</bdi>" in head
    assert "By A. \u27e8202E\u27e9Name" in head
    assert re.findall(r'class="note"><bdi>(.*?)</bdi>', head) == ["First.", "Second &lt;i&gt;line."]


def test_a_cell_has_its_number_and_says_it_in_a_sentence(contents, page):
    table = contents.tables["census"]["census"]
    for number, name in enumerate(tables.MEASURES):
        found = cells(page, f"map-{number}")
        assert len(found) == LAYERS * HEADS
        for place, (label, sign) in found.items():
            value, error = (table.data[column][place] for column in (name, f"{name}_se"))
            layer, head = divmod(place, HEADS)
            said = f"layer {layer}, head {head}: title of {name}, {format_with_error(value, error)}"
            assert label == said
            assert float(sign) == pytest.approx(value, abs=0.00501)


def test_a_role_has_its_letter_and_says_its_evidence(contents, page):
    data = contents.tables["roles"]["roles"].data
    found = cells(page, "roles")
    for place, (label, sign) in found.items():
        role, layer, head = data["role"][place], *divmod(place, HEADS)
        assert sign == LETTERS[find_role_kind(role)]
        words = {"previous": "previous token", "next": "next token"}.get(role, role)
        number = (
            "" if role == "mixed" else f", {format_with_error(data['value'][place], data['value_se'][place])}"
        )
        assert label == f"layer {layer}, head {head}: {words}{number}"


@pytest.mark.parametrize(("scale", "factor"), [(1e-4, "0.0001"), (1.0, ""), (1e5, "1000")])
def test_numbers_of_any_size_fit_into_cells(scale, factor):
    values = np.linspace(1.02, 9.4, LAYERS * HEADS) * scale
    columns = {"entropy": (values.tolist(), (values / 100).tolist())}
    census = tables.make_table("census", tables.number_heads(LAYERS, HEADS), columns)
    page = write_page(Contents(sort_tables({"census": census})))
    found = [sign for _, sign in cells(page, "map-0").values()]
    assert max(map(len, found)) <= 3
    unit = re.search(r"in units of ([^<]*)\.<", page)
    assert (unit[1] if unit else "") == factor
    shown = np.array(found, float) * float(factor or 1)
    np.testing.assert_allclose(shown, values, rtol=0.06)


def test_an_effect_that_may_be_none_has_no_number():
    delta = [0.5, -0.5, 0.01, -0.01]
    keys = {**tables.number_heads(2, 2), "objective": ["x"] * 4, "method": ["ablation"] * 4}
    table = tables.make_table("ablation", keys, {"delta": (delta, [0.1] * 4)})
    page = write_page(Contents(sort_tables({"importance": table})))
    assert [sign for _, sign in cells(page, "map-0").values()] == [".5", "\u2212.5", "", ""]


def test_every_link_of_the_page_leads_somewhere(page):
    ids = re.findall(r' id="([\w-]+)"', page)
    assert len(set(ids)) == len(ids)
    links = set(re.findall(r'href="#([\w-]+)"', page))
    assert len(links) > 8
    assert links <= set(ids)


def test_a_page_of_twelve_by_twelve_stays_light():
    assert len(write_page(tables.draw_contents(12, 12)).encode()) < 1.4e6


def test_the_card_names_the_measure_that_a_role_is_read_off(contents, page):
    """Which is another one than the mean attention that maps show."""
    held = json.loads(re.search(r'id="report-data">(.*?)</script>', page)[1])["roles"]
    data = contents.tables["roles"]["roles"].data
    for place, said in enumerate(held):
        role, value, error = (data[name][place] for name in ("role", "value", "value_se"))
        if role == "mixed":
            assert said == "Role: mixed."
        else:
            number = format_with_error(value, error)
            assert said == f"Role: {role}; offset share {number}, threshold 0.9."


def test_each_map_states_one_finding_and_each_other_table_is_drawn(contents, page):
    values = contents.tables["census"]["census"].data["entropy"]
    layer, head = divmod(int(np.argmax(values)), HEADS)
    caption = re.search(r'id="map-0">\s*<figcaption>(.*?)</figcaption>', page, re.DOTALL)[1]
    assert f"; highest L{layer} H{head}, " in caption
    for section in ("distance", "prune", "correlate"):
        part = page.partition(f'<section id="{section}"')[2].partition("</section>")[0]
        assert 'src="data:image/svg+xml;base64,' in part
