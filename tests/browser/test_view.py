"""The page of a sequence in a real browser: its numbers, its controls, and what hostile strings do to it."""

import copy
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from chromium import drawn
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertModel, PreTrainedTokenizerFast

import attnprobe
from attnprobe.attention.kinds import Kind
from attnprobe.reports.view import Start, View
from attnprobe.survey.tokens import Maps, SequenceAttention, Side, group_tokens

pytestmark = pytest.mark.slow

TEXT = "The walker came late , by night"
SVG = "{http://www.w3.org/2000/svg}"
SIZES = {
    "light": {},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}


@pytest.fixture
def opened(visit, tmp_path):
    """Save a view as a page, open it, and wait until a head is drawn."""

    def open_page(view, **options):
        seen = visit(view.save(tmp_path / "view.html", overwrite=True), **options)
        drawn(seen.page)
        return seen

    return open_page


def titled(page, title):
    page.wait_for_function("title => document.getElementById('title').textContent === title", arg=title)


def choose(page, layer, head):
    page.locator(f"#grid tbody tr:nth-child({layer + 1}) td:nth-of-type({head + 1}) button").click()
    drawn(page, layer=layer, head=head)


def numbers(page, query, keys):
    """Read what a token looks at off the page: (key,)."""
    page.select_option("#from", str(query))
    found = np.zeros(keys)
    for row in page.locator("#ranking tbody tr").all_inner_texts():
        place, *_, share = re.split(r"\t", row)
        found[int(place) - 1] = float(share)
    return found


def test_the_page_shows_the_numbers_of_every_head(opened, saved):
    view = attnprobe.view(saved("bert"), "the dog ran slowly", rollout=True)
    rows, length = view.attention["encoder"], len(view.tokens["encoder"][0])
    assert length <= 10  # as many as the table of a token shows
    seen = opened(view)
    for layer in range(3):
        for head in range(5):
            choose(seen.page, layer, head)
            expected = rows[layer, head] if head < 4 else view.seen.maps[0].rolled[layer]
            for query in range(length):
                np.testing.assert_allclose(numbers(seen.page, query, length), expected[query], atol=5.1e-5)
    assert seen.page.inner_text("#title") == "Rollout up to layer 2"
    seen.page.check("#words")
    drawn(seen.page, words=True)
    choose(seen.page, 1, 2)
    words = view.seen.maps[0].queries.words
    expected = group_tokens(rows[1, 2], words, words)
    for query in range(len(expected)):
        np.testing.assert_allclose(numbers(seen.page, query, len(expected)), expected[query], atol=1e-3)
    seen.page.uncheck("#special")
    drawn(seen.page, special=False)
    np.testing.assert_allclose(numbers(seen.page, 0, len(expected) - 2), expected[1, 1:-1], atol=1e-3)
    assert seen.page.locator("#from option").all_inner_texts()[1:] == [
        "1  the",
        "2  dog",
        "3  ran",
        "4  slowly",
    ]
    seen.assert_silent()


def test_small_maps_are_drawn(opened, saved):
    view = attnprobe.view(saved("bert"), TEXT)
    seen = opened(view)
    pixels = small_maps_drawn(seen.page)
    rows = view.attention["encoder"].reshape(12, -1)
    assert len(pixels) == 12
    for drawn_pixels, expected in zip(pixels, rows, strict=True):  # more attention has less red
        assert len(drawn_pixels) == len(expected)
        assert np.corrcoef(drawn_pixels, np.sqrt(expected))[0, 1] < -0.95
    seen.assert_silent()


def small_maps_drawn(page):
    """Read the red of every small map off the page, (map, cell)."""
    return np.array(
        page.evaluate(
            "() => [...document.querySelectorAll('#grid canvas')].map(canvas => Array.from("
            "canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data"
            ".filter((_, n) => n % 4 === 0)))"
        )
    )


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("special", [False, True])
def test_small_maps_follow_words_and_special_tokens(opened, saved, words, special):
    view = attnprobe.view(saved("bert"), TEXT)
    side, rows = view.seen.maps[0].queries, view.attention["encoder"]
    seen = opened(view)
    seen.page.set_checked("#words", words)
    seen.page.set_checked("#special", special)
    wanted = f"[0,{str(words).lower()},{str(special).lower()}]"
    seen.page.wait_for_function("set => document.documentElement.dataset.heads === set", arg=wanted)
    if words:
        rows = group_tokens(rows, side.words, side.words)
    if not special:
        rows = rows[:, :, 1:-1, 1:-1]  # one before the text, and one behind it
    found = small_maps_drawn(seen.page)
    assert found.shape == (12, rows.shape[2] * rows.shape[3])
    for drawn_map, expected in zip(found, rows.reshape(12, -1), strict=True):  # more attention has less red
        assert np.corrcoef(drawn_map, np.sqrt(expected))[0, 1] < -0.95
    assert seen.page.locator("#grid button[aria-pressed=true]").count() == 1
    seen.assert_silent()


