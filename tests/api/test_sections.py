"""The sections of a report: those of the single commands in fewer passes, and none of them lost."""

import json
import re

import pytest

import attnprobe
from attnprobe.commands import _sections
from attnprobe.errors import AttnprobeError

TEXTS = [
    "the river bank was slow .",
    "a bird ran over the red house",
    "the dog and the cat came late .",
    "never stop by the river at night",
    "is it late ?",
    "the stone road",
] * 2
#: Small, so that a pass has several batches.
SMALL = {"batch_tokens": 16}

#: What the section census leaves in a folder.
KEPT = ["census.csv", "census.csv.json", "measured.json", "profile.csv", "profile.csv.json"]


class Stop(BaseException):
    """Ends a run on the spot: nobody catches it."""


@pytest.fixture
def gold(tmp_path):
    """Write a treebank that has coreference, too."""
    treebank = tmp_path / "gold.conllu"
    rows = [
        "1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_",
        "2\tdog\t_\tNOUN\t_\t_\t3\tnsubj\t_\tEntity=(e1)",
        "3\tran\t_\tVERB\t_\t_\t0\troot\t_\t_",
        "4\tcat\t_\tNOUN\t_\t_\t3\tobl\t_\tEntity=(e2)",
        "5\tthey\t_\tPRON\t_\t_\t3\tobj\t_\tEntity=(e1)",
    ]
    sentence = "# text = the dog ran cat they\n" + "\n".join(rows) + "\n\n"
    treebank.write_text(
        "# global.Entity = eid\n" + "".join(f"# newdoc id = d{number}\n{sentence}" for number in range(40))
    )
    return treebank


@pytest.fixture
def mine(tmp_path):
    """Write links of one's own."""
    links = [{"source": [0, 3], "target": [4, 7], "label": "det"}]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(json.dumps({"text": "the dog ran", "links": links}) for _ in range(50)))
    return path


def record(table):
    return {name: one for name, one in table.provenance.items() if name not in ("created", "command")}


def assert_same(table, other):
    assert table.to_csv() == other.to_csv()
    assert table.notes == other.notes
    assert table.title == other.title
    assert record(table) == record(other)


@pytest.mark.parametrize("model", ["t5"])
def test_tables_of_one_pass_are_those_of_their_commands(saved, model):
    """Digit for digit, and with the same notes and the same record, sums included."""
    made = attnprobe.report(saved(model), TEXTS, sections="census,roles,distance", **SMALL)
    assert_same(made.tables["census"], attnprobe.census(saved(model), TEXTS, **SMALL))
    assert_same(made.tables["roles"], attnprobe.roles(saved(model), TEXTS, **SMALL))
    assert_same(made.tables["distance"], attnprobe.distance(saved(model), TEXTS, all_pairs=True, **SMALL))


def test_roles_take_gold_links_thresholds_and_a_seed(saved, gold, mine):
    named = {"treebank": str(gold), "coreference": [str(gold)], "thresholds": "broad=0.3,syntactic=0.01"}
    named |= {"links": str(mine), "links_name": "noun", "seed": 7, "limit": 30}
    expected = attnprobe.roles(saved("bert"), TEXTS, **named)
    assert set(expected.provenance["other_datasets"]) == {"treebank", "coreference", "links"}
    assert expected.provenance["asked"]["links"] == "noun"
    assert expected.to_csv() != attnprobe.roles(saved("bert"), TEXTS).to_csv()
    made = attnprobe.report(saved("bert"), TEXTS, sections="census,roles,distance", **named)
    assert_same(made.tables["roles"], expected)
    assert_same(made.tables["census"], attnprobe.census(saved("bert"), TEXTS, limit=30))
    alone = attnprobe.report(saved("bert"), TEXTS, sections="roles", **named)
    assert_same(alone.tables["roles"], expected)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"treebank": "no-such.conllu"}, "no-such.conllu"),
        ({"links": "-"}, "not standard input"),
        ({"links": [], "links_name": "self"}, "self is another role already"),
        ({"thresholds": "broad=0"}, "threshold broad"),
        ({"label_column": "nothing"}, "nothing"),
    ],
)
def test_what_a_later_section_would_refuse_is_refused_first(classifier, reviews, passes, options, says):
    with pytest.raises(AttnprobeError, match=says):
        attnprobe.report(classifier, reviews, text_column="review", **options)
    assert passes["batches"] == 0


