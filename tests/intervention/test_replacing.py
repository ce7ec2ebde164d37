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
    """Each example alone, its own tokens and outputs."""

    def __init__(self, bench: Any, hooked: Any) -> None:
        self.bench, self.hooked, (self.layers, self.heads) = bench, hooked, bench.model.shape
        self.model = bench.model.checkpoint.body
        self.kinds = bench.model.architecture.kinds
        self.members = bench.corpus.batches.members
        self.outputs = {int(member): self.record(int(member)) for member in self.members}

    def batch(self, member: int) -> Any:
        return self.bench.corpus.batches.read(np.array([member]))

    def loss(self, member: int, hook: Callable[[int, Tensor], Tensor]) -> float:
        def change(call: int, given: Tensor) -> Tensor:
            return hook(call, given.unflatten(-1, (self.heads, -1))).flatten(-2)

        with torch.no_grad(), self.hooked(self.model, change):
            return float(self.bench.objective.answer(self.batch(member)).loss)

    def record(self, member: int) -> dict[int, Tensor]:
        found: dict[int, Tensor] = {}

        def keep(layer: int, read: Tensor) -> Tensor:
            found[layer] = read[0]
            return read

        self.loss(member, keep)
        return found

    def ids(self, member: int, layer: int) -> list[int]:
        inputs = self.batch(member).inputs
        cross = self.bench.model.checkpoint.decodes and self.kinds[layer] != "encoder"
        return inputs["decoder_input_ids" if cross else "input_ids"][0].tolist()

    def sorts(self, member: int, layer: int) -> list[str]:
        ids, special = self.ids(member, layer), {*self.bench.model.checkpoint.tokenizer.all_special_ids}
        special.discard(self.bench.model.checkpoint.tokenizer.mask_token_id)
        sorts = ["ordinary"] * len(ids)
        if ids[-1] in special:
            sorts[-1] = "last"
        if ids[0] in special:
            sorts[0] = "first"
        return sorts

    def means(self) -> dict[tuple[int, str], Tensor]:
        tokens: dict[tuple[int, str], list[Tensor]] = {}
        for member, outputs in self.outputs.items():
            for layer, output in outputs.items():
                for sort, row in zip(self.sorts(member, layer), output, strict=True):
                    tokens.setdefault((layer, sort), []).append(row.double())
        return {key: torch.stack(rows).mean(0) for key, rows in tokens.items()}

    def losses(self, place: Callable[[int, int], Tensor], off: Callable[[int, int], list[int]]) -> Any:
        """Give the loss (member, layer, head) with what ``place(member, layer)`` gives in place of heads."""
        found = np.zeros((len(self.members), self.layers, self.heads))
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

                    found[row, layer, head] = self.loss(int(member), hook)
        return found


def found_losses(bench: Any, replacing: Any, keep_one: bool = False) -> Any:
    cuts = (keep_each_head if keep_one else mask_each_head)(*bench.model.shape)
    trials = run_trials(bench, cuts, ("loss",), replacing=replacing)
    draws = np.array([[one["loss"] for one in draw] for draw in trials.draws])
    return np.moveaxis(draws, 1, 2).reshape(*draws.shape[::2], *bench.model.shape)


@each_case
@torch.no_grad()
def test_mean(headed: Any, documents: Any, benched: Any, hooked: Any, name: str, kind: str):
    with benched(headed(name, kind), documents(kind)[:7], kind) as bench:
        replacing = build_replacing("mean", bench, draws=4, seed=1)
        hand = ByHand(bench, hooked)
        means = hand.means()

        def place(member: int, layer: int) -> Tensor:
            return torch.stack([means[layer, sort] for sort in hand.sorts(member, layer)])

        expected = hand.losses(place, lambda _, head: [head])
        (found,) = found_losses(bench, replacing)
        (zero,) = found_losses(bench, None)
        if name == "bert":
            keep = hand.losses(place, lambda _, head: [other for other in range(4) if other != head])
            (alone,) = found_losses(bench, replacing, keep_one=True)
            np.testing.assert_allclose(alone, keep, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)
    assert np.abs(found - zero).max() > 1e-4


