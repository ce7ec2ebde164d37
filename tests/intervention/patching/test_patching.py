"""Patched heads against hooks on output projections of the untouched model, one pair at a time."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnprobe.intervention.patching import passes
from attnprobe.intervention.patching.passes import PatchPlan, measure_pairs
from attnprobe.intervention.patching.table import tabulate_patching

MODELS = [
    ("bert", "classification"),
    ("gpt2", "causal-lm"),
    ("llama", "causal-lm"),
    ("t5", "seq2seq"),
]


def inputs_by_hand(checkpoint: Any, kind: str, text: str, pair: dict[str, Any]) -> dict[str, Tensor]:
    """Tokenise as a user of transformers would; a decoder reads the target behind its start."""
    tokenizer = checkpoint.tokenizer
    text = text.replace("[MASK]", tokenizer.mask_token or "[MASK]")
    inputs = {"input_ids": tokenizer(text, return_tensors="pt")["input_ids"]}
    if kind == "seq2seq":
        target = tokenizer(pair["answer"])["input_ids"]
        if pair["other"] is not None:
            other = tokenizer(pair["other"])["input_ids"]
            place = next(k for k in range(len(target)) if target[k] != other[k])
            target = target[: place + 1]
        start = checkpoint.model.config.decoder_start_token_id
        inputs["decoder_input_ids"] = torch.tensor([[start, *target[:-1]]])
    return inputs


def read_by_hand(checkpoint: Any, kind: str, pair: dict[str, Any]) -> Callable[[Any, Any], Tensor]:
    """Compute m by its definition from what a model gives."""
    tokenizer = checkpoint.tokenizer

    def odds(logits: Tensor, answer: int, other: int | None) -> Tensor:
        if other is not None:
            return logits[answer] - logits[other]
        p = logits.double().softmax(-1)[answer]
        return (p / (1 - p)).log()

    def token(word: str) -> int:
        (number,) = tokenizer(word, add_special_tokens=False)["input_ids"]
        return number

    def read(output: Any, inputs: Any) -> Tensor:
        logits, other = output.logits[0], pair["other"]
        if kind == "classification":
            return odds(logits, pair["answer"], other)
        if kind == "masked-lm":
            place = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
            return odds(logits[place], token(pair["answer"]), None if other is None else token(other))
        if kind == "causal-lm":
            ids = inputs["input_ids"][0].tolist()
            last = len(ids) - 1 - (ids[-1] == tokenizer.eos_token_id)
            words = [None if word is None else token(f" {word}") for word in (pair["answer"], other)]
            assert words[0] is not None
            return odds(logits[last], words[0], words[1])
        target = tokenizer(pair["answer"])["input_ids"]
        if other is None:
            return sum(logits[k].log_softmax(-1)[target[k]] for k in range(len(target)))  # type: ignore[return-value]
        rival = tokenizer(other)["input_ids"]
        place = next(k for k in range(len(target)) if target[k] != rival[k])
        return logits[place, target[place]] - logits[place, rival[place]]

    return read


def equally_long(checkpoint: Any, kind: str, pairs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep the pairs whose texts have equally many tokens."""

    def count(pair: dict[str, Any], side: str) -> int:
        return inputs_by_hand(checkpoint, kind, pair[side], pair)["input_ids"].shape[1]

    return [pair for pair in pairs if count(pair, "clean") == count(pair, "corrupted")]


@pytest.fixture
def by_hand(patched_by_hand: Any) -> Callable[..., float]:
    def measure(
        checkpoint: Any, kind: str, pair: dict[str, Any], *, noising: bool = False, **patch: Any
    ) -> float:
        sides = [inputs_by_hand(checkpoint, kind, pair[name], pair) for name in ("corrupted", "clean")]
        base, source = sides[::-1] if noising else sides
        return patched_by_hand(checkpoint.model, read_by_hand(checkpoint, kind, pair), base, source, **patch)

    return measure


@pytest.mark.parametrize(("name", "kind"), MODELS)
@pytest.mark.parametrize("noising", [False, True])
def test_a_head_is_what_a_hook_by_hand_gives(headed, paired_data, pairs_of, by_hand, name, kind, noising):
    checkpoint = headed(name, kind, double=True)
    pairs = equally_long(checkpoint, kind, pairs_of(kind))
    with paired_data(checkpoint, pairs, kind) as data:
        patched = measure_pairs(data, PatchPlan(noising=noising))
        layers, heads = data.model.shape
    assert patched.effect.shape == (len(pairs), layers, heads)
    assert {pairs[row]["other"] is None for row in range(3)} == {True, False}
    for row in range(3):
        pair = pairs[row]
        whole = by_hand(checkpoint, kind, pair, noising=noising)
        assert patched.base[row] == pytest.approx(whole, abs=1e-9)
        other = by_hand(checkpoint, kind, pair, noising=not noising)
        assert patched.source[row] == pytest.approx(other, abs=1e-9)
        for layer in range(layers):
            for head in (0, heads - 1):
                m = by_hand(checkpoint, kind, pair, noising=noising, layer=layer, heads=[head])
                assert patched.effect[row, layer, head] == pytest.approx(m - whole, abs=1e-6)
    assert np.abs(patched.effect).max() > 1e-3