# Stopped, and gone on


def undated(html):
    return re.sub(r"20\d\d-\d\d-\d\dT[\d:+]+", "", html)


@pytest.mark.filterwarnings("ignore::attnprobe.AttnprobeWarning")
def test_tables_that_lie_in_the_folder_are_not_measured_again(saved, passes, tmp_path):
    """A killed report goes on behind the tables that were saved, to the same page."""
    options = {"save_tables": tmp_path / "tables", "sections": "census,sentences,importance", **SMALL}
    options |= {"objective": "representation"}
    model = str(saved("bert"))
    expected = attnprobe.report(model, TEXTS, **{**options, "save_tables": None})
    with pytest.MonkeyPatch.context() as patch:

        def stops(*_, **__):
            raise Stop

        stops.command = attnprobe.importance.command
        patch.setitem(_sections._MEASURED, "importance", (stops, set()))
        with pytest.raises(Stop):
            attnprobe.report(model, TEXTS, **options)
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == KEPT
    passes["batches"] = 0
    made = attnprobe.report(model, TEXTS, **options)
    assert passes["batches"] == len(made.contents.sentences)  # of sentences, and none of the census
    assert undated(made.html) == undated(expected.html)


@pytest.mark.filterwarnings("ignore::attnprobe.AttnprobeWarning")
def test_tables_of_something_else_are_neither_taken_nor_lost(saved, passes, tmp_path):
    options = {"sections": "census", "save_tables": tmp_path, **SMALL}
    attnprobe.report(str(saved("bert")), TEXTS, **options)
    content, passes["batches"] = (tmp_path / "census.csv").read_bytes(), 0
    for model, texts, more in [
        ("roberta", TEXTS, {}),
        ("bert", TEXTS[1:], {}),
        ("bert", TEXTS, {"max_length": 12}),
    ]:
        with pytest.raises(AttnprobeError, match="already exists"):
            attnprobe.report(str(saved(model)), texts, **options, **more)
        assert passes["batches"] == 0
        assert (tmp_path / "census.csv").read_bytes() == content
    # Written over, they are those of the new question, and the old one finds nothing.
    attnprobe.report(str(saved("bert")), TEXTS[1:], overwrite=True, **options)
    assert (tmp_path / "census.csv").read_bytes() != content
    passes["batches"] = 0
    with pytest.raises(AttnprobeError, match="already exists"):
        attnprobe.report(str(saved("bert")), TEXTS, **options)
    attnprobe.report(str(saved("bert")), TEXTS[1:], **options)
    assert passes["batches"] == 0


# Sections that fail, and folders that take nothing


def test_a_section_that_fails_leaves_the_others(saved, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("boom\nmore")

    fails.command = attnprobe.importance.command
    monkeypatch.setitem(_sections._MEASURED, "importance", (fails, set()))
    options = {"sections": "census,importance", "objective": "representation", **SMALL}
    folder = tmp_path / "tables"
    with pytest.raises(AttnprobeError, match=r"The section importance failed: .*boom") as raised:
        attnprobe.report(saved("bert"), TEXTS, save_tables=folder, **options)
    assert list(raised.value.table) == ["census", "profile"]
    assert sorted(path.name for path in folder.iterdir()) == KEPT


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"by_group": "genre", "sections": "census"}, "by-group .* section groups"),
        ({"sections": "syntax"}, "section syntax .*treebank"),
    ],
)
def test_sections_of_gold_links_and_groups_need_them(saved, options, says):
    with pytest.raises(AttnprobeError, match=says):
        attnprobe.report(saved("bert"), TEXTS, **options)
