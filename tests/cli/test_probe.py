"""probe on the command line: columns, state, record, processes, and what is refused."""

import io
import json

import numpy as np
import pandas
import pytest

import attnprobe
from attnprobe.errors import AttnprobeError

HEAD = [
    "model",
    "dataset",
    "relation",
    "n",
    "accuracy",
    "accuracy_se",
    "direction",
    "layer",
    "head",
    "chosen",
]
COLUMNS = [
    *HEAD,
    *("best_head_accuracy", "best_head_accuracy_se", "gain", "gain_se", "p", "p_adjusted"),
    *("baseline", "baseline_se", "baseline_rule"),
]
WORDS = ["probe", "demo", "-L", 40, "-q", "--threads", 1]


def read(out):
    return pandas.read_csv(io.StringIO(out))


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Write three sentences, of two documents where documents are told."""
    rows = [
        ("The\tthe\tDET\t2\tdet", "dog\tdog\tNOUN\t3\tnsubj", "ran\trun\tVERB\t0\troot"),
        ("She\tshe\tPRON\t2\tnsubj", "signed\tsign\tVERB\t0\troot", "it\tit\tPRON\t2\tobj"),
        ("Who\twho\tPRON\t2\tnsubj", "rang\tring\tVERB\t0\troot"),
    ]
    blocks = []
    for words in rows:
        lines = []
        for number, word in enumerate(words, 1):
            form, lemma, tag, head, relation = word.split("\t")
            lines.append("\t".join([str(number), form, lemma, tag, "_", "_", head, relation, "_", "_"]))
        blocks.append("\n".join(lines))
    folder = tmp_path_factory.mktemp("treebanks")
    one, several = folder / "one.conllu", folder / "several.conllu"
    one.write_text("# newdoc\n" + "\n\n".join(blocks) + "\n\n")
    several.write_text("\n\n".join(blocks) + "\n\n")
    return one, several


def test_columns(invoke):
    code, out, said = invoke(*WORDS)
    assert code == 0, said
    found = read(out)
    assert list(found) == COLUMNS
    assert list(found["relation"][:1]) == ["all"]
    np.testing.assert_allclose(found["gain"], found["accuracy"] - found["best_head_accuracy"], atol=1e-12)
    found = read(invoke(*WORDS, "--labels", "det,case")[1])
    assert sorted(found["relation"]) == ["case", "det"]
    code, out, _ = invoke(*WORDS, "--by", "head")
    heads = read(out)
    assert list(heads) == ["model", "dataset", "layer", "head", "direction", "n", "weight", "share"]
    assert len(heads) == 48
    assert heads["share"].sum() == pytest.approx(1)


def test_state_and_record(invoke, tmp_path):
    """A finished state gives the same; another penalty goes on from it, as reading does not depend on it."""
    state, path = tmp_path / "state", tmp_path / "found.csv"
    code, out, said = invoke(*WORDS, "--resume", state)
    assert code == 0, said
    assert invoke(*WORDS, "--resume", state)[1] == out
    again = invoke(*WORDS, "--resume", state, "--penalty", 1)
    assert again[0] == 0, again[2]
    assert invoke(*WORDS, "-o", path)[0] == 0
    record = json.loads(path.with_name(f"{path.name}.json").read_text())["provenance"]
    assert record["asked"]["penalty"] == 100
    code, _, said = invoke("merge", path, path)
    assert code == 2
    assert "is no record of a table that can be merged" in said


def test_refusals(invoke, few, tmp_path):
    for words, sentence in (
        (["--by", "head", "--folds", 3], "leave out --folds"),
        (["--gold", "links", "--subtypes"], "--subtypes is about treebanks"),
        (["--penalty", 0], "--penalty must be above 0, not 0."),
        (["--penalty", "nan"], "--penalty must be above 0"),
        (["--folds", 1], "--folds"),
        (["--labels", "none"], "has no link called 'none'"),
        (["--labels", ","], "No label is named"),
    ):
        code, out, said = invoke("probe", "demo", *words)
        assert (code, out) == (2, ""), words
        assert sentence in said
        assert "Traceback" not in said
    empty, broken = tmp_path / "empty.conllu", tmp_path / "broken.conllu"
    empty.write_text("")
    broken.write_text("1\tThe\tthe\n\n")
    for path in (empty, broken):
        code, out, said = invoke("probe", "demo", "-d", path)
        assert (code, out) == (2, "")
        assert "Traceback" not in said
    rows = [
        {
            "text": "the dog",
            "target": "le chien",
            "links": [{"source": [0, 3], "target": [0, 2], "target_in": "target"}],
        }
    ]
    with pytest.raises(AttnprobeError, match="target"):
        attnprobe.probe("demo", rows, gold="links")