def test_what_changes_nothing_is_not_offered(opened, saved):
    """Without special tokens, and where every token is a word, there is nothing to tick."""
    seen = opened(attnprobe.view(saved("bert-unframed"), "the dog ran"))
    assert seen.page.locator("#words").is_hidden()
    assert seen.page.locator("#special").is_hidden()
    seen.assert_silent()


def test_another_head_changes_only_what_it_must(opened, saved):
    """Choosing a head stays quick: two buttons change, and weak lines are thin, which are drawn quickly."""
    view = attnprobe.view(saved("bert"), "the dog ran . " * 12, layer=0, head=0)
    sharpest = int(view.attention["encoder"].reshape(12, -1).max(1).argmax())
    assert sharpest > 0  # another one than is shown
    seen = opened(view)
    changed = seen.page.evaluate(
        """async place => {
          const buttons = new Set(), labels = new Set();
          const watch = new MutationObserver(all => all.forEach(one =>
            (one.target.localName === "button" ? buttons : labels).add(one.target)));
          watch.observe(document.getElementById("grid"), { attributes: true, subtree: true });
          document.querySelectorAll("#drawing rect").forEach(one => watch.observe(one, { attributes: true }));
          document.querySelectorAll("#grid button")[place].click();
          await new Promise(done => setTimeout(done, 300));
          return [buttons.size, labels.size];
        }""",
        sharpest,
    )
    assert changed == [2, 0]
    widths = seen.page.eval_on_selector_all(
        ".strokes path",
        "all => all.map(p => [+p.getAttribute('stroke-opacity'), +p.getAttribute('stroke-width')])",
    )
    assert all(width <= 1 for opacity, width in widths if opacity <= 0.3)
    assert max(width for _, width in widths) > 1
    seen.assert_silent()


def test_an_encoder_and_a_decoder(opened, saved):
    view = attnprobe.view(saved("t5"), "the dog ran", target="a red bird", attention="cross", layer=0, head=0)
    seen = opened(view)
    assert seen.page.inner_text("#title") == "Cross layer 0, head 0"
    queries, keys = view.tokens["cross"]
    assert seen.page.locator("#from option").count() == len(queries) + 1
    for kind, layers in (("decoder", 2), ("encoder", 3), ("cross", 2)):
        seen.page.check(f"input[name=kind] >> nth={('encoder', 'decoder', 'cross').index(kind)}")
        drawn(seen.page, kind=("encoder", "decoder", "cross").index(kind))
        seen.page.wait_for_function(
            "rows => document.querySelectorAll('#grid tbody tr').length === rows", arg=layers
        )
    choose(seen.page, 1, 3)
    expected = view.attention["cross"][1, 3]
    for query in range(len(queries)):
        np.testing.assert_allclose(numbers(seen.page, query, len(keys)), expected[query], atol=5.1e-5)
    seen.assert_silent()


def test_lines_hover_and_choice(opened, saved):
    view = attnprobe.view(saved("bert"), TEXT, layer=1, head=2)
    seen = opened(view)
    page, rows = seen.page, view.attention["encoder"][1, 2]

    def lines():
        return sum(
            path.count("M")
            for path in page.eval_on_selector_all(".strokes path", "p => p.map(x => x.getAttribute('d'))")
        )

    shares = np.rint(rows * 10_000) / 10_000
    assert lines() == (shares > max(np.sort(shares, 1)[:, -4].max(), 0.0099)).sum()
    area = page.locator("#drawing .area").nth(2)
    area.hover()
    assert lines() == (np.rint(rows[2] * 10_000) / 10_000 >= 0.01).sum()
    page.mouse.move(0, 0)
    assert page.inner_text("#ranking caption") == "The strongest of this head"
    area.click()
    assert page.input_value("#from") == "2"
    page.mouse.move(0, 0)
    assert lines() == (np.rint(rows[2] * 10_000) / 10_000 >= 0.01).sum()
    page.check("input[value=map]")
    drawn(page, draw="map")
    box = page.locator("#drawing svg .frame").bounding_box()
    cell = box["width"] / len(rows)
    page.mouse.move(box["x"] + cell * 3.5, box["y"] + cell * 1.5)
    said = page.inner_text("#readout").replace("\u2068", "").replace("\u2069", "")
    labels = view.tokens["encoder"][0]
    assert said == f"{labels[1]} → {labels[3]}: {rows[1, 3]:.4f}"
    seen.assert_silent()


