"""interact on the command line: columns, and the strongest proposals first."""

import pytest
from transformers import BertConfig, BertForMaskedLM

import attnprobe

PAIRS = [
    *("model", "dataset", "objective", "layer_a", "head_a", "layer_b", "head_b", "n"),
    *("proposed", "interaction", "interaction_se", "p", "p_adjusted"),
]


def test_columns(tabulate):
    table = tabulate("interact", "demo", "-L", 12, "--pairs", 3, "-q", "--threads", 1)
    assert list(table) == PAIRS
    assert len(table) == 3
    assert (table["proposed"].abs().diff().dropna() <= 0).all()


def test_a_lone_head_is_refused(tiny):
    model = BertForMaskedLM(BertConfig(num_hidden_layers=1, num_attention_heads=1))
    with pytest.raises(attnprobe.AttnprobeError, match="at least two heads"):
        attnprobe.interact(model, ["the dog", "a cat", "a bird", "stone"] * 3, tokenizer=tiny("bert")[1])
