"""Heads that are planted, from the weights of a model to the table of roles; others look everywhere."""

import json
import random

import pytest
import torch
from transformers import (
    BartConfig,
    BartModel,
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2Model,
)

import attnprobe

#: So wide is a head; more than there are tokens in a sequence.
WIDTH = 64
NOUNS = ["river", "bank", "house", "dog", "cat", "bird", "parcel", "road", "train", "water", "night", "day"]
OTHERS = [
    "the", "of", "and", "to", "was", "late", "early", "ran", "walk", "slow", "quick", "red", "green",
    "between", "never", "always",
]  # fmt: skip


def clear(model):
    """Make all weights 0, but for those of norms."""
    for name, weight in model.named_parameters():
        weight.requires_grad_(False).fill_(float("norm" in name.lower() and name.endswith("weight")))
        if "ln_" in name and name.endswith("weight"):
            weight.fill_(1)
    return model.eval()


def by_head(table):
    frame = table.to_pandas()
    return frame.set_index([name for name in ("attention", "layer", "head") if name in frame])


@pytest.fixture(scope="module")
def bert(tiny):
    """An encoder of one layer: a head that looks for the partner of a word, one at nouns, one at [CLS]."""
    tokenizer = tiny("bert")[1]
    model = clear(BertModel(BertConfig(
        vocab_size=len(tokenizer), hidden_size=4 * WIDTH, num_attention_heads=4, num_hidden_layers=1,
        intermediate_size=8, max_position_embeddings=64,
    )))  # fmt: skip
    codes = torch.zeros(len(tokenizer), 4 * WIDTH)
    ids = tokenizer.convert_tokens_to_ids([*NOUNS, *OTHERS])
    codes[ids, range(len(ids))] = 1
    noun, first = WIDTH, WIDTH + 1
    codes[tokenizer.convert_tokens_to_ids(NOUNS), noun] = 1
    codes[tokenizer.cls_token_id, first] = 1
    model.embeddings.forward = lambda input_ids=None, **_: codes[input_ids]
    attention = model.encoder.layer[0].attention.self
    for word, partner in PARTNERS.items():
        at = ids[[*NOUNS, *OTHERS].index(word)], ids[[*NOUNS, *OTHERS].index(partner)]
        asks, answers = (int(codes[token, :WIDTH].argmax()) for token in at)
        attention.query.weight[asks, asks] = 80
        attention.key.weight[asks, answers] = 1
    for head, mark in ((1, noun), (2, first)):
        attention.query.bias[head * WIDTH] = 40
        attention.key.weight[head * WIDTH, mark] = 1
    return model, tokenizer


#: Which word looks for which.
PARTNERS = {**dict(zip(NOUNS, OTHERS, strict=False)), **dict(zip(OTHERS, NOUNS, strict=False))}


def draw_sentences(number, seed=0):
    draw = random.Random(seed)
    for _ in range(number):
        pairs = draw.sample(list(zip(NOUNS, OTHERS, strict=False)), 3)
        words = [word for pair in pairs for word in pair] + draw.sample(OTHERS[len(NOUNS) :], 2)
        draw.shuffle(words)
        yield words


@pytest.fixture(scope="module")
def gold(tmp_path_factory):
    """Links from a word to its partner, and a treebank that says which words are nouns."""
    folder = tmp_path_factory.mktemp("gold")
    with (folder / "links.jsonl").open("w") as links, (folder / "bank.conllu").open("w") as bank:
        for words in draw_sentences(120):
            text = " ".join(words)
            spans = {word: [text.index(f" {word}") + 1 if at else 0, 0] for at, word in enumerate(words)}
            spans = {word: [start, start + len(word)] for word, (start, _) in spans.items()}
            linked = [
                {"source": spans[word], "target": spans[partner], "label": "pair"}
                for word, partner in PARTNERS.items()
                if word in spans and partner in spans
            ]
            links.write(json.dumps({"text": text, "links": linked}) + "\n")
            for number, word in enumerate(words, 1):
                part = "NOUN" if word in NOUNS else "ADV"
                bank.write(f"{number}\t{word}\t_\t{part}\t_\t_\t{number - 1}\tdep\t_\t_\n")
            bank.write("\n")
    return folder


