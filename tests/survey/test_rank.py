"""Ranks against singular values of whole logits and of explicit weights, architecture by architecture."""

from itertools import chain

import numpy as np
import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface, BertConfig, BertModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint

NAMES = ["bert", "llama", "t5"]
TEXTS = [
    "the river bank was slow , and the dog ran to the water .",
    "is it late ?",
    "never walk under the train stop at night , or by the river , or over the road .",
    "stone",
]
_kept: list[tuple[torch.Tensor, torch.Tensor]] = []


def _keeping(module, query, key, value, mask, **options):
    _kept.append((query.detach().double(), key.detach().double()))
    options["is_causal"] = bool(options.get("is_causal"))
    return sdpa_attention_forward(module, query, key, value, mask, **options)


def _mask(*arguments, **options):
    return sdpa_mask(*arguments, **options | {"allow_is_causal_skip": False})


AttentionInterface.register("test-keeping", _keeping)
AttentionMaskInterface.register("test-keeping", _mask)


def rank_of(s):
    """(sum s^2)^2 / sum s^4."""
    return (s**2).sum() ** 2 / (s**4).sum()


def spectrum(matrix):
    return np.linalg.svd(np.asarray(matrix, np.float64), compute_uv=False)


def logits_of(model, tokenizer, text, content_only=False):
    """Give the row-centred logits Q K^T of each layer and head of one text, whole, and the width."""
    checkpoint = Checkpoint("it", model, tokenizer)
    ids = tokenizer(text)["input_ids"]
    inputs = {"input_ids": torch.tensor([ids])}
    if checkpoint.decodes:
        inputs["decoder_input_ids"] = torch.tensor([checkpoint.shift_right(ids)])
    before = model.config._attn_implementation
    model.set_attn_implementation("test-keeping")
    _kept.clear()
    checkpoint.forward(inputs)
    model.set_attn_implementation(before)
    logits_of_layers = []
    content = [np.isin(side[0], tokenizer.all_special_ids, invert=True) for side in inputs.values()]
    if checkpoint.decodes and checkpoint.start == tokenizer.eos_token_id:  # as of BART
        content[1][1] = True  # behind the token that starts a decoder, <s> counts like any other
    for layer, (query, key) in enumerate(_kept):
        keys = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        logits = (query @ keys.transpose(2, 3))[0].numpy()
        if content_only:
            # The encoder's layers come first; behind them, those of the decoder and across in turns.
            decoding = checkpoint.decodes and layer >= len(_kept) - 4
            queries_kept, keys_kept = content[decoding], content[decoding and (len(_kept) - layer) % 2 == 0]
            logits = logits[:, queries_kept][:, :, keys_kept]
        logits_of_layers.append((logits - logits.mean(-1, keepdims=True), query.shape[-1]))
    return logits_of_layers


def expected(model, tokenizer, texts, content_only=False):
    """Give rank and share of every layer and head by singular values, the mean over texts."""
    ranks, shares = [], []
    for text in texts:
        of_text = []
        for logits, width in logits_of(model, tokenizer, text, content_only):
            queries, keys = logits.shape[1:]
            largest = min(width, queries, keys - 1)
            rank = [rank_of(spectrum(head)) if largest > 0 else np.nan for head in logits]
            of_text.append([(one, one / largest if largest > 0 else np.nan) for one in rank])
        both = np.array(of_text)
        ranks.append(both[..., 0])
        shares.append(both[..., 1])
    return np.nanmean(ranks, 0), np.nanmean(shares, 0)


def by_layer(table, column, layers):
    """Arrange a column as the layers come by: encoder, then decoder and cross in turns."""
    values = np.array(table.data[column], float)
    if "attention" not in table.data:
        return values.reshape(layers, -1)
    kinds = np.array(table.data["attention"])
    sides = {kind: values[kinds == kind].reshape(-1, 4) for kind in ("encoder", "decoder", "cross")}
    turns = [row for pair in zip(sides["decoder"], sides["cross"], strict=True) for row in pair]
    return np.array([*sides["encoder"], *turns])


@pytest.mark.parametrize(
    ("name", "content_only"), [("bert", False), ("llama", False), ("t5", False), ("t5", True)]
)
def test_logits_by_singular_values(copied, name, content_only):
    """In float64, to 1e-8."""
    model, tokenizer = copied(name)
    model.double()
    rank, share = expected(model, tokenizer, TEXTS[:3], content_only)
    table = attnprobe.rank(model, TEXTS[:3], tokenizer=tokenizer, content_only=content_only)
    np.testing.assert_allclose(by_layer(table, "logit_rank", len(rank)), rank, rtol=1e-8)
    np.testing.assert_allclose(by_layer(table, "logit_rank_share", len(rank)), share, rtol=1e-8)
    assert (np.array(table["logit_rank_share"]) <= 1).all()
    assert set(table["head_width"]) == {8}


# Weights, by hand