def test_the_keyboard_is_enough(opened, saved):
    seen = opened(attnprobe.view(saved("bert"), TEXT, layer=0, head=0))
    page = seen.page
    pressed = page.locator("#grid button[aria-pressed=true]")
    without = pressed.evaluate("one => getComputedStyle(one).boxShadow")
    page.focus("#grid button[aria-pressed=true]")
    page.keyboard.press("ArrowUp")  # there is none above, but the focus is the keyboard's now
    assert pressed.evaluate("one => getComputedStyle(one).boxShadow") != without  # where it is can be seen
    for key, title in (
        ("ArrowRight", "Layer 0, head 1"),
        ("ArrowDown", "Layer 1, head 1"),
        ("ArrowLeft", "Layer 1, head 0"),
    ):
        page.keyboard.press(key)
        titled(page, title)
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == title
    assert page.locator("#grid button[tabindex='0']").count() == 1
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")  # there is none above
    titled(page, "Layer 0, head 0")
    seen.assert_silent()


@pytest.mark.parametrize("draw", ["lines", "map"])
def test_the_head_that_is_shown_is_saved_as_a_graphic(opened, saved, tmp_path, draw):
    view = attnprobe.view(saved("bert"), TEXT, draw=draw)
    seen = opened(view, color_scheme="dark")
    choose(seen.page, 2, 1)
    with seen.page.expect_download() as download:
        seen.page.click("#save")
    path = tmp_path / "saved.svg"
    download.value.save_as(path)
    assert download.value.suggested_filename == f"layer-2-head-1-{draw}.svg"
    root = ElementTree.parse(path).getroot()
    labels = [one.text.lstrip("·") for one in root.iter(f"{SVG}text")]
    assert [one for one in labels if one not in ("from", "to", "query", "key")] == [
        *view.tokens["encoder"][0]
    ] * 2
    ink = {path.get("stroke" if draw == "lines" else "fill") for path in root.iter(f"{SVG}path")}
    assert ink
    assert {one.get("fill") for one in root.iter(f"{SVG}text")} <= {"#1a1a1a", "#666666"}  # as on paper
    shares = np.rint(view.attention["encoder"][2, 1] * 10_000) / 10_000
    starts = sum(path.get("d").count("M") for path in root.iter(f"{SVG}path"))
    few = shares > max(np.sort(shares, 1)[:, -4].max(), 0.0099)
    assert starts == (few if draw == "lines" else np.rint(np.sqrt(shares) * 48) > 0).sum()
    seen.opened.clear()
    seen.assert_silent()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("draw", ["lines", "map"])
def test_everyone_can_read_it(opened, saved, size, draw):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="no axe: pip install axe-core-python")
    seen = opened(attnprobe.view(saved("t5"), TEXT, draw=draw, rollout=True), **SIZES[size])
    seen.page.select_option("#from", "2")
    found = axe.Axe().run(seen.page)
    assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []
    assert len(found["passes"]) > 15
    wide = seen.page.viewport_size["width"]
    if draw == "lines":  # nothing to be dragged to and fro
        assert seen.page.evaluate("document.querySelector('#one .scroll').scrollWidth") <= wide
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= wide
    seen.assert_silent()


@pytest.mark.parametrize("width", [320, 380])
def test_a_long_text_can_be_scrolled_without_a_mouse(opened, saved, width):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="no axe: pip install axe-core-python")
    seen = opened(attnprobe.view(saved("bert"), f"{TEXT} . " * 12), viewport={"width": width, "height": 800})
    text = seen.page.locator(".text")
    assert text.evaluate("one => one.scrollHeight > one.clientHeight")
    assert [one["id"] for one in axe.Axe().run(seen.page)["violations"]] == []
    text.focus()
    seen.page.keyboard.press("End")
    seen.page.wait_for_function("() => document.querySelector('.text').scrollTop > 0")
    seen.assert_silent()


