"""No layer loses relevance, or the model is refused by name."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from left_as_found import state
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from attnprobe.model import relevance
from attnprobe.model.check.conservation import (
    LostRelevanceError,
    check_relevance,
    explain_without_biases,
    zero_biases,
)
from attnprobe.model.check.dry_run import inspect
from attnprobe.model.checkpoint import Checkpoint

Tiny = Callable[[str], tuple[PreTrainedModel, PreTrainedTokenizerFast]]
LAYERS = 3
NAMES = ("bert", "deberta-v2", "llama", "t5")


@pytest.mark.parametrize("name", NAMES)
def test_conserved(tiny: Tiny, name: str):
    found = Checkpoint(name, *tiny(name))
    architecture = inspect(found)
    apart, entries = explain_without_biases(found, architecture, headed=False)
    assert apart == 0
    decodes = found.model.config.is_encoder_decoder
    assert len(entries) == LAYERS + 2 * decodes
    for entry in entries:
        assert entry.share == pytest.approx(entry.expected, abs=1e-5)
        assert (entry.expected == 1) == (not decodes or "encoder." not in entry.stack)
    assert check_relevance(found, architecture, headed=False)


class TestSaysNo:
    def test_lost(self, tiny: Tiny, monkeypatch: pytest.MonkeyPatch):
        """Where a rule is missing, the layer is named at which it shows."""
        found = Checkpoint("bert", *tiny("bert"))
        architecture = inspect(found)
        monkeypatch.delitem(relevance._RULES, "gelu")
        with pytest.raises(LostRelevanceError, match=r"enters layer 2 of encoder\.layer"):
            check_relevance(found, architecture, headed=False)

    @pytest.mark.parametrize("name", ["softmax", "layer_norm", "scaled_dot_product_attention"])
    def test_other_rules(self, tiny: Tiny, monkeypatch: pytest.MonkeyPatch, name: str):
        found = Checkpoint("mpnet", *tiny("mpnet" if name == "softmax" else "bert"))
        architecture = inspect(found)
        monkeypatch.delitem(relevance._RULES, name)
        with pytest.raises(LostRelevanceError, match="use gradient instead"):
            check_relevance(found, architecture, headed=False)

    def test_says_something_else(self, tiny: Tiny, monkeypatch: pytest.MonkeyPatch):
        found = Checkpoint("bert", *tiny("bert"))
        architecture = inspect(found)
        monkeypatch.setitem(relevance._RULES, "gelu", lambda func, given, **options: given * 0.5)
        with pytest.raises(LostRelevanceError, match="under its rules the model says something else, by "):
            check_relevance(found, architecture, headed=False)


def test_left_as_found(copied: Tiny, monkeypatch: pytest.MonkeyPatch):
    """Afterwards, and after an exception."""
    model, tokenizer = copied("bart")
    model.train().requires_grad_(True)
    found = Checkpoint("bart", model, tokenizer)
    architecture = inspect(found)
    before = state(model)
    check_relevance(found, architecture, headed=False)
    assert state(model) == before

    def breaking(kind: type[BaseException], *_: Any, **__: Any) -> Any:
        raise kind("this is not a rule")

    for kind, raised in ((RuntimeError, LostRelevanceError), (KeyboardInterrupt, KeyboardInterrupt)):
        monkeypatch.setitem(relevance._RULES, "layer_norm", partial(breaking, kind))
        with pytest.raises(raised, match="this is not a rule"):
            check_relevance(found, architecture, headed=False)
        assert state(model) == before


def test_biases_come_back(copied: Tiny):
    model, _ = copied("bart")
    model.register_buffer("final_logits_bias", torch.ones(3))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(ValueError, match="inside"), zero_biases(model):  # noqa: PT012
        for name, weight in model.state_dict().items():
            assert weight.any() == (not name.endswith("bias")) or not before[name].any()
        raise ValueError("inside")
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
