"""Gates against models with scaled columns of output projections; resumed passes against whole ones."""

import copy
import re
from typing import Any

import numpy as np
import pytest
import torch
from left_as_found import state
from torch import nn

from attnprobe.model.check.dry_run import inspect
from attnprobe.model.check.gates import check_gates
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading.gates import Gates, gate_attention
from attnprobe.model.reading.replay import BatchReplay
from attnprobe.model.reading.ways import IMPLEMENTATION
from attnprobe.model.removing import remove_heads

ARCHITECTURES = ("albert", "bert", "llama", "t5")
LAYERS, HEADS = 3, 4
#: The linear map that reads what the heads of a layer give, by the names of all architectures.
OUTPUT = re.compile(
    r"(attention\.output\.dense|albert_layers\.0\.attention\.dense|self_attn\.o_proj"
    r"|SelfAttention\.o|EncDecAttention\.o)$"
)


def layers_of(model):
    """Count attention layers: a decoder beside an encoder has two of self-attention, two across."""
    return LAYERS + 4 if model.config.is_encoder_decoder else LAYERS


def by_hand(model, xi, heads=HEADS):
    """Copy a model and scale the columns that read head h of layer l by xi[l, h]; no hooks."""
    config = copy.deepcopy(model.config)
    weights = model.state_dict()
    if model.config.model_type == "albert":  # a group of layers each, so that they may differ
        config.num_hidden_groups = LAYERS
        weights = {
            key.replace("groups.0.", f"groups.{group}."): weight
            for group in range(LAYERS)
            for key, weight in weights.items()
        }
    scaled = type(model)(config)
    scaled.load_state_dict(weights)
    scaled.eval().requires_grad_(False)
    readers = [m for name, m in scaled.named_modules() if OUTPUT.search(name)]
    assert len(readers) == len(xi)
    for reader, row in zip(readers, xi, strict=True):
        assert isinstance(reader, nn.Linear)
        reader.weight.mul_(row.repeat_interleave(reader.weight.shape[1] // heads))
    return scaled


def draw_ids(tokenizer, batch=3, length=14, seed=1):
    return torch.randint(5, len(tokenizer), (batch, length), generator=torch.Generator().manual_seed(seed))


def states(model, ids):
    if model.config.is_encoder_decoder:
        return model(input_ids=ids, decoder_input_ids=ids.flip(1)[:, :9])[0]
    return model(input_ids=ids)[0]


def close(values, expected):
    return float((values - expected).abs().max()) <= 2e-6 * float(expected.abs().max())


@pytest.mark.parametrize("name", ARCHITECTURES)
class TestAgainstScaledColumns:
    """A gate is a factor of the columns that read its head."""

    def test_closed(self, tiny, name):
        model, tokenizer = tiny(name)
        ids = draw_ids(tokenizer)
        untouched = states(model, ids)
        with gate_attention(model) as gates:
            for layer in range(layers_of(model)):
                for head in range(HEADS):
                    xi = torch.ones(layers_of(model), HEADS)
                    xi[layer, head] = 0
                    gates.set(xi[None])
                    gated = states(model, ids)
                    gates.rows = {layer: xi[layer][None]}
                    assert torch.equal(states(model, ids), gated)
                    assert close(gated, states(by_hand(model, xi), ids))
                    assert not close(gated, untouched)
            gates.open()
            assert close(states(model, ids), untouched)

    def test_examples_are_independent(self, tiny, name):
        model, tokenizer = tiny(name)
        ids = draw_ids(tokenizer)
        xi = torch.rand(len(ids), layers_of(model), HEADS, generator=torch.Generator().manual_seed(2)) * 1.5
        with gate_attention(model) as gates:
            gates.set(xi)
            gated = states(model, ids)
        for example, row in enumerate(xi):
            assert close(gated[example], states(by_hand(model, row), ids[example : example + 1])[0])

    def test_check(self, tiny, name):
        checkpoint = Checkpoint(name, *tiny(name))
        gating = check_gates(checkpoint, inspect(checkpoint))
        assert gating.replays


class TestCheckSaysNo:
    """The check of the gates fails where they fail."""

    def test_gates_that_change_nothing(self, tiny, monkeypatch):
        checkpoint = Checkpoint("bert", *tiny("bert"))
        architecture = inspect(checkpoint)
        monkeypatch.setattr(Gates, "pass_output", lambda _, layer, output: output)
        with pytest.raises(UnsupportedModelError, match="switching its heads off changes nothing"):
            check_gates(checkpoint, architecture)

    def test_layers_whose_heads_give_nothing(self, tiny):
        """Layers that were removed as a whole are no fault of the gates, unless all were."""
        checkpoint = Checkpoint("bert", *tiny("bert"))
        keep = np.ones((LAYERS, 4), bool)
        keep[1] = False
        pruned = remove_heads(checkpoint, keep)
        gating = check_gates(pruned, inspect(pruned))
        assert "a lower one does except in layers [1], whose heads give nothing" in gating.evidence
        assert gating.replays
        pruned = remove_heads(checkpoint, np.zeros((LAYERS, 4), bool))
        with pytest.raises(UnsupportedModelError, match="switching its heads off changes nothing"):
            check_gates(pruned, inspect(pruned))

    def test_open_gates_that_change_something(self, tiny, monkeypatch):
        checkpoint = Checkpoint("bert", *tiny("bert"))
        architecture = inspect(checkpoint)
        monkeypatch.setattr(Gates, "pass_output", lambda _, layer, output: output * 1.1)
        with pytest.raises(UnsupportedModelError, match="hidden states under a head mask of ones differ"):
            check_gates(checkpoint, architecture)

    def test_passes_that_do_not_resume(self, tiny, monkeypatch):
        """A layer that is off by one is seen, and whole passes take over."""
        checkpoint = Checkpoint("bert", *tiny("bert"))
        architecture = inspect(checkpoint)
        from attnprobe.model.reading.replay import BatchReplay

        right = BatchReplay.resume_at
        monkeypatch.setattr(
            BatchReplay, "resume_at", lambda self, layer: right(self, min(layer + 1, LAYERS - 1))
        )
        gating = check_gates(checkpoint, architecture)
        assert not gating.replays
        assert "resuming at a layer does not, so all passes are whole" in gating.evidence


@pytest.mark.parametrize(("name", "error"), [("bert", RuntimeError), ("t5", KeyboardInterrupt)])
def test_left_as_it_was_after_an_exception(copied, name, error):
    model, tokenizer = copied(name)
    model.set_attn_implementation("eager")
    before = state(model.train())
    with pytest.raises(error), gate_attention(model) as gates:  # noqa: PT012
        assert model.config._attn_implementation == IMPLEMENTATION
        gates.set(torch.full((1, layers_of(model), HEADS), 0.3))
        states(model, draw_ids(tokenizer))
        raise error
    assert state(model) == before


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
def test_resumed_passes_equal_whole_ones(tiny, name):
    model, tokenizer = tiny(name)
    encoder: Any = model.get_encoder() if model.config.is_encoder_decoder else model
    sites = sites_of(encoder, draw_ids(tokenizer))
    assert len(sites) == LAYERS
    with gate_attention(encoder) as gates, torch.inference_mode():
        replay = BatchReplay(encoder, gates)
        for seed, length in ((1, 14), (2, 9)):  # one batch after the other
            ids = draw_ids(tokenizer, 2, length, seed)
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
    ids = draw_ids(tokenizer)
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