def positions_by_hand(own: list[str], other: list[str]) -> list[int]:
    """Walk along an example and the other one side by side."""
    core = [place for place, sort in enumerate(other) if not (place == len(other) - 1 and sort == "last")]
    if own[-1] != "last" or other[-1] != "last":
        core = list(range(len(other)))
    ordinary = [place for place in core if not (place == 0 and other[0] == "first")] or core
    found = []
    for place, sort in enumerate(own):
        if place == len(own) - 1 and sort == other[-1] == "last":
            found.append(len(other) - 1)
        elif place < len(core):
            found.append(core[place])
        else:
            found.append(ordinary[(place - len(core)) % len(ordinary)])
    return found


@each_case
@torch.no_grad()
def test_resample(headed: Any, documents: Any, benched: Any, hooked: Any, name: str, kind: str):
    with benched(headed(name, kind), documents(kind)[:7], kind) as bench:
        replacing = build_replacing("resample", bench, draws=4, seed=1)
        donors, hand = ResampledExamples(bench.corpus.batches, 1), ByHand(bench, hooked)
        found = found_losses(bench, replacing)
        for draw in (0, 3):

            def place(member: int, layer: int, draw=draw) -> Tensor:
                other = donors.draw(member, draw)
                assert other != member
                places = positions_by_hand(hand.sorts(member, layer), hand.sorts(other, layer))
                return hand.outputs[other][layer][places]

            expected = hand.losses(place, lambda _, head: [head])
            np.testing.assert_allclose(found[draw], expected, rtol=2e-6, atol=2e-6)
        assert np.abs(found[0] - found[1]).max() > 1e-4
        again = found_losses(bench, build_replacing("resample", bench, draws=4, seed=1))
        np.testing.assert_array_equal(again, found)
        other = found_losses(bench, build_replacing("resample", bench, draws=4, seed=2))
        assert np.abs(other - found).max() > 1e-4


class FakeBatches:
    """Just what donors ask of batches."""

    targets = None

    def __init__(self, lengths: list[int], documents: list[int]) -> None:
        self.lengths, self.documents = np.array(lengths), np.array(documents)
        self.members = np.arange(len(lengths))


class TestDonors:
    def test_enough_of_the_same_length(self):
        batches = FakeBatches([5] * 12 + [6] * 30, [*range(42)])
        donors = ResampledExamples(batches, 0)
        assert donors.list_pool(3).tolist() == [0, 1, 2, *range(4, 12)]
        drawn = np.array([donors.draw(3, draw) for draw in range(2000)])
        share = np.bincount(drawn, minlength=12)[[0, 1, 2, *range(4, 12)]] / 2000
        np.testing.assert_allclose(share, 1 / 11, atol=0.03)

    def test_never_of_the_same_document(self):
        documents = [0] * 10 + [1] * 10
        donors = ResampledExamples(FakeBatches([5] * 20, documents), 0)
        assert all(donors.draw(member, draw) >= 10 for member in range(10) for draw in range(20))

    def test_one_document(self):
        with pytest.raises(AttnprobeError, match="--with resample needs examples of at least two documents"):
            ResampledExamples(FakeBatches([5] * 20, [7] * 20), 0)


def test_generated_text_is_refused(headed: Any, documents: Any, benched: Any):
    with benched(headed("bart", "seq2seq"), documents("seq2seq"), "seq2seq", generate=True) as bench:
        for name in ("mean", "resample"):
            with pytest.raises(AttnprobeError, match=f"--with {name} needs answers of one forward pass"):
                build_replacing(name, bench, draws=4, seed=1)
        assert build_replacing("zero", bench, draws=4, seed=1) is None
