"""Heads of two models by what they give: against numpy on outputs that the models' own projections read."""

import copy
import re
from functools import partial

import numpy as np
import pytest
import torch
from test_comparison import SINGLE as TEXTS
from test_comparison import against as compare
from test_comparison import changed

from attnprobe.errors import AttnprobeError
from attnprobe.findings.comparison import tabulate_heads
from attnprobe.findings.partners import match_heads

#: What reads the heads of each layer, by the end of its name.
PROJECTIONS = {
    "bert": "attention.output.dense",
    "llama": "self_attn.o_proj",
}


against = partial(compare, pairs=False, outputs=True)


@torch.no_grad()
def given(model, tokenizer, text, ending, heads=4):
    """What heads give to one text, (token, head of any layer, width), in double precision."""
    outputs = []
    hooks = [
        module.register_forward_pre_hook(lambda _, inputs: outputs.append(inputs[0][0]))
        for name, module in model.named_modules()
        if name.endswith(ending)
    ]
    words = tokenizer(text, return_tensors="pt")
    words.pop("token_type_ids", None)
    model(**words)
    for hook in hooks:
        hook.remove()
    return torch.cat([layer.unflatten(-1, (heads, -1)) for layer in outputs], 1).double().numpy()


def cka(x, y):
    """Linear CKA by its definition."""
    x, y = (side - side.mean(0) for side in (x, y))
    crossed, with_itself, other_with_itself = (a.T @ b for a, b in ((x, y), (x, x), (y, y)))
    return (crossed**2).sum() / np.sqrt((with_itself**2).sum() * (other_with_itself**2).sum())


@pytest.mark.parametrize("name", list(PROJECTIONS))
def test_every_pair_is_that_of_the_models_own_outputs(tiny, name):
    model, tokenizer = tiny(name)
    other = changed(model)
    comparison = against((model, tokenizer), (other, tokenizer))
    sides = [
        np.concatenate([given(side, tokenizer, text, PROJECTIONS[name]) for text in TEXTS])
        for side in (model, other)
    ]
    heads = sides[0].shape[1]
    wanted = [[cka(sides[0][:, g], sides[1][:, h]) for h in range(heads)] for g in range(heads)]
    (kind,) = comparison.shared.kinds
    np.testing.assert_allclose(comparison.outputs[kind].cka, wanted, rtol=2e-4, atol=2e-5)
    assert float(comparison.outputs[kind].count) == len(sides[0])


def test_heads_that_look_alike_and_carry_something_else_are_told_apart(tiny):
    """Two heads of a layer have one map; the other model has their values the other way round."""
    model, tokenizer = tiny("bert")
    model = copy.deepcopy(model)
    attention = model.encoder.layer[1].attention.self
    width = attention.query.weight.shape[0] // 4
    with torch.no_grad():
        for part in (attention.query, attention.key):
            for values in (part.weight, part.bias):
                values[width : 2 * width] = values[:width]
    other = copy.deepcopy(model)
    swapped = torch.cat(
        [torch.arange(width, 2 * width), torch.arange(width), torch.arange(2 * width, 4 * width)]
    )
    layer = other.encoder.layer[1].attention
    with torch.no_grad():
        layer.self.value.weight[:] = layer.self.value.weight[swapped]
        layer.self.value.bias[:] = layer.self.value.bias[swapped]
        layer.output.dense.weight[:] = layer.output.dense.weight[:, swapped]
    comparison = against((model, tokenizer), (other, tokenizer), pairs=True)
    (pairs,) = comparison.pairs.values()
    assert match_heads(comparison.shared, pairs.average, "model").tolist() == list(range(12))
    table = tabulate_heads(comparison, "model")
    assert table["matched_head"].tolist() == [0, 1, 2, 3, 1, 0, 2, 3, 0, 1, 2, 3]
    np.testing.assert_allclose(table["cka_matched"], 1, atol=1e-6)
    np.testing.assert_allclose(table["jsd_matched"], 0, atol=1e-6)
    assert max(table["cka"][4:6]) < 0.99


def test_words_have_the_mean_of_their_tokens(tiny):
    (model, tokenizer), (other, other_tokenizer) = tiny("bert"), tiny("roberta")
    texts, sides = ["the river bank was slow", "she walked over the road"], [[], []]
    comparison = against((model, tokenizer), (other, other_tokenizer), texts=texts)
    assert any("word by word" in note for note in comparison.labels.notes)
    pairs = zip(sides, ((model, tokenizer), (other, other_tokenizer)), strict=True)
    for side, (own_model, own_tokenizer) in pairs:
        for text in texts:
            vectors = given(own_model, own_tokenizer, text, PROJECTIONS["bert"])
            ends = own_tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
            for word in re.finditer(r"\w+", text):
                at = [row for row, (a, b) in enumerate(ends) if a < word.end() and b > max(word.start(), a)]
                side.append(vectors[at].mean(0))
    first, second = map(np.stack, sides)
    (kind,) = comparison.shared.kinds
    wanted = [[cka(first[:, g], second[:, h]) for h in range(12)] for g in range(12)]
    np.testing.assert_allclose(comparison.outputs[kind].cka, wanted, rtol=1e-3, atol=1e-4)


def test_models_whose_outputs_can_not_be_read_are_refused_by_name(tiny):
    model, tokenizer = tiny("deberta-v2")
    with pytest.raises(AttnprobeError, match=r"Heads of one can't be matched by outputs: .*deberta-v2"):
        against((model, tokenizer), (model, tokenizer))