def test_on_paper_it_is_light_and_without_controls(opened, saved):
    view = attnprobe.view(saved("bert"), TEXT, draw="map", layer=0, head=0)
    seen = opened(view, color_scheme="dark")
    seen.page.emulate_media(media="print", color_scheme="dark")
    seen.page.wait_for_timeout(200)
    assert seen.page.locator("#save").is_hidden()
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    red = seen.page.evaluate(
        "() => { const c = document.querySelector('.map canvas');"
        " const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " return Array.from(data.filter((_, n) => n % 4 === 0)); }"
    )
    rows = view.attention["encoder"][0, 0].ravel()
    assert np.corrcoef(red, np.sqrt(rows))[0, 1] < -0.9  # dark is much, as on white
    seen.assert_silent()


def test_on_paper_nothing_is_cut(opened, saved):
    seen = opened(attnprobe.view(saved("bert"), "the dog ran . " * 40, draw="map"))
    wide = "document.querySelector('.map').getBoundingClientRect().width"
    assert seen.page.evaluate(wide) > 1000
    seen.page.emulate_media(media="print")
    assert seen.page.evaluate(wide) <= 681
    seen.assert_silent()


def test_a_printer_need_not_wait_for_its_colours(opened, saved):
    """Who prints at once, from a dark screen, has everything in light colours."""
    seen = opened(attnprobe.view(saved("bert"), TEXT, draw="map"), color_scheme="dark")
    seen.page.evaluate(
        """() => matchMedia("print").addEventListener("change", () => {
          const canvas = document.querySelector("#grid canvas"), map = document.querySelector(".map canvas");
          window.reds = [canvas, map].map(one => one.getContext("2d")
            .getImageData(0, 0, one.width, one.height).data.filter((_, n) => n % 4 === 0)
            .reduce((sum, red) => sum + red, 0) / one.width / one.height);
        })"""
    )
    seen.page.emulate_media(media="print", color_scheme="dark")
    seen.page.wait_for_function("() => window.reds")
    reds = seen.page.evaluate("window.reds")
    assert min(reds) > 150  # on a dark screen they are below 80
    seen.assert_silent()


def test_numbers_stand_beside_the_drawing(opened, saved):
    view = attnprobe.view(saved("bert"), TEXT * 3)
    seen = opened(view, viewport={"width": 1280, "height": 900})
    seen.page.select_option("#from", "2")
    drawing, table = (seen.page.locator(one).bounding_box() for one in ("#drawing", "#ranking"))
    assert table["x"] >= drawing["x"] + drawing["width"]
    assert table["y"] < drawing["y"] + 60
    shown = f"the strongest 10 of {len(view.tokens['encoder'][0])}"
    assert shown in seen.page.inner_text("#ranking caption")
    seen.assert_silent()


def test_an_image(opened, media_model, photos):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="no axe: pip install axe-core-python")
    view = attnprobe.view(media_model("vit"), photos / "p0.png")
    seen = opened(view)
    page, rows = seen.page, view.attention["encoder"]
    assert page.input_value("#from") == "0"
    choose(page, 1, 1)
    box = page.locator(".patches").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.3)
    assert page.input_value("#from") == str(1 + 4 * 1 + 2)
    best = np.sort(rows[1, 1, 7])[::-1][:10]
    shares = [float(row.split("\t")[-1]) for row in page.locator("#ranking tbody tr").all_inner_texts()]
    np.testing.assert_allclose(shares, best, atol=5.1e-5)
    assert axe.Axe().run(page)["violations"] == []
    page.check("input[value=map]")
    drawn(page, draw="map")
    seen.assert_silent()


def test_the_longest_text_is_there_to_the_last_layer(opened, saved):
    view = attnprobe.view(saved("t5"), "the dog ran . " * 63, attention="decoder")
    length = len(view.tokens["decoder"][0])
    assert length == 254
    seen = opened(view)
    choose(seen.page, 1, 3)
    row = view.attention["decoder"][1, 3, 200]
    seen.page.select_option("#from", "200")
    shares = [float(one.split("\t")[-1]) for one in seen.page.locator("#ranking tbody tr").all_inner_texts()]
    np.testing.assert_allclose(shares, np.sort(row)[::-1][:10], atol=5.1e-5)
    seen.assert_silent()


