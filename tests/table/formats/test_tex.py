import re
import shutil
import subprocess

import numpy as np
import pytest

from attnprobe.table.formats.tex import escape, render
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column


def test_the_whole_of_it():
    columns = [
        *(Column(name, role="key") for name in ("model", "relation", "layer")),
        *(Column("accuracy", "share"), Column("accuracy_se", "share", "error"), Column("p_adjusted")),
    ]
    data = {
        "model": ["my_model"] * 3,
        "relation": ["det", "nsubj:pass", None],
        "layer": [0, 11, 2],
        "accuracy": [0.87654, 0.5, np.nan],
        "accuracy_se": [0.0123, 0.2, np.nan],
        "p_adjusted": [1e-9, 0.04321, 1.0],
    }
    assert render(HeadTable("Best heads", columns, data, notes=["A note.\nOf 50 %."])) == (
        "% In the preamble: \\usepackage{booktabs, siunitx}\n"
        "% A note. Of 50 %.\n"
        "\\begin{table}[t]\n"
        "  \\centering\n"
        "  \\caption{Best heads; model: my\\_model}\n"
        "  \\begin{tabular}{@{}l S[table-format=2] S[table-format=1.3 \\pm 1.3, separate-uncertainty] "
        "S[table-format=1.4]@{}}\n"
        "  \\toprule\n"
        "  relation & {layer} & {accuracy} & {p adjusted} \\\\\n"
        "  \\midrule\n"
        "  det & 0 & 0.877 \\pm 0.012 & {$<$ 0.001} \\\\\n"
        "  nsubj:pass & 11 & 0.50 \\pm 0.20 & 0.0432 \\\\\n"
        "   & 2 & {--} & 1.00 \\\\\n"
        "  \\bottomrule\n"
        "  \\end{tabular}\n"
        "\\end{table}\n"
    )


def test_what_no_page_holds_is_a_long_table(heads):
    text = render(heads(12, 4, entropy=np.linspace(-1, 2, 48)))
    assert "\\begin{longtable}{@{}S[table-format=2] S[table-format=1] S[table-format=3]" in text
    assert "siunitx, longtable}" in text
    assert text.count("\\endhead") == 1
    assert len(re.findall(r"\\\\$", text, re.MULTILINE)) == 48 + 2  # the caption and the header
    assert "separate-uncertainty" in text


def test_hostile_strings_stand_for_themselves(hostile):
    text = render(hostile)
    body = text[text.index("\\midrule") :]
    assert "\x1b" not in text
    assert r"a{\textbar}b" not in text
    assert r"a\textbar{}b`c`\textless{}script\textgreater{}" in body
    assert all(line.startswith(("%", "\\", "  ")) for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\input{/etc/passwd}", r"\textbackslash{}input\{/etc/passwd\}"),
        ("a_b^c~d", r"a\_b\textasciicircum{}c\textasciitilde{}d"),
        ("#1 & 50% $x$", r"\#1 \& 50\% \$x\$"),
        ("[SEP]*", "{[}SEP{]}{*}"),
    ],
)
def test_escape(text, expected):
    assert escape(text) == expected


def test_numbers_without_an_error_have_three_digits_or_those_that_are_asked_for():
    columns = [Column("x"), Column("flag")]
    table = HeadTable("t", columns, {"x": [1 / 3, -1234.5, np.inf, 0.0], "flag": [True, False, True, True]})
    rows = [line.strip().split(" & ")[0] for line in render(table).splitlines() if line.endswith("\\\\")][1:]
    assert rows == ["0.333", "-1234", "{$\\infty$}", "0"]
    assert "0.33333 &" in render(table, precision=5)
    assert "S[table-format=-4.3]" in render(table)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")
def test_latex_sets_it(heads, hostile, tmp_path):
    small = heads(2, 2, entropy=np.array([0.1, -2.0, np.nan, 30.0]), tiny=np.full(4, 1e-7))
    packages = r"\documentclass{article}\usepackage{booktabs, siunitx, longtable}\begin{document}"
    long = heads(12, 12, entropy=np.linspace(-1, 2, 144))
    text = "\n".join([packages, *map(render, (small, long, hostile)), r"\end{document}"])
    (tmp_path / "t.tex").write_text(text, "utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout[-2000:]
