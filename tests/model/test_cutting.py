"""Heads that are really gone, and outputs that are those under gates."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from transformers.pytorch_utils import Conv1D

from attnprobe.errors import AttnprobeError
from attnprobe.model.check.projections import find_projections
from attnprobe.model.check.trace import relative_difference
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading.gates import gate_attention
from attnprobe.model.removing import bake, shrink

Built = tuple[PreTrainedModel, PreTrainedTokenizerFast]
Tiny = Callable[[str], Built]
Keep = NDArray[np.bool_]

#: Architectures that can't be made physically smaller, and what is said.
NOT_SMALLER = {
    "eurobert": "its heads share projections",
    "t5": "it can't be made physically smaller",
    "umt5": "it can't be made physically smaller",
}
WITH_DECODER = ("bart", "marian", "t5", "umt5")
SMALLER = ("bart", "bert", "distilbert", "modernbert")


def kept(name: str) -> Keep:
    """Keep some heads of one layer, none of another, all of the last."""
    some = np.array([[False, True, False, True], [False] * 4, [True] * 4])
    return np.concatenate([some, some[[2, 0, 0, 1]]]) if name in WITH_DECODER else some


def ids_of(checkpoint: Checkpoint) -> Tensor:
    """Draw ids other than those that pruning checks itself on, and more of them."""
    return torch.randint(8, 90, (3, 40), generator=torch.Generator().manual_seed(5))


def inputs_of(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The same, with ids for a decoder to read."""
    ids = ids_of(checkpoint)
    return {"input_ids": ids, "decoder_input_ids": ids[:, :17]}


def gated(checkpoint: Checkpoint, keep: Keep) -> Tensor:
    """Give hidden states with the removed heads' gates closed."""
    with gate_attention(checkpoint.body) as gates:
        gates.set(torch.from_numpy(keep).to(checkpoint.body.dtype)[None])
        return checkpoint.forward(inputs_of(checkpoint))


def single(tiny: Tiny, name: str) -> Checkpoint:
    return Checkpoint(name, *tiny(name))


def double(tiny: Tiny, name: str) -> Checkpoint:
    model, tokenizer = tiny(name)
    return Checkpoint(name, copy.deepcopy(model).double(), tokenizer)


def numbers(checkpoint: Checkpoint) -> int:
    return sum(parameter.numel() for parameter in checkpoint.model.parameters())


@pytest.mark.parametrize("name", [*SMALLER, *NOT_SMALLER])
def test_baked(tiny: Tiny, name: str):
    """The same but for rounding in double precision, and not the original."""
    checkpoint, keep = double(tiny, name), kept(name)
    baked = bake(checkpoint, keep)
    found = baked.forward(inputs_of(checkpoint))
    assert relative_difference(found, gated(checkpoint, keep)) < 1e-12
    assert relative_difference(found, checkpoint.forward(inputs_of(checkpoint))) > 1e-3
    shapes = {key: weight.shape for key, weight in checkpoint.model.state_dict().items()}
    assert {key: weight.shape for key, weight in baked.model.state_dict().items()} == shapes


@pytest.mark.parametrize("name", SMALLER)
def test_shrunk(tiny: Tiny, name: str):
    checkpoint, keep = single(tiny, name), kept(name)
    small = shrink(checkpoint, keep)
    found = small.forward(inputs_of(checkpoint))
    assert relative_difference(found, gated(checkpoint, keep)) < 1e-5
    projections = find_projections(checkpoint)
    removed = {
        projection: 4 - max(int(stays.sum()), 1)
        for found, stays in zip(projections, keep, strict=True)
        for projection in (found.output, *found.inputs, *([found.fused] * 3 if found.fused else []))
    }
    # Of each removed head, as many rows or columns as it is wide; a bias goes with its row.
    gone = 0
    for found in projections:
        modules = [
            (found.output, 1),
            *((n, 1) for n in found.inputs),
            *([(found.fused, 3)] if found.fused else []),
        ]
        for path, times in modules:
            linear = checkpoint.body.get_submodule(path)
            across = (
                linear.out_features
                if path == found.output
                else linear.in_features + (linear.bias is not None)
            )
            gone += times * removed[path] * found.width * across
    assert numbers(checkpoint) - numbers(small) == gone > 0