def line_counts(page, tokens):
    """Count the lines that leave each token, read off the paths."""
    paths = page.eval_on_selector_all("#drawing .strokes path", "all => all.map(p => p.getAttribute('d'))")
    heights = [round(float(found)) for path in paths for found in re.findall(r"M[\d.]+ ([\d.]+)L", path)]
    return np.bincount([(height - 36) // 20 for height in heights], minlength=tokens)


def test_the_threshold_leaves_few_lines_and_follows_the_keyboard(opened, saved):
    view = attnprobe.view(saved("bert"), TEXT * 2)
    seen, rows = opened(view), view.attention["encoder"]
    page, length = seen.page, rows.shape[2]
    for layer, head in ((0, 1), (2, 2)):
        choose(page, layer, head)
        shares = np.rint(rows[layer, head] * 10_000)
        least = float(page.inner_text("#least-said"))
        counts = line_counts(page, length)
        np.testing.assert_array_equal(counts, (shares >= round(least * 10_000)).sum(1))
        assert counts.max() <= 3
        assert (shares >= round(least * 10_000) - 1).sum(1).max() > 3 or least == 0.01  # and no fewer
    page.focus("#least")
    page.keyboard.press("Home")
    assert page.inner_text("#least-said") == "0.01"
    assert not page.is_checked("#few")
    np.testing.assert_array_equal(line_counts(page, length), (shares >= 100).sum(1))
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#least", "aria-valuetext") == page.inner_text("#least-said") == "0.0121"
    np.testing.assert_array_equal(line_counts(page, length), (shares >= 121).sum(1))
    choose(page, 0, 1)  # another head keeps it
    assert page.inner_text("#least-said") == "0.0121"
    page.check("#few")
    assert line_counts(page, length).max() <= 3
    seen.assert_silent()


def test_links_lead_to_heads(opened, saved, tmp_path):
    seen = opened(attnprobe.view(saved("bert"), TEXT, layer=0, head=0))
    page, address = seen.page, seen.address
    choose(page, 2, 3)
    page.wait_for_function("() => location.hash === '#head=2.3'")
    assert page.url == f"{address}#head=2.3"
    page.evaluate("location.hash = '#head=1.2'")
    titled(page, "Layer 1, head 2")
    assert page.locator("#lost").is_hidden()
    for wrong in ("9.0", "1.4", "1", "x.1.2", "1.rollout", "%3Cimg%3E"):
        page.evaluate("wrong => { location.hash = `#head=${wrong}`; }", wrong)
        page.locator("#lost").wait_for()
        assert page.inner_text("#title") == "Layer 1, head 2"
        page.evaluate("location.hash = '#head=1.2'")
        page.locator("#lost").wait_for(state="hidden")
    page.goto("about:blank")
    page.goto(f"{address}#head=2.1")
    titled(page, "Layer 2, head 1")
    seen.assert_silent()


def test_links_name_the_kind_of_attention(opened, saved):
    seen = opened(attnprobe.view(saved("t5"), "the dog ran", target="a red bird", rollout=True))
    page = seen.page
    page.evaluate("location.hash = '#head=cross.1.2'")
    titled(page, "Cross layer 1, head 2")
    assert page.is_checked("input[name=kind] >> nth=2")
    page.evaluate("location.hash = '#head=decoder.1.rollout'")
    titled(page, "Rollout up to decoder layer 1")
    page.check("input[name=kind] >> nth=0")
    titled(page, "Rollout up to encoder layer 1")
    page.wait_for_function("() => location.hash === '#head=encoder.1.rollout'")
    seen.assert_silent()


def numbered(tmp_path, layers=3, heads=4):
    """Write a table of roles and one of numbers, of a value that differs from head to head."""
    places = [(layer, head) for layer in range(layers) for head in range(heads)]
    value = {place: (7 * number % 12) / 20 for number, place in enumerate(places)}
    lines = [f"bert,some,{layer},{head},{value[layer, head]},0.004" for layer, head in places]
    (tmp_path / "heads.csv").write_text("\n".join(["model,dataset,layer,head,previous,previous_se", *lines]))
    lines = [f"bert,some,{layer},{head},{'next' if layer else '<b>role</b>'},0.9" for layer, head in places]
    (tmp_path / "roles.csv").write_text("\n".join(["model,dataset,layer,head,role,value", *lines]))
    return [tmp_path / "heads.csv", tmp_path / "roles.csv"], value


def test_numbers_and_roles_of_a_census_stand_beside(opened, saved, tmp_path):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="no axe: pip install axe-core-python")
    census, value = numbered(tmp_path)
    seen = opened(attnprobe.view(saved("bert"), TEXT, census=census, rollout=True))
    for layer, head in ((0, 1), (2, 3)):
        choose(seen.page, layer, head)
        said = seen.page.inner_text("#notes")
        assert f"{value[layer, head]:.4g} ± 0.004" in said
        assert ("next" if layer else "<b>role</b>") in said
    assert axe.Axe().run(seen.page)["violations"] == []
    choose(seen.page, 1, 4)  # the rollout is no head
    assert seen.page.inner_text("#notes") == ""
    seen.assert_silent()


def test_heads_sort_by_sharpness_and_by_a_measure(opened, saved, tmp_path):
    from attnprobe.survey.sharpness import measure_sharpness

    census, value = numbered(tmp_path)
    view = attnprobe.view(saved("bert"), TEXT, census=census)
    seen = opened(view)
    page, rows = seen.page, view.attention["encoder"]
    places = sorted(value)

    def order():
        return [tuple(map(int, one.split("."))) for one in page.locator("#grid button").all_inner_texts()]

    page.select_option("#order", "sharp")
    entropies = measure_sharpness(view.seen.maps[0])
    assert order() == sorted(places, key=lambda place: entropies[place])
    assert page.locator("#grid button").first.get_attribute("aria-pressed") == "true"  # where it opened
    page.select_option("#order", label="most previous")
    expected = sorted(places, key=lambda place: -value[place])
    assert order() == expected
    assert f": {value[expected[0]]:.3g}" in page.locator("#grid button").first.get_attribute("aria-label")
    for drawn_map, place in zip(small_maps_drawn(page), expected, strict=True):  # each map went along
        assert np.corrcoef(drawn_map, np.sqrt(rows[place].ravel()))[0, 1] < -0.95
    page.locator("#grid button").first.click()
    page.keyboard.press("ArrowRight")
    titled(page, "Layer {}, head {}".format(*expected[1]))
    page.select_option("#order", "layer")
    label = page.locator("#grid button[aria-pressed=true]").get_attribute("aria-label")
    assert label.startswith(page.inner_text("#title"))
    seen.assert_silent()


@pytest.mark.parametrize("size", SIZES)
def test_running_text_is_coloured_by_the_word_in_focus(opened, saved, size):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="no axe: pip install axe-core-python")
    view = attnprobe.view(saved("bert"), TEXT, layer=1, head=2)
    seen = opened(view, **SIZES[size])
    page, rows = seen.page, view.attention["encoder"][1, 2]
    page.check("input[value=text]")
    drawn(page, draw="text")

    def tints():
        return np.array(
            page.eval_on_selector_all(
                ".word", "all => all.map(one => +one.style.getPropertyValue('--share'))"
            )
        )

    np.testing.assert_allclose(tints(), rows.mean(0), atol=5.1e-5)
    page.focus(".word >> nth=0")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    np.testing.assert_allclose(tints(), rows[2], atol=5.1e-5)
    labels = view.tokens["encoder"][0]
    said = page.inner_text("#readout").replace("\u2068", "").replace("\u2069", "")
    best = rows[2].argmax()
    assert said.startswith(f"{labels[2]} looks most at {labels[best]} {rows[2, best]:.4f}, ")
    reds = page.eval_on_selector_all(
        ".word", r"all => all.map(one => +getComputedStyle(one).backgroundColor.match(/\d+/)[0])"
    )
    assert abs(np.corrcoef(reds, np.sqrt(rows[2]))[0, 1]) > 0.9
    assert axe.Axe().run(page)["violations"] == []
    page.keyboard.press("Enter")
    assert page.input_value("#from") == "2"
    assert page.locator("#save").is_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    seen.assert_silent()