def test_links_of_ones_own(bert, gold):
    model, tokenizer = bert
    more = {"treebank": gold / "bank.conllu", "links": gold / "links.jsonl", "links_name": "atom-map"}
    table = attnprobe.roles(model, gold / "links.jsonl", tokenizer=tokenizer, **more)
    roles = by_head(table)
    assert roles["role"].tolist() == ["atom-map: pair", "mixed", "delimiter", "broad"]
    assert roles["pattern"].tolist() == ["heterogeneous", "heterogeneous", "vertical", "heterogeneous"]
    pair = roles.iloc[0]
    assert pair["value"] > 0.95
    assert pair["measure"].startswith("accuracy, ")
    # Without links, the head has no role; the others are what they were.
    without = by_head(
        attnprobe.roles(model, gold / "links.jsonl", treebank=more["treebank"], tokenizer=tokenizer)
    )
    assert without["role"].tolist() == ["mixed", *roles["role"].tolist()[1:]]
    columns = ["role", "measure", "value", "value_se", "pattern"]
    assert without[columns].iloc[1:].equals(roles[columns].iloc[1:])


def test_a_decoder_that_sinks(tiny):
    """Of GPT-2, where no special token comes first: one head at the first, one at itself, one at none."""
    tokenizer = tiny("gpt2")[1]
    model = clear(GPT2Model(GPT2Config(
        vocab_size=len(tokenizer), n_embd=3 * WIDTH, n_head=3, n_layer=1, n_inner=8, n_positions=WIDTH
    )))  # fmt: skip
    model.wpe.weight[:, :WIDTH] = torch.eye(WIDTH)
    attention = model.h[0].attn.c_attn
    attention.bias[0] = 20  # the first head asks for the first place, wherever it is
    attention.weight[0, 3 * WIDTH] = 4
    attention.weight[:WIDTH, WIDTH : 2 * WIDTH] = 10 * torch.eye(WIDTH)
    attention.weight[:WIDTH, 4 * WIDTH : 5 * WIDTH] = torch.eye(WIDTH)
    texts = [" ".join(words) for words in draw_sentences(60)]
    roles = by_head(attnprobe.roles(model, texts, tokenizer=tokenizer))
    assert roles["role"].tolist() == ["sink", "self", "broad"]
    assert roles["measure"].iloc[0] == "first_token_excess"
    assert roles["value"].iloc[0] > 0.95
    assert roles["pattern"].tolist() == ["vertical", "diagonal", "heterogeneous"]


def test_a_decoder_that_aligns(tiny, tmp_path):
    """Of BART: a head of the decoder at the same place of the encoder, the other at none."""
    tokenizer = tiny("bart")[1]
    model = clear(BartModel(BartConfig(
        vocab_size=len(tokenizer), d_model=2 * WIDTH, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8,
        max_position_embeddings=WIDTH,
    )))  # fmt: skip
    for side in (model.encoder, model.decoder):
        side.embed_positions.weight[2 : 2 + WIDTH, :WIDTH] = torch.eye(WIDTH)
    cross = model.decoder.layers[0].encoder_attn
    cross.q_proj.weight[:WIDTH, :WIDTH] = 10 * torch.eye(WIDTH)
    cross.k_proj.weight[:WIDTH, :WIDTH] = torch.eye(WIDTH)
    (tmp_path / "pairs.tsv").write_text(
        "one\tother\n"
        + "".join(f"{' '.join(words)}\t{' '.join(words[::-1])}\n" for words in draw_sentences(60))
    )
    more = {"text_column": "one", "label_column": "other"}
    roles = by_head(
        attnprobe.roles(model, tmp_path / "pairs.tsv", tokenizer=tokenizer, max_length=40, **more)
    )
    across = roles.xs("cross", level="attention")
    assert across["role"].tolist() == ["aligns", "broad"]
    assert across["value"].iloc[0] > 0.8
    assert across["pattern"].tolist() == ["diagonal", "heterogeneous"]
    assert set(roles.drop("cross", level="attention")["role"]) == {"broad"}
