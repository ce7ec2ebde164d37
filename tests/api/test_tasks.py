"""Taggers, answerers of questions, and classifiers of several labels or numbers, from files to tables."""

import copy
import json
from functools import cache
from pathlib import Path

import pytest
import torch
import transformers

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
        "\n".join(f"{word} X {tag}" for word, tag in zip(text.split(), row, strict=True))
        for text, row in zip(WORDS, tags, strict=True)
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
    given = {"model": trained(kind), "texts": data(kind), **MORE.get(kind, {})}
    importance, ablation = attnprobe.importance(**given), attnprobe.ablate(**given)
    assert set(importance["objective"]) == set(ablation["objective"]) == {OBJECTIVE[kind]}
    assert set(importance["n"]) == {len(WORDS)}
    assert (importance["importance"] > 0).all()
    assert set(ablation["metric"]) == {METRICS[kind]}
    assert (ablation["baseline_se"] > 0).all()
    assert ((ablation["p"] > 0) & (ablation["p"] <= 1)).all()


# Where labels come from