def test_running_text_of_two_sides(opened, saved):
    view = attnprobe.view(saved("t5"), "the dog ran", target="a red bird", attention="cross", layer=0, head=1)
    seen = opened(view)
    seen.page.check("input[value=text]")
    drawn(seen.page, draw="text")
    queries, keys = view.tokens["cross"]
    assert seen.page.locator("button.word").count() == len(queries)
    seen.page.focus("button.word >> nth=0")
    shares = seen.page.eval_on_selector_all(
        "span.word", "all => all.map(one => +one.style.getPropertyValue('--share'))"
    )
    assert len(shares) == len(keys)
    np.testing.assert_allclose(shares, view.attention["cross"][0, 1, 0], atol=5.1e-5)
    seen.assert_silent()


@pytest.mark.parametrize("draw", ["lines", "map", "text"])
def test_a_head_is_pinned_beside_another(opened, saved, draw):
    seen = opened(
        attnprobe.view(saved("bert"), TEXT, layer=0, head=1), viewport={"width": 1400, "height": 900}
    )
    page = seen.page
    page.check(f"input[value={draw}]")
    drawn(page, draw=draw)
    assert page.locator("#pinned").is_hidden()
    page.click("#pin")
    choose(page, 2, 0)
    titled(page, "Layer 2, head 0")
    assert page.inner_text("#pinned-title") == "Pinned: Layer 0, head 1"
    own, other = (page.locator(one).bounding_box() for one in ("#drawing", "#pinned-drawing"))
    assert draw == "text" or other["x"] >= own["x"] + own["width"]
    page.uncheck("#special")
    drawn(page, special=False)
    content = "#{} :is(.strokes path, .word)"
    assert draw == "map" or page.locator(content.format("pinned-drawing")).count()
    page.click("#pin")
    page.locator("#pinned").wait_for(state="hidden")
    seen.assert_silent()


