"""Finding the weights that belong to a head, by what they do."""

import copy

import pytest
from torch import nn

from attnprobe.model.check.architecture import share_weights
from attnprobe.model.check.projections import find_projections
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quirks import UnsupportedModelError

#: How the output projection ends, and the names of the others.
EXPECTED = {
    "bert": ("attention.output.dense", ("query", "key", "value")),
    "albert": ("attention.dense", ("query", "key", "value")),
    "t5": ("SelfAttention.o", ("q", "k", "v")),
}


def fresh(tiny):
    """Copy a BERT, so that a test may change it."""
    model, tokenizer = tiny("bert")
    return Checkpoint("fresh", copy.deepcopy(model), tokenizer)


@pytest.mark.parametrize("name", EXPECTED)
def test_found(tiny, name):
    checkpoint = Checkpoint(name, *tiny(name))
    output, inputs = EXPECTED[name]
    layers = find_projections(checkpoint)
    numbers = [0, 1, 2, *([0, 0, 1, 1] if name == "t5" else [])]
    assert len(layers) == len(numbers)
    assert len({layer.output for layer in layers}) == (1 if name == "albert" else len(numbers))
    for place, (number, layer) in enumerate(zip(numbers, layers, strict=True)):
        assert layer.output.endswith("EncDecAttention.o" if place in {4, 6} else output)
        assert name == "albert" or f".{number}." in layer.output
        assert (layer.heads, layer.width) == (4, 8)
        assert (layer.inputs, layer.fused) == (tuple(f"{layer.attention}.{n}" for n in inputs), None)
        for projection in (layer.output, *layer.inputs):
            assert isinstance(checkpoint.body.get_submodule(projection), nn.Linear)


class Normed(nn.Module):
    """An output projection that first normalises what the heads give."""

    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(32), nn.Linear(32, 32)

    def forward(self, given):
        return self.linear(self.norm(given))


class Doubled(nn.Module):
    """Two projections of what the heads give."""

    def __init__(self):
        super().__init__()
        self.first, self.other = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, given):
        return self.first(given) + self.other(given)


def test_fused(tiny):
    for layer in find_projections(Checkpoint("modernbert", *tiny("modernbert"))):
        assert (layer.inputs, layer.fused) == ((), f"{layer.attention}.Wqkv")


@pytest.mark.parametrize(
    ("kind", "reason"), [(Normed, "no projections read"), (Doubled, "2 projections read")]
)
def test_refused(tiny, kind, reason):
    checkpoint = fresh(tiny)
    checkpoint.model.encoder.layer[1].attention.output.dense = kind()
    with pytest.raises(UnsupportedModelError, match=f"'bert': in layer 1, .*{reason}"):
        find_projections(checkpoint)


def test_layers_that_share_their_weights():
    """Equal values are not shared; a layer that takes over some weights of another has its own heads."""

    def layer():
        return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))

    first, equal, part = layer(), layer(), layer()
    equal.load_state_dict(first.state_dict())
    part[0] = first[0]
    body = nn.ModuleList([first, equal, part, nn.Sequential(first[0], first[1]), nn.Identity()])
    for places, shared in (("010", True), ("0123", True), ("01", False), ("02", False), ("014", False)):
        assert share_weights(body, list(places)) == shared
