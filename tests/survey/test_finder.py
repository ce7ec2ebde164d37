"""Counts of gold links: the same in one batch as in several, with documents that were cut into windows."""

from dataclasses import fields, replace

import numpy as np
import pytest

import attnprobe
from attnprobe.attention.block import build_uniform_block
from attnprobe.attention.layout import Layout
from attnprobe.attention.tokens import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.corpus.batch import Batch
from attnprobe.statistics.links import SYNTAX_TASK
from attnprobe.statistics.questions import questions_of
from attnprobe.sums.documents import find_block
from attnprobe.survey.finder import QuestionIndex, count_layers


def test_errors_of_many_documents_in_one_batch():
    """Documents beyond 128 share groups, also where all of them come at once."""
    text = "a b c d e f g h"
    links = [{"source": [0, 1], "target": [4, 5], "label": "x"}]
    links += [{"source": [8, 9], "target": [12, 13], "label": "x"}]
    rows = [{"text": f"{text} {number}", "links": links[: 1 + number % 2]} for number in range(150)]
    how = {"max_length": 6, "by": "head", "workers": 1}
    one, several = (attnprobe.links("demo", rows, batch_tokens=size, **how) for size in (10**6, 60))
    assert (one["n"] > 200).all()
    np.testing.assert_allclose(one["accuracy_se"], several["accuracy_se"], rtol=1e-9)
    assert (one["accuracy_se"] > 0).any()


@pytest.mark.parametrize("grouped", [False, True])
def test_what_heads_and_rules_answer(grouped):
    """Question by question, in two layers of which one lacks a head."""
    random, number = np.random.default_rng(3), 12
    said = []
    for _ in range(number):
        words = tuple(TokenSpan(at, at + 1) for at in range(1, random.integers(6, 10)))
        ends = [random.choice(len(words), 2, replace=False) for _ in range(8)]
        links = tuple(TokenLink(words[a], words[b], random.choice(["x", "y"])) for a, b in ends)
        parts = tuple(random.choice(["NOUN", "VERB"], len(words)).tolist())
        said.append(TokenAnnotation(words, links, parts_of_speech=parts))
    one = build_uniform_block(12).layout.keys
    names = [field.name for field in fields(one) if field.name != "mixed"]
    tokens = replace(one, **{name: getattr(one, name).repeat(number, 1) for name in names})
    found = questions_of(Layout(tokens, tokens, annotations=tuple(said)), SYNTAX_TASK)
    clusters = np.where(np.arange(number) % 3 == 0, 1000 + np.arange(number), -1) if grouped else None
    index = QuestionIndex(found, Batch({}, tokens, np.arange(number), clusters=clusters))
    present = [[0, 1, 2], [0, 2]]
    rows = found.rows
    chosen = [rows.candidates[:, :1] + random.integers(0, 5, (len(rows), len(heads))) for heads in present]
    tally = count_layers([(index, one) for one in chosen], 3, present)
    block = find_block(np.arange(number))
    links, hits, guessed = (np.zeros_like(one) for one in (tally.number, tally.hits, tally.guessed))
    for question, key, sequence in found.entries.tolist():
        place = tally.keys.index(found.keys[key])
        links[place, 0, block[sequence]] += 1
        guessed[place, 0, :, block[sequence]] += found.guesses[question]
        for layer, heads in enumerate(present):
            hits[place, layer, heads, block[sequence]] += found.hits(chosen[layer])[question]
    assert len(np.flatnonzero(links.sum((0, 1)))) > number / 2
    assert (tally.number == links).all()
    assert (tally.hits == hits).all()
    assert (tally.guessed == guessed).all()
    assert guessed.sum() > 100
