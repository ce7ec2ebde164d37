"""The pictures on the pages are small, say what they show, and are those that the pages' commands write."""

import re
from xml.etree import ElementTree

import outputs
import pictures
import pytest

PAGES = {path.name: path.read_text(encoding="utf-8") for path in outputs.PAGES}
SHOWN = {name for page in PAGES.values() for name in pictures.pictures(page)}
WRITTEN = {
    name
    for page in PAGES.values()
    for example in outputs.examples(page)
    for name in re.findall(r"^attnprobe (?:plot|view) .*-o ([\w-]+\.svg)", example.code)
    if name in pictures.pictures(page)
}


def test_every_picture_is_written_on_a_page_that_shows_it():
    assert len(SHOWN) >= 5
    assert SHOWN == WRITTEN
    assert {path.name for path in pictures.FOLDER.iterdir()} == SHOWN


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_a_picture_is_small_and_holds_nothing_that_runs_or_is_fetched(name):
    source = (pictures.FOLDER / name).read_bytes()
    assert len(source) < 60_000
    elements = list(ElementTree.fromstring(source).iter())
    assert elements[0].tag == "{http://www.w3.org/2000/svg}svg"
    for element in elements:
        tag = element.tag.rpartition("}")[2]
        assert tag not in {"script", "foreignObject", "style"}
        for attribute, value in element.attrib.items():
            if tag == "image" and attribute.endswith("href"):
                assert value.startswith("data:image/png;base64,")
            assert not attribute.startswith("on")
            assert not re.search(r"(?i)javascript:|https?://", value), value


def test_every_picture_has_words_for_those_who_do_not_see_it():
    for page in PAGES.values():
        for words, _ in re.findall(r"!\[([^\]]*)\]\(((?:docs/)?pictures/[^)]*)\)", page):
            assert len(words.split()) >= 8, words


def picture(words: str, value: float) -> str:
    return f'<svg><text x="1">{words}</text><path aria-label="head: 0; share: {value}" d="M0,0"/></svg>'


@pytest.mark.parametrize("other", [picture("previous", 0.42), picture("next", 0.4), "<svg/>"])
def test_a_difference_of_a_picture_is_seen(other, tmp_path, monkeypatch):
    page = "![a picture](pictures/one.svg)"
    (tmp_path / "kept").mkdir()
    monkeypatch.setattr(pictures, "FOLDER", tmp_path / "kept")
    (tmp_path / "one.svg").write_text(picture("previous", 0.4), encoding="utf-8")
    assert list(outputs.picture_differences(page, tmp_path))
    pictures.keep(page, tmp_path)
    assert not list(outputs.picture_differences(page, tmp_path))
    (tmp_path / "one.svg").write_text(other, encoding="utf-8")
    assert list(outputs.picture_differences(page, tmp_path))


def test_rounding_is_no_difference_of_a_picture():
    one, other = (pictures.said(picture("previous", value)) for value in (0.4, 0.40000000001))
    assert not outputs.differences(one, other)
    assert pictures.said(picture("previous", 0.4)) == "previous\nhead: 0; share: 0.400\n"
