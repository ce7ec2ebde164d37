"""The page of a report: its header, what stands first, and what each cell shows and says."""

import html
import re

import pytest
import report_tables as tables

from attnprobe.reports.report_page.page import write_page
from attnprobe.table.naming import LETTERS, find_role_kind
from attnprobe.table.numbers import format_with_error

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


def test_a_cell_says_its_number_in_a_sentence(contents, page):
    table = contents.tables["census"]["census"]
    for number, name in enumerate(tables.MEASURES):
        found = cells(page, f"map-{number}")
        assert len(found) == LAYERS * HEADS
        for place, (label, _) in found.items():
            value, error = (table.data[column][place] for column in (name, f"{name}_se"))
            layer, head = divmod(place, HEADS)
            said = f"L{layer} H{head}: title of {name}, {format_with_error(value, error)}"
            assert label == said


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
        assert label == f"L{layer} H{head}: {words}{number}"


def test_every_link_of_the_page_leads_somewhere(page):
    ids = re.findall(r' id="([\w-]+)"', page)
    assert len(set(ids)) == len(ids)
    links = set(re.findall(r'href="#([\w-]+)"', page))
    assert len(links) > 8
    assert links <= set(ids)
