"""Every count of every head against loops over eager maps, one sentence at a time."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from gold import documents, gold_sentences
from links_by_definition import counted, counted_beside
from transformers import AutoModel, AutoTokenizer

from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.progress import SilentProgress
from attnprobe.statistics.links import BY_RELATION, SYNTAX
from attnprobe.statistics.rules import ALL, FURTHEST
from attnprobe.sums.links import FAR, LinkCounts
from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

CAUSAL = {"llama"}
DIRECTIONS = {"dependent_to_head": "forward", "head_to_dependent": "backward"}


def tallied(checkpoint: Checkpoint, sentences, **options) -> LinkCounts:
    corpus = CorpusRequest(documents(sentences), [SYNTAX], CorpusOptions(**options))
    (run,) = survey_corpora(
        checkpoint, [TableRequest([corpus], "gold", {}, BY_RELATION)], progress=SilentProgress()
    )
    return run.measurement.sums["syntax"]


def called(key):
    """Call a key as the loops do: those of links at a distance by another label."""
    label, direction, *position = key
    far, position = key[-1] == FAR, [one for one in position if one != FAR]
    return (f"{label}|{FAR}" if far else label, DIRECTIONS[direction], *position)


def check(tally: LinkCounts, model, tokenizer, sentences, *, causal: bool) -> None:
    hits, links, offsets = counted(model, tokenizer, sentences, causal=causal)
    assert sum(links.values()) > 100
    assert {called(key) for key in tally.keys if key[0] != ALL} == set(links)
    assert sum(number for (label, _), number in links.items() if label.endswith(f"|{FAR}")) > 50
    for place, key in enumerate(tally.keys):
        label, direction, far = *called(key), key[-1] == FAR
        same = [
            link_key
            for link_key in links
            if link_key[1] == direction
            and (link_key[0] == label or (key[0] == ALL and link_key[0].endswith(f"|{FAR}") == far))
        ]
        layers, heads = tally.shape
        for layer in range(layers):
            assert tally.links[place, layer] == sum(links[key] for key in same)
            for offset in range(-FURTHEST, FURTHEST + 1):
                kind = tally.kinds[layer]
                right = tally.guessed[place, kind, offset + FURTHEST].sum()
                assert right == sum(offsets[*key, offset] for key in same)
            for head in range(heads):
                right = tally.hits[place, layer, head].sum()
                assert right == sum(hits[*key, layer, head] for key in same), (label, direction, layer, head)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_tiny_models(
    name: str, saved: Callable[[str], Path], checkpoint: Callable[[str], Checkpoint], texts: list
):
    sentences = gold_sentences(texts * 2)
    folder = saved(name)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype="float32").eval()
    tally = tallied(checkpoint(name), sentences)
    check(tally, model, AutoTokenizer.from_pretrained(folder), sentences, causal=name in CAUSAL)
    assert (tally.left_out[1] > 0) == (name in CAUSAL)


def test_batches_and_blocks_change_nothing(checkpoint: Callable[[str], Checkpoint], texts: list):
    """Also where a word's tokens come by in several blocks: with little memory, a block is a query."""
    sentences = gold_sentences(texts)
    whole = tallied(checkpoint("bert"), sentences)
    with patch.multiple("attnprobe.model.reading.blocks", BLOCK_CPU=1, LEAST_QUERIES=1):
        parts = tallied(checkpoint("bert"), sentences, batch_tokens=64)
    order = [parts.keys.index(key) for key in whole.keys]
    assert sorted(parts.keys) == sorted(whole.keys)
    for name, values in whole.arrays().items():
        if name not in {"keys", "kinds", "left_out"} and not name.startswith("groups"):
            assert (parts.arrays()[name][order[: len(values)]] == values).all(), name
    assert (parts.left_out == whole.left_out).all()


def test_a_decoder_beside_an_encoder(
    saved: Callable[[str], Path], checkpoint: Callable[[str], Checkpoint], texts: list
):
    """All three kinds of attention, where the decoder reads the text itself; at both of its positions."""
    sentences = gold_sentences(texts * 2)
    folder, loaded = saved("t5"), checkpoint("t5")
    model = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype="float32").eval()
    corpus = CorpusRequest(documents(sentences), [SYNTAX], CorpusOptions())
    (found,) = survey_corpora(
        loaded, [TableRequest([corpus], "gold", {}, BY_RELATION)], progress=SilentProgress()
    )
    tally, kinds = found.measurement.sums["syntax"], [str(place.kind) for place in found.labels.places]
    hits, links = counted_beside(model, AutoTokenizer.from_pretrained(folder), sentences, loaded.start)
    for layer, kind in enumerate(kinds):
        number = kinds[:layer].count(kind)
        assert sum(links[kind].values()) > 50
        for place, key in enumerate(tally.keys):
            label, direction, *position = called(key)
            link_key = label, direction, "".join(position)
            if key[0] == ALL:
                continue
            assert tally.links[place, layer] == links[kind][link_key], (kind, link_key)
            for head in range(tally.shape[1]):
                assert tally.hits[place, layer, head].sum() == hits[kind][*link_key, number, head], (
                    kind,
                    link_key,
                    head,
                )
