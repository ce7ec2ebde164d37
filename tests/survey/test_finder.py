"""Counts of gold links: the same in one batch as in several, with documents that were cut into windows."""

from dataclasses import fields, replace

import numpy as np
import pytest

import attnprobe
from attnprobe.attention.annotation import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.attention.block import build_uniform_block
from attnprobe.attention.layout import Layout
from attnprobe.corpus.batch import Batch
from attnprobe.corpus.sources.links import read_linked_rows
from attnprobe.model.load import load_checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.progress import SilentProgress
from attnprobe.statistics.links import ASKING_SYNTAX, BY_LABEL, LINKED
from attnprobe.statistics.questions import questions_of
from attnprobe.sums.documents import find_block, in_second_half
from attnprobe.sums.tally import CHOOSING, SCORING
from attnprobe.survey.finder import QuestionIndex, count_layers
from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora


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


def test_documents_that_were_cut_count_in_their_half():
    """Every document has two windows or more, so the groups of a half are all that there is in it."""
    ends = [[place, place + 1] for place in range(0, 16, 2)]
    links = [{"source": ends[at], "target": ends[at + 1], "label": "x"} for at in range(7)]
    rows = [{"text": f"a b c d e f g h {number}", "links": links} for number in range(12)]
    asked = CorpusRequest(read_linked_rows(rows), [LINKED], CorpusOptions(max_length=6, batch_tokens=30))
    request = TableRequest([asked], "rows", {}, BY_LABEL)
    (found,) = survey_corpora(load_checkpoint("demo"), [request], progress=SilentProgress())
    tally = found.measurement.sums["links"]
    assert len(tally.groups) == len(rows)
    assert not tally.clusters.any()
    for half in (CHOOSING, SCORING):
        mine = tally.groups.keys % 2 == half
        assert mine.any()
        links_there = tally.groups.count[mine][:, :, tally.kinds].sum(0)
        np.testing.assert_array_equal(links_there, tally.asked[..., half])
        np.testing.assert_array_equal(tally.group_hits[mine].sum(0), tally.hits[..., half])


@pytest.mark.parametrize("grouped", [False, True])
def test_what_heads_and_rules_both_answer(grouped):
    """Question by question and sequence by sequence, in two layers of which one lacks a head."""
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
    found = questions_of(Layout(tokens, tokens, annotations=tuple(said)), ASKING_SYNTAX)
    clusters = np.where(np.arange(number) % 3 == 0, 1000 + np.arange(number), -1) if grouped else None
    index = QuestionIndex(found, Batch({}, tokens, np.arange(number), clusters=clusters))
    present = [[0, 1, 2], [0, 2]]
    rows = found.rows
    chosen = [rows.candidates[:, :1] + random.integers(0, 5, (len(rows), len(heads))) for heads in present]
    tally = count_layers([(index, one) for one in chosen], 3, present, [])
    scored = in_second_half(np.arange(number))
    both, agreed = np.zeros_like(tally.both), np.zeros_like(tally.agreed)
    for place, key in enumerate(tally.compared):
        for layer, heads in enumerate(present):
            hits, guesses = found.hits(chosen[layer]), found.guesses
            for sequence in np.flatnonzero(scored):
                asked = [q for q, k, s in found.entries.tolist() if found.keys[k] == key and s == sequence]
                for at, head in enumerate(heads):
                    for rule in range(guesses.shape[1]):
                        both[place, layer, head, rule] += sum(hits[q, at] & guesses[q, rule] for q in asked)
                        if clusters is None or clusters[sequence] < 0:
                            right = hits[asked, at].sum() * guesses[asked, rule].sum()
                            agreed[place, layer, head, rule] += right
    assert both.sum() > 100
    assert (tally.both == both).all()
    assert (tally.agreed == agreed).all()
    assert (agreed > both).any()
    block = find_block(np.arange(number))
    links, hits = np.zeros_like(tally.blocks.asked), np.zeros_like(tally.blocks.hits)
    for question, key, sequence in found.entries.tolist():
        place = tally.keys.index(found.keys[key])
        links[place, 0, block[sequence]] += 1
        for layer, heads in enumerate(present):
            hits[place, layer, heads, block[sequence]] += found.hits(chosen[layer])[question]
    assert len(np.flatnonzero(links.sum((0, 1)))) > number / 2
    assert (tally.blocks.asked == links).all()
    assert (tally.blocks.hits == hits).all()
