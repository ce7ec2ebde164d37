"""The page of a report: its header, what stands first, and what each cell shows and says."""

import re
from xml.etree import ElementTree

import pytest
import report_tables as tables

from attnprobe.reports.report.page import draw_tables, write_page
from attnprobe.reports.report.summary import collect_heads

LAYERS, HEADS = 4, 6


@pytest.fixture(scope="module")
def contents():
    return tables.draw_contents(LAYERS, HEADS)


@pytest.fixture(scope="module")
def page(contents):
    return write_page(contents)


def read_marks(page, section):
    """Read the labels of the heads in each panel of the pictures of a section, by head."""
    part = page.partition(f'<section id="{section}"')[2].partition("</section>")[0]
    panels = {}
    for svg in re.findall(r"<svg .*?</svg>", part, re.DOTALL):
        for panel in ElementTree.fromstring(svg).iterfind(".//*[@data-grid]"):
            marks = {
                int(mark.get("data-h")): mark.get("aria-label") for mark in panel.iterfind(".//*[@data-h]")
            }
            panels[panel.get("aria-label")] = marks
    return panels


def test_a_head_of_a_map_says_its_number(contents, page):
    table, panels = contents.tables["census"]["census"], read_marks(page, "census")
    assert panels.keys() == {f"title of {name}" for name in tables.MEASURES}
    for name in tables.MEASURES:
        marks = panels[f"title of {name}"]
        assert marks.keys() == set(range(LAYERS * HEADS))
        for place, label in marks.items():
            head, value, error = re.fullmatch(r"(L\d+ H\d+): (\S+) \u00b1 (\S+)", label).groups()
            assert head == f"L{place // HEADS} H{place % HEADS}"
            assert float(value) == pytest.approx(table.data[name][place], abs=1e-4)
            assert float(error) == pytest.approx(table.data[f"{name}_se"][place], abs=1e-4)


def test_a_head_says_its_role(contents, page):
    data = contents.tables["roles"]["roles"].data
    (marks,) = read_marks(page, "roles").values()
    assert marks.keys() == set(range(LAYERS * HEADS))
    for place, label in marks.items():
        assert label.startswith(f"L{place // HEADS} H{place % HEADS}: {data['role'][place]}")


def test_heads_of_two_kinds_of_attention_are_told_apart():
    one = tables.number_heads(1, 3)
    keys = {
        "attention": ["encoder"] * 3 + ["decoder"] * 3,
        **{name: cells * 2 for name, cells in one.items()},
    }
    table = tables.make_table("census of heads", keys, {"entropy": ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], None)})
    heads = collect_heads({"census": table})
    (svg,) = draw_tables(heads, {"census": table})
    marks = ElementTree.fromstring(svg).iterfind(".//*[@data-h]")
    labels = {int(mark.get("data-h")): mark.get("aria-label") for mark in marks}
    numbers = dict(
        zip(
            [f"{kind} L0 H{head}" for kind, head in zip(keys["attention"], keys["head"], strict=True)],
            table.data["entropy"],
            strict=True,
        )
    )
    assert labels == {place: f"{name}: {numbers[name]}" for place, name in enumerate(heads.names)}


def test_every_link_of_the_page_leads_somewhere(page):
    ids = re.findall(r' id="([\w-]+)"', page)
    assert len(set(ids)) == len(ids)
    links = set(re.findall(r'href="#([\w-]+)"', page))
    assert len(links) > 8
    assert links <= set(ids)
