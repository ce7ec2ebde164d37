"""One function a command, one command a function: the same options, defaults, tables and sentences."""

import inspect
import io
import json
import sys
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

import attnprobe
from attnprobe import AttnprobeError
from attnprobe.cli.app import COMMANDS, run
from attnprobe.commands.output import Output
from attnprobe.table.formats.json import render

#: A command line is run again by the command line; in Python, ``record`` reads what it reads.
LINE_ONLY = {"rerun"}
NAMES = [command.__name__ for command in COMMANDS if command.__name__ not in LINE_ONLY]
NO_COMMANDS = {
    *(
        "AttentionBlock",
        "AttnprobeError",
        "AttnprobeWarning",
        "HeadCallback",
        "HeadTable",
        "Source",
        "Statistic",
    ),
    *("load_pruned", "record", "statistic"),
}
#: What a keyword is called where it holds more than a path.
RENAMED = {"dataset": "texts", "rank_data": "rank_texts"}
#: What the command that reads no texts calls what it reads.
PAIRS = {"patch": {"dataset": "pairs"}}
#: Where a table goes and how much is said: for the command line only.
OUTPUT = {option.name for option in Output.options}
#: Functions that are given what is right for each text.
LABELLED = {"importance", "ablate", "interact", "prune", "dynamics", "correlate", "compare", "report"}
#: What writes a file that Python has as an object: ``picture.clusters`` is a table, which is saved.
LINE_OPTIONS = {"plot": {"save_clusters"}}
#: Those that take several models, as their first argument.
SEVERAL = {"compare", "dynamics"}
#: What has no option: objects of Python.
PYTHON_ONLY = {
    name: {
        *({"progress"} if name not in {"merge", "plot"} else ()),
        *({"statistics"} if name == "merge" else ()),
        *({"tokenizer"} if name not in {"merge", "plot", *SEVERAL} else ()),
        *({"tokenizers"} if name == "compare" else ()),
        *({"name"} if name not in {"merge", "plot", "induction", "view"} else ()),
        *({"labels"} if name in LABELLED else ()),
        *({"targets"} if name == "census" else ()),
    }
    for name in NAMES
}


def keywords(name):
    return inspect.signature(getattr(attnprobe, name)).parameters


def options(name):
    """Give the options of a command by the names of the function's keywords."""
    command = next(command for command in COMMANDS if command.__name__ == name)
    every = inspect.signature(command).parameters.values()
    return {
        PAIRS.get(name, RENAMED).get(one.name, one.name): one
        for one in every
        if one.name not in OUTPUT | LINE_OPTIONS.get(name, set()) or one.name in keywords(name)
    }


def choices(annotation):
    """Give the words that a parameter may be, if there are only some."""
    parts = (annotation, *get_args(annotation))
    parts = [inner for part in parts for inner in (part, *get_args(part))]
    return {word for part in parts if get_origin(part) is Literal for word in get_args(part)}


def least(option):
    return getattr(get_args(option.annotation)[1], "min", None)


