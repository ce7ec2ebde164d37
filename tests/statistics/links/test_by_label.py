"""The best head for a label, of planted and of random heads, beside the best fixed offset."""

import re

import numpy as np
import pytest
import torch
from gold import survey
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from attnprobe.model.checkpoint import Checkpoint
from attnprobe.statistics.links import BY_RELATION, BY_RELATION_AND_HEAD, SYNTAX

WORDS, PLANTED = 24, (1, 1)


def tokenizer() -> PreTrainedTokenizerFast:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    ids = {word: place for place, word in enumerate([*special, *(f"w{number}" for number in range(WORDS))])}
    fast = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    fast.pre_tokenizer = pre_tokenizers.Whitespace()
    fast.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return PreTrainedTokenizerFast(
        tokenizer_object=fast, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def model(seed: int, *, planted: bool = False, layers: int = 2) -> BertModel:
    """A random encoder; or one of whose heads looks from each word to its partner, word 2k to word 2k + 1."""
    torch.manual_seed(seed)
    width = 64
    config = BertConfig(
        vocab_size=WORDS + 4, num_hidden_layers=layers, num_attention_heads=2, hidden_size=width,
        intermediate_size=32, max_position_embeddings=64,
    )  # fmt: skip
    encoder = BertModel(config, add_pooling_layer=False).eval()
    if planted:
        layer, head = PLANTED
        partner = torch.eye(WORDS + 4)[[0, 1, 2, 3, *(4 + (word ^ 1) for word in range(WORDS))]]
        with torch.no_grad():
            embeddings = encoder.embeddings
            for weight in (embeddings.position_embeddings.weight, embeddings.token_type_embeddings.weight):
                weight.zero_()
            embeddings.word_embeddings.weight.copy_(torch.eye(WORDS + 4, width))
            for block in encoder.encoder.layer:  # nothing is added to what is known of a word
                for dense in (block.attention.output.dense, block.output.dense):
                    dense.weight.zero_()
                    dense.bias.zero_()
            attention = encoder.encoder.layer[layer].attention.self
            rows = slice(head * width // 2, head * width // 2 + WORDS + 4)
            for projection, matrix in ((attention.query, partner), (attention.key, torch.eye(WORDS + 4))):
                projection.weight.zero_()
                projection.weight[rows, : WORDS + 4] = 3 * matrix
    return encoder


def sentences(number: int, seed: int):
    """Shuffled pairs of partners: each word depends on its partner, wherever that stands."""
    random = np.random.default_rng(seed)
    drawn = []
    for _ in range(number):
        pairs = random.choice(WORDS // 2, 5, replace=False)
        words = random.permutation([2 * pair + side for pair in pairs for side in (0, 1)])
        text = " ".join(f"w{word}" for word in words)
        spans = [match.span() for match in re.finditer(r"\S+", text)]
        place = {word: at for at, word in enumerate(words)}
        links = [(place[word], place[word ^ 1], "even" if word % 4 < 2 else "odd") for word in words]
        drawn.append((text, spans, links))
    return drawn


def table(checkpoint: BertModel, gold, tabulation=BY_RELATION, **request):
    planted = Checkpoint("planted", checkpoint, tokenizer())
    return survey(planted, gold, [SYNTAX], tabulation, request).table


def test_a_planted_head_is_found():
    best = table(model(0, planted=True), sentences(60, 0))
    assert sorted(best.data["relation"]) == ["all", "all", "even", "even", "odd", "odd"]
    assert list(zip(best.data["layer"], best.data["head"], strict=True)) == [PLANTED] * 6
    assert best["accuracy"].tolist() == [1.0] * 6
    assert best["accuracy_selected"].tolist() == [1.0] * 6
    assert (best["baseline"] < 0.4).all()
    assert np.allclose(best["gain"], 1 - best["baseline"])
    assert (best["p_adjusted"] < 0.01).all()
    every = table(model(0, planted=True), sentences(60, 0), BY_RELATION_AND_HEAD)
    assert every.title == BY_RELATION_AND_HEAD.title
    assert every.column("accuracy").headline
    mine = (every["layer"] == PLANTED[0]) & (every["head"] == PLANTED[1])
    assert (every["accuracy"][mine] == 1).all()
    assert (every["accuracy"][~mine] < 0.5).all()
    assert len(every) == 6 * 4
    few = table(model(0, planted=True), sentences(60, 0), min_links=400)
    assert sorted(few.data["relation"]) == ["all", "all"]
    assert few.notes[0].endswith("fewer than 400 links: odd and even.")


def test_a_label_of_one_document_has_no_head():
    """Which is noted where it is so of all labels; of a single layer."""
    (text, spans, links), *others = sentences(9, 0)
    rare = text, spans, [(*ends, "rare") for *ends, _ in links]
    best = table(model(0, layers=1), [rare, *others], min_links=1)
    heads = zip(best.data["relation"], best.data["head"], strict=True)
    assert {label for label, head in heads if head is None} == {"rare"}
    assert not any("lie in one fold" in note for note in best.notes)
    assert any("lie in one fold" in note for note in table(model(0), [rare], min_links=1).notes)


@pytest.mark.parametrize("tabulation", [BY_RELATION, BY_RELATION_AND_HEAD])
def test_no_links_make_an_empty_table(tabulation):
    gold = [(text, spans, []) for text, spans, _ in sentences(3, 5)]
    assert len(table(model(0), gold, tabulation)) == 0
