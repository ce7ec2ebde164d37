"""Files of pictures: complete, the same every time, of the width asked for, and never half-written."""

import base64
import json
import re
import subprocess
import sys

import picture_tables as tables
import pytest

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.reports.picture import Picture
from attnprobe.reports.pictures.choosing import draw_picture

pytestmark = pytest.mark.slow  # pictures are rendered in every format


@pytest.fixture
def drawn():
    return draw_picture([tables.of_heads("entropy")])


STARTS = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF", "html": b"<!doctype html>"}


@pytest.mark.parametrize("format", STARTS)
def test_each_format(drawn, tmp_path, format):
    path = drawn.save(tmp_path / f"heads.{format.upper()}")
    assert path.read_bytes().startswith(STARTS[format])
    assert list(tmp_path.iterdir()) == [path]
    if format != "pdf":  # which holds when it was made
        assert path.read_bytes() == drawn.rendered(format)


def test_a_pdf_embeds_its_font_and_measures_96_pixels_to_the_inch(drawn):
    content = drawn.rendered("pdf")
    assert re.search(rb"/BaseFont\s*/[A-Z]+\+LiberationSans", content)
    assert b"/FontFile" in content
    wide, high = map(float, re.search(rb"MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)", content).groups())
    svg_wide, svg_high = map(int, re.search(rb'width="(\d+)" height="(\d+)"', drawn.rendered("svg")).groups())
    assert (wide / 72 * 96, high / 72 * 96) == pytest.approx((svg_wide, svg_high), abs=1)


def test_two_pictures_in_a_page_keep_their_own_gradients():
    one, two = (draw_picture([tables.of_heads("entropy")]).rendered("svg").decode() for _ in range(2))
    named = [set(re.findall(r' id="([^"]+)"', content)) for content in (one, two)]
    assert named[0]
    assert not named[0] & named[1]
    for content, names in zip((one, two), named, strict=True):
        assert set(re.findall(r"url\(#([^)]+)\)", content)) == names


def test_text_of_an_svg_is_text(drawn):
    found = drawn.rendered("svg").decode()
    assert ">heads</text>" in found
    assert set(re.findall(r'font-family="([^"]+)"', found)) == {
        "Liberation Sans, Arial, Helvetica, sans-serif"
    }


def test_a_notebook_shows_it_without_a_network(drawn):
    bundle = drawn._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert base64.b64decode(bundle["image/png"]).startswith(STARTS["png"])
    assert bundle["text/plain"] == "Picture(kind='heatmap', title='heads')"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("heads.gif", r"end its name in \.svg, \.png, \.pdf, \.html"),
        ("heads", r"end its name in \.svg"),
        ("missing/heads.svg", "does not exist"),
        ("there.svg", "overwrite"),
        ("folder.svg", "is a folder"),
    ],
)
def test_bad_places_are_refused(drawn, tmp_path, name, says):
    (tmp_path / "there.svg").write_text("mine")
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(AttnprobeError, match=says):
        drawn.save(tmp_path / name)
    assert (tmp_path / "there.svg").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_file_is_replaced_only_when_asked(drawn, tmp_path):
    (tmp_path / "there.svg").write_text("mine")
    assert drawn.save(tmp_path / "there.svg", overwrite=True).read_bytes().startswith(b"<svg")


def test_a_table_draws_itself():
    table = tables.of_heads("entropy", "previous")
    shown = table.plot(measure="previous", theme="paper", width=400, title="mine")
    assert isinstance(shown, Picture)
    same = attnprobe.plot([table], measure=["previous"], theme="paper", width=400, title="mine")
    assert shown.spec == same.spec
    assert shown.title == "mine"


def test_drawing_needs_no_torch_and_a_table_no_altair(tmp_path):
    tables.of_heads("entropy").save(tmp_path / "heads.json")
    program = (
        "import sys\nfrom attnprobe.table.head_table import HeadTable\n"
        "table = HeadTable.read('heads.json')\nprint('altair' in sys.modules)\n"
        "table.plot().rendered('svg')\n"
        "print(sorted({'torch', 'transformers', 'numba', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines() == ["False", "[]"]


def test_a_spec_is_strict_json(drawn):
    assert json.loads(json.dumps(drawn.spec, allow_nan=False)) == drawn.spec
