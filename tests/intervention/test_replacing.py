"""Means and other examples' outputs in the place of heads', against loops with hooks written by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.replacing import ResampledExamples, build_replacing
from attnprobe.intervention.trials import keep_each_head, mask_each_head, run_trials

CASES = [("bert", "classification"), ("llama", "causal-lm"), ("t5", "seq2seq")]
each_case = pytest.mark.parametrize(
    ("name", "kind"), [*CASES[:2], pytest.param(*CASES[2], marks=pytest.mark.slow)]
)


class ByHand:
    """Heads replaced by hooks, one example at a time."""

    def __init__(self, data: Any, hooked: Any) -> None:
        self.data, self.hooked, (self.layers, self.heads) = data, hooked, data.model.shape
        self.model = data.model.checkpoint.body
        self.kinds = data.model.architecture.kinds
        self.members = data.corpus.batches.members
        self.outputs = {int(member): self.record(int(member)) for member in self.members}

    def batch(self, member: int) -> Any:
        return self.data.corpus.batches.read(np.array([member]))

    def loss(self, member: int, hook: Callable[[int, Tensor], Tensor]) -> float:
        def change(call: int, given: Tensor) -> Tensor:
            return hook(call, given.unflatten(-1, (self.heads, -1))).flatten(-2)

        with torch.no_grad(), self.hooked(self.model, change):
            return float(self.data.objective.answer(self.batch(member)).loss)

    def record(self, member: int) -> dict[int, Tensor]:
        outputs: dict[int, Tensor] = {}

        def keep(layer: int, read: Tensor) -> Tensor:
            outputs[layer] = read[0]
            return read

        self.loss(member, keep)
        return outputs

    def ids(self, member: int, layer: int) -> list[int]:
        inputs = self.batch(member).inputs
        cross = self.data.model.checkpoint.decodes and self.kinds[layer] != "encoder"
        return inputs["decoder_input_ids" if cross else "input_ids"][0].tolist()

    def classes(self, member: int, layer: int) -> list[str]:
        ids, special = self.ids(member, layer), {*self.data.model.checkpoint.tokenizer.all_special_ids}
        special.discard(self.data.model.checkpoint.tokenizer.mask_token_id)
        classes = ["ordinary"] * len(ids)
        if ids[-1] in special:
            classes[-1] = "last"
        if ids[0] in special:
            classes[0] = "first"
        return classes

    def means(self) -> dict[tuple[int, str], Tensor]:
        tokens: dict[tuple[int, str], list[Tensor]] = {}
        for member, outputs in self.outputs.items():
            for layer, output in outputs.items():
                for token_class, row in zip(self.classes(member, layer), output, strict=True):
                    tokens.setdefault((layer, token_class), []).append(row.double())
        return {key: torch.stack(rows).mean(0) for key, rows in tokens.items()}

    def losses(self, place: Callable[[int, int], Tensor], off: Callable[[int, int], list[int]]) -> Any:
        """Compute losses (member, layer, head) with ``place(member, layer)`` in the place of heads."""
        losses = np.zeros((len(self.members), self.layers, self.heads))
        for row, member in enumerate(self.members):
            for layer in range(self.layers):
                other = place(int(member), layer)
                for head in range(self.heads):

                    def hook(at: int, read: Tensor, layer=layer, other=other, head=head) -> Tensor:
                        if at != layer:
                            return read
                        changed = read.clone()
                        heads = off(layer, head)
                        changed[0][:, heads] = other[:, heads].to(read)
                        return changed

                    losses[row, layer, head] = self.loss(int(member), hook)
        return losses


def measure_losses(data: Any, replacing: Any, masks: Any = mask_each_head) -> Any:
    trials = run_trials(data, masks(*data.model.shape), ("loss",), replacing=replacing)
    draws = np.array([[masked["loss"] for masked in draw] for draw in trials.draws])
    return np.moveaxis(draws, 1, 2).reshape(*draws.shape[::2], *data.model.shape)


@each_case
@torch.no_grad()
def test_mean(headed: Any, documents: Any, task_data: Any, hooked: Any, name: str, kind: str):
    with task_data(headed(name, kind), documents(kind)[:7], kind) as data:
        replacing = build_replacing("mean", data, draws=4, seed=1)
        hand = ByHand(data, hooked)
        means = hand.means()

        def place(member: int, layer: int) -> Tensor:
            return torch.stack([means[layer, token_class] for token_class in hand.classes(member, layer)])

        expected = hand.losses(place, lambda _, head: [head])
        (losses,) = measure_losses(data, replacing)
        (zero,) = measure_losses(data, None)
        if name == "bert":
            keep = hand.losses(place, lambda _, head: [other for other in range(4) if other != head])
            (alone,) = measure_losses(data, replacing, keep_each_head)
            np.testing.assert_allclose(alone, keep, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(losses, expected, rtol=2e-6, atol=1e-6)
    assert np.abs(losses - zero).max() > 1e-4


def positions_by_hand(classes: list[str], other: list[str]) -> list[int]:
    """Walk along an example and the other one side by side."""
    ends = classes[-1] == other[-1] == "last"
    core = list(range(len(other) - ends))
    ordinary = [place for place in core if not (place == 0 and other[0] == "first")] or core
    positions = []
    for place in range(len(classes)):
        if place == len(classes) - 1 and ends:
            positions.append(len(other) - 1)
        elif place < len(core):
            positions.append(core[place])
        else:
            positions.append(ordinary[(place - len(core)) % len(ordinary)])
    return positions


@each_case
@torch.no_grad()
def test_resample(headed: Any, documents: Any, task_data: Any, hooked: Any, name: str, kind: str):
    with task_data(headed(name, kind), documents(kind)[:7], kind) as data:
        replacing = build_replacing("resample", data, draws=4, seed=1)
        examples, hand = ResampledExamples(data.corpus.batches, 1), ByHand(data, hooked)
        losses = measure_losses(data, replacing)
        for draw in (0, 3):

            def place(member: int, layer: int, draw=draw) -> Tensor:
                other = examples.draw(member, draw)
                assert other != member
                places = positions_by_hand(hand.classes(member, layer), hand.classes(other, layer))
                return hand.outputs[other][layer][places]

            expected = hand.losses(place, lambda _, head: [head])
            np.testing.assert_allclose(losses[draw], expected, rtol=2e-6, atol=2e-6)
        assert np.abs(losses[0] - losses[1]).max() > 1e-4
        again = measure_losses(data, build_replacing("resample", data, draws=4, seed=1))
        np.testing.assert_array_equal(again, losses)
        other = measure_losses(data, build_replacing("resample", data, draws=4, seed=2))
        assert np.abs(other - losses).max() > 1e-4


class FakeBatches:
    """As much of batches as examples are drawn by."""

    targets = None

    def __init__(self, lengths: list[int], documents: list[int]) -> None:
        self.lengths, self.documents = np.array(lengths), np.array(documents)
        self.members = np.arange(len(lengths))


class TestResampledExamples:
    def test_enough_of_the_same_length(self):
        batches = FakeBatches([5] * 12 + [6] * 30, [*range(42)])
        examples = ResampledExamples(batches, 0)
        assert examples.list_pool(3).tolist() == [0, 1, 2, *range(4, 12)]
        drawn = np.array([examples.draw(3, draw) for draw in range(2000)])
        share = np.bincount(drawn, minlength=12)[[0, 1, 2, *range(4, 12)]] / 2000
        np.testing.assert_allclose(share, 1 / 11, atol=0.03)

    def test_never_of_the_same_document(self):
        documents = [0] * 10 + [1] * 10
        examples = ResampledExamples(FakeBatches([5] * 20, documents), 0)
        assert all(examples.draw(member, draw) >= 10 for member in range(10) for draw in range(20))

    def test_one_document(self):
        with pytest.raises(AttnprobeError, match="--with resample needs examples of at least two documents"):
            ResampledExamples(FakeBatches([5] * 20, [7] * 20), 0)


def test_generated_text_is_refused(headed: Any, documents: Any, task_data: Any):
    with task_data(headed("bart", "seq2seq"), documents("seq2seq"), "seq2seq", generate=True) as data:
        for name in ("mean", "resample"):
            with pytest.raises(AttnprobeError, match=f"--with {name} needs answers of one forward pass"):
                build_replacing(name, data, draws=4, seed=1)
        assert build_replacing("zero", data, draws=4, seed=1) is None
