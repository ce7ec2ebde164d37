"""What docs/house.md says a change costs: the ten are made in a copy of the package, and run."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

STATISTIC = '''

def runner_up(block: AttentionBlock) -> Tensor:
    """Probability of the second most attended key, the second largest p_j."""
    return block.probabilities.topk(2, -1).values[..., 1]


RUNNER_UP = _define("runner_up", "share", runner_up)
'''
OBJECTIVE = '''
from attnprobe.intervention.objectives.embeddings import embed
from attnprobe.intervention.objectives.objective import Answer, Objective


class Norm(Objective):
    """Norm: how long the pooled state is."""

    name = "norm"

    def answer(self, batch, untouched=None):
        norm = embed(self.checkpoint, batch).norm(dim=-1)
        return Answer(norm, {"length": norm})
'''
METRIC = '''

def balanced_accuracy(classes: int) -> Score:
    """Score the mean over classes of the share of their texts that is right."""
    return _score_labels("balanced", lambda counts: _divide(counts[..., 0], counts[..., 2]).mean(-1), classes)


CLASS_METRICS["balanced"] = balanced_accuracy
'''
DATA = """
def read_paragraphs(stream: BinaryIO, source: Source) -> Table:
    parts = "".join(decode_lines(stream, source.spec)).split("\\n\\n")
    rows = enumerate(parts, start=1)
    return make_table(source.spec, (Row(f"paragraph {number}", {"text": part}) for number, part in rows))


"""
FORMAT = '''
from attnprobe.table.formats import Format


def render(sheet):
    """Write tabs between cells."""
    rows = [[column.name for column in sheet.columns], *sheet.rows()]
    return "".join("\\t".join(map(str, row)) + "\\n" for row in rows)


FORMAT = Format(render)
'''
OPTION = '*, top: Annotated[int | None, Option("So many heads.", low=1)] = None, '
COMMAND = '''
from typing import Annotated, Any, Unpack

from attnprobe.options import CensusOptions, ModelArgument, TableOutput, TextsArgument
from attnprobe.registry import Option, command
from attnprobe.session.survey import open_survey


@command(TableOutput)
def sharpest(model: ModelArgument, texts: TextsArgument = None, *,
             layer: Annotated[int, Option("The layer.")] = 0,
             **options: Unpack[CensusOptions]) -> Any:
    """Which heads of a layer are the sharpest?

    Examples:
      attnprobe sharpest demo
    """
    with open_survey("sharpest", model, texts, {**options, "layers": layer}) as survey:
        from attnprobe.statistics.entropy import CONFIDENCE

        return survey.measure([CONFIDENCE])
'''
#: What is added to files: text behind some text of it, or at its end; or new files.
CHANGES: dict[str, str | dict[str, str]] = {
    "statistics/entropy.py": {"": STATISTIC},
    "tasks.py": {
        "OBJECTIVES = {\n": '    "norm": ObjectiveSpec("norm:Norm", "length (in all), loss"),\n',
        "METRICS = {\n": '    "length": MetricSpec(""),\n    "balanced": MetricSpec(""),\n',
        '"accuracy, mcc, ': "balanced, ",
    },
    "intervention/objectives/norm.py": OBJECTIVE,
    "intervention/metrics/score.py": {"": METRIC},
    "corpus/rows.py": {
        "# ---- words with labels\n": DATA,
        '    ".csv": read_csv,\n': '    ".md": read_paragraphs,\n',
    },
    "table/formats/tabs.py": FORMAT,
    "commands/census.py": {
        "def entropy(\n    model: ModelArgument, texts: TextsArgument = None, ": OPTION,
        '_survey_family("entropy", model, texts, options)': ".take(rows=top)",
    },
    "commands/sharpest.py": COMMAND,
    "reports/charts/figures.py": {"Figure] = {\n": '    "bare": Grid(fits=place_heads),\n'},
    "reports/charts/kinds.py": {'_OF_HEADS = ("atlas", ': '"bare", '},
    "table/naming.py": {
        "RoleMark] = {\n": '    "local": RoleMark("E", "#000080", "nearby"),\n',
        "THRESHOLDS: dict[str, float] = {\n": '    "local": 0.5,\n',
        "CRITERIA = (\n": '    Criterion("local", {"diagonal_excess": "local"}),\n',
    },
}
#: What is said of the type of the model demo, last.
QUIRK = {"_REASONS = {\n": '    "it is a toy": "modernbert",\n'}


def add(path: Path, change: str | dict[str, str]) -> None:
    if isinstance(change, str):
        path.write_text(change, "utf-8")
        return
    content = path.read_text("utf-8")
    for before, added in change.items():
        assert not before or content.count(before) == 1, (path, before)
        content = content.replace(before, before + added) if before else content + added
    path.write_text(content, "utf-8")


def test_ten_changes(package_copy: tuple[Path, Callable[..., str]]):
    """Each is made as docs/house.md says, in the files that it names, and works from the command line."""
    copy, run = package_copy
    for name, change in CHANGES.items():
        add(copy / name, change)
    (copy.parent / "data.md").write_text("the dog\nran\n\nshe came late\n", "utf-8")
    (copy.parent / "data.tsv").write_text("text\tlabel\nthe dog ran\t0\nshe came late\t1\n", "utf-8")

    words = ["entropy", "demo", "-d", "data.md", "--top", "3", "--format", "tabs", "-q"]
    header, *rows = [line.split("\t") for line in run(*words).splitlines()]
    first = dict(zip(header, rows[0], strict=True))
    assert (len(rows), first["dataset"], first["n"]) == (3, "data.md", "2")
    assert 0 < float(first["runner_up"]) < float(first["confidence"])

    norm = run("ablate", "demo", "--limit", "4", "--objective", "norm", "-q").splitlines()[1].split(",")
    assert norm[2:4] == ["norm", "length"]
    assert float(norm[8]) > 0
    words = ["importance", "demo", "--limit", "4", "--objective", "norm", "--method", "lrp", "-q"]
    assert "norm has no margin to explain" in run(*words, code=2)
    words = ["ablate", "demo", "-d", "data.tsv", "--objective", "classification", "--force-head", "-q"]
    assert run(*words, "--metric", "balanced").splitlines()[1].split(",")[3] == "balanced"

    rows = run("sharpest", "demo", "--limit", "4", "--layer", "1", "-q").splitlines()
    assert rows[0] == "model,dataset,layer,head,n,confidence,confidence_se"
    assert {row.split(",")[2] for row in rows[1:]} == {"1"}

    run("roles", "demo", "--limit", "30", "-o", "roles.csv", "-q")
    assert ",local,diagonal_excess," in (copy.parent / "roles.csv").read_text("utf-8")
    assert run("plot", "roles.csv", "--kind", "bare", "--only", "value", "-q").startswith("<svg")

    of_all, of_entropy, of_roles = (run(*name, "--help") for name in ([], ["entropy"], ["roles"]))
    assert "\u2502 sharpest " in of_all.partition("\u2502 doctor ")[2]
    assert "--top " in of_entropy
    assert ".tabs" in of_entropy
    assert "  local        nearby" in of_roles

    add(copy / "model" / "quirks.py", QUIRK)
    assert "'modernbert': it is a toy." in run("entropy", "demo", "-q", code=2)
