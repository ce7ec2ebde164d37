"""Attention between words on its way from a model to a probe, against eager maps and loops by hand."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gold import documents, gold_sentences
from transformers import PreTrainedModel

import attnprobe
from attnprobe.attention.kinds import Kind
from attnprobe.kernels.probing import decode
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.capture import capture_attention
from attnprobe.model.verifying.dry_run import examine
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import tokenise
from attnprobe.run.progress import SilentProgress
from attnprobe.statistics.links import SYNTAX_TASK
from attnprobe.survey.probing import ProbePlan, probe_checkpoint
from attnprobe.survey.word_maps import AskedCorpus, WordRecorder, list_heads

Tiny = Callable[[str], Any]


def read_corpus(checkpoint: Checkpoint, texts: Any) -> AskedCorpus:
    """Read sentences with links."""
    checkpoint, architecture = examine(checkpoint)
    with tokenise(checkpoint, documents(texts), CorpusOptions()) as corpus:
        recorder = WordRecorder(SYNTAX_TASK, architecture.kinds[0], architecture.standing)
        parts = []
        with capture_attention(checkpoint.body, recorder, architecture.way, set()):
            for members in corpus.batches.plan:
                batch = corpus.batches.read(members)
                recorder.begin(batch)
                checkpoint.forward(batch.inputs)
                parts.append(recorder.finish())
    return AskedCorpus(tuple(parts))


def read_eagerly(model: PreTrainedModel, ids: torch.Tensor) -> np.ndarray:
    """Give the maps of all heads (layer and head, query, key) of one sequence."""
    model = copy.deepcopy(model)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        found = model(input_ids=ids[None], output_attentions=True).attentions
    return torch.cat(found, 1)[0].double().numpy()


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_maps_and_best_heads_by_hand(tiny: Tiny, texts: Any, name: str):
    """Words are placed by their characters; both ways of every head are read, in a decoder too."""
    model, tokenizer = tiny(name)
    sentences = gold_sentences(texts)[:8]
    corpus = read_corpus(Checkpoint(name, model, tokenizer), sentences)
    seen = []
    for batch in corpus.batches:
        for cell in dict.fromkeys(batch.asked.cell.tolist()):
            rows = np.flatnonzero(batch.asked.cell == cell)
            size = int(batch.asked.words[rows[0]])
            maps = decode(batch.asked.maps[cell : cell + size**2]).reshape(size, size, -1)
            seen.append((rows, maps, batch.read_heads(), batch))
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
        # Sentences are found by their maps, whatever batch they came in.
        for rows, maps, hits, batch in seen:
            if maps.shape[0] != len(words) or not np.allclose(maps, expected, atol=0.01):
                continue
            assert (np.abs(maps - expected) <= np.sqrt(expected) / 255 + 2e-5).all()
            by_asker = {source: (target, label) for source, target, label in links}
            assert len(rows) == len(links)
            for row in rows:
                i = int(batch.asked.asker[row])
                others = [j for j in range(len(words)) if j != i]
                low, high = batch.asked.starts[row], batch.asked.starts[row + 1]
                assert batch.asked.candidates[low:high].tolist() == others
                target, label = by_asker[i]
                assert [j for j, right in zip(others, batch.asked.right[low:high], strict=True) if right] == [
                    target
                ]
                assert batch.label[batch.entry == row].tolist() == ["all", label]
                forth = [others[int(one.argmax())] == target for one in expected[i, others].T]
                back = [others[int(one.argmax())] == target for one in expected[others, i].T]
                assert hits[row].tolist() == forth + back
                checked += 1
            break
        else:
            raise AssertionError(text)
    assert checked > 30


def test_heads_find_what_syntax_says(tiny: Tiny, texts: Any):
    model, tokenizer = tiny("bert")
    rows = [
        {"text": text, "words": spans, "links": [
            {"source": list(spans[s]), "target": list(spans[t]), "label": label} for s, t, label in links]}
        for text, spans, links in gold_sentences(texts)
    ]  # fmt: skip
    known = attnprobe.links(model, rows, by="head", tokenizer=tokenizer, min_links=1).to_pandas()
    known = known[(known["label"] == "all") & (known["direction"] == "source_to_target")]
    corpus = read_corpus(Checkpoint("bert", model, tokenizer), gold_sentences(texts))
    hits = np.concatenate([batch.read_heads() for batch in corpus.batches])
    assert len(hits) == known["n"].iloc[0]
    np.testing.assert_allclose(hits[:, : len(known)].mean(0), known["accuracy"], atol=1e-12)


def run(checkpoint: Checkpoint, texts: Any, **plan: Any) -> Any:
    given = documents(texts)
    return probe_checkpoint(
        checkpoint, given, ProbePlan(SYNTAX_TASK, **plan), CorpusOptions(), dataset="texts", facts={},
        progress=SilentProgress(),
    )  # fmt: skip


def test_a_planted_head_finds_the_next_word(tiny: Tiny, texts: Any, monkeypatch: Any):
    """Head 2 of layer 1 attends to the next token alone, and every word depends on the next."""
    model, tokenizer = tiny("bert")
    sentences = []
    for text, spans, _ in gold_sentences(texts):
        if len(tokenizer.tokenize(text)) == len(spans) > 2:  # a token a word
            sentences.append((text, spans, [(at, at + 1, "next") for at in range(len(spans) - 1)]))
    assert len(sentences) > 3
    take = WordRecorder.__call__

    def planted(self: Any, piece: Any) -> None:
        if piece.layer == 1:
            size = piece.probabilities.shape[3]
            piece.probabilities[:, 2] = torch.eye(size).roll(1, 1)[
                piece.query : piece.query + piece.probabilities.shape[2]
            ]
        take(self, piece)

    monkeypatch.setattr(WordRecorder, "__call__", planted)
    table = run(Checkpoint("bert", model, tokenizer), sentences * 4, penalty=1.0)
    assert table["accuracy"][0] == 1
    assert (table["layer"][0], table["head"][0], table["best_head_accuracy"][0]) == (1, 2, 1)
    assert table["baseline_rule"][0] == "offset +1"


def test_heads_that_are_not_there_are_left_out():
    standing = np.array([[True, False], [False, False], [True, True]])
    assert list_heads(standing) == [(0, 0), (2, 0), (2, 1)]
    assert WordRecorder(SYNTAX_TASK, Kind.ENCODER, standing)._columns == [[0], [], [0, 1]]
