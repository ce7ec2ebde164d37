"""A format costs one file: options, help texts, errors, writing and reading know it from there."""

import os
import subprocess
import sys
from pathlib import Path

import attnprobe
from attnprobe.table.formats import FORMATS, READABLE

TABS = '''
"""Values between tabs."""

from attnprobe.table.formats import Format


def render(table, precision=None):
    lines = [[column.name for column in table.columns], *table.rows()]
    return "".join("\\t".join(map(str, line)) + "\\n" for line in lines)


def read(path, words):
    import pandas

    return pandas.read_csv(path, sep="\\t")


FORMAT = Format(render, read)
'''
TRIED = """
from pathlib import Path

from attnprobe.errors import AttnprobeError
from attnprobe.reports.sink import FORMATS, write_table
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

table = HeadTable("t", [Column("layer", role="key"), Column("x", "nats")], {"layer": [0, 1], "x": [0.5, 2.0]})
print([path.name for path in table.save("a.tabs")], Path("a.tabs").read_text())
again = HeadTable.read("a.tabs")
print(again.columns == table.columns, [*again.rows()])
for refused in (table.save, HeadTable.read):
    try:
        refused("a.odt")
    except AttnprobeError as error:
        print(error)
write_table(table, format="tabs")
import sys

from attnprobe.__main__ import main

sys.argv = ["attnprobe", "entropy", "--help"]
main()
"""


def _mirror(package: Path, copy: Path, way: list[str]) -> None:
    """Link a package, but make real folders on the way down to one of its folders."""
    copy.mkdir()
    for one in package.iterdir():
        if way and one.name == way[0]:
            _mirror(one, copy / one.name, way[1:])
        elif one.name != "__pycache__":
            (copy / one.name).symlink_to(one)


def test_a_format_is_one_file(tmp_path):
    package = tmp_path / "attnprobe"
    _mirror(Path(attnprobe.__file__).parent, package, ["table", "formats"])
    (package / "table" / "formats" / "tabs.py").write_text(TABS)
    (tmp_path / "tried.py").write_text(TRIED)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "tried.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout
    assert done.returncode == 0, done.stderr
    assert "['a.tabs', 'a.tabs.json'] layer\tx\n0\t0.5\n1\t2.0\n" in said
    assert "[(0, 0.5), (1, 2.0)]" in said
    assert "end it in .csv, .json, .md, .parquet, .tabs, .tex, .xlsx" in said
    assert "give a file that ends in .csv, .json, .parquet, .tabs, .xlsx." in said
    assert said.count("layer\tx\n0\t0.5\n1\t2.0\n") == 2
    assert ".csv, .json, .md, .parquet, .tabs, .tex or .xlsx picks the format" in " ".join(
        said.replace("│", " ").split()
    )
    assert "csv|json|md|parquet|tabs|tex|xlsx>" in said


def test_what_formats_can_do():
    assert tuple(FORMATS) == ("csv", "json", "md", "parquet", "tex", "xlsx")
    assert READABLE == ("csv", "json", "parquet", "xlsx")
    assert [name for name, format in FORMATS.items() if format.binary] == ["parquet", "xlsx"]
