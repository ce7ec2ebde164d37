"""A quick report: the tables of its commands with documented options, which agree with those in full."""

import json
import re
import shlex

import numpy as np
import pytest
from scipy import stats

import attnprobe
from attnprobe.cli.app import run
from attnprobe.commands.call.quick import MARGIN, TARGETS, Budget
from attnprobe.errors import AttnprobeError

SECTIONS = ("census", "distance", "roles")
SECTIONS_FILE = "attnprobe.commands.call.sections"


@pytest.fixture(scope="module")
def quick():
    return attnprobe.report("demo", sections=[*SECTIONS, "sentences"], quick=True)


@pytest.fixture(scope="module")
def full():
    return {
        "census": attnprobe.census("demo"),
        "distance": attnprobe.distance("demo", all_pairs=True),
        "roles": attnprobe.roles("demo"),
    }


def read_numbers(table, name):
    return np.array([np.nan if cell is None else cell for cell in table.data[name]], float)


@pytest.mark.slow
def test_a_section_is_its_command_with_documented_options(quick):
    """Digit for digit; as many documents are read as the tokens of the first 128 of the order allow."""
    for name, more in {"census": {}, "distance": {"all_pairs": True}}.items():
        sample = quick.tables[name].provenance["options"]["sample"]
        expected = getattr(attnprobe, name)("demo", until=TARGETS[name], sample=sample, **more)
        assert quick.tables[name].to_csv() == expected.to_csv()
        assert quick.tables[name].notes[:-1] == expected.notes
    sample = quick.tables["roles"].provenance["options"]["sample"]
    assert sample <= 128
    assert quick.tables["roles"].to_csv() == attnprobe.roles("demo", sample=sample).to_csv()


@pytest.mark.parametrize("name", ["census", "distance"])
def test_numbers_agree_with_those_in_full_within_their_errors(quick, full, name):
    """Of all numbers, 95 % intervals hold about that share of those of all documents; each of the widest."""
    found, expected = quick.tables[name], full[name]
    read = found.provenance["until"]["documents"]
    assert read < expected.provenance["corpus"]["documents"] == 311
    inside = []
    for column in [one.name for one in found.columns if one.role == "measure"]:
        if f"{column}_se" not in found.data:
            continue
        value, error, truth = (
            read_numbers(*one) for one in ((found, column), (found, f"{column}_se"), (expected, column))
        )
        known = np.isfinite(value) & np.isfinite(error) & np.isfinite(truth)
        width = stats.t.ppf(0.975, read - 1) * error
        inside += (np.abs(value - truth)[known] <= width[known]).tolist()
        if column in TARGETS[name]:
            assert np.nanmax(width) <= TARGETS[name][column]
            assert np.nanmax(np.abs(value - truth)) <= TARGETS[name][column]
    assert len(inside) > 200
    assert np.mean(inside) > 0.9


def test_a_role_that_is_seen_in_a_few_documents_is_one_in_all(quick, full):
    roles = [table.data["role"] for table in (quick.tables["roles"], full["roles"])]
    both = [(one, other) for one, other in zip(*roles, strict=True) if one != "mixed"]
    assert len(both) >= 5
    assert all(one == other for one, other in both)
    values = [read_numbers(table, "value") for table in (quick.tables["roles"], full["roles"])]
    error = read_numbers(quick.tables["roles"], "value_se")
    same = [quick.tables["roles"].data["measure"][n] == full["roles"].data["measure"][n] for n in range(24)]
    apart = (np.abs(values[0] - values[1]) <= 3 * error)[same]
    assert apart[np.isfinite(error[same])].mean() > 0.9


def test_each_section_says_what_it_read_and_how_precise_it_is(quick):
    for name in ("census", "distance"):
        table = quick.tables[name]
        until = table.provenance["until"]
        widest = until["looks"][-1]["widest"]
        note = next(one for one in table.notes if "documents were enough" in one)
        assert note.startswith(f"{until['documents']} of 311 documents")
        column = next(iter(TARGETS[name]))
        errors = read_numbers(table, f"{column}_se")
        width = widest[column]["half_width"]
        assert width == pytest.approx(
            stats.t.ppf(0.975, until["documents"] - 1) * np.nanmax(errors), rel=0.01
        )
        of, size = f"of {column}", f"\u00b1{width:.2g}"
        assert f"{of} is {size}" in note or f"{of} {size}" in note
    table = quick.tables["roles"]
    read = table.provenance["corpus"]["documents"]  # of the sample, those with dependencies
    assert 100 < read <= table.provenance["options"]["sample"]
    width = stats.t.ppf(0.975, read - 1) * np.nanmax(read_numbers(table, "value_se"))
    said = f"{read} of 311 documents were read, drawn at random; the evidence of every role is within "
    assert f"{said}\u00b1{width:.2g} (95 %)." in table.notes
    for table in quick.tables.values():
        assert quick.html.count(table.notes[-1].split(":")[-1].strip()) >= 1