def attentions(model, name):
    """List the attention modules as they come by: encoder, then decoder and cross in turns."""
    if name == "llama":
        return [layer.self_attn for layer in model.layers]
    if name == "bert":
        return [layer.attention.self for layer in model.encoder.layer]
    turns = [(block.layer[0].SelfAttention, block.layer[1].EncDecAttention) for block in model.decoder.block]
    return [*(block.layer[0].SelfAttention for block in model.encoder.block), *chain(*turns)]


def parts(model, name):
    """List query and key weights of each layer (head, width, model width), heads of a group apart."""
    heads = model.config.num_attention_heads
    ends = {"t5": ("q", "k"), "llama": ("q_proj", "k_proj"), "bert": ("query", "key")}[name]
    for attention in attentions(model, name):
        query, key = (getattr(attention, end).weight.double() for end in ends)
        keys = key.unflatten(0, (2, -1))[[0, 0, 1, 1]] if name == "llama" else key.unflatten(0, (heads, -1))
        yield query.unflatten(0, (heads, -1)), keys


def qk_of(model, name):
    """Give rank and upper half of W_Q W_K^T by the singular values of the explicit product."""
    ranks, halves = [], []
    for queries, keys in parts(model, name):
        every = [spectrum(query.T @ key) for query, key in zip(queries, keys, strict=True)]
        width = queries.shape[1]
        ranks.append([rank_of(s) for s in every])
        halves.append([(s[: -(-width // 2)] ** 2).sum() / (s**2).sum() for s in every])
    return np.array(ranks), np.array(halves)


@pytest.mark.parametrize("name", NAMES)
def test_weights_by_singular_values(tiny, name):
    model, tokenizer = tiny(name)
    rank, half = qk_of(model, name)
    table = attnprobe.rank(model, TEXTS[:1], tokenizer=tokenizer)
    np.testing.assert_allclose(by_layer(table, "qk_rank", len(rank)), rank, rtol=1e-10)
    np.testing.assert_allclose(by_layer(table, "qk_top_half", len(rank)), half, rtol=1e-10)
    assert not any("empty" in note for note in table.notes)


@pytest.fixture
def one_layer(tiny):
    """A model of one layer that sees nothing but positions: queries and keys are what a test sets."""
    _, tokenizer = tiny("bert")
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_attention_heads=4, num_hidden_layers=1,
        intermediate_size=8, max_position_embeddings=128,
    )  # fmt: skip
    model = BertModel(config).eval().requires_grad_(False)
    for weight in model.parameters():
        weight.zero_()
    model.embeddings.position_embeddings.weight.copy_(torch.eye(128))
    model.embeddings.LayerNorm.weight.fill_(1)
    return model.double(), tokenizer


def test_planted_ranks(one_layer):
    """Heads of 1, 4 and 32 equal directions, and one of none."""
    model, tokenizer = one_layer
    attention = model.encoder.layer[0].attention.self
    turned = torch.linalg.qr(torch.randn(128, 128, generator=torch.Generator().manual_seed(0)).double())[0]
    for head, rank in enumerate((1, 4, 32, 0)):
        rows = slice(32 * head, 32 * head + rank)
        attention.query.weight[rows] = turned[:rank]
        attention.key.weight[rows] = turned[-rank:] if rank else turned[:0]
    table = attnprobe.rank(model, [" ".join(["stone"] * 100)], tokenizer=tokenizer)
    np.testing.assert_allclose(table["qk_rank"], [1, 4, 32, np.nan], rtol=1e-9)
    np.testing.assert_allclose(table["qk_top_half"], [1, 1, 0.5, np.nan], rtol=1e-9)
    assert table["logit_rank"][0] == pytest.approx(1, abs=1e-9)
    assert 3 < table["logit_rank"][1] <= 4
    assert table["logit_rank"][2] > 15
    assert np.isnan(table["logit_rank"][3])
    assert table["longer"].tolist() == [1] * 4
    assert table["head_width"].tolist() == [32] * 4
    assert set(attnprobe.rank(model, ["a stone and a stone"], tokenizer=tokenizer)["longer"]) == {0}


# Where weights can't be told


def test_normalised_queries_have_empty_columns_and_a_reason(tiny):
    from transformers import Qwen3Config, Qwen3Model

    _, tokenizer = tiny("llama")
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        num_hidden_layers=2, intermediate_size=48, max_position_embeddings=192,
    )  # fmt: skip
    table = attnprobe.rank(Qwen3Model(config).eval(), TEXTS[:2], tokenizer=tokenizer)
    assert np.isnan(table["qk_rank"]).all()
    assert np.isnan(table["qk_top_half"]).all()
    assert np.isfinite(table["logit_rank"]).all()
    assert any(
        note.startswith("qk_rank and qk_top_half are empty in 2 of 2 layers: no projection gives its queries")
        for note in table.notes
    )


def test_refused_by_name_with_the_reason(tiny):
    model, tokenizer = tiny("deberta-v2")
    with pytest.raises(AttnprobeError, match=r"can't read .* of the heads of 'deberta-v2'.*softmax tap"):
        attnprobe.rank(model, TEXTS[:1], tokenizer=tokenizer)
