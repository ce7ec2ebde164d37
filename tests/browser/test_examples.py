"""Examples on the page of a sentence: what they say, how they open, with a mouse and with the keyboard."""

import numpy as np
import pytest
from chromium import drawn

import attnprobe
from attnprobe.reports.view import View

pytestmark = pytest.mark.slow

TEXT = "The walker came late , by night"
WORDS = [
    "the dog ran",
    "a red bird came late",
    "the river bank was slow .",
    "walker",
    "over the house by night",
]
TEXTS = [f"{one} {other} by the river bank" for one in WORDS for other in WORDS]


@pytest.fixture(scope="module")
def searched(saved):
    """Search for three examples of either end."""
    return attnprobe.view(saved("bert"), TEXT, layer=1, head=2, examples=3, texts=TEXTS)


@pytest.fixture
def opened(visit, tmp_path):
    def open_page(view: View, **options):
        seen = visit(view.save(tmp_path / "view.html", overwrite=True), **options)
        drawn(seen.page)
        seen.page.locator(".example").first.wait_for()
        return seen

    return open_page


def read_map(page, tokens):
    """Read the numbers of the map that is shown off the page, a token after the other."""
    found = np.zeros((tokens, tokens))
    for query in range(tokens):
        page.select_option("#from", str(query))
        for row in page.locator("#ranking tbody tr").all_inner_texts():
            place, *_, share = row.split("\t")
            found[query, int(place) - 1] = float(share)
    return found


def test_an_example_opens_in_the_place_of_the_sentence(opened, searched):
    seen, found = opened(searched), searched.examples
    page, every = seen.page, [*found.most, *found.least]
    assert page.locator(".example .score").all_inner_texts() == [f"{one.score:.4f}" for one in every]
    assert f"{found.mean:.4g} on average over {found.sentences} texts" in page.inner_text("#examples-note")
    assert page.locator("#opened").is_hidden()
    for number in (1, 4):
        page.locator(".example").nth(number).click()
        drawn(page, example=number)
        one, end = every[number], "most" if number < 3 else "least"
        assert (
            page.inner_text("#title")
            == f"Layer 1, head 2, example {number % 3 + 1} of 3 where it is {end} itself"
        )
        said = f"score {one.score:.4f}, text {one.place} of the data."
        assert said in page.inner_text("#opened-said")
        labels = page.locator("#from option").all_inner_texts()[1:]
        assert [label.split("  ")[1] for label in labels] == list(one.queries.labels)
        shown = read_map(page, len(labels))
        np.testing.assert_allclose(shown, np.where(shown > 0, one.rows, 0), atol=5.1e-5)
        np.testing.assert_allclose(  # a table of numbers has ten
            np.sort(shown, 1)[:, -10:], np.sort(one.rows, 1)[:, -10:], atol=5.1e-5
        )
        assert page.locator(".example[aria-pressed=true]").count() == 1
    page.click("#back")
    drawn(page, example=None)
    assert page.inner_text("#title") == "Layer 1, head 2"
    assert page.evaluate("document.activeElement.className") == "example"
    assert page.locator("#from option").count() == len(searched.tokens["encoder"][0]) + 1
    seen.assert_silent()


def test_the_colour_and_the_bar_of_a_token_are_what_it_adds(opened, searched):
    seen, found = opened(searched), searched.examples
    for number, one in enumerate((*found.most, *found.least)):
        plain = ~one.queries.special
        shares = seen.page.eval_on_selector_all(
            f".example >> nth={number} >> .piece", "all => all.map(p => +p.style.getPropertyValue('--share'))"
        )
        np.testing.assert_allclose(shares, np.nan_to_num(one.values[plain]).clip(0), atol=6e-4)
        query, key = np.unravel_index(np.where(np.outer(plain, plain), one.rows, -1).argmax(), one.rows.shape)
        label = seen.page.locator(".example").nth(number).get_attribute("aria-label")
        pair = f"{one.queries.labels[query]} to {one.keys.labels[key]}, {one.rows[query, key]:.2f}"
        assert label.startswith(f"Score {one.score:.4f}: ")
        assert label.endswith(f"Strongest: {pair}.")
    seen.assert_silent()


def test_another_head_closes_the_example(opened, searched):
    seen = opened(searched, viewport={"width": 1400, "height": 900})
    page = seen.page
    page.click("#pin")
    page.locator(".example").first.click()
    drawn(page, example=0)
    page.locator("#pinned").wait_for(state="hidden")  # it has other tokens
    assert page.locator("#pin").is_hidden()
    for draw in ("map", "text", "lines"):
        page.check(f"input[value={draw}]")
        drawn(page, draw=draw, example=0)
    page.check("#words")
    drawn(page, words=True, example=0)
    page.locator("#grid button").first.click()
    drawn(page, layer=0, head=0, example=None)
    assert page.locator("#opened").is_hidden()
    assert page.locator(".example[aria-pressed=true]").count() == 0
    page.locator(".example").nth(5).click()  # of the head that it is about
    drawn(page, layer=1, head=2, example=5)
    seen.assert_silent()


def test_the_keyboard_walks_and_opens(opened, searched):
    seen = opened(searched, viewport={"width": 380, "height": 800})
    page = seen.page
    page.locator(".example").first.focus()
    for key, number in (("ArrowDown", 1), ("End", 2), ("ArrowDown", 2), ("Home", 0), ("ArrowDown", 1)):
        page.keyboard.press(key)
        assert (
            page.evaluate("[...document.querySelectorAll('.example')].indexOf(document.activeElement)")
            == number
        )
    assert page.locator(".example[tabindex='0']").count() == 2  # one for each list
    page.keyboard.press("Enter")
    drawn(page, example=1)
    assert page.evaluate("[...document.querySelectorAll('.example')].indexOf(document.activeElement)") == 1
    page.keyboard.press("Enter")
    drawn(page, example=None)
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    seen.assert_silent()


def test_a_page_without_examples_has_no_room_for_them(visit, saved, tmp_path):
    seen = visit(attnprobe.view(saved("bert"), TEXT).save(tmp_path / "view.html"))
    drawn(seen.page)
    assert seen.page.locator("#examples, #opened").count() == 0
    seen.assert_silent()


def test_hostile_sentences_are_text(opened, saved):
    texts = [f"<img src=x onerror=alert(1)> </script><b>bold</b> {one} \u202e by night" for one in WORDS]
    seen = opened(attnprobe.view(saved("bert"), TEXT, layer=0, head=0, examples=2, texts=texts))
    page = seen.page
    page.locator(".example").first.click()
    drawn(page, example=0)
    assert page.evaluate("document.images.length + document.querySelectorAll('b').length") == 0
    seen.assert_silent()
