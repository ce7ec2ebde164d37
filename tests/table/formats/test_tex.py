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
