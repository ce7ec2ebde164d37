"""No relevance is lost on the way to the first layer, or the model is refused by name."""

from functools import partial

import pytest
from left_as_found import state

from attnprobe.errors import AttnprobeError
from attnprobe.model import relevance
from attnprobe.model.check.dry_run import inspect
from attnprobe.model.check.gates import check_relevance
from attnprobe.model.checkpoint import Checkpoint


@pytest.mark.parametrize("name", ["bert", "deberta-v2", "llama", "t5"])
def test_conserved(tiny, name):
    checkpoint = Checkpoint(name, *tiny(name))
    evidence = check_relevance(checkpoint, inspect(checkpoint), headed=False)
    assert float(evidence.split("difference ")[1].rstrip(")")) < 1e-5


@pytest.mark.parametrize(
    ("name", "rule", "instead", "reason"),
    [
        ("bert", "gelu", None, "of what is explained enters its first layer"),
        ("mpnet", "softmax", None, "use gradient instead"),
        ("bert", "layer_norm", None, "use gradient instead"),
        ("bert", "scaled_dot_product_attention", None, "use gradient instead"),
        ("bert", "gelu", lambda func, given, **options: given * 0.5, "the model says something else, by "),
    ],
)
def test_a_rule_that_is_missing_or_wrong(tiny, monkeypatch, name, rule, instead, reason):
    checkpoint = Checkpoint(name, *tiny(name))
    architecture = inspect(checkpoint)
    if instead is None:
        monkeypatch.delitem(relevance._RULES, rule)
    else:
        monkeypatch.setitem(relevance._RULES, rule, instead)
    with pytest.raises(AttnprobeError, match=f"lrp.*{name}.*{reason}"):
        check_relevance(checkpoint, architecture, headed=False)


def test_left_as_it_was(copied, monkeypatch):
    """With its biases, afterwards, and after an exception."""
    model, tokenizer = copied("bart")
    model.train().requires_grad_(True)
    checkpoint = Checkpoint("bert", model, tokenizer)
    architecture = inspect(checkpoint)
    before = state(model)
    check_relevance(checkpoint, architecture, headed=False)
    assert state(model) == before

    def breaking(kind, *_, **__):
        raise kind("this is not a rule")

    for kind, raised in ((RuntimeError, AttnprobeError), (KeyboardInterrupt, KeyboardInterrupt)):
        monkeypatch.setitem(relevance._RULES, "layer_norm", partial(breaking, kind))
        with pytest.raises(raised, match="this is not a rule"):
            check_relevance(checkpoint, architecture, headed=False)
        assert state(model) == before