def test_the_command_that_is_said_gives_the_table_in_full(quick, full, tmp_path, monkeypatch):
    command = shlex.split(quick.tables["census"].notes[-1].partition(": ")[2])
    assert command == ["attnprobe", "census", "demo", "-o", "census.csv"]
    assert quick.tables["distance"].notes[-1].endswith(" attnprobe distance demo --all-pairs -o distance.csv")
    monkeypatch.chdir(tmp_path)
    assert run(command[1:]) == 0
    assert (tmp_path / "census.csv").read_text() == full["census"].to_csv()


def test_commands_have_the_options_that_they_take(saved, reviews, classifier, text):
    asked = {
        "text_column": "review",
        "label_column": "stars",
        "sections": "census,importance,prune,correlate",
    }
    asked |= {
        "objective": "classification",
        "metric": "mcc",
        "seed": 7,
        "max_length": 12,
        "out_domain": str(reviews),
    }
    made = attnprobe.report(str(classifier), str(reviews), quick=True, workers=1, **asked)
    said = {
        name: shlex.split(one.notes[-1].partition(": ")[2])[1:]
        for name, one in made.tables.items()
        if one.notes and "quick look" in one.notes[-1]
    }
    model, data = str(classifier), ["-d", str(reviews)]
    task = ["--objective", "classification", "--label-column", "stars"]
    assert set(said) == {"census", "importance", "prune", "correlate"}
    for name, words in said.items():
        assert words[:2] == [name, model]
        pairs = set(zip(words[2::2], words[3::2], strict=True))
        expected = {
            ("--text-column", "review"),
            ("--seed", "7"),
            ("--max-length", "12"),
            ("-o", f"{name}.csv"),
        }
        if name == "correlate":
            expected |= {("--in-domain", str(reviews)), ("--out-domain", str(reviews))}
        else:
            expected |= {tuple(data)}
        if name != "census":
            expected |= set(zip(task[::2], task[1::2], strict=True))
        if name == "prune":
            expected |= {("--metric", "mcc")}
        assert pairs == expected


def test_a_task_is_read_in_a_few_examples_and_pruned_by_bisection(classifier, reviews):
    asked = {"text_column": "review", "label_column": "stars"}
    made = attnprobe.report(classifier, reviews, sections="importance,prune", quick=True, **asked)
    sample = made.tables["prune"].provenance["options"]["sample"]
    expected = attnprobe.prune(classifier, reviews, margin=MARGIN, search="bisect", sample=sample, **asked)
    assert made.tables["prune"].to_csv() == expected.to_csv()
    assert "tried" in made.tables["prune"].data
    sample = made.tables["importance"].provenance["options"]["sample"]
    expected = attnprobe.importance(classifier, reviews, until=TARGETS["importance"], sample=sample, **asked)
    assert made.tables["importance"].to_csv() == expected.to_csv()
    assert "How many heads can go" in made.html


def test_a_smaller_sample_and_a_limit_stand(saved):
    texts = ["the dog and the cat came late .", "never stop by the river at night", "is it late ?"] * 20
    made = attnprobe.report(saved("bert"), texts, quick=True, sections="census,roles", sample=9)
    assert {one.provenance["corpus"]["documents"] for one in made.tables.values()} == {9}
    made = attnprobe.report(saved("bert"), texts, quick=True, sections="census", limit=20)
    assert "20 documents, all there were to read" in " ".join(made.tables["census"].notes)
    long = [" ".join(texts[:12]) for _ in range(200)]
    made = attnprobe.report(saved("bert"), long, quick=True, sections="distance")
    read = made.tables["distance"].provenance["until"]
    tokens = made.tables["distance"].provenance["corpus"]["tokens"]
    assert read["documents"] < 200
    assert tokens <= 8192 * 1.25  # windows have special tokens of their own
    assert f"{read['documents']} of 200 documents" in " ".join(made.tables["distance"].notes)


@pytest.mark.slow
def test_workers_change_nothing_and_the_next_run_neither(saved):
    texts = ["the dog and the cat came late .", "never stop by the river at night", "is it late ?"] * 60
    asked = {"sections": "census,roles,distance", "quick": True, "batch_tokens": 64}
    one, two = (attnprobe.report(saved("bert"), texts, workers=number, **asked) for number in (1, 3))
    for name, table in one.tables.items():
        assert two.tables[name].to_csv() == table.to_csv()
        assert two.tables[name].notes == table.notes


