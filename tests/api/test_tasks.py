"""Taggers, answerers of questions, and classifiers of several labels or numbers, from files to tables."""

import copy
import json
from functools import cache
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pytest
import torch
import transformers
from pyarrow import parquet

import attnprobe

ENTITIES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
POS = ["NOUN", "VERB", "DET", "ADP", "PUNCT", "ADJ"]
WORDS = [
    "the river bank was slow", "a bird ran over the red house", "the dog and the cat", "stone",
    "never stop by the river at night", "he and she walk to the train stop", "the parcel came early",
    "light", "a cat ran under the green house", "blue water and red light",
]  # fmt: skip
TAGS = [
    [ENTITIES[(number + 2 * place) % 5] for place in range(len(text.split()))]
    for number, text in enumerate(WORDS)
]
KINDS = {
    "tagger": ("BertForTokenClassification", ENTITIES, None),
    "pos": ("BertForTokenClassification", POS, None),
    "answerer": ("BertForQuestionAnswering", ["a", "b"], None),
    "several": ("BertForSequenceClassification", ["joy", "love", "anger"], "multi_label_classification"),
    "number": ("BertForSequenceClassification", ["LABEL_0"], None),
}


@pytest.fixture(scope="session")
def trained(tiny, tmp_path_factory):
    """Save the tiny BERT with a head."""

    @cache
    def save(kind: str) -> Path:
        body, tokenizer = tiny("bert")
        name, labels, problem = KINDS[kind]
        config = copy.deepcopy(body.config)
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: number for number, label in enumerate(labels)}
        config.problem_type = problem
        torch.manual_seed(5)
        model = getattr(transformers, name)(config)
        model.bert.load_state_dict(body.state_dict(), strict=False)
        for key, weight in model.named_parameters():
            if not key.startswith("bert."):
                torch.nn.init.normal_(weight, std=0.5)
        folder = tmp_path_factory.mktemp("trained") / kind
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return save


def conll(tags=TAGS) -> str:
    blocks = (
        "\n".join(f"{word} X {tag}" for word, tag in zip(text.split(), one, strict=True))
        for text, one in zip(WORDS, tags, strict=True)
    )
    return "".join(f"-DOCSTART- -X- O\n\n{block}\n\n" for block in blocks)


def questions() -> list[dict]:
    rows = []
    for number, text in enumerate(WORDS):
        word = text.split()[-1]
        rows.append(
            {
                "question": "is it late ?",
                "context": text,
                "answers": {"text": [word], "answer_start": [text.rindex(word)]}
                if number % 3
                else {"text": [], "answer_start": []},
            }
        )
    return rows


@pytest.fixture
def data(tmp_path):
    """Write the data of a kind."""

    def write(kind: str) -> Path:
        if kind == "tagger":
            path = tmp_path / "test.conll"
            path.write_text(conll())
            return path
        if kind == "pos":
            lines = []
            for number, text in enumerate(WORDS):
                lines.append(f"# text = {text}")
                for place, word in enumerate(text.split()):
                    upos, xpos = POS[(number + place) % 6], POS[place % 6]
                    lines.append(f"{place + 1}\t{word}\t_\t{upos}\t{xpos}\t_\t0\troot\t_\t_")
                lines.append("")
            path = tmp_path / "dev.conllu"
            path.write_text("\n".join(lines) + "\n")
            return path
        rows = {
            "answerer": questions(),
            "several": [
                {"text": text, "labels": [n for n in range(3) if number >> n & 1]}
                for number, text in enumerate(WORDS)
            ],
            "number": [
                {"sentence1": text, "sentence2": WORDS[-number], "score": number * 7 % 5 + number / 4}
                for number, text in enumerate(WORDS)
            ],
        }[kind]
        path = tmp_path / f"{kind}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        return path

    return write


OBJECTIVE = {
    "tagger": "token-classification", "pos": "token-classification", "answerer": "question-answering",
    "several": "multi-label", "number": "regression",
}  # fmt: skip
METRICS = {"tagger": "f1", "pos": "accuracy", "answerer": "f1", "several": "f1_micro", "number": "pearson"}
MORE = {"number": {"text_pair_column": "sentence2", "label_column": "score"}}


