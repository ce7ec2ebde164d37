"""Finding the weights that belong to a head, by what they do."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from transformers.pytorch_utils import Conv1D

from attnprobe.model.check.projections import find_projections
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quirks import UnsupportedModelError

Tiny = Callable[[str], tuple[PreTrainedModel, PreTrainedTokenizerFast]]

BERT = ("attention.output.dense", ("query", "key", "value"))
BART = ("out_proj", ("q_proj", "k_proj", "v_proj"))
T5 = ("SelfAttention.o", ("q", "k", "v"))
#: How the output projection of attention from decoder to encoder ends.
ACROSS = {
    "t5": "EncDecAttention.o",
    "bart": "encoder_attn.out_proj",
}
#: How the output projection ends, and the names of the others; a string if they are fused.
EXPECTED: dict[str, tuple[str, tuple[str, ...] | str]] = {
    **dict.fromkeys(["bert", "roberta"], BERT),
    "mobilebert": BERT,
    "albert": ("attention.dense", ("query", "key", "value")),
    "modernbert": ("attn.Wo", "Wqkv"),
    "eurobert": ("o_proj", ("q_proj",)),
    "t5": T5,
    "bart": BART,
}


def fresh(tiny: Tiny) -> Checkpoint:
    """Copy a BERT, so that a test may change it."""
    model, tokenizer = tiny("bert")
    return Checkpoint("fresh", copy.deepcopy(model), tokenizer)


@pytest.mark.parametrize("name", EXPECTED)
def test_found(tiny: Tiny, name: str):
    checkpoint = Checkpoint(name, *tiny(name))
    output, inputs = EXPECTED[name]
    found = find_projections(checkpoint)
    numbers = [0, 1, 2, *([0, 0, 1, 1] if name in ACROSS else [])]
    assert len(found) == len(numbers)
    assert len({layer.output for layer in found}) == (1 if name == "albert" else len(numbers))
    for place, (number, layer) in enumerate(zip(numbers, found, strict=True)):
        across = place in {4, 6}
        assert layer.output.endswith(ACROSS[name] if across else output)
        assert name == "albert" or f".{number}." in layer.output
        assert (layer.heads, layer.width) == (4, 4 if name == "mobilebert" else 8)
        if isinstance(inputs, str):
            assert (layer.inputs, layer.fused) == ((), f"{layer.attention}.{inputs}")
        else:
            assert (layer.inputs, layer.fused) == (tuple(f"{layer.attention}.{n}" for n in inputs), None)
        for projection in (layer.output, *layer.inputs):
            assert isinstance(checkpoint.body.get_submodule(projection), nn.Linear)


def test_conv1d(tiny: Tiny):
    """GPT-2's projections hold their weights the other way round."""
    checkpoint = fresh(tiny)
    checkpoint.model.encoder.layer[1].attention.output.dense = Conv1D(32, 32)
    assert find_projections(checkpoint)[1].output == "encoder.layer.1.attention.output.dense"


class Normed(nn.Module):
    """An output projection that first normalises what the heads give."""

    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(32), nn.Linear(32, 32)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return self.linear(self.norm(given))


class Doubled(nn.Module):
    """Two projections of what the heads give."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return self.one(given) + self.other(given)


@pytest.mark.parametrize(("kind", "said"), [(Normed, "no projection reads"), (Doubled, "2 projections read")])
def test_refused(tiny: Tiny, kind: type[nn.Module], said: str):
    checkpoint = fresh(tiny)
    checkpoint.model.encoder.layer[1].attention.output.dense = kind()
    with pytest.raises(UnsupportedModelError, match=said) as caught:
        find_projections(checkpoint)
    assert "'bert': in layer 1, " in str(caught.value)
    assert str(caught.value).endswith(".")
