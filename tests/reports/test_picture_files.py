"""Files of pictures: complete, the same every time, of the width asked for, and never half-written."""

import subprocess
import sys

import picture_tables as tables
import pytest

from attnprobe.reports.charts.draw import draw_picture

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
        assert path.read_bytes() == drawn.render(format)


def test_drawing_needs_no_torch_and_a_table_no_altair(tmp_path):
    tables.of_heads("entropy").save(tmp_path / "heads.json")
    program = (
        "import sys\nfrom attnprobe.table.table import HeadTable\n"
        "table = HeadTable.read('heads.json')\nprint('altair' in sys.modules)\n"
        "table.plot().render('svg')\n"
        "print(sorted({'torch', 'transformers', 'numba', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines() == ["False", "[]"]
