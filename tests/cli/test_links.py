"""syntax, coreference and links from the command line: columns, files, refusals, interruptions, merging."""

import json

import pytest

from attnprobe.corpus.open import Embedded, open_embedded

BEST = [
    "n",
    "layer",
    "head",
    "accuracy",
    "accuracy_se",
    "baseline",
    "baseline_offset",
    "baseline_rule",
    "gain",
]
BEST += ["gain_se", "p", "p_adjusted", "accuracy_selected", "n_far", "accuracy_far", "accuracy_far_se"]
BEST += ["baseline_far", "chosen"]


@pytest.fixture(scope="session")
def treebank(tmp_path_factory):
    """Write the sentences of the package's own treebank to three files: the whole, and two parts of it."""
    folder = tmp_path_factory.mktemp("treebank")
    whole = b"".join(stream.read() for stream, _ in open_embedded(Embedded.TREEBANK)).decode()
    sentences = whole.strip().split("\n\n")
    for name, part in (("whole", sentences[:40]), ("first", sentences[:15]), ("second", sentences[15:40])):
        (folder / f"{name}.conllu").write_text("\n\n".join(part) + "\n\n")
    return folder


@pytest.fixture
def aligned(tmp_path):
    """Write lines with links: each text reversed beside it, letter by letter."""
    rows = []
    for word in ("stone", "water", "bird", "river", "train", "night", "house", "early", "slow", "quick"):
        target = " ".join(reversed(word))
        last = len(word) - 1
        links = [
            {"source": [2 * at, 2 * at + 1], "target": [2 * (last - at), 2 * (last - at) + 1],
             "label": "same letter", "target_in": "pair"}
            for at in range(len(word))
        ]  # fmt: skip
        rows.append({"text": " ".join(word), "text_pair": target, "links": links})
    path = tmp_path / "aligned.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_syntax(read_rows, treebank):
    table = read_rows("syntax", "demo", "-d", treebank / "whole.conllu")
    assert list(table[0]) == ["model", "dataset", "relation", "direction", *BEST]
    assert {row["direction"] for row in table} == {"dependent_to_head", "head_to_dependent"}
    assert table[0]["relation"] == "all"


def test_by_head(read_rows, treebank):
    table = read_rows("syntax", "demo", "-d", treebank / "whole.conllu", "--by", "head", "--min-links", 30)
    keys = ["relation", "direction", "layer", "head"]
    far = ["n_far", "accuracy_far", "accuracy_far_se"]
    assert list(table[0])[2:] == [*keys, "n", "accuracy", "accuracy_se", *far]
    assert len(table) == len({tuple(row.values())[:6] for row in table})
    assert all(int(row["n"]) >= 30 for row in table)
    only = read_rows("syntax", "demo", "-d", treebank / "whole.conllu", "--by", "head", "--layers", 2)
    assert {row["layer"] for row in only} == {"2"}


def test_relations_and_subtypes(refused, read_rows, treebank):
    words = ["syntax", "demo", "-d", treebank / "whole.conllu", "--min-links", 1, "-q"]
    table = read_rows(*words, "--relations", "nsubj,det")
    assert {row["relation"] for row in table} == {"nsubj", "det"}  # all of two would be none of all
    folded = {row["relation"] for row in read_rows(*words)}
    told = {row["relation"] for row in read_rows(*words, "--subtypes")}
    assert not any(":" in relation for relation in folded)
    assert any(":" in relation for relation in told)
    assert "has no link called 'subject'; it has acl" in refused(*words, "--relations", "nsubj,subject")


def test_coreference(read_rows):
    table = read_rows("coreference", "demo", "--min-links", 10)
    assert list(table[0]) == [
        "model", "dataset", "mention", *(name for name in BEST if name != "baseline_offset")
    ]  # fmt: skip
    assert [row["mention"] for row in table] == ["all", "pronoun", "feminine", "masculine"]
    assert {row["baseline_rule"] for row in table} <= {"nearest", "same last word", "first"}


def test_links_of_pairs(read_rows, aligned):
    table = read_rows("links", "demo", "-d", aligned)
    assert list(table[0]) == ["model", "dataset", "label", "direction", *BEST]
    assert {(row["n_far"], row["accuracy_far"], row["baseline_far"]) for row in table} == {("0", "", "")}
    assert [row["direction"] for row in table] == ["source_to_target", "target_to_source"]
    every = read_rows("links", "demo", "-d", aligned, "--by", "head")
    letters = sum(len(json.loads(line)["links"]) for line in aligned.read_text().splitlines())
    assert {int(row["n"]) for row in every} == {letters}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["syntax", "demo", "--layers", "1"], "--layers picks rows of heads; give --by head with it"),
        (["syntax", "demo", "--relations", ""], "No label is named; name some"),
        (["roles", "demo", "-d", "-", "--treebank", "-"], "Standard input can be read once only"),
    ],
)
def test_refusals(refused, words, says):
    assert says in refused(*words)


@pytest.mark.parametrize(
    ("words", "target", "says"),
    [
        ("links --metric aer", {"target": [2, 5]}, "The text 'a dog' stands alone"),
        ("probe --gold links", {"target": [2, 5]}, "rows.jsonl are of one document"),
        ("probe --gold links", {"target": [0, 1]}, "no link that can be asked for"),
        ("probe --gold links", {"target": [2, 5], "target_in": "target"}, "leave out target, and links into"),
    ],
)
def test_links_that_can_not_be_asked_for(refused, saved, tmp_path, words, target, says):
    row = {"text": "a dog", "links": [{"source": [0, 1], "label": "x", **target}]}
    row |= {"target": "a dog"} if "target_in" in target else {}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    assert says in refused(*words.split(), saved("t5"), "-d", tmp_path / "rows.jsonl")