def test_it_goes_on_where_it_was_stopped(saved, tmp_path, monkeypatch):
    texts = ["the dog and the cat came late .", "never stop by the river at night", "is it late ?"] * 20
    state, asked = tmp_path / "state", {"sections": "census,roles,distance", "quick": True}
    undisturbed = attnprobe.report(saved("bert"), texts, **asked)

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"{SECTIONS_FILE}.roles", stop)
    with pytest.raises(KeyboardInterrupt):
        attnprobe.report(saved("bert"), texts, resume=state, **asked)
    monkeypatch.undo()
    monkeypatch.setattr(f"{SECTIONS_FILE}.census", stop)
    made = attnprobe.report(saved("bert"), texts, resume=state, **asked)
    for name, table in undisturbed.tables.items():
        assert made.tables[name].to_csv() == table.to_csv()
        assert made.tables[name].notes == table.notes
    with pytest.raises(AttnprobeError, match="another setting"):
        attnprobe.report(saved("bert"), texts, resume=state, sections="census,roles,distance")


def test_images_are_read_too(media_model, photos):
    made = attnprobe.report(str(media_model("vit")), str(photos), quick=True)
    assert {"census", "distance"} <= set(made.tables)
    assert made.tables["census"].provenance["until"]["targets"] == {"entropy": 0.1, "confidence": 0.02}


def test_one_document_has_a_page_without_errors(saved):
    """Intervals are then unknown, which the record says as nothing."""
    made = attnprobe.report(saved("bert"), ["the dog came late ."], quick=True, sections="census,distance")
    assert "is not enough" in " ".join(made.tables["census"].notes)
    (table,) = [one for one in read_block(made.html, "attnprobe-record")["tables"] if one["name"] == "census"]
    assert table["provenance"]["until"]["looks"][0]["widest"]["entropy"]["half_width"] is None


def test_from_tables_nothing_is_quick(tmp_path):
    with pytest.raises(AttnprobeError, match="leave out quick=True"):
        attnprobe.report(from_tables=tmp_path, quick=True)


def test_documents_by_their_tokens():
    assert Budget(64.0).count_documents("census") == 256
    assert Budget(64.0).count_documents("roles") == 128
    assert Budget(10.0).count_documents("roles") == 128
    assert Budget(1e9).count_documents("prune") == 16
    assert "until" not in Budget(64.0, related=True).choose_options("importance", None)
    assert "until" in Budget(64.0, related=True).choose_options("census", None)


# Title, author and note

HOSTILE = "</script><script>alert(1)</script>\x1b[31m\u202e & \"x\" 'y' {{ 7 * 7 }}"


def read_block(html, name):
    return json.loads(
        re.search(rf'<script type="application/[a-z-]+" id="{name}">(.*?)</script>', html, re.DOTALL)[1]
    )


def test_title_author_and_note_are_in_the_page_and_on_record_escaped(saved, tmp_path):
    texts = ["the dog and the cat came late .", "is it late ?"]
    note = f"first\nline {HOSTILE}\n \n\n  second  \n\n"
    words = {"title": f"My heads {HOSTILE}", "author": "A. <b>", "note": note}
    made = attnprobe.report(saved("bert"), texts, sections="census", save_tables=tmp_path / "tables", **words)
    again = attnprobe.report(from_tables=tmp_path / "tables", **words)
    for html in (made.html, again.html):
        data, record = (read_block(html, name) for name in ("report-data", "attnprobe-record"))
        for found in (data, record):
            assert found["author"] == "A. <b>"
            assert found["title"].startswith("My heads </script><script>alert(1)")
            first, second = found["note"].split("\n\n")
            assert (first[:11], second) == ("first line ", "second")
            assert "\x1b" not in found["title"] + found["note"]
        assert "<script>alert" not in html
        assert "A. <b>" not in html
    plain = attnprobe.report(saved("bert"), texts, sections="census").html
    assert [read_block(plain, "report-data")[name] for name in words] == ["", "", ""]
    assert "title" not in read_block(plain, "attnprobe-record")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"title": 3}, "title must be text, not 3"),
        ({"author": "x" * 301}, "author has 301 characters; a page has room for 300"),
        ({"note": "x" * 10_001}, "note has 10,001 characters"),
    ],
)
def test_what_cannot_stand_above_is_refused(words, said):
    with pytest.raises(AttnprobeError, match=said):
        attnprobe.report("demo", sections="census", **words)
