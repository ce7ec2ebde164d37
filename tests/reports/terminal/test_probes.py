"""Probes on a terminal: a line a label, with a star where all heads find more than the best."""

import picture_tables as tables
from printed import shown


def test_a_line_a_label():
    out = shown(tables.probes(), width=80)
    lines = {line.split()[0]: line.split() for line in out if line[:3] in {"all", "det", "obj"}}
    assert " ".join(lines["all"]) == "all 300 0.61 ± 0.01 0.40 1-3 0.30 +1 *"
    assert " ".join(lines["det"]) == "det 120 0.80 ± 0.02 0.79 0-0 0.50 -1"
    assert "0.30 2-1" in " ".join(lines["obj"])
    assert all(len(line) <= 80 for line in out)


def test_long_lists_are_cut_short():
    table = tables.probes()
    many = type(table)(table.title, table.columns, {name: cells * 20 for name, cells in table.data.items()})
    out = shown(many, width=80)
    assert any("15 more; -o found.csv writes them all" in line for line in out)
