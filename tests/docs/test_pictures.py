"""The pictures on the pages are small, say what they show, and are those that the pages' commands write."""

import re
from xml.etree import ElementTree

import outputs
import pictures
import pytest
import screens

from attnprobe.cli.app import COMMANDS

PAGES = {path.name: path.read_text(encoding="utf-8") for path in outputs.PAGES}
SHOWN = {name for page in PAGES.values() for name in pictures.pictures(page)}
WRITTEN = {
    name
    for page in PAGES.values()
    for example in outputs.examples(page)
    for name in re.findall(r"^attnprobe (?:plot|view) .*-o ([\w-]+\.svg)", example.code)
    if name in pictures.pictures(page)
}
GALLERY = PAGES["gallery.md"]
#: Commands that have no picture of their own: they put together, repeat, or draw what others have measured.
WITHOUT_PICTURE = {"merge", "plot", "doctor"}


def test_every_picture_is_written_on_a_page_that_shows_it():
    assert len(SHOWN) >= 5
    assert SHOWN == WRITTEN
    assert {path.name for path in pictures.FOLDER.iterdir()} == SHOWN | set(screens.SCREENS)


def test_the_gallery_shows_every_picture_below_the_line_that_makes_it():
    shown = [name for name, _ in pictures.describe(GALLERY)]
    assert set(shown) == SHOWN | set(screens.SCREENS)
    assert len(shown) == len(set(shown))
    ran = {example.code for page in PAGES.values() for example in outputs.examples(page)}
    for part in re.split(r"(?<=\))\n\n", GALLERY):
        for name, _ in pictures.describe(part):
            lines = re.findall(r"^(?:\$ |    )(attnprobe .*)$", part, re.M)
            file = screens.SCREENS[name].file if name in screens.SCREENS else name
            assert any(f"-o {file}" in line for line in lines), name
            assert ran.issuperset(lines), (name, set(lines) - ran)


def test_the_gallery_shows_every_command():
    lines = re.findall(r"^(?:\$ |    )attnprobe (\w+)", GALLERY, re.M)
    assert set(lines) >= {command.__name__ for command in COMMANDS} - WITHOUT_PICTURE


@pytest.mark.parametrize("name", sorted(screens.SCREENS))
def test_a_screen_is_small_and_its_page_gives_the_command(name):
    """Pixels are those of one browser and its fonts, so they are not compared."""
    source, screen = (pictures.FOLDER / name).read_bytes(), screens.SCREENS[name]
    assert len(source) < 70_000
    assert source.startswith(b"\x89PNG\r\n")
    assert [int.from_bytes(source[place : place + 4]) for place in (16, 20)] == [screen.width, screen.height]
    page = PAGES[screen.page]
    assert f"](pictures/{name})" in page
    assert f"$ {screen.command}\n" in page


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_a_picture_is_small_and_holds_nothing_that_runs_or_is_fetched(name):
    source = (pictures.FOLDER / name).read_bytes()
    assert len(source) < 70_000
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
        shown = pictures.describe(page)
        assert len(shown) == len(re.findall(r"(?:docs/)?pictures/[\w-]+\.(?:svg|png)[\")]", page))
        for name, words in shown:
            assert len(words.split()) >= 8, (name, words)


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
