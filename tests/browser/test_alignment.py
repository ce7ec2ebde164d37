"""A gold alignment on the page of two texts: where its marks lie, and that its words are what loops find."""

import numpy as np
import pytest
from chromium import drawn

import attnprobe
from attnprobe.table.sequence import group_tokens

pytestmark = pytest.mark.slow

TEXT, TARGET = "the dog ran slowly", "by night it rained"
LINE, SURE, POSSIBLE = "0-1 3-2 2p0", {(0, 1), (3, 2)}, {(2, 0)}
ORDER = ("sure link, hit", "sure link, missed", "possible link, hit", "possible link, missed")
READS = "where the decoder reads a word"
GIVEN = {"t5": {"target": TARGET}, "bert": {"text_pair": TARGET}}


@pytest.fixture
def opened(visit, saved, tmp_path):
    """Open the page of two texts, and give it with the maps that are aligned."""

    def open_page(name, **options):
        view = attnprobe.view(saved(name), TEXT, alignment=LINE, **GIVEN[name])
        seen = visit(view.save(tmp_path / "view.html", overwrite=True), **options)
        drawn(seen.page)
        return seen, next(one for one in view.sequence.maps if one.alignment is not None)

    return open_page


def choose(page, layer, head):
    page.locator(f"#grid tbody tr:nth-child({layer + 1}) td:nth-of-type({head + 1}) button").click()
    drawn(page, layer=layer, head=head)


def find_by_loops(maps, layer, head):
    """Find what a head hits: {(row, column): (asker, answer, sure, hit)} by words, as the page shows them."""
    sides = maps.queries.word_labels, maps.keys.word_labels
    rows = group_tokens(maps.rows[layer, head].astype(float), maps.queries.words, maps.keys.words)
    text, target, shown = TEXT.split(), TARGET.split(), {}
    ways = [(target, text, True)]
    if maps.queries is maps.keys:
        ways.append((text, target, False))
    for asking, answering, is_reversed in ways:
        places = [sides[1].index(word) for word in answering]
        for link in SURE | POSSIBLE:
            a, b = link[::-1] if is_reversed else link
            row = sides[0].index(asking[a])
            hit = max(range(len(places)), key=lambda word: rows[row, places[word]]) == b
            shown[row, places[b]] = (asking[a], answering[b], link in SURE, hit)
    return shown


def name_kind(sure, hit):
    return f"{'sure' if sure else 'possible'} link, {'hit' if hit else 'missed'}"


@pytest.mark.parametrize("name", ["t5", "bert"])
def test_words_and_squares_of_every_head_are_what_loops_find(opened, name):
    """Heavy squares are hits, thin ones misses, dashed ones possible links; sentences say the same."""
    (seen, maps), kinds = opened(name), set()
    page = seen.page
    canvas = page.locator(".map canvas").bounding_box()
    cell = canvas["width"] / len(maps.keys.word_labels)
    for layer, head in np.ndindex(2, 3):
        choose(page, layer, head)
        expected, shown = find_by_loops(maps, layer, head), {}
        for mark in page.locator(".map .gold").all():
            box = mark.bounding_box()
            row = int((box["y"] + box["height"] / 2 - canvas["y"]) / cell)
            column = int((box["x"] + box["width"] / 2 - canvas["x"]) / cell)
            dashed = mark.get_attribute("stroke-dasharray") != "none"
            shown[row, column] = (not dashed, float(mark.get_attribute("stroke-width")) > 2)
        assert shown == {place: kind for place, (_, _, *kind) in expected.items() for kind in [tuple(kind)]}
        there = {name_kind(sure, hit) for _, _, sure, hit in expected.values()}
        assert page.locator("#legend li").all_inner_texts() == [one for one in ORDER if one in there]
        sentences = page.text_content("#links-said")
        for asker, answer, sure, hit in expected.values():
            assert f"{name_kind(sure, hit)}: \u201c{asker}\u201d to \u201c{answer}\u201d" in sentences
        assert sentences.count(" to \u201c") == len(expected)
        kinds |= there
        hits = [way.hits[layer, head] for way in maps.alignment.directions]
        by_text = [
            sum(s and h for asker, _, s, h in expected.values() if (asker in TEXT.split()) == first)
            for first in ([False] if name == "t5" else [False, True])
        ]
        assert hits[-len(by_text) :] == by_text
        finding = page.inner_text("#finding")
        for way in maps.alignment.directions:
            error = way.rates[layer, head, 0]
            assert f"{way.hits[layer, head]:.0f} of 2 sure links (AER {error:.2f}) {way.name}" in finding
        assert f" finds {max(hits):.0f} of 2 sure links " in finding
        assert any(finding.endswith(f"{way.name}.") for way in maps.alignment.directions)
    assert len(kinds) > 2
    assert "the largest attention of its word within the other text" in page.inner_text("#hit")
    assert (READS in page.inner_text("#hit")) == (name == "t5")
    seen.assert_silent()


def test_cells_tables_and_bands_say_which_link_it_is(opened):
    (seen, maps), (layer, head) = opened("t5"), (1, 0)
    page = seen.page
    choose(page, layer, head)
    canvas = page.locator(".map canvas").bounding_box()
    cell = canvas["width"] / len(maps.keys.word_labels)
    expected = find_by_loops(maps, layer, head)
    for (row, column), (*_, sure, hit) in expected.items():
        page.mouse.move(canvas["x"] + (column + 0.5) * cell, canvas["y"] + (row + 0.5) * cell)
        assert page.inner_text("#readout").endswith(f", {name_kind(sure, hit)}")
    page.select_option("#from", str(min(expected)[0]))
    assert sum("link" in row for row in page.locator("#ranking tbody tr").all_inner_texts()) == 1
    page.check("input[name=draw][value=lines]")
    drawn(page, draw="lines")
    bands = page.locator("#drawing path[stroke='#d95f0e']").all()
    looks = [[band.get_attribute(f"stroke-{name}") for name in ("dasharray", "width")] for band in bands]
    shown = [(dash == "none", float(width) > 6) for dash, width in looks]
    assert sorted(shown) == sorted((sure, hit) for *_, sure, hit in expected.values())
    page.check("input[name=kind][value='0']")
    drawn(page, kind=0)
    assert page.is_hidden("#gold")
    seen.assert_silent()
