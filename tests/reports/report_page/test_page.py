"""The page of a report: its header, what stands first, and what each cell shows and says."""

import html
import re
from dataclasses import replace

import numpy as np
import pytest
import report_tables as tables

from attnprobe.reports.report_page.charts import draw_curve, draw_head_maps, shrink_chart, shrink_grid
from attnprobe.reports.report_page.measures import Heads, collect_heads, format_with_error
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


def test_of_many_heads_the_highest_five_have_their_rank():
    contents = tables.draw_contents(2, 16)
    values = np.array(contents.tables["census"]["census"].data["entropy"])
    page = write_page(contents)
    ranks = {place: sign for place, (_, sign) in cells(page, "map-0").items() if sign}
    order = np.argsort(-values)[:5].tolist()
    assert ranks == {place: str(rank) for rank, place in enumerate(order, start=1)}
    listed = re.search(r'<ol class="best">(.*?)</ol>', page)[1]
    assert re.findall(r"layer (\d+), head (\d+), ", listed) == [
        tuple(map(str, divmod(place, 16))) for place in order
    ]


def test_an_effect_that_may_be_none_has_no_number():
    delta = [0.5, -0.5, 0.01, -0.01]
    keys = {**tables.number_heads(2, 2), "objective": ["x"] * 4, "method": ["ablation"] * 4}
    table = tables.make_table("ablation", keys, {"delta": (delta, [0.1] * 4)})
    page = write_page(Contents(sort_tables({"importance": table})))
    assert [sign for _, sign in cells(page, "map-0").values()] == [".5", "\u2212.5", "", ""]


def test_without_roles_maps_come_first(contents):
    found = {name: table for name, table in contents.every.items() if name != "roles"}
    page = write_page(Contents(sort_tables(found)))
    sections = re.findall(r'<section id="(\w+)"', page)
    assert sections[:3] == ["findings", "maps", "card"]
    assert re.findall(r'<section id="(\w+)"', write_page(contents))[:4] == [
        "findings",
        "roles",
        "maps",
        "card",
    ]


def test_every_link_of_the_page_leads_somewhere(page):
    ids = re.findall(r' id="([\w-]+)"', page)
    assert len(set(ids)) == len(ids)
    links = set(re.findall(r'href="#([\w-]+)"', page))
    assert len(links) > 10
    assert links <= set(ids)


def test_a_thumbnail_frames_its_head_in_its_own_grid():
    heads = Heads([("encoder", 0, 0), ("encoder", 0, 1), ("cross", 2, 0), ("cross", 2, 3), ("cross", 5, 3)])
    drawn = shrink_grid(heads, ["v1", "v2", "v3", "v3", ""], 3)
    assert drawn.box == "-2 -2 23 23"
    assert dict(drawn.paths) == {
        "v3": "M0 0h9v9h-9zM10 0h9v9h-9z",
        "none": "M10 10h9v9h-9z",
        "chosen": "M10 0h9v9h-9z",
    }


def test_a_map_of_heads_says_the_nearest_and_the_layer_of_each():
    table = tables.draw_distances(np.random.default_rng(4), 11, 3)
    heads = collect_heads({"distance": table})
    (chart,) = draw_head_maps(heads, table)
    matrix = np.full((33, 33), np.inf)
    for row, jsd in enumerate(table.data["jsd"]):
        one, other = (table.data[f"layer_{side}"][row] * 3 + table.data[f"head_{side}"][row] for side in "ab")
        matrix[one, other] = matrix[other, one] = np.sqrt(jsd)
    for point in chart.points:
        near = re.search(r"nearest to layer (\d+), head (\d+), distance (\S+)", point.label)
        assert int(near[1]) * 3 + int(near[2]) == matrix[point.head].argmin()
        assert float(near[3]) == pytest.approx(matrix[point.head].min(), rel=1e-3)
    digits = [one for _, x, y, text in chart.digits for one in zip(x.split(), y.split(), text, strict=True)]
    for point in chart.points:
        mine = [
            (float(x), digit)
            for x, y, digit in digits
            if abs(float(x) - point.x) < 4 and abs(float(y) - point.y) < 4
        ]
        assert str(heads.every[point.head][1]) in "".join(digit for _, digit in sorted(mine))
    small = shrink_chart(chart, {3})
    ((_, dot),) = [path for path in small.paths if "chosen" in path[0]]
    assert dot == f"M{chart.points[3].x:g} {chart.points[3].y:g}h0"
    assert not [one for one in draw_head_maps(heads, table) if one.digits == ()]


def test_the_worst_score_is_that_of_the_whole_less_the_bound():
    table = tables.draw_removal(np.random.default_rng(5), 2, 5)
    chart = draw_curve(table)
    lines = {line.kind: line.path for line in chart.lines}
    assert "bound" in lines
    ticks = [(tick.place, float(tick.label)) for tick in chart.y]
    (low, first), (high, last) = ticks[0], ticks[-1]

    def read(path):
        places = np.array([float(one.split()[1]) for one in re.split("[ML]", path)[1:]])
        return first + (places - low) / (high - low) * (last - first)

    scores = np.array(table.data["score"][:11])
    np.testing.assert_allclose(read(lines["criterion"]), scores, atol=2e-3)
    worst = scores[0] - np.array(table.data["bound"][1:11])
    np.testing.assert_allclose(read(lines["bound"]), worst, atol=2e-3)


def test_a_page_of_twelve_by_twelve_stays_light():
    assert len(write_page(tables.draw_contents(12, 12)).encode()) < 1.1e6


def test_a_heading_without_a_finding_is_a_name():
    contents = tables.draw_contents(LAYERS, HEADS)
    table = contents.tables["roles"]["roles"]
    plain = replace(table, data={**table.data, "role": ["mixed"] * len(table)})
    rest = {**contents.tables, "roles": {"roles": plain}}
    assert '<h2 id="roles-title">Roles</h2>' in write_page(replace(contents, tables=rest))