@pytest.mark.parametrize("draw", ["lines", "map"])
def test_a_head_is_saved_as_pixels(opened, saved, tmp_path, draw):
    from PIL import Image

    seen = opened(attnprobe.view(saved("bert"), TEXT, layer=2, head=1, draw=draw), color_scheme="dark")
    box = seen.page.locator("#drawing svg").bounding_box()
    with seen.page.expect_download() as download:
        seen.page.click("#save-png")
    download.value.save_as(tmp_path / "saved.png")
    assert download.value.suggested_filename == f"layer-2-head-1-{draw}.png"
    with Image.open(tmp_path / "saved.png") as image:
        assert image.size == (2 * round(box["width"]), 2 * round(box["height"]))
        pixels = np.array(image.convert("RGB")).astype(int)
    assert (pixels == 255).all(2).mean() > 0.2  # as on paper
    assert pixels.min() < 60
    assert ((pixels[..., 2] - pixels[..., 0]) > 60).sum() > 100  # something blue is drawn
    seen.opened.clear()
    seen.assert_silent()


def wide_view(heads):
    """Draw the attention of two layers of so many heads over four tokens."""
    rows = np.random.default_rng(0).dirichlet(np.ones(4), (2, heads, 4)).astype(np.float32)
    side = Side(tuple("abcd"), tuple("abcd"), np.zeros(4, bool))
    maps = Maps(Kind.ENCODER, (0, 1), rows, side, side, np.ones((2, heads), bool))
    seen = SequenceAttention("toy", ("a b c d",), (maps,))
    return View(seen, Start("encoder", 0, 0, "lines", words=False, special=True), chosen=False)


def test_all_heads_can_be_reached_on_a_phone(opened):
    phone = {"viewport": {"width": 380, "height": 800}}
    seen = opened(wide_view(4), **phone)
    assert seen.page.locator("#cue").is_hidden()  # they fit
    seen = opened(wide_view(16), **phone)
    page, box = seen.page, seen.page.locator("#heads .scroll")
    page.locator("#cue").wait_for()
    last = page.locator("#grid tbody tr >> nth=1").locator("button").last
    right = box.bounding_box()["x"] + box.bounding_box()["width"]
    assert last.bounding_box()["x"] > right  # it can't be seen
    assert box.evaluate("one => one.classList.contains('has-more')")
    box.focus()
    for _ in range(15):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(60)
    page.wait_for_function("() => !document.querySelector('#heads .scroll').classList.contains('has-more')")
    assert last.bounding_box()["x"] + last.bounding_box()["width"] <= right
    last.click()
    titled(page, "Layer 1, head 15")
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    seen.assert_silent()