def test_every_command_is_a_function_and_the_other_way_round():
    assert set(NAMES) == set(attnprobe.__all__) - NO_COMMANDS
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_options_with_the_same_defaults(name):
    ours = {one: parameter for one, parameter in keywords(name).items() if one not in PYTHON_ONLY[name]}
    assert set(PYTHON_ONLY[name]) <= set(keywords(name))
    assert {one: each.default for one, each in ours.items()} == {
        one: each.default for one, each in options(name).items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_same_choices(name):
    for one, option in options(name).items():
        allowed = choices(option.annotation)
        if allowed and one != "device_map":  # Python takes a dict too, and whatever accelerate names
            assert choices(keywords(name)[one].annotation) == allowed, one


SURVEYS = ["census", "entropy", "positional", "special", "rare", "distance", "rank", "mixing"]


@pytest.mark.parametrize("name", [*SURVEYS, "doctor"])
def test_surveys(same, saved, text, name):
    """Cut into windows of ten tokens, which is said."""
    asked = {"model": saved("bert"), "texts": text, "max_length": 12, "content_only": True, "limit": 4}
    table, said = same(name, asked)
    assert len(table["rows"]) == {"distance": 18, "doctor": len(table["rows"])}.get(name, 12)
    assert any("cut into" in sentence for sentence in said)


@pytest.mark.parametrize("name", [*SURVEYS, "doctor"])
def test_the_default_is_the_sentences_that_ship_with_attnprobe(same, name):
    table, _ = same(name, {"model": "demo", "limit": 2, "batch_tokens": 64, "dtype": "float64"})
    assert {row["dataset"] for row in table["rows"]} == {"embedded"}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("census", {"statistics": ["previous", "entropy", "special"]}),
        ("rare", {"frequencies": "counts.tsv"}),
        ("census", {"everything": True}),
        ("distance", {"by": "head"}),
        ("distance", {"by": "layer"}),
        ("distance", {"all_pairs": True}),
        ("mixing", {"by": "pair", "content_only": True}),
        ("mixing", {"layers": "1"}),
        ("rank", {"map_rank": True, "content_only": True}),
        ("special", {"truncate": True, "max_length": 8}),
        ("entropy", {"memory": "64MiB", "workers": 2, "threads": 2}),
        ("positional", {"control": True, "seed": 7}),
        *((name, {"weights": "both", "content_only": True}) for name in SURVEYS[:6]),
        ("distance", {"weights": "norm", "by": "layer"}),
        ("positional", {"control": True, "content_only": True, "memory": "64MiB", "layers": "1"}),
    ],
)
def test_options_of_surveys(same, saved, text, tmp_path, monkeypatch, name, more):
    monkeypatch.chdir(tmp_path)
    Path("counts.tsv").write_text("the\t90\nof\t40\nparcel\t1\n")
    table, _ = same(name, {"model": saved("bert"), "texts": text, **more})
    assert table["rows"]


@pytest.mark.parametrize(
    "more",
    [{}, {"length": 9, "sequences": 5, "seed": 0}, {"layers": "0,2", "batch_tokens": 30, "workers": 2}],
)
def test_random_tokens(same, saved, more):
    table, said = same("induction", {"model": saved("bert"), **more})
    assert {row["dataset"] for row in table["rows"]} == {"random tokens, repeated"}
    assert {row["n"] for row in table["rows"]} == {more.get("sequences", 64)}
    assert said == []


def test_a_state_is_of_both(same, by_function, saved, text, tmp_path):
    """What a command has kept, the function goes on from."""
    asked = {"model": saved("bert"), "texts": text, "batch_tokens": 8}
    states = [tmp_path / "one", tmp_path / "two"]
    table, said = same("entropy", asked | {"resume": states[0]}, asked | {"resume": states[1]})
    assert said == []
    again, said = by_function("entropy", asked | {"resume": states[0]})
    assert again["rows"] == table["rows"]
    assert len(said) == 1
    assert said[0].startswith(f"going on from {states[0]}: ")


def test_columns_and_targets(same, saved, reviews):
    asked = {"text_column": "review", "target_column": "stars"}
    table, said = same("entropy", {"model": saved("t5"), "texts": reviews, **asked})
    assert {row["attention"] for row in table["rows"]} == {"encoder", "decoder", "cross"}
    assert said == ["1 example is left out for want of a target text."]
    pairs = {"text_column": "stars", "text_pair_column": "review"}
    table, _ = same("entropy", {"model": saved("bert"), "texts": reviews, **pairs})
    assert {row["n"] for row in table["rows"]} == {9}


def test_images(same, media_model, photos):
    table, _ = same("census", {"model": media_model("vit"), "texts": photos, "limit": 3})
    assert table["rows"][0]["dataset"] == "photos"


def test_standard_input(same, saved, monkeypatch):
    class Piped:
        @property
        def buffer(self):  # anew for each of the two that read it
            return io.BytesIO(b"the dog ran .\nis it late ?\n")

    monkeypatch.setattr(sys, "stdin", Piped())
    table, _ = same("entropy", {"model": saved("bert"), "texts": "-"})
    assert {row["n"] for row in table["rows"]} == {2}


