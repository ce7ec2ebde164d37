"""The page of a report: what each cell of its pictures shows and says, and where its links lead."""

import re
from xml.etree import ElementTree

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.attention.kinds import Kind
from attnprobe.reports.report.contents import Contents, sort_tables
from attnprobe.reports.report.page import draw_tables, write_page
from attnprobe.reports.report.summary import collect_heads
from attnprobe.table.sequence import Maps, SequenceAttention, Side

LAYERS, HEADS = tables.LAYERS, tables.HEADS
MEASURES = ("entropy", "previous", "next", "separator", "punctuation", "jsd_mean")


def make_sentence(tokens=24):
    labels = tuple(f"token{place}" for place in range(tokens))
    side = Side(labels, labels, np.zeros(tokens, bool))
    rows = tables.DRAW.dirichlet(np.ones(tokens) * 0.3, (LAYERS, HEADS, tokens)).astype(np.float32)
    maps = Maps(Kind.ENCODER, tuple(range(LAYERS)), rows, side, side, np.ones((LAYERS, HEADS), bool))
    return SequenceAttention("m", (" ".join(labels),), (maps,))


@pytest.fixture(scope="module")
def contents():
    """Give the contents of a page with every section that needs no gold links."""
    importance = {**tables.named(12), "objective": ["classification"] * 12, **tables.places()}
    sections = {
        "census": tables.of_heads(*MEASURES),
        "roles": tables.roles(),
        "importance": tables.table("importance", importance, importance=tables.numbers(12)),
        "distance": tables.all_pairs(),
        "prune": tables.pruning(),
        "correlate": tables.correlation(),
        "correlate_by_head": tables.correlated(),
    }
    return Contents(sort_tables(sections), [make_sentence()], "Chosen at random.", "attnprobe report m")


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
    assert panels.keys() == {name.replace("_", " ") for name in MEASURES}
    for name in MEASURES:
        marks = panels[name.replace("_", " ")]
        assert marks.keys() == set(range(LAYERS * HEADS))
        for place, label in marks.items():
            head, value, error = re.fullmatch(r"(L\d+ H\d+): (\S+) \u00b1 (\S+)", label).groups()
            assert head == f"L{place // HEADS} H{place % HEADS}"
            assert float(value) == pytest.approx(table.data[name][place], abs=1e-4)
            assert float(error) == pytest.approx(table.data[f"{name}_se"][place], rel=0.06)


def test_a_head_says_its_role(contents, page):
    data = contents.tables["roles"]["roles"].data
    (marks,) = read_marks(page, "roles").values()
    assert marks.keys() == set(range(LAYERS * HEADS))
    for place, label in marks.items():
        assert label.startswith(f"L{place // HEADS} H{place % HEADS}: {data['role'][place]}")


def test_heads_of_two_kinds_of_attention_are_told_apart():
    keys = {"attention": ["encoder"] * 3 + ["decoder"] * 3, "layer": [0] * 6, "head": [0, 1, 2] * 2}
    values = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    table = tables.table("census of heads", {**tables.named(6), **keys}, entropy=values)
    heads = collect_heads({"census": table})
    (svg,) = draw_tables(heads, {"census": table})
    marks = ElementTree.fromstring(svg).iterfind(".//*[@data-h]")
    labels = {int(mark.get("data-h")): mark.get("aria-label") for mark in marks}
    names = [f"{kind} L0 H{head}" for kind, head in zip(keys["attention"], keys["head"], strict=True)]
    numbers = dict(zip(names, values, strict=True))
    assert labels == {place: f"{name}: {numbers[name]}" for place, name in enumerate(heads.names)}


def test_every_link_of_the_page_leads_somewhere(page):
    ids = re.findall(r' id="([\w-]+)"', page)
    assert len(set(ids)) == len(ids)
    links = set(re.findall(r'href="#([\w-]+)"', page))
    assert len(links) > 8
    assert links <= set(ids)