def test_a_notebook_shows_it_in_a_frame(visit, saved, tmp_path):
    path = tmp_path / "notebook.html"
    frame = attnprobe.view(saved("bert"), TEXT, layer=0, head=0)._repr_html_()
    path.write_text(f"<!doctype html><title>x</title>{frame}", encoding="utf-8")
    seen = visit(path)
    inside = seen.page.frames[1]
    inside.wait_for_function("() => document.documentElement.dataset.drawn")
    assert inside.inner_text("#title") == "Layer 0, head 0"
    assert inside.evaluate("origin") == "null"  # far from the notebook's own
    inside.click("#grid button >> nth=5")  # where no address can name it
    titled(inside, "Layer 1, head 1")
    seen.assert_silent()


ALERT = "</script><script>alert(1)</script>"
WORDS = [
    ALERT, "<img/src=x/onerror=alert(2)>", "\"'><svg/onload=alert(3)>", "\u202etxet\u2066", "{{7*7}}",
    "]]><!--",
    "a\x00b", "<style>*{display:none}</style>", "javascript:alert(4)", "\u2028end",
]  # fmt: skip


@pytest.fixture(scope="module")
def hostile(saved, tmp_path_factory):
    """Save a checkpoint of which every name is hostile."""
    special = ["[PAD]", "<unk><script>alert(5)</script>", ALERT, "<!--<script>", "[MASK]"]
    vocabulary = {word: place for place, word in enumerate([*special, *WORDS])}
    fast = Tokenizer(models.WordLevel(vocabulary, unk_token=special[1]))
    fast.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast.post_processor = processors.TemplateProcessing(
        single=[f"{special[2]}", "$A", f"{special[3]}"], special_tokens=[(special[2], 2), (special[3], 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=fast, pad_token=special[0], unk_token=special[1], cls_token=special[2],
        sep_token=special[3], mask_token=special[4], model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip
    config = copy.deepcopy(BertModel.from_pretrained(saved("bert")).config)
    config.vocab_size = len(tokenizer)
    folder = tmp_path_factory.mktemp("hostile") / "<img src=x onerror=alert(6)>\u202e"
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_hostile_names_and_texts_are_text(opened, hostile, tmp_path):
    text = " ".join(word for word in WORDS if "\u2028" not in word) + " \u202dabc <b>bold</b>"
    view = attnprobe.view(hostile, text, layer=0, head=0)
    seen = opened(view)
    page = seen.page
    page.wait_for_timeout(200)
    for draw in ("map", "lines"):
        page.check(f"input[value={draw}]")
        drawn(page, draw=draw)
        page.select_option("#from", "2")
    assert page.evaluate("document.scripts.length") == 2 + 3  # its own, its data, its layers
    made = "main svg[onload], b, body style"
    assert page.evaluate(f"document.images.length + document.querySelectorAll('{made}').length") == 0
    shown = "".join(page.locator("#drawing text").all_text_contents())
    assert "<img/src=x/onerro" in shown
    assert "⟨202E⟩txet⟨2066⟩" in shown
    assert not re.search(
        "[\u202a-\u202e\u2066-\u2069\x00]",
        page.inner_text("body").replace("\u2068", "").replace("\u2069", ""),
    )
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(tmp_path / "hostile.svg")
    for content in ((tmp_path / "hostile.svg").read_text("utf-8"), view.svg):
        tags = {one.tag.removeprefix(SVG) for one in ElementTree.fromstring(content).iter()}
        assert tags <= {"svg", "title", "g", "rect", "text", "path"}
    seen.opened.clear()
    seen.assert_silent()


def test_hostile_graphics_in_a_browser(visit, hostile, tmp_path):
    """Opened alone, a vector graphic could run scripts too."""
    text = " ".join(word for word in WORDS if "\u2028" not in word)
    for options in ({"layer": 0, "head": 0}, {"layer": 0, "head": 0, "draw": "map"}, {}):
        path = attnprobe.view(hostile, text, **options).save(tmp_path / "hostile.svg", overwrite=True)
        seen = visit(path)
        assert seen.page.evaluate("document.documentElement.localName") == "svg"
        seen.assert_silent()


def test_hostile_names_of_files(opened, media_model, photos, tmp_path):
    path = tmp_path / '"><img src=x onerror=alert(1)>\u202e.png'
    path.write_bytes(Path(photos / "p0.png").read_bytes())
    seen = opened(attnprobe.view(media_model("vit"), path))
    assert "onerror=alert(1)>⟨202E⟩.png" in seen.page.inner_text("header")
    seen.assert_silent()
