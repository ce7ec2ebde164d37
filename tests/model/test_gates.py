"""Gates against the untouched model with columns of its output projections scaled."""

import copy
import re

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


def some_ids(tokenizer, batch=3, length=14):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(5, len(tokenizer), (batch, length), generator=generator)


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
        ids = some_ids(tokenizer)
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
        ids = some_ids(tokenizer)
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
        monkeypatch.setattr(
            "attnprobe.model.reading.gates.Gates.pass_output", lambda _, layer, output: output
        )
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
        states(model, some_ids(tokenizer))
        raise error
    assert state(model) == before
