"""The page of a sequence in a real browser: its numbers, its controls, and what hostile strings do to it."""

import copy
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from chromium import drawn
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertModel, PreTrainedTokenizerFast

import attnprobe
from attnprobe.table.sequence import group_tokens

pytestmark = pytest.mark.slow

TEXT = "The walker came late , by night"
SVG = "{http://www.w3.org/2000/svg}"


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
    shares = np.zeros(keys)
    for row in page.locator("#ranking tbody tr").all_inner_texts():
        place, *_, share = re.split(r"\t", row)
        shares[int(place) - 1] = float(share)
    return shares


def test_the_page_shows_the_numbers_of_every_head(opened, saved):
    view = attnprobe.view(saved("bert"), "the dog ran slowly", rollout=True)
    rows, length = view.attention["encoder"], len(view.tokens["encoder"][0])
    assert length <= 10  # as many as the table of a token shows
    seen = opened(view)
    for layer in range(3):
        for head in range(5):
            choose(seen.page, layer, head)
            expected = rows[layer, head] if head < 4 else view.sequence.maps[0].rolled[layer]
            for query in range(length):
                np.testing.assert_allclose(numbers(seen.page, query, length), expected[query], atol=5.1e-5)
    assert seen.page.inner_text("#title") == "Rollout up to layer 2"
    seen.page.check("#words")
    drawn(seen.page, words=True)
    choose(seen.page, 1, 2)
    words = view.sequence.maps[0].queries.words
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
    readout = page.inner_text("#readout").replace("\u2068", "").replace("\u2069", "")
    labels = view.tokens["encoder"][0]
    assert readout == f"{labels[1]} → {labels[3]}: {rows[1, 3]:.4f}"
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
        assert not tags & {"script", "image", "foreignObject", "a", "use", "style"}
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