@pytest.mark.parametrize("text_of", [list, tuple, iter])
def test_texts_one_by_one_are_as_a_file_of_them(same, saved, text, text_of):
    lines = text_of(text.read_text().splitlines())
    asked = {"model": saved("bert"), "max_length": 12}
    given = attnprobe.census(**asked, texts=lines, name="text.txt")
    written = attnprobe.census(**asked, texts=text)
    assert given.to_csv() == written.to_csv()


TASK = {"text_column": "review", "label_column": "stars"}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("importance", {}),
        ("importance", {"method": "lrp"}),
        ("ablate", {"metric": "mcc", "correction": "bh", "seed": 3}),
        ("ablate", {"keep_one": True, "metric": "loss"}),
        ("prune", {"by": "ablation", "step": 0.3, "random_orders": 1}),
        ("prune", {"by": "gradient", "step": 0.5, "random_orders": 0, "rerank": True}),
    ],
)
def test_interventions(same, classifier, reviews, name, more):
    table, said = same(name, {"model": classifier, "texts": reviews, **TASK, **more})
    assert table["rows"]
    assert any("classification" in sentence for sentence in said)
    assert "1 example is left out for want of a label." in said


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("importance", {"objective": "representation", "seed": 7}),
        ("importance", {"method": "confidence", "content_only": True}),
        ("ablate", {"objective": "representation", "metric": "similarity"}),
    ],
)
def test_tasks_without_labels(same, saved, text, name, more):
    same(name, {"model": saved("bert"), "texts": text, **more})


def test_an_order_from_a_table(same, classifier, reviews, tmp_path):
    attnprobe.entropy(classifier, reviews, text_column="review").save(tmp_path / "heads.csv")
    by = {"by": f"{tmp_path / 'heads.csv'}:entropy", "highest_first": True, "step": 0.5, "random_orders": 0}
    same("prune", {"model": classifier, "texts": reviews, **TASK, **by})


def test_an_order_from_other_texts(same, classifier, reviews, tmp_path):
    others = tmp_path / "others.tsv"
    others.write_text("\n".join(reviews.read_text().splitlines()[:6]))
    asked = {"texts": reviews, "rank_texts": others, "step": 0.5, "random_orders": 1, "seed": 3}
    same("prune", {"model": classifier, **asked, **TASK})


@pytest.mark.parametrize("physical", [False, True])
def test_pruned_checkpoints(same, by_command, classifier, reviews, tmp_path, physical):
    asked = {"by": "gradient", "step": 0.5, "random_orders": 0, "share": 0.5, "physical": physical}
    asked |= {"model": classifier, "texts": reviews, **TASK}
    one, two = tmp_path / "one", tmp_path / "two"
    same("prune", asked | {"save": one, "overwrite": True})  # the function over what the command wrote
    by_command("prune", asked | {"save": two})
    ours, theirs = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in (one, two))
    assert ours.keys() == theirs.keys()
    # In the record are the command and the folder.
    assert [name for name in ours if ours[name] != theirs[name]] == ["attnprobe.json"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "the objective is classification"),
        ({"measure": "entropy", "content_only": True, "weights": "both", "layers": "0,2"}, None),
        *(
            pytest.param(*one, marks=pytest.mark.exhaustive)
            for one in (
                ({"by": "step", "method": "lrp", "seed": 7}, "the objective is classification"),
                ({"measure": "prune", "prune_step": 0.5, "random_orders": 1, "metric": "mcc"}, "one half"),
                ({"measure": "everything", "by": "step", "keep": True, "max_length": 6}, "cut into"),
            )
        ),
    ],
)
@pytest.mark.slow
def test_checkpoints_of_a_run(same, training, reviews, more, said):
    labelled = "measure" not in more or more["measure"] == "prune"
    asked = {"texts": reviews, "text_column": "review", **({"label_column": "stars"} if labelled else {})}
    models = [str(training / "checkpoint-*")]
    if labelled:
        reviews.write_text(reviews.read_text().replace("so-so", "bad"))  # of which the run knows no class
    table, heard = same("dynamics", {"model": models, **asked, **more})
    assert list(dict.fromkeys(row["step"] for row in table["rows"])) == [0, 50, 100, 1000]
    assert said is None or any(said in sentence for sentence in heard)


