"""What no font can draw is said."""

import picture_tables as tables
import pytest

import attnprobe
from attnprobe.reports.picture import list_missing_glyphs, render_png
from attnprobe.reports.pictures.choosing import draw_picture

#: A sign of Linear A, which hardly a font draws.
LACKED = "\U00010600"
pytestmark = pytest.mark.skipif(not list_missing_glyphs(LACKED), reason="a font here has Linear A")


def test_characters_that_no_font_has():
    assert list_missing_glyphs(f"Stra\u00dfe \u0394 \u0416 \u05d0 \u2026 {LACKED}{LACKED}") == [LACKED]
    assert list_missing_glyphs("plain") == []


@pytest.mark.parametrize("format", ["png", "pdf"])
def test_boxes_are_said(format):
    drawn = draw_picture([tables.of_heads("entropy")], title=f"by {LACKED}")
    with pytest.warns(
        attnprobe.AttnprobeWarning, match=r"No font on this machine has .* \(U\+10600\); a box"
    ):
        assert drawn.rendered(format)
    drawn.rendered("svg")  # which a browser draws, with other fonts


def test_text_that_has_glyphs_is_no_remark(recwarn):
    assert render_png(
        '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><text>&#916;</text></svg>'
    )
    assert not recwarn.list


def test_the_command_says_it_in_its_own_words(tmp_path, capfd):
    from attnprobe.cli.app import run

    tables.of_heads("entropy").save(tmp_path / "heads.csv")
    words = ["plot", str(tmp_path / "heads.csv"), "--title", LACKED, "-o"]
    assert run([*words, str(tmp_path / "x.png")]) == 0
    said = capfd.readouterr().err.splitlines()
    assert said[0].startswith("attnprobe: No font on this machine has ")
    assert "Warning" not in said[0]
    assert run([*words, str(tmp_path / "y.png"), "-q"]) == 0
    assert capfd.readouterr().err == ""
