"""Resumed passes against whole ones, and nothing left behind."""

from typing import Any

import pytest
import torch
from left_as_found import state

from attnprobe.model.reading.gates import gate_attention
from attnprobe.model.reading.replay import BatchReplay

ARCHITECTURES = ("albert", "bert", "llama", "t5")
LAYERS, HEADS = 3, 4


def some_ids(tokenizer, seed=1, length=14):
    return torch.randint(5, len(tokenizer), (2, length), generator=torch.Generator().manual_seed(seed))


def cuts():
    """Gates of one layer, and of a layer and all behind it."""
    draw = torch.Generator().manual_seed(5)
    single = [{layer: torch.rand(1, HEADS, generator=draw)} for layer in range(LAYERS)]
    several = [
        {layer: torch.rand(1, HEADS, generator=draw).round() for layer in range(first, LAYERS)}
        for first in range(LAYERS)
    ]
    return [*single, *several, {0: torch.zeros(1, HEADS), 2: torch.rand(2, HEADS, generator=draw)}]


def sites_of(encoder, ids):
    with gate_attention(encoder) as gates:
        encoder(input_ids=ids)
        return tuple(gates.counter.called)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_resumed_equals_whole(tiny, name):
    model, tokenizer = tiny(name)
    encoder: Any = model.get_encoder() if model.config.is_encoder_decoder else model
    sites = sites_of(encoder, some_ids(tokenizer))
    assert len(sites) == LAYERS
    with gate_attention(encoder) as gates, torch.inference_mode():
        replay = BatchReplay(encoder, gates)
        for seed, length in ((1, 14), (2, 9)):  # one batch after the other
            ids = some_ids(tokenizer, seed, length)
            gates.open()
            untouched = encoder(input_ids=ids)[0]
            expected = []
            for gates.rows in cuts():
                expected.append(encoder(input_ids=ids)[0])
            gates.open()
            with replay.watch(sites):
                with replay.record():
                    assert torch.equal(encoder(input_ids=ids)[0], untouched)
                for gates.rows, whole in zip(cuts(), expected, strict=True):
                    for first in range(min(gates.rows) + 1):  # at its first layer, or anywhere before
                        with replay.resume_at(first):
                            assert torch.equal(encoder(input_ids=ids)[0], whole)
                assert not torch.equal(expected[0], expected[1])
                assert not torch.equal(expected[0], untouched)
                assert torch.equal(encoder(input_ids=ids)[0], expected[-1])  # whole again


def test_forwards_are_put_back(copied):
    """Also those that stood before a module already, and after an exception."""
    encoder, tokenizer = copied("bert")
    ids = some_ids(tokenizer)
    sites = sites_of(encoder, ids)
    block = encoder.get_submodule(sites[0])
    vars(block)["forward"] = block.forward
    before = state(encoder)
    with gate_attention(encoder) as gates:
        inside, replay = state(encoder), BatchReplay(encoder, gates)
        with pytest.raises(RuntimeError), replay.watch(sites):  # noqa: PT012
            with replay.record():
                encoder(input_ids=ids)
            with replay.resume_at(1):
                gates.rows = {1: torch.ones(5, HEADS)}  # for a batch of another size
                encoder(input_ids=ids)
        assert (gates.replayed, gates.counter.first, gates.recording) == ({}, 0, False)
        assert state(encoder) == inside
    assert state(encoder) == before
