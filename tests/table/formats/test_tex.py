import numpy as np
import pytest

from attnprobe.table.formats.tex import escape
from attnprobe.table.table import Column, HeadTable


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
        "accuracy_se": [0.0123, 0.034, np.nan],
        "p_adjusted": [1e-9, 0.04321, 1.0],
    }
    text = HeadTable("Best heads", columns, data, notes=["A note.\nOf 50 %."]).render("tex").decode()
    assert text.startswith("% In the preamble: \\usepackage{booktabs}\n% A note. Of 50 %.\n")
    assert "\\caption{Best heads; model: my\\_model}\n\\label{tab:best-heads}\n" in text
    assert text[text.index("\\begin{tabular}") :] == (
        "\\begin{tabular}{@{}lrrr@{}}\n"
        "\\toprule\n"
        "relation & layer & accuracy & p adjusted \\\\\n"
        "\\midrule\n"
        "det & 0 & $0.877 \\pm 0.012$ & $< 0.001$ \\\\\n"
        "nsubj:pass & 11 & $0.500 \\pm 0.034$ & 0.043 \\\\\n"
        "-- & 2 & -- & 1.000 \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\end{table}\n"
    )


def test_hostile_strings_stand_for_themselves(hostile):
    text = hostile.render("tex").decode()
    body = text[text.index("\\midrule") :]
    assert "\x1b" not in text
    assert r"a\textbar{}b`c`\textless{}script\textgreater{}" in body
    assert body.count("\n") == len(hostile) + 4


def test_a_paper_has_the_columns_that_a_reader_needs():
    """Or those that somebody chose."""
    names = [f"x{number}" for number in range(12)]
    columns = [Column("layer", role="key"), *(Column(name, headline=name == "x3") for name in names)]
    table = HeadTable("t", columns, {"layer": [0, 1], **{name: [0.5, 1.5] for name in names}})
    for shown, expected in ((table, ["x3"]), (table.take(["x5", "x7"]), ["x5", "x7"])):
        header = next(line for line in shown.render("tex").decode().splitlines() if "layer" in line)
        assert [part.strip(" \\") for part in header.split("&")] == ["layer", *expected]


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
