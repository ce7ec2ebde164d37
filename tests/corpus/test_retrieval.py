"""Pairs, triplets, and queries with passages: from rows and from folders."""

import gzip
import json

import pytest

from attnprobe.corpus.document import Document, Pair, Query, Triplet
from attnprobe.corpus.open import open_anything
from attnprobe.corpus.source import Source
from attnprobe.errors import AttnprobeError
from attnprobe.session.texts import open_texts


def read(texts, objective, labels=None, **named):
    return [*open_texts(texts, {"objective": objective, **named}, labels, find_labels=True).documents]


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def test_pairs(tmp_path):
    path = write(
        tmp_path / "a.csv", "id,Sentence1,sentence2,score", "7,a dog,a cat,2.5", "8,a bird,,1", "9,a,b,"
    )
    first, *others = read(path, "similarity")
    assert first == Document("a dog", label=Pair("a cat", "2.5"))
    assert [type(one.label) for one in others] == [str, type(None)]  # left out later, and counted


def test_triplets(tmp_path):
    path = write(tmp_path / "a.tsv", "negative\tanchor\tpositive", "no\ta\tyes")
    assert read(path, "triplet") == [Document("a", label=Triplet("yes", "no"))]
    path = write(tmp_path / "b.csv", "x,y,z,topic", "a,yes,no,t")
    named = {"text_column": "x", "text_pair_column": "y", "label_column": "z", "document_column": "topic"}
    (document,) = read(path, "triplet", **named)
    assert document.label == Triplet("yes", "no")
    assert document.part_of is not None


def test_positives(tmp_path):
    """Queries come once, then passages once; a query that is a passage has its name."""
    path = write(
        tmp_path / "a.csv", "question,answer,negative", "q,one,", "r,two,bad", "q,three,one", "two,one,bad"
    )
    documents = read(path, "retrieval")
    names = {one.text: one.label.name for one in documents}  # type: ignore[union-attr]
    assert [(one.text, one.role) for one in documents] == [
        ("q", "query"), ("r", "query"), ("two", "query"),
        ("one", "document"), ("two", "document"), ("bad", "document"), ("three", "document"),
    ]  # fmt: skip
    assert documents[0].label == Query(names["q"], ((names["one"], 1), (names["three"], 1)))
    assert documents[4].label == Query(names["two"]) == Query(documents[2].label.name)  # type: ignore[union-attr]
    assert sorted(names.values()) == [names[text] for text in ("q", "one", "r", "two", "bad", "three")]


@pytest.fixture
def folder(tmp_path):
    """Write a folder as BEIR lays it out; the corpus is packed."""
    path = tmp_path / "beir"
    (path / "qrels").mkdir(parents=True)
    corpus = [
        {"_id": "d1", "title": "Milk", "text": "is white"}, {"_id": "d2", "title": "", "text": "a dog"},
        {"_id": 3, "text": "x", "metadata": {}}, {"_id": "d4", "title": "", "text": " "},
    ]  # fmt: skip
    with gzip.open(path / "corpus.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(one) + "\n" for one in corpus)
    queries = [{"_id": "q1", "text": "what is white?"}, {"_id": "q2", "text": "nobody judged this"}]
    write(path / "queries.jsonl", *map(json.dumps, queries))
    write(path / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore", "q1\td1\t2.0", "q1\t3\t0", "")
    write(path / "qrels" / "dev.tsv", "query-id\tcorpus-id\tscore", "q2\td2\t1")
    return path


def opened(folder, **more):
    return open_anything(Source(str(folder), find_labels=True, **more))


def test_a_folder(folder):
    source = opened(folder)
    assert [*source.documents] == [
        Document("what is white?", label=Query("q1", (("d1", 2), ("3", 0))), role="query"),
        Document("Milk is white", label=Query("d1"), role="document"),
        Document("a dog", label=Query("d2"), role="document"),
        Document("x", label=Query("3"), role="document"),
    ]
    assert source.name == "beir"
    assert source.described["split"] == "test"
    dev = opened(folder, split="dev")
    assert next(iter(dev.documents)).text == "nobody judged this"
    assert dev.described["sha256"] != source.described["sha256"]
    (folder / "qrels" / "test.tsv").unlink()
    assert opened(folder).described["split"] == "dev"


@pytest.mark.parametrize(
    ("file", "line", "reason"),
    [
        ("queries.jsonl", '{"text": "a"}', "line 1 of .*queries.jsonl has no _id"),
        ("queries.jsonl", '{"_id": "q1", "text": "a"}\n{"_id": "q1", "text": "b"}', "'q1' of a line above"),
        ("queries.jsonl", '{"_id": "q1", "text": ["a"]}', "has a list in column 'text'; make it a string"),
        ("queries.jsonl", '{"_id": "q1", "text": "\\ud800"}', "half a surrogate pair"),
        ("queries.jsonl", "[", "is not JSON"),
        ("qrels/test.tsv", "query\tdoc\tscore", "no column 'query-id'; its columns are 'query', 'doc'"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\td\tgood", "line 2 of .* has the score 'good'"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\td\t1e9", "whole numbers up to 1,000"),
    ],
)  # fmt: skip
def test_a_broken_folder(folder, file, line, reason):
    write(folder / file, line)
    with pytest.raises(AttnprobeError, match=reason):
        [*opened(folder).documents]


def test_refusals(folder):
    with pytest.raises(AttnprobeError, match="pass --split with one of dev, test"):
        opened(folder, split="train")
    with pytest.raises(AttnprobeError, match="holds queries and passages; leave out --text-column"):
        opened(folder, text_column="text")
    for name in ("dev", "test"):
        (folder / "qrels" / f"{name}.tsv").unlink()
    with pytest.raises(AttnprobeError, match=r"has no qrels/test.tsv"):
        opened(folder)