@pytest.mark.parametrize(
    ("name", "kind"), [("bert", "classification"), ("gpt2", "causal-lm"), ("t5", "seq2seq")]
)
def test_each_position(headed, paired_data, pairs_of, by_hand, name, kind):
    checkpoint = headed(name, kind, double=True)
    pairs = equally_long(checkpoint, kind, pairs_of(kind))
    with paired_data(checkpoint, pairs, kind) as data:
        patched, heads = measure_pairs(data, PatchPlan(positions=True)), data.model.shape[1]
    for row, layer, head, position in ((0, 0, 1, 2), (1, 1, heads - 1, 1), (0, 2, 0, 0)):
        pair = pairs[row]
        whole = by_hand(checkpoint, kind, pair)
        m = by_hand(checkpoint, kind, pair, layer=layer, heads=[head], position=position)
        assert patched.effect[row, layer, head, position] == pytest.approx(m - whole, abs=1e-6)
    lengths = [inputs_by_hand(checkpoint, kind, pair["clean"], pair)["input_ids"].shape[1] for pair in pairs]
    there = np.isfinite(patched.effect[:, 0, 0]).sum(-1)
    assert there.tolist() == lengths


def test_effects_that_are_0_by_construction_are_not_corrected_for(headed, paired_data):
    """Of 3 pairs, before the first token that differs, nothing is tested, and Holm does not count it."""
    pairs = [
        {"clean": f"the dog and the {clean}", "corrupted": f"the dog and the {corrupted}", "answer": "the"}
        for clean, corrupted in (("cat", "bird"), ("house", "river"), ("train", "road"))
    ]
    with paired_data(headed("gpt2", "causal-lm"), pairs) as data:
        plan = PatchPlan(positions=True)
        table = tabulate_patching(data, plan, measure_pairs(data, plan)).to_pandas()
    tested = table["p"].notna()
    assert 0 < tested.sum() < len(table)
    assert (table["effect"][~tested] == 0).all()
    assert table["p_adjusted"].min() == pytest.approx(min(1, tested.sum() * table["p"].min()))


@pytest.mark.parametrize(("name", "kind"), MODELS)
def test_the_same_text_twice_does_nothing(headed, paired_data, pairs_of, name, kind):
    pairs = [{**pair, "corrupted": pair["clean"]} for pair in pairs_of(kind)]
    with paired_data(headed(name, kind), pairs, kind) as data:
        patched = measure_pairs(data, PatchPlan())
    assert not patched.effect.any()
    assert not patched.attribution.any()
    assert not patched.gap.any()


@pytest.mark.parametrize(("name", "kind"), MODELS)
@pytest.mark.parametrize("positions", [False, True])
def test_the_attribution_is_the_first_order(headed, paired_data, pairs_of, name, kind, positions):
    """Against finite differences of fourth order in o + e (other - o), in float64.

    Llama and T5 norm their states in float32, whatever their weights are. T5's activation has a
    kink, which steps that are large enough for that would cross; here it is a smooth one.
    """
    checkpoint = headed(name, kind, double=True)
    step, tolerance = (2e-2, 1e-4) if name in {"llama", "t5"} else (1e-3, 1e-8)
    if name == "t5":
        checkpoint = replace(checkpoint, model=copy.deepcopy(checkpoint.model))
        for module in checkpoint.model.modules():
            if type(module).__name__ == "T5DenseActDense":
                module.act = torch.nn.GELU()
    pairs = equally_long(checkpoint, kind, pairs_of(kind))[:2]
    with paired_data(checkpoint, pairs, kind) as data:
        plan = PatchPlan(positions=positions)
        patched = measure_pairs(data, plan)
        near, far = (
            _patch_partly(data, plan, e).effect - _patch_partly(data, plan, -e).effect
            for e in (step, 2 * step)
        )
    slopes = (8 * near - far) / (12 * step)
    assert np.nanmax(np.abs(slopes)) > 1e-2
    np.testing.assert_allclose(patched.attribution, slopes, atol=tolerance)


def _patch_partly(data: Any, plan: PatchPlan, share: float) -> Any:
    """Patch with a gate that is closed a little: o := (1 - e) o + e r."""
    with pytest.MonkeyPatch.context() as patch:

        def close(gates: Any, layer: int, head: int, other: Tensor, heads: int) -> None:
            row = torch.ones(1, heads, dtype=torch.float64)
            row[0, head] = 1 - share
            gates.rows, gates.replacements = {layer: row}, {layer: other}

        patch.setattr(passes, "close_head", close)
        return measure_pairs(data, plan)


# A planted head, and none


def test_a_planted_head_is_found(headed, paired_data, pairs_of):
    """Of a layer of which one head alone reaches the stream, that head alone has effects."""
    checkpoint = headed("bert", "classification", double=True)
    model = copy.deepcopy(checkpoint.model)
    planted = 1, 2
    for layer, block in enumerate(model.bert.encoder.layer):
        dense = block.attention.output.dense
        width = dense.in_features // 4
        for head in range(4):
            if (layer, head) != planted:
                dense.weight.data[:, head * width : (head + 1) * width] = 0
    pairs = [{**pair, "other": None} for pair in pairs_of("classification")]
    with paired_data(replace(checkpoint, model=model), pairs) as data:
        patched = measure_pairs(data, PatchPlan())
        fast = measure_pairs(data, PatchPlan(), fast=True, top=1)
    effects = np.abs(patched.effect).mean(0)
    assert np.unravel_index(effects.argmax(), effects.shape) == planted
    assert np.delete(effects.ravel(), 4 * planted[0] + planted[1]).max() < 1e-12 < effects[planted]
    assert np.argwhere(np.isfinite(fast.effect[0])).tolist() == [list(planted)]
    np.testing.assert_array_equal(fast.effect[:, 1, 2], patched.effect[:, 1, 2])
    np.testing.assert_allclose(fast.attribution, patched.attribution, atol=1e-12)
