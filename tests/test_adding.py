"""What docs/house.md says a change costs: one of each is added to a copy of the package, and runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

#: A line of a table in tasks.py, and a file: an objective with a metric of its own.
TASKS = {
    "OBJECTIVES = {\n": 'OBJECTIVES = {\n    "norm": ObjectiveSpec("norm:Norm", "length (in all), loss"),\n',
    "METRICS = {\n": 'METRICS = {\n    "length": MetricSpec("", higher_is_better=True),\n',
}
OBJECTIVE = '''
from attnprobe.intervention.objectives.embeddings import Representation, embed
from attnprobe.intervention.objectives.objective import Answer


class Norm(Representation):
    """Norm: how long the pooled state is."""

    name = "norm"

    def answer(self, batch, untouched=None):
        norm = embed(self.checkpoint, batch).norm(dim=-1)
        return Answer(norm, {"length": norm})
'''
FORMAT = '''
from attnprobe.table.formats import Format


def render(sheet):
    """Write tabs between cells."""
    rows = [[column.name for column in sheet.columns], *sheet.rows()]
    return "".join("\\t".join(map(str, row)) + "\\n" for row in rows)


FORMAT = Format(render)
'''
#: A line of the table of formats, and the reader that it names.
FORMATS = {
    "from attnprobe.corpus.source import": (
        "from attnprobe.corpus.paragraphs import read_paragraphs\nfrom attnprobe.corpus.source import"
    ),
    '    ".csv": read_csv,': '    ".csv": read_csv,\n    ".md": read_paragraphs,',
}
#: A kind of picture and a role, each in the tables that know them.
PICTURE = {
    '    "atlas",\n': '    "atlas",\n    "bare",\n',
    '= ("atlas", ': '= ("atlas", "bare", ',
}
FIGURE = {
    "FIGURES: Mapping[PictureKind, Figure] = {\n": (
        'FIGURES: Mapping[PictureKind, Figure] = {\n    "bare": Grid(fits=place_heads),\n'
    ),
}
MARK = {'    "broad": RoleMark': '    "local": RoleMark("E", "#000080"),\n    "broad": RoleMark'}
CRITERION = {
    '    "broad": 0.6,\n': '    "broad": 0.6,\n    "local": 0.5,\n',
    "    BROAD,\n": '    Criterion("local", {"diagonal_excess": "local"}),\n    BROAD,\n',
}
DATA = '''
from attnprobe.corpus.cells import Row, make_table
from attnprobe.corpus.streams import decode_lines


def read_paragraphs(stream, source):
    """Read the paragraphs of a file as rows of a column ``text``."""
    parts = "".join(decode_lines(stream, source.spec)).split("\\n\\n")
    rows = (
        Row(f"paragraph {number} of {source.spec}", {"text": " ".join(part.split())})
        for number, part in enumerate(parts, start=1)
    )
    return make_table(source.spec, rows)
'''
STATISTIC = '''
from attnprobe.statistics.statistic import Family, Statistic


def runner_up(block):
    """Probability of the second most attended key, the second largest p_j."""
    return block.probabilities.topk(2, -1).values[..., 1]


RUNNER_UP = Statistic("runner_up", "share", runner_up, family=Family("runners", "runners-up", 98), order=98)
'''
COMMAND = '''
from typing import Annotated, Any, Unpack

from attnprobe.options import CensusOptions, ModelArgument, TableOutput, TextsArgument
from attnprobe.registry import Option, command


@command(TableOutput)
def sharpest(model: ModelArgument, texts: TextsArgument = None, *,
             count: Annotated[int, Option("So many heads.", low=1)] = 3,
             **options: Unpack[CensusOptions]) -> Any:
    """Name the sharpest heads.

    Examples:
      attnprobe sharpest demo
    """
    from attnprobe.commands.census import entropy
    from attnprobe.survey.checks import keep_layers

    table = entropy(model, texts, **options)
    assert count == 2
    return keep_layers(table, [0])
'''


def test_in_a_copy_of_the_package(package_copy: tuple[Path, Callable[..., str]]):
    """An objective and a metric, formats of tables and data, a statistic, a command, an option: a file each.

    A picture and a role are lines of tables.
    """
    copy, run = package_copy
    lines = {
        copy / "tasks.py": TASKS,
        copy / "corpus" / "rows.py": FORMATS,
        copy / "reports" / "charts" / "kinds.py": PICTURE,
        copy / "reports" / "charts" / "figures.py": FIGURE,
        copy / "table" / "naming.py": MARK,
        copy / "statistics" / "role_table.py": CRITERION,
    }
    for path, changes in lines.items():
        content = path.read_text("utf-8")
        for old, new in changes.items():
            assert content.count(old) == 1
            content = content.replace(old, new)
        path.write_text(content, "utf-8")
    (copy / "intervention" / "objectives" / "norm.py").write_text(OBJECTIVE, "utf-8")
    (copy / "table" / "formats" / "tsv.py").write_text(FORMAT, "utf-8")
    (copy / "commands" / "sharpest.py").write_text(COMMAND, "utf-8")
    (copy / "statistics" / "runners.py").write_text(STATISTIC, "utf-8")
    (copy / "corpus" / "paragraphs.py").write_text(DATA, "utf-8")
    (copy.parent / "data.md").write_text("the dog\nran\n\nshe came late\n", "utf-8")
    read = run("entropy", "demo", "-d", str(copy.parent / "data.md"), "-q").splitlines()
    assert read[1].startswith("demo,data.md,0,0,2,")

    ablate = ["ablate", "demo", "--limit", "4", "--objective", "norm", "-q"]
    lines = run(*ablate, "--format", "tsv").splitlines()
    cells = dict(zip(lines[0].split("\t"), lines[1].split("\t"), strict=True))
    assert (cells["objective"], cells["metric"]) == ("norm", "length")
    assert float(cells["score"]) > 0
    help_text = run("ablate", "--help")
    assert "--metric" in help_text
    census = run("census", "demo", "--limit", "4", "--statistics", "runners", "-q")
    assert census.startswith("model,dataset,layer,head,n,runner_up,runner_up_se")
    rows = run("sharpest", "demo", "--limit", "4", "--count", "2", "-q").splitlines()
    assert rows[0].startswith("model,dataset,layer,head,n,entropy")
    assert {row.split(",")[2] for row in rows[1:]} == {"0"}

    table = copy.parent / "roles.csv"
    run("roles", "demo", "--limit", "30", "-o", str(table), "-q")
    assert ",local,diagonal_excess," in table.read_text("utf-8")
    assert run("plot", str(table), "--kind", "bare", "--only", "value", "-q").startswith("<svg")
