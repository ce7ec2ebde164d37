"""`mixing` against least squares on a model's own maps, and against its heads' outputs one at a time."""

import re
from collections import defaultdict
from itertools import combinations

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

import attnprobe

TEXTS = [
    "the dog ran to the river",
    "a parcel came late, and she knew",
    "it rained",
    "we saw the old house by the lake again",
    "no one asked why the train left",
    "birds sing",
    "the child read a long letter to its mother",
]
#: The output projections of every layer, as architectures name them.
OUTPUT = re.compile(
    r"(attention\.output\.dense|attn\.c_proj|self_attn\.o_proj|attn\.Wo|self_attn\.out_proj|encoder_attn\.out_proj"
    r"|SelfAttention\.o|EncDecAttention\.o|attention\.out_lin|attention\.dense)$"
)
ARCHITECTURES = ("bert", "llama", "t5")


def maps_of(given, model):
    """Give the maps of every layer (layer, head, query, key) by kind, from a model's own answer."""
    if model.config.is_encoder_decoder:
        by_kind = {
            "encoder": given.encoder_attentions,
            "decoder": given.decoder_attentions,
            "cross": given.cross_attentions,
        }
    else:
        by_kind = {"only": given.attentions}
    return {kind: [one[0].double().numpy() for one in layers] for kind, layers in by_kind.items()}


def kind_of(name, model):
    if not model.config.is_encoder_decoder:
        return "only"
    if name.startswith("encoder."):
        return "encoder"
    return "cross" if re.search("encoder_attn|EncDec", name) else "decoder"


def read_model(folder):
    """Ask a model as a user of transformers would: maps, and what each head adds, text by text."""
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    heads = getattr(model.config, "num_attention_heads", None) or model.config.num_heads
    for text in TEXTS:
        inputs = tokenizer(text, return_tensors="pt")
        inputs = {"input_ids": inputs["input_ids"]}
        if model.config.is_encoder_decoder:
            start = torch.tensor([[model.config.decoder_start_token_id]])
            inputs["decoder_input_ids"] = torch.cat([start, inputs["input_ids"][:, :-1]], 1)
        added = defaultdict(list)

        def note(module, arguments, name, added=added):
            joined = arguments[0].detach()
            width = joined.shape[-1] // heads
            bias = 0 if module.bias is None else module.bias
            each = []
            for head in range(heads):
                alone = torch.zeros_like(joined)
                alone[..., head * width : (head + 1) * width] = joined[..., head * width : (head + 1) * width]
                each.append((type(module).forward(module, alone) - bias)[0].double().numpy())
            added[kind_of(name, model)].append(np.stack(each))

        hooks = [
            module.register_forward_pre_hook(lambda m, a, name=name, note=note: note(m, a, name))
            for name, module in model.named_modules()
            if OUTPUT.search(name)
        ]
        with torch.no_grad():
            given = model(**inputs, output_attentions=True)
        for hook in hooks:
            hook.remove()
        yield maps_of(given, model), added


def centred_logits(maps, kept):
    """Centre log p, which is the logits up to a number for each row, over the keys that a query sees."""
    rows = maps[:, kept] if kept is not None else maps
    seen = rows > 0
    if kept is not None:
        seen = seen & kept
    logits = np.where(seen, np.log(np.where(seen, rows, 1)), 0)
    mean = logits.sum(-1, keepdims=True) / seen.sum(-1, keepdims=True).clip(1)
    return np.where(seen, logits - mean, 0).reshape(len(maps), -1)


def least_squares(samples):
    """R^2 of each head on the others; each sequence and head counts as a vector of length 1."""
    x = np.concatenate([one / np.linalg.norm(one, axis=1, keepdims=True) for one in samples], 1)
    explained = []
    for head in range(len(x)):
        others = np.delete(x, head, 0).T
        left = x[head] - others @ np.linalg.lstsq(others, x[head], rcond=None)[0]
        explained.append(1 - left @ left / (x[head] @ x[head]))
    return explained


def expected_of(folder, kept=None):
    """Compute every number by numpy: for each kind and layer, in the order of the table."""
    samples, added = defaultdict(list), defaultdict(list)
    for maps, contributions in read_model(folder):
        for kind, layers in maps.items():
            for layer, rows in enumerate(layers):
                where = None if kept is None else kept(rows)
                samples[kind, layer].append(centred_logits(rows, where))
                each = contributions[kind][layer]
                added[kind, layer].append(each if where is None else each[:, where])
    return samples, added


def mean_and_error(values):
    values = np.array(values)
    return values.mean(0), values.std(0, ddof=1) / np.sqrt(len(values))


def compare(folder, samples, added, **options):
    heads, layers, pairs = (
        attnprobe.mixing(folder, TEXTS, by=by, **options) for by in ("head", "layer", "pair")
    )
    explained, correlated, effective = [], [], []
    norms, cosines, together = [], [], []
    for place, samples_of_layer in samples.items():
        explained += least_squares(samples_of_layer)
        correlations = np.mean([_cosines(rows) for rows in samples_of_layer], 0)
        correlated += [correlations[pair] for pair in combinations(range(len(correlations)), 2)]
        effective.append(len(correlations) ** 2 / np.square(correlations).sum())
        each = [rows.reshape(len(rows), -1) for rows in added[place]]
        norms.append(mean_and_error([np.sqrt(np.square(o).sum(-1).mean(-1)) for o in added[place]]))
        matrices = [_cosines(rows) for rows in each]
        cosines.append(mean_and_error([[m[p] for p in combinations(range(len(m)), 2)] for m in matrices]))
        together.append(mean_and_error([np.square(o.sum(0)).sum() / np.square(o).sum() for o in each]))
    np.testing.assert_allclose(heads["explained_by_others"], explained, atol=1e-5)
    np.testing.assert_allclose(pairs["logit_correlation"], correlated, atol=1e-5)
    np.testing.assert_allclose(layers["effective_heads"], effective, atol=1e-4)
    for table, name, by_layer in (
        (heads, "contribution_norm", norms),
        (pairs, "contribution_cosine", cosines),
        (layers, "cancellation", together),
    ):
        for column, part in ((name, 0), (f"{name}_se", 1)):
            values = np.concatenate([np.atleast_1d(both[part]) for both in by_layer])
            np.testing.assert_allclose(table[column], values, atol=2e-6, rtol=1e-5, err_msg=column)
    return heads


def _cosines(rows):
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit @ unit.T


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture(saved, name):
    samples, added = expected_of(saved(name))
    compare(saved(name), samples, added)


def test_content_only(saved):
    """Of a BERT: neither [CLS] nor [SEP] asks or is asked."""

    def kept(maps):
        inside = np.ones(maps.shape[-1], bool)
        inside[0] = inside[-1] = False
        return inside

    table = compare(saved("bert"), *expected_of(saved("bert"), kept), content_only=True)
    np.testing.assert_allclose(table["explained_by_others_null"], 0, atol=1e-12)
