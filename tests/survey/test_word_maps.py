"""Attention between words on its way from a model to a probe, against eager maps and loops by hand."""

import copy
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
import torch
from gold import documents, gold_sentences
from transformers import PreTrainedModel
from word_corpora import decode

from attnprobe.model.check.dry_run import examine
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import tokenise
from attnprobe.statistics.links import SYNTAX_TASK
from attnprobe.survey.measure import open_evaluator
from attnprobe.survey.word_maps import (
    AskedCorpus,
    ask_words,
)

Tiny = Callable[[str], Any]


def read_corpus(checkpoint: Checkpoint, texts: Any) -> AskedCorpus:
    """Read sentences with links."""
    checkpoint, architecture = examine(checkpoint)
    with (
        tokenise(checkpoint, documents(texts), CorpusOptions()) as corpus,
        open_evaluator(checkpoint, architecture, [ask_words(SYNTAX_TASK)]) as evaluator,
    ):
        return reduce(add, [evaluator.evaluate(batch)["word_maps"] for batch in corpus.batches])


def read_eagerly(model: PreTrainedModel, ids: torch.Tensor) -> np.ndarray:
    """Give the maps of all heads (layer and head, query, key) of one sequence."""
    model = copy.deepcopy(model)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model(input_ids=ids[None], output_attentions=True).attentions
    return torch.cat(maps, 1)[0].double().numpy()


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_maps_and_best_heads_by_hand(tiny: Tiny, texts: Any, name: str):
    """Words are placed by their characters; both ways of every head are read, in a decoder too."""
    model, tokenizer = tiny(name)
    sentences = gold_sentences(texts)[:8]
    corpus = read_corpus(Checkpoint(name, model, tokenizer), sentences)
    groups = [
        (batch, np.flatnonzero(batch.document == name))
        for batch in corpus.batches
        for name in dict.fromkeys(batch.document.tolist())
    ]
    checked = 0
    for text, spans, links in sentences:
        encoded = tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
        offsets = encoded["offset_mapping"][0].tolist()
        special = tokenizer.get_special_tokens_mask(
            encoded["input_ids"][0].tolist(), already_has_special_tokens=True
        )
        p = read_eagerly(model, encoded["input_ids"][0])
        words = [
            [t for t, (a, b) in enumerate(offsets) if a < stop and b > start and not special[t] and b > a]
            for start, stop in spans
        ]
        if not links or any(not word for word in words) or len({tuple(word) for word in words}) < len(words):
            continue
        expected = np.array([[p[:, i][:, :, j].sum(2).mean(1) for j in words] for i in words])
        others = {source: [j for j in range(len(words)) if j != source] for source, *_ in links}
        attention_of = {i: np.stack([expected[i, js], expected[js, i]], 1) for i, js in others.items()}
        # Sentences are found by their maps, whatever batch they came in.
        for batch, rows in groups:
            given = [decode(batch.codes[row][batch.present[row]]).reshape(-1, 2, len(p)) for row in rows]
            if len(rows) != len(links) or given[0].shape != next(iter(attention_of.values())).shape:
                continue
            askers = [min(attention_of, key=lambda i: np.abs(maps - attention_of[i]).max()) for maps in given]
            pairs = list(zip(given, askers, strict=True))
            if all(np.allclose(maps, attention_of[i], atol=0.01) for maps, i in pairs):
                break
        else:
            raise AssertionError(text)
        gold_of = {source: (target, label) for source, target, label in links}
        assert len(set(askers)) == len(links)
        for row, maps, i in zip(rows, given, askers, strict=True):
            assert (np.abs(maps - attention_of[i]) <= np.sqrt(attention_of[i]) / 255 + 2e-5).all()
            target, label = gold_of[i]
            right = np.flatnonzero(batch.right[row][batch.present[row]])
            assert [others[i][place] for place in right] == [target]
            assert batch.label[batch.entry == row].tolist() == ["all", label]
            best = attention_of[i].argmax(0).ravel()  # from the asker, then to it
            assert batch.heads[row].tolist() == [others[i][place] == target for place in best]
            checked += 1
    assert checked > 30