@pytest.mark.parametrize("kind", KINDS)
def test_importance_and_ablation(trained, data, kind):
    asked = {"model": trained(kind), "texts": data(kind), **MORE.get(kind, {})}
    importance, ablation = attnprobe.importance(**asked), attnprobe.ablate(**asked)
    assert set(importance["objective"]) == set(ablation["objective"]) == {OBJECTIVE[kind]}
    assert set(importance["n"]) == {len(WORDS)}
    assert (importance["importance"] > 0).all()
    assert set(ablation["metric"]) == {METRICS[kind]}
    assert (ablation["baseline_se"] > 0).all()
    assert ((ablation["p"] > 0) & (ablation["p"] <= 1)).all()


# Where labels come from


def importances(model, texts, *arguments, **options):
    return attnprobe.importance(model, texts, *arguments, **options)["importance"]


def test_words_from_every_source(trained, data, tmp_path):
    model, words = trained("tagger"), [text.split() for text in WORDS]
    expected = importances(model, data("tagger"))
    ids = [[ENTITIES.index(tag) for tag in one] for one in TAGS]
    rows = [{"tokens": one, "ner_tags": tags} for one, tags in zip(words, TAGS, strict=True)]
    paths = {
        name: tmp_path / name
        for name in ("a.jsonl", "b.json", "c.parquet", "d.parquet", "e.bio", "f.conll.gz")
    }
    paths["a.jsonl"].write_text("\n".join(map(json.dumps, rows)))
    paths["b.json"].write_text(
        json.dumps({"data": [{"words": r["tokens"], "labels": i} for r, i in zip(rows, ids, strict=True)]})
    )
    parquet.write_table(
        pyarrow.table({"tokens": words, "tags": ids, "id": list(range(10))}), paths["c.parquet"]
    )
    # Numbers that the file names otherwise than the model does.
    turned = ENTITIES[::-1]
    features = {"tokens": {"feature": {"dtype": "string"}}, "ner_tags": {"feature": {"names": turned}}}
    table = pyarrow.table({"tokens": words, "ner_tags": [[turned.index(tag) for tag in one] for one in TAGS]})
    said = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    parquet.write_table(table.replace_schema_metadata(said), paths["d.parquet"])
    paths["e.bio"].write_text(conll().replace(" ", "\t").replace("-DOCSTART-\t-X-\tO\n\n", "# id 7\n"))
    import gzip

    paths["f.conll.gz"].write_bytes(gzip.compress(conll().encode()))
    for name, path in paths.items():
        np.testing.assert_array_equal(importances(model, path), expected, err_msg=name)
    np.testing.assert_array_equal(importances(model, words, TAGS), expected)
    frame = pandas.DataFrame({"tokens": words, "ner_tags": ids})
    np.testing.assert_array_equal(importances(model, frame, text_column="tokens"), expected)
    arrays = frame.map(np.array)
    np.testing.assert_array_equal(
        importances(model, arrays, text_column="tokens", label_column="ner_tags"), expected
    )


def test_questions_from_every_source(trained, data, tmp_path):
    model, rows = trained("answerer"), questions()
    expected = importances(model, data("answerer"))
    paths = {name: tmp_path / name for name in ("a.json", "b.parquet", "c.jsonl")}
    paragraphs = [
        {
            "context": row["context"],
            "qas": [
                {
                    "question": row["question"],
                    "answers": [
                        {"text": text, "answer_start": start}
                        for text, start in zip(*row["answers"].values(), strict=True)
                    ],
                }
            ],
        }
        for row in rows
    ]
    articles = [
        {"title": "one", "paragraphs": paragraphs[:4]},
        {"title": "two", "paragraphs": paragraphs[4:]},
    ]
    paths["a.json"].write_text(json.dumps({"version": "v2.0", "data": articles}))
    parquet.write_table(pyarrow.Table.from_pylist(rows), paths["b.parquet"])
    renamed = [{"q": row["question"], "passage": row["context"], "a": row["answers"]} for row in rows]
    paths["c.jsonl"].write_text("\n".join(map(json.dumps, renamed)))
    columns = {"c.jsonl": {"text_column": "q", "text_pair_column": "passage", "label_column": "a"}}
    for name, path in paths.items():
        np.testing.assert_array_equal(importances(model, path, **columns.get(name, {})), expected)
    pairs, answers = [(row["question"], row["context"]) for row in rows], [row["answers"] for row in rows]
    np.testing.assert_array_equal(importances(model, pairs, answers), expected)