@pytest.mark.slow
def test_given_steps_and_revisions(same, saved, text, tmp_path):
    models = [str(saved("bert"))] * 2
    asked = {"measure": "entropy", "texts": text, "steps": "7,3", "resume": tmp_path / "state"}
    table, _ = same("dynamics", {"model": models, **asked}, {"model": models, **asked, "resume": None})
    assert {row["step"] for row in table["rows"]} == {3, 7}


@pytest.mark.parametrize(
    ("more", "rows"),
    [
        ({}, 12),
        ({"by": "layer", "measure": "entropy,previous", "weights": "both"}, 3),
        ({"match": "model", "layers": "0,2", "content_only": True}, 8),
        ({"nearest": True, "measure": "entropy", "resume": "state"}, 12),
    ],
)
@pytest.mark.slow
def test_checkpoints_side_by_side(same, classifier, saved, reviews, tmp_path, more, rows):
    other = classifier if "label_column" in more else saved("bert")
    asked = {"model": [str(classifier), str(other)], "texts": reviews, "text_column": "review", **more}
    if "resume" in more:
        asked["resume"] = tmp_path / "state"
    table, _ = same("compare", asked, asked | ({"resume": None} if "resume" in more else {}))
    assert len(table["rows"]) == rows


@pytest.mark.parametrize("by", ["model", "head"])
def test_two_tables(same, classifier, reviews, tmp_path, by):
    paths = [tmp_path / "in.csv", tmp_path / "out.json"]
    for path, limit in zip(paths, (None, 7), strict=True):
        attnprobe.importance(classifier, reviews, limit=limit, **TASK).save(path)
    sides = dict(zip(("in_domain", "out_domain"), paths, strict=True))
    table, _ = same("correlate", {**sides, "by": by, "column": "importance_normalized"})
    assert len(table["rows"]) == (1 if by == "model" else 12)
    read = {side: attnprobe.HeadTable.read(path) for side, path in sides.items()}
    found = attnprobe.correlate(**read, by=by, column="importance_normalized")
    measures = [column.name for column in found.columns if column.role != "key"]
    rows = json.loads(render(found))["rows"]
    assert [[row[one] for one in measures] for row in rows] == [
        [row[one] for one in measures] for row in table["rows"]
    ]


@pytest.mark.parametrize(
    "more", [{}, {"measure": "ablation", "metric": "loss", "by": "head"}, {"method": "lrp"}]
)
def test_two_datasets(same, classifier, reviews, more):
    sides = {"in_domain": reviews, "out_domain": reviews}
    table, said = same("correlate", {"model": classifier, **sides, **TASK, **more})
    assert len(table["rows"]) == (12 if "by" in more else 1)
    assert said


@pytest.mark.parametrize(
    "more", [{}, {"measure": "ablation", "metric": "loss", "by": "head"}, {"method": "lrp", "limit": 8}]
)
@pytest.mark.slow
def test_several_checkpoints(same, classifier, reviews, more):
    asked = {"model": [str(classifier)] * 3, "texts": reviews, **TASK, **more}
    table, said = same("correlate", asked)
    assert len(table["rows"]) == (24 if "by" in more else 2)
    assert said


def test_tables_of_different_models(same, classifier, saved, reviews, tmp_path):
    sides = {"in_domain": tmp_path / "in.csv", "out_domain": tmp_path / "out.csv"}
    for path, model in zip(sides.values(), (classifier, saved("bert")), strict=True):
        asked = {"text_column": "review", "objective": "representation"}
        attnprobe.importance(model, reviews, **asked).save(path)
    table, _ = same("correlate", {**sides, "across_models": True})
    assert table["rows"][0]["model_out"] == "bert"