@pytest.mark.parametrize("name", NOT_SMALLER)
def test_not_smaller(tiny: Tiny, name: str):
    with pytest.raises(UnsupportedModelError, match=NOT_SMALLER[name]) as caught:
        shrink(single(tiny, name), kept(name))
    said = str(caught.value)
    assert f"{name!r}: it can't be made physically smaller exactly (" in said
    assert said.endswith("); leave out --physical.")


@pytest.mark.parametrize("prune", [bake, shrink])
class TestCopies:
    """The original is left as it was, and the copy is like it."""

    @pytest.mark.parametrize("name", ["bert", "modernbert"])
    def test_original_untouched(self, tiny: Tiny, prune: Callable[[Checkpoint, Keep], Checkpoint], name: str):
        checkpoint = single(tiny, name)
        before = {key: weight.clone() for key, weight in checkpoint.model.state_dict().items()}
        pruned = prune(checkpoint, kept(name))
        after = checkpoint.model.state_dict()
        assert before.keys() == after.keys()
        assert all(torch.equal(weight, before[key]) for key, weight in after.items())
        assert not {id(p) for p in pruned.model.parameters()} & {id(p) for p in checkpoint.model.parameters()}
        assert pruned.tokenizer is checkpoint.tokenizer

    def test_everything_removed(self, tiny: Tiny, prune: Callable[[Checkpoint, Keep], Checkpoint]):
        checkpoint, keep = single(tiny, "bert"), np.zeros((3, 4), bool)
        found = prune(checkpoint, keep).forward(inputs_of(checkpoint))
        assert relative_difference(found, gated(checkpoint, keep)) < 1e-5

    def test_other_shapes(self, tiny: Tiny, prune: Callable[[Checkpoint, Keep], Checkpoint]):
        with pytest.raises(AttnprobeError, match="3 layers of 4 heads"):
            prune(single(tiny, "bert"), np.ones((3, 5), bool))


def with_conv1d(tiny: Tiny) -> Checkpoint:
    model, tokenizer = tiny("bert")
    model = copy.deepcopy(model)
    torch.manual_seed(0)
    for layer in model.encoder.layer:
        layer.attention.output.dense = Conv1D(32, 32)
        nn.init.normal_(layer.attention.output.dense.weight)
    return Checkpoint("conv", model, tokenizer)


def test_conv1d_is_baked(tiny: Tiny):
    checkpoint, keep = with_conv1d(tiny), kept("bert")
    found = bake(checkpoint, keep).forward(inputs_of(checkpoint))
    assert relative_difference(found, gated(checkpoint, keep)) < 1e-6


def test_conv1d_is_not_shrunk(tiny: Tiny):
    with pytest.raises(UnsupportedModelError, match=r"output.dense is a Conv1D\); leave out --physical"):
        shrink(with_conv1d(tiny), kept("bert"))


def test_a_fused_projection_in_another_order(tiny: Tiny, monkeypatch: pytest.MonkeyPatch):
    """Head by head, as GPT-NeoX has it: it runs, but gives something else, so it is refused."""
    checkpoint = single(tiny, "modernbert")
    attention = type(checkpoint.body.get_submodule("layers.0.attn"))
    before = attention.forward

    def interleaved(self: nn.Module, *arguments: object, **options: object):
        linear = self.Wqkv
        forward = linear.forward
        linear.forward = lambda given: forward(given).unflatten(-1, (-1, 3, 8)).transpose(-3, -2).flatten(-3)
        try:
            return before(self, *arguments, **options)
        finally:
            del linear.forward

    monkeypatch.setattr(attention, "forward", interleaved)
    with pytest.raises(UnsupportedModelError, match="differs from the head mask by"):
        shrink(checkpoint, kept("modernbert"))