def test_what_follows_a_question_mark_is_a_source(same, classifier, reviews):
    spec = f"{reviews}?text-column=review&label-column=stars"
    source = attnprobe.Source(str(reviews), text_column="review", label_column="stars")
    asked = {"model": classifier, "limit": 8}
    same(
        "correlate",
        asked | {"in_domain": spec, "out_domain": spec},
        asked | {"in_domain": source, "out_domain": source},
    )


def test_merged_tables(same, saved, text, tmp_path):
    lines = text.read_text().splitlines()
    paths, tables = [tmp_path / "one.csv", tmp_path / "two.json"], []
    for path, part in zip(paths, (lines[:1], lines[1:]), strict=True):
        tables.append(attnprobe.census(saved("bert"), part))
        tables[-1].save(path)
    table, _ = same("merge", {"tables": paths})
    assert {row["n"] for row in table["rows"]} == {4}
    assert attnprobe.merge(tables).to_csv() == attnprobe.merge(paths).to_csv()


def test_a_failed_check_is_in_both_tables(tmp_path, capfd):
    """Only the command ends in exit code 1."""
    (tmp_path / "broken").mkdir()
    path = tmp_path / "table.json"
    assert run(["doctor", str(tmp_path / "broken"), "-o", str(path)]) == 1
    rows = json.loads(path.read_text())["rows"]
    found = attnprobe.doctor(tmp_path / "broken")
    assert list(found["status"]) == [row["status"] for row in rows] == ["failed"]
    assert list(found["detail"]) == [row["detail"] for row in rows]
    assert rows[0]["detail"] in capfd.readouterr().err


BOUNDED = [
    (name, one) for name in NAMES for one, option in options(name).items() if least(option) is not None
]
CHOSEN = [
    (name, one) for name in NAMES for one, option in options(name).items() if choices(option.annotation)
]


@pytest.fixture
def asked(classifier, reviews):
    """Give sound arguments for a function."""

    def arguments(name):
        link = {"source": [0, 1], "target": [2, 3], "label": "x"}
        sound = {
            "plot": {"tables": attnprobe.HeadTable("one head", [], {})},
            "correlate": {"model": classifier, "in_domain": reviews, "out_domain": reviews, **TASK},
            "compare": {"model": [classifier] * 2, "texts": ["The parcel came late."]},
            "dynamics": {"model": [classifier] * 2, "steps": [1, 2], "texts": reviews, **TASK},
            "induction": {"model": classifier, "length": 4, "sequences": 2},
            "syntax": {"model": classifier},
            "coreference": {"model": classifier},
            "probe": {"model": classifier},
            "view": {"model": classifier, "text": "the dog ran"},
            "patch": {"model": classifier, "pairs": [{"clean": "a b", "corrupted": "b a", "answer": 1}]},
            "links": {"model": classifier, "texts": [{"text": "a b", "links": [link]}]},
        }
        if name in sound:
            return sound[name]
        labelled = TASK if "labels" in keywords(name) else {"text_column": "review"}
        return {"model": classifier, "texts": reviews, **labelled}

    return arguments


@pytest.mark.parametrize(("name", "one"), BOUNDED)
def test_numbers_that_the_command_refuses_are_refused(asked, name, one):
    more = {"measure": "ablation"} if name == "correlate" else {}
    more = {"measure": "importance"} if (name, one) == ("compare", "seed") else more
    with pytest.raises(AttnprobeError) as caught:
        getattr(attnprobe, name)(**{**asked(name), **more, one: least(options(name)[one]) - 1})
    assert one.replace("_", "-") in str(caught.value).replace("_", "-")


@pytest.mark.parametrize(("name", "one"), CHOSEN)
def test_words_that_the_command_refuses_are_refused(asked, name, one):
    more = {"measure": "ablation"} if (name, one) == ("correlate", "metric") else {}
    options = {**asked(name), **more, one: "nonsense"}
    if name == "doctor":  # whose table says so
        assert "nonsense" in attnprobe.doctor(**options)["detail"][0]
        return
    with pytest.raises(AttnprobeError, match="nonsense"):
        getattr(attnprobe, name)(**options)
